// Machines whose tiles are joined by switches: `cluster`, and edge lists in files of their own.
#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "readers.h"

namespace tilewright {
namespace {

LinkConfig read_port(const Section& section, const std::string& prefix, const MachineConfig& m) {
  LinkConfig link;
  link.bandwidth = section.bandwidth(prefix + "bandwidth");
  link.latency = read_latency(section, prefix + "latency");
  check_transfer_time(section, prefix + "bandwidth", link.bandwidth, m.sram.capacity, "one SRAM");
  return link;
}

/// A name that reports and module names can carry.
bool is_plain(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-';
  });
}

}  // namespace

void read_cluster_size(const Section& cluster, MachineConfig& m) {
  m.dies_y = static_cast<int>(cluster.integer("nodes", 1, 65536));
  m.tiles_x = static_cast<int>(cluster.integer("devices", 1, 1024));
}

void read_cluster(const Section& cluster, MachineConfig& m) {
  FabricConfig fabric;
  const int nodes = m.dies_y, devices = m.tiles_x;
  const auto add_switch = [&](const std::string& name) {
    fabric.switches.push_back(name);
    return static_cast<std::uint32_t>(m.tiles() + static_cast<int>(fabric.switches.size()) - 1);
  };
  const auto add_kind = [&](const std::string& name, const LinkConfig& link) {
    fabric.kinds.push_back({name, link});
    return static_cast<LinkKind>(fabric.kinds.size() - 1);
  };
  const auto join_devices = [&](int node, std::uint32_t to, LinkKind kind) {
    for (int d = 0; d < devices; ++d) fabric.edges.push_back({index(m.tile(d, node)), to, kind});
  };

  const LinkKind port = add_kind("device port", read_port(cluster, "port_", m));
  for (int node = 0; node < nodes; ++node) {
    join_devices(node, add_switch(fmt::format("node{}", node)), port);
  }
  // A single node has no outer network, but may describe one: `--set cluster.nodes=1` is no error.
  if (nodes > 1 || cluster.has("nic_bandwidth")) {
    const LinkConfig nic = read_port(cluster, "nic_", m);
    const LinkConfig uplink{nic.bandwidth, read_latency(cluster, "fabric_latency", nic.latency)};
    const double taper = cluster.number("taper", 1, 1e6, 1);
    for (const char* key : {"nodes_per_leaf", "fabric_latency"}) {
      if (taper > 1 || !cluster.has(key)) continue;
      cluster.fail(key,
                   "without a taper one switch joins all nodes, and there are no leaf switches; "
                   "wanted: a taper above 1, or no such key");
    }
    const int per_leaf =
        std::min(nodes, static_cast<int>(cluster.integer("nodes_per_leaf", 1, 65536, 1)));
    const double cores = devices * per_leaf / taper;
    if (cores != std::floor(cores)) {
      cluster.fail("taper",
                   fmt::format("{} devices under a leaf with a taper of {:.6g} make {:.6g} "
                               "uplinks; wanted: a whole number",
                               devices * per_leaf, taper, cores));
    }
    if (nodes > 1) {
      const LinkKind network_port = add_kind("network port", nic);
      if (taper == 1 || per_leaf == nodes) {
        const std::uint32_t network = add_switch("network");
        for (int node = 0; node < nodes; ++node) join_devices(node, network, network_port);
      } else {
        const LinkKind up = add_kind("leaf uplink", uplink);
        std::vector<std::uint32_t> core;
        for (int i = 0; i < static_cast<int>(cores); ++i) {
          core.push_back(add_switch(fmt::format("core{}", i)));
        }
        for (int first = 0; first < nodes; first += per_leaf) {
          const std::uint32_t leaf = add_switch(fmt::format("leaf{}", first / per_leaf));
          for (int node = first; node < std::min(nodes, first + per_leaf); ++node) {
            join_devices(node, leaf, network_port);
          }
          for (const std::uint32_t c : core) fabric.edges.push_back({leaf, c, up});
        }
      }
    }
  }
  m.fabric = fabric;
}

Document read_edge_list_size(const Section& section, const Document& platform, MachineConfig& m) {
  const Document list = load_beside(platform, section.text("file"), "fabric");
  m.tiles_x = static_cast<int>(list.root().integer("tiles", 1, kMaxTiles));
  return list;
}

void read_edge_list(const Document& list, MachineConfig& m) {
  const Section root = list.root();
  root.text("fabric");
  FabricConfig fabric;
  fabric.switches = root.texts("switches");
  std::set<std::string> names;
  for (const std::string& name : fabric.switches) {
    if (!is_plain(name)) {
      root.fail("switches",
                fmt::format("'{}' is not allowed; allowed: letters, digits, _ and -", name));
    }
    if (!names.insert(name).second) root.fail("switches", fmt::format("'{}' is given twice", name));
  }
  const std::int64_t nodes = m.tiles() + static_cast<std::int64_t>(fabric.switches.size());
  std::set<std::pair<std::int64_t, std::int64_t>> seen;
  const Section kinds = root.section("kinds");
  for (const std::string& name : kinds.keys()) {
    const Section kind = kinds.section(name);
    const auto number = static_cast<LinkKind>(fabric.kinds.size());
    if (fabric.kinds.size() == 256) kinds.fail(name, "more than 256 kinds of links");
    fabric.kinds.push_back({name, read_port(kind, "", m)});
    for (const auto& [a, b] : kind.pairs("edges")) {
      for (const std::int64_t end : {a, b}) {
        if (end >= 0 && end < nodes) continue;
        kind.fail(
            "edges",
            fmt::format(
                "[{}, {}]: there is no node {}; tiles are 0 to {}{}", a, b, end, m.tiles() - 1,
                nodes > m.tiles() ? fmt::format(", switches {} to {}", m.tiles(), nodes - 1) : ""));
      }
      if (a == b) kind.fail("edges", fmt::format("[{}, {}] joins a node with itself", a, b));
      if (!seen.insert(std::minmax(a, b)).second) {
        kind.fail(
            "edges",
            fmt::format("[{}, {}] is given twice; give one link the bandwidth of both", a, b));
      }
      fabric.edges.push_back(
          {static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), number});
    }
  }
  root.finish();  // before a complaint about edges that a misspelt key may hold
  if (fabric.edges.empty() && m.tiles() > 1) {
    root.fail("kinds", "no link joins the tiles; wanted: kinds of links with edges: [[a, b], ...]");
  }
  m.fabric = fabric;
}

}  // namespace tilewright
