// Reads a machine description; docs/machine.md documents every key.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/route_table.h>
#include <tilewright/machine/topology.h>

#include "readers.h"

namespace tilewright {
namespace {

using Coordinates = std::vector<std::pair<int, int>>;

/// What `assumed` may name.
std::vector<std::string> schema_keys() {
  std::vector<std::string> keys{"mesh.wafers",
                                "mesh.dies",
                                "mesh.tiles_per_die",
                                "mesh.spare",
                                "mesh.wrap",
                                "cluster.nodes",
                                "cluster.devices",
                                "cluster.port_bandwidth",
                                "cluster.port_latency",
                                "cluster.nic_bandwidth",
                                "cluster.nic_latency",
                                "cluster.nodes_per_leaf",
                                "cluster.taper",
                                "cluster.fabric_latency",
                                "fabric.file",
                                "noc.link_bandwidth",
                                "noc.hop_latency",
                                "noc.die_link_bandwidth",
                                "noc.die_hop_latency",
                                "noc.wafer_link_bandwidth",
                                "noc.wafer_hop_latency",
                                "noc.routing",
                                "noc.routing_seed",
                                "noc.switching",
                                "noc.multicast",
                                "noc.flit.clock",
                                "noc.flit.vcs",
                                "noc.flit.buffer",
                                "noc.flit.packet",
                                "noc.flit.speculative",
                                "defects.dead_tiles",
                                "defects.dead_links",
                                "defects.slow_tiles",
                                "defects.delayed_tiles",
                                "dram.model",
                                "dram.memory",
                                "dram.parts",
                                "dram.mapping",
                                "dram.bandwidth",
                                "dram.capacity",
                                "dram.latency",
                                "dram.policy",
                                "dram.per_tile",
                                "dram.per_die",
                                "dram.sites",
                                "dram.edges.west",
                                "dram.edges.east",
                                "dram.edges.north",
                                "dram.edges.south",
                                "host.bandwidth",
                                "host.capacity",
                                "host.latency",
                                "host.policy",
                                "host.per_tile",
                                "host.per_die",
                                "host.sites",
                                "host.edges.west",
                                "host.edges.east",
                                "host.edges.north",
                                "host.edges.south"};
  for (const std::string& key : tile_keys()) keys.push_back(key);
  return keys;
}

/// "[x, y]" with both at least 1.
std::pair<int, int> read_extent(const Section& section, const std::string& key,
                                std::optional<std::pair<int, int>> fallback = {}) {
  if (!section.has(key)) {
    if (fallback) return *fallback;
    section.fail(key, "this key is missing; wanted: [x, y], two integers of at least 1");
  }
  const std::vector<std::int64_t> v = section.integers(key);
  if (v.size() != 2) {
    section.fail(key, fmt::format("found {} integers; wanted: [x, y]", v.size()));
  }
  for (const std::int64_t n : v) {
    if (n < 1 || n > kMaxTiles) {
      section.fail(key, fmt::format("{} is out of range; wanted: 1 to {}", n, kMaxTiles));
    }
  }
  return {static_cast<int>(v[0]), static_cast<int>(v[1])};
}

/// Coordinates given for a die, repeated on every die, die by die.
Coordinates on_every_die(const MachineConfig& m, const Coordinates& in_die) {
  Coordinates result;
  result.reserve(in_die.size() * static_cast<std::size_t>(m.dies_x * m.dies_y));
  for (int dy = 0; dy < m.dies_y; ++dy) {
    for (int dx = 0; dx < m.dies_x; ++dx) {
      for (const auto& [x, y] : in_die) result.emplace_back(dx * m.tiles_x + x, dy * m.tiles_y + y);
    }
  }
  return result;
}

void read_mesh(const Section& mesh, MachineConfig& m) {
  constexpr std::pair<int, int> kOne{1, 1};
  std::tie(m.wafers_x, m.wafers_y) = read_extent(mesh, "wafers", kOne);
  std::tie(m.dies_x, m.dies_y) = read_extent(mesh, "dies", kOne);
  std::tie(m.tiles_x, m.tiles_y) = read_extent(mesh, "tiles_per_die");
  double all = 1;
  for (const int n : {m.wafers_x, m.wafers_y, m.dies_x, m.dies_y, m.tiles_x, m.tiles_y}) all *= n;
  if (all > static_cast<double>(kMaxTiles)) {
    mesh.fail(
        "tiles_per_die",
        fmt::format("{}{} × {} dies of {} × {} tiles are {:.0f} tiles; at most {} are possible",
                    m.wafers_x * m.wafers_y > 1
                        ? fmt::format("{} × {} wafers of ", m.wafers_x, m.wafers_y)
                        : "",
                    m.dies_x, m.dies_y, m.tiles_x, m.tiles_y, all, kMaxTiles));
  }
  m.dies_x *= m.wafers_x;
  m.dies_y *= m.wafers_y;
  m.torus = mesh.choice<bool>("wrap", {{"none", false}, {"torus", true}}, "none");
  if (m.torus && (m.width() == 2 || m.height() == 2)) {
    mesh.fail("wrap",
              fmt::format("a torus of {} × {} tiles would join two tiles twice; wanted: sides "
                          "of 1 or of at least 3 tiles",
                          m.width(), m.height()));
  }
  const Coordinates spare = read_coordinates(mesh, "spare", m.tiles_x, m.tiles_y, "die");
  if (spare.size() == static_cast<std::size_t>(m.tiles_x * m.tiles_y)) {
    mesh.fail("spare", fmt::format("all {} tiles of the die are spare; nothing is left to compute",
                                   spare.size()));
  }
  m.spare = on_every_die(m, spare);
  std::sort(m.spare.begin(), m.spare.end(), row_major);
}

/// Links of a mesh, by kind.
void read_mesh_links(const Section& noc, MachineConfig& m) {
  const auto read = [&](const std::string& prefix, LinkConfig& link, const LinkConfig* fallback) {
    const std::string bandwidth = prefix + "link_bandwidth", latency = prefix + "hop_latency";
    link.bandwidth =
        fallback ? noc.bandwidth(bandwidth, fallback->bandwidth) : noc.bandwidth(bandwidth);
    link.latency =
        fallback ? read_latency(noc, latency, fallback->latency) : read_latency(noc, latency);
    if ((m.width() + m.height()) * link.latency.value() > 1e6) {
      noc.fail(latency,
               fmt::format("{} per hop over a mesh of {} × {} tiles overflows simulated time",
                           to_string(link.latency), m.width(), m.height()));
    }
    check_transfer_time(noc, bandwidth, link.bandwidth, m.sram.capacity, "one SRAM");
  };
  read("", m.noc.link, nullptr);
  read("die_", m.noc.die_link, &m.noc.link);
  read("wafer_", m.noc.wafer_link, &m.noc.die_link);
}

void read_flit_routers(const Section& flit, FlitRouterConfig& f) {
  if (flit.has("clock")) f.clock = flit.frequency("clock");
  f.virtual_channels = static_cast<int>(flit.integer("vcs", 1, 32, f.virtual_channels));
  if (flit.has("buffer")) f.buffer_flits = static_cast<int>(flit.integer("buffer", 1, 4096));
  f.packet_flits = static_cast<int>(flit.integer("packet", 1, 1 << 20, f.packet_flits));
  f.speculative = flit.flag("speculative", f.speculative);
}

void read_noc(const Section& noc, MachineConfig& m) {
  if (m.fabric) {
    m.noc.routing = read_name(noc, "routing", {"shortest", "up-down"});
  } else {
    read_mesh_links(noc, m);
    m.noc.routing =
        read_name(noc, "routing", {"xy", "yx", "west-first", "odd-even", "adaptive", "o1turn"});
    if (m.torus && m.noc.routing != "xy" && m.noc.routing != "yx" && m.noc.routing != "o1turn") {
      noc.fail("routing", fmt::format("'{}' chooses its turns by the sides of a mesh; allowed on a "
                                      "torus: xy, yx, o1turn",
                                      m.noc.routing));
    }
    m.noc.routing_seed = static_cast<std::uint64_t>(
        noc.integer("routing_seed", 0, std::numeric_limits<std::int64_t>::max(), 1));
    read_flit_routers(noc.section("flit"), m.noc.flit);
  }
  m.noc.switching = read_name(noc, "switching", {"cut-through", "store-and-forward", "circuit"});
  m.noc.multicast = noc.flag("multicast", false);
  if (m.noc.multicast && m.noc.switching == "circuit") {
    noc.fail("multicast",
             "with noc.switching 'circuit' a message holds one way, which does not part; allowed "
             "with cut-through and store-and-forward");
  }
}

/// The memory file that `dram.memory` names, beside the platform file, and what goes with it.
void read_banked(const Section& dram, const Document& document, MachineConfig& m) {
  DramConfig& d = m.dram;
  d.part = read_memory_part(load_beside(document, dram.text("memory"), "memory"));
  d.part.channels *= dram.integer("parts", 1, 1024, 1);
  if (dram.has("mapping")) {
    d.part.mapping = read_mapping(dram, "mapping", d.part);
  } else if (d.part.channels > 1 && std::find(d.part.mapping.begin(), d.part.mapping.end(),
                                              AddressField::channel) == d.part.mapping.end()) {
    dram.fail("parts", fmt::format("the mapping of {} has no channel field to spread over {} parts",
                                   d.part.name, d.part.channels));
  }
  d.streams = dram.choice<DramStreams>(
      "streams", {{"exact", DramStreams::exact}, {"averaged", DramStreams::averaged}}, "exact");
  d.bandwidth = d.part.bandwidth();
  d.capacity = d.part.capacity();
  d.latency = d.part.latency();
  if (d.capacity.value() > 0x1p60) dram.fail("parts", "the capacity exceeds 1024 PiB");
  for (const std::string& a : d.part.assumptions) m.assumptions.push_back(a);
}

void read_bandwidth_model(const Section& memory, DramConfig& d) {
  d.bandwidth = memory.bandwidth("bandwidth");
  d.capacity = read_capacity(memory);
  d.latency = read_latency(memory, "latency");
}

/// Divides the tiles of every side that is named among as many controllers as it says. Corners
/// belong to the first of their sides that is.
void read_edges(const Section& edges, const MachineConfig& m, DramConfig& d) {
  if (m.fabric) edges.fail("", "a machine with switches has no edges; wanted: per_tile or sites");
  std::set<std::pair<int, int>> taken(d.sites.begin(), d.sites.end());
  for (const auto& [x, y] : m.defects.dead_tiles) taken.emplace(x, y);
  const auto side = [&](const std::string& name, int x, int y, int dx, int dy) {
    const std::int64_t controllers = edges.integer(name, 0, kMaxTiles, 0);
    std::vector<std::pair<int, int>> tiles;
    for (; x < m.width() && y < m.height(); x += dx, y += dy) {
      if (controllers > 0 && taken.emplace(x, y).second) tiles.emplace_back(x, y);
    }
    const auto n = static_cast<std::int64_t>(tiles.size());
    if (controllers > n) {
      edges.fail(
          name, fmt::format("{} controllers, but this side has {} tiles that are not dead and have "
                            "no controller yet; wanted: at most {}",
                            controllers, n, n));
    }
    for (std::int64_t i = 0; i < controllers; ++i) {
      const auto first = tiles.begin() + i * n / controllers;
      const auto end = tiles.begin() + (i + 1) * n / controllers;
      const auto id = static_cast<DramId>(d.sites.size());
      d.sites.push_back(*first);
      if (end - first > 1) d.further_ports[id] = {first + 1, end};
    }
  };
  side("west", 0, 0, 0, 1);
  side("east", m.width() - 1, 0, 0, 1);
  side("north", 0, 0, 1, 0);
  side("south", 0, m.height() - 1, 1, 0);
  edges.finish();
}

/// Where the controllers of a memory are. `kind` as in "a machine without DRAM".
void read_sites(const Section& memory, const MachineConfig& m, const std::string& kind,
                DramConfig& d) {
  if (memory.flag("per_tile", false)) {
    for (const std::string key : {"per_die", "sites", "edges"}) {
      if (memory.has(key)) {
        memory.fail(key, "every tile has a controller already (per_tile: true)");
      }
    }
    const std::vector<bool> dead = m.dead_map();
    for (int t = 0; t < m.tiles(); ++t) {
      const auto tile = static_cast<TileId>(t);
      if (!dead[index(tile)]) d.sites.emplace_back(m.x(tile), m.y(tile));
    }
    return;
  }
  d.sites = on_every_die(m, read_coordinates(memory, "per_die", m.tiles_x, m.tiles_y, "die"));
  const std::size_t per_die = d.sites.size();
  std::set<std::pair<int, int>> taken(d.sites.begin(), d.sites.end());
  for (const auto& at : read_coordinates(memory, "sites", m.width(), m.height(), "mesh")) {
    if (!taken.insert(at).second) {
      memory.fail("sites",
                  fmt::format("[{}, {}] has a controller by per_die already; a tile has one "
                              "port to this memory, so two controllers cannot share it: give "
                              "the one their joint bandwidth and capacity, or move one",
                              at.first, at.second));
    }
    d.sites.push_back(at);
  }
  const std::vector<bool> dead = m.dead_map();
  for (std::size_t i = 0; i < d.sites.size(); ++i) {
    const auto [x, y] = d.sites[i];
    if (!dead[index(m.tile(x, y))]) continue;
    memory.fail(
        i < per_die ? "per_die" : "sites",
        fmt::format("the controller at [{}, {}] sits on a dead tile, so its memory is out of "
                    "reach; leave it out (list the others under sites)",
                    x, y));
  }
  if (memory.has("edges")) read_edges(memory.section("edges"), m, d);
  if (d.sites.empty()) {
    memory.fail("per_die",
                fmt::format("no controller is placed; wanted: per_die or sites with at least one "
                            "[x, y], or edges, or no such section for a machine without {}",
                            kind));
  }
}

/// Where the controllers of a memory are, who uses which, and that their rate can be counted.
void read_controllers(const Section& memory, const MachineConfig& m, const std::string& kind,
                      DramConfig& d) {
  d.policy = memory.choice<DramPolicy>(
      "policy", {{"nearest", DramPolicy::nearest}, {"interleaved", DramPolicy::interleaved}},
      "nearest");
  read_sites(memory, m, kind, d);
  check_transfer_time(memory, d.model == "banked" ? "memory" : "bandwidth", d.bandwidth, d.capacity,
                      "one controller's memory");
}

void read_dram(const Section& dram, const Document& document, MachineConfig& m) {
  m.dram.model = read_name(dram, "model", {"bandwidth", "banked"});
  if (m.dram.model == "banked") {
    read_banked(dram, document, m);
  } else {
    read_bandwidth_model(dram, m.dram);
  }
  read_controllers(dram, m, "DRAM", m.dram);
}

void read_host(const Section& host, MachineConfig& m) {
  read_bandwidth_model(host, m.host);
  read_controllers(host, m, "a second memory tier", m.host);
}

/// Which of several sections is given; the first if none is.
std::string one_of(const Section& root, const std::vector<std::string>& keys) {
  std::string found;
  for (const std::string& key : keys) {
    if (!root.has(key)) continue;
    if (!found.empty()) {
      root.fail(key, fmt::format("the machine has '{}' already; wanted: one of {}", found,
                                 fmt::join(keys, ", ")));
    }
    found = key;
  }
  return found.empty() ? keys.front() : found;
}

/// All tiles reach each other, by a routing that goes round what is missing and cannot deadlock.
void check_routes(const Section& root, const MachineConfig& m) {
  const Topology topology(m);
  const auto [from, to] = topology.unreachable();
  if (from != Topology::kNone) {
    const std::string text =
        fmt::format("tile {} cannot reach tile {}", topology.name(from), topology.name(to));
    if (!topology.defective()) root.fail("fabric", text + "; wanted: links that join all tiles");
    root.fail("defects", text +
                             ": dead tiles and links cut the machine apart; name the tiles that "
                             "are cut off as dead too");
  }
  if (m.fabric) {
    const std::vector<std::uint32_t> circle = RouteTable(topology, m).dependency_cycle(topology);
    if (circle.empty()) return;
    root.fail(
        root.has("cluster") ? "cluster" : "fabric",
        fmt::format("noc.routing '{}' can deadlock here: packets may wait for each other along "
                    "{}; 'up-down' cannot",
                    m.noc.routing, topology.circle_text(circle)));
  }
  if (!topology.defective()) return;
  const Section noc = root.section("noc");
  if (m.torus) {
    root.fail("defects",
              "dead tiles and links are not possible on a torus; wanted: mesh.wrap none");
  }
  if (m.noc.routing != "xy" && m.noc.routing != "yx") {
    noc.fail("routing", fmt::format("'{}' does not go round dead tiles and links; allowed with "
                                    "defects: xy, yx",
                                    m.noc.routing));
  }
}

void read_assumptions(const Section& root, const Document& document, MachineConfig& m) {
  const Section assumed = root.section("assumed");
  std::vector<std::string> allowed = schema_keys();
  for (const std::string& key : energy_keys(m)) allowed.push_back(key);
  const std::vector<ResolvedValue> resolved = document.resolved();
  for (const std::string& key : assumed.keys()) {
    const std::string why = assumed.text(key);
    if (std::find(allowed.begin(), allowed.end(), key) == allowed.end()) {
      const std::string near = nearest_name(key, allowed);
      assumed.fail(key,
                   fmt::format("'{}' is not a key of a machine description{}", key,
                               near.empty() ? fmt::format("; allowed: {}", fmt::join(allowed, ", "))
                                            : fmt::format("; did you mean '{}'?", near)));
    }
    for (const auto& [section, memory] : {std::pair{"dram", &m.dram}, {"host", &m.host}}) {
      if (key.compare(0, 5, std::string(section) + '.') == 0 && memory->sites.empty()) {
        assumed.fail(key, fmt::format("the machine has no {} section, so nothing of it can be "
                                      "assumed",
                                      section));
      }
    }
    if (key.compare(0, 7, "energy.") == 0 && !m.energy) {
      assumed.fail(key, "the machine has no energy section, so nothing of it can be assumed");
    }
    if (key.compare(0, 12, "tile.matrix.") == 0 && !matrix_key_applies(key, m.matrix)) {
      assumed.fail(key, fmt::format("the file gives no such value for the matrix model '{}'",
                                    m.matrix.model));
    }
    // A value the user set on the command line is no longer the file's assumption.
    const bool overridden =
        std::any_of(resolved.begin(), resolved.end(),
                    [&](const ResolvedValue& v) { return v.path == key && v.origin == "--set"; });
    if (!overridden) m.assumptions.push_back(key + ": " + why);
  }
}

}  // namespace

Bytes read_capacity(const Section& section) {
  const Bytes capacity = section.bytes("capacity");
  if (capacity.value() < 1 || capacity.value() > 0x1p60) {
    section.fail("capacity", fmt::format("{} is out of range; wanted: 1 B to 1024 PiB (a capacity "
                                         "must be finite)",
                                         to_string(capacity)));
  }
  return capacity;
}

std::string read_name(const Section& section, const std::string& key,
                      const std::vector<std::string>& known) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const std::string& name : known) names.emplace_back(name, name);
  return section.choice<std::string>(key, names, known.front());
}

void check_inside(const Section& section, const std::string& key, std::int64_t x, std::int64_t y,
                  int width, int height, const std::string& inside) {
  if (x >= 0 && x < width && y >= 0 && y < height) return;
  section.fail(key, fmt::format("[{}, {}] lies outside the {} of {} × {} tiles; x runs from 0 to "
                                "{}, y from 0 to {}",
                                x, y, inside, width, height, width - 1, height - 1));
}

std::vector<std::pair<int, int>> read_coordinates(const Section& section, const std::string& key,
                                                  int width, int height,
                                                  const std::string& inside) {
  Coordinates result;
  std::set<std::pair<int, int>> seen;
  for (const auto& [x, y] : section.pairs(key)) {
    check_inside(section, key, x, y, width, height, inside);
    const std::pair<int, int> at{static_cast<int>(x), static_cast<int>(y)};
    if (!seen.insert(at).second) {
      section.fail(key, fmt::format("[{}, {}] is given twice", x, y));
    }
    result.push_back(at);
  }
  return result;
}

Seconds read_latency(const Section& section, const std::string& key,
                     std::optional<Seconds> fallback) {
  const Seconds latency = section.seconds(key, fallback);
  if (latency.value() > 1) {
    section.fail(key, to_string(latency) + " is out of range; wanted: 0 s to 1 s");
  }
  if (latency.value() > 0 && latency.value() < 0.5e-12) {
    section.fail(key,
                 to_string(latency) + " is below the resolution of 1 ps and would count as 0 s");
  }
  return latency;
}

void check_transfer_time(const Section& section, const std::string& key, Bandwidth bandwidth,
                         Bytes amount, const std::string& what) {
  constexpr double kLongest = 1e6;  // seconds; 2^62 ps are 4.6e6
  if (amount.value() / bandwidth.value() <= kLongest) return;
  section.fail(key, fmt::format("{} is too low: {} of {} would take longer than {:.0f} s, near the "
                                "end of 64-bit simulated time",
                                to_string(bandwidth), what, to_string(amount), kLongest));
}

Document load_beside(const Document& document, const std::string& file, const std::string& kind) {
  const std::filesystem::path path = file;
  const std::filesystem::path beside = std::filesystem::path(document.path()).parent_path();
  return Document::load((path.is_absolute() ? path : beside / path).string(), kind);
}

bool row_major(const std::pair<int, int>& a, const std::pair<int, int>& b) {
  return std::tie(a.second, a.first) < std::tie(b.second, b.first);
}

MachineConfig read_machine(const Document& document) {
  const Section root = document.root();
  MachineConfig m;
  m.name = root.text("machine");
  if (m.name.empty()) root.fail("machine", "the name is empty; wanted: a name for reports");
  std::optional<Document> edges;
  if (one_of(root, {"mesh", "cluster", "fabric"}) == "mesh") {
    read_mesh(root.section("mesh"), m);
  } else if (root.has("cluster")) {
    read_cluster_size(root.section("cluster"), m);
  } else {
    edges = read_edge_list_size(root.section("fabric"), document, m);
  }
  read_tile(root.section("tile"), m);
  if (root.has("cluster")) read_cluster(root.section("cluster"), m);
  if (edges) read_edge_list(*edges, m);
  read_noc(root.section("noc"), m);
  read_defects(root.section("defects"), m);
  check_routes(root, m);
  if (root.has("dram")) read_dram(root.section("dram"), document, m);
  if (root.has("host")) read_host(root.section("host"), m);
  if (root.has("energy")) read_energy(root.section("energy"), document, m);
  read_assumptions(root, document, m);
  root.finish();
  return m;
}

}  // namespace tilewright
