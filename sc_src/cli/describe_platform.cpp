#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/machine/topology.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

/// The bandwidth in one direction over the cut between column x-1 and x (or row y-1 and y).
Bandwidth cut_bandwidth(const MachineConfig& m, const Topology& topology, bool vertical, int at) {
  Bandwidth sum(0);
  const std::vector<NamedLinkConfig> kinds = m.link_kinds();
  const auto place = [&](std::uint32_t t) { return vertical ? topology.x(t) : topology.y(t); };
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const Topology::Link& link = topology.link(i);
    if (!link.works || place(i / kDirections) >= at || place(link.to) < at) continue;
    sum += kinds[static_cast<std::size_t>(link.kind)].link.bandwidth;
  }
  return sum;
}

/// Of a mesh: the slower of the two middle cuts, one direction; unlimited for a single tile.
Bandwidth bisection(const MachineConfig& m) {
  const Topology topology(m);
  Bandwidth slowest = Bandwidth::unlimited();
  if (m.width() > 1) slowest = std::min(slowest, cut_bandwidth(m, topology, true, m.width() / 2));
  if (m.height() > 1) {
    slowest = std::min(slowest, cut_bandwidth(m, topology, false, m.height() / 2));
  }
  return slowest;
}

/// "2 x 1 wafers, 10 x 4 dies of 4 x 4", "48 nodes of 8".
std::string structure(const MachineConfig& m) {
  if (m.fabric) {
    const std::string tiles =
        m.dies_y > 1 ? fmt::format("{} nodes of {}", m.dies_y, m.tiles_x) : "";
    return fmt::format("{}{}{} switches", tiles, tiles.empty() ? "" : ", ",
                       m.fabric->switches.size());
  }
  std::string text;
  if (m.wafers_x * m.wafers_y > 1) {
    text = fmt::format("{} x {} wafers, ", m.wafers_x, m.wafers_y);
  }
  text += fmt::format("{} x {} dies of {} x {}", m.dies_x, m.dies_y, m.tiles_x, m.tiles_y);
  return m.torus ? text + ", torus" : text;
}

void describe_defects(Description& out, const MachineConfig& m) {
  const DefectConfig& d = m.defects;
  if (!d.dead_links.empty()) {
    out.line("dead links", fmt::format("{}, each direction counted", d.dead_links.size()));
  }
  if (!d.speed.empty()) {
    const auto slowest = std::min_element(d.speed.begin(), d.speed.end(),
                                          [](auto& a, auto& b) { return a.second < b.second; });
    out.line("slow tiles",
             fmt::format("{}, the slowest ({},{}) at {:.6g} of full speed", d.speed.size(),
                         m.x(slowest->first), m.y(slowest->first), slowest->second));
  }
  if (!d.delay.empty()) out.line("late tiles", fmt::format("{}", d.delay.size()));
}

std::string controllers_text(const DramConfig& memory) {
  const auto n = static_cast<double>(memory.sites.size());
  if (memory.sites.empty()) return "none";
  std::size_t ports = memory.sites.size();
  for (const auto& [id, further] : memory.further_ports) ports += further.size();
  return fmt::format("{} controllers of {} at {}, {} at {} in all{}", memory.sites.size(),
                     to_string(memory.capacity), to_string(memory.bandwidth),
                     to_string(memory.capacity * n), to_string(memory.bandwidth * n),
                     memory.further_ports.empty() ? "" : fmt::format(", on {} tiles", ports));
}

/// Bytes are whole: written as integers.
std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.value()); }

Json controllers_json(const DramConfig& memory) {
  const auto n = static_cast<double>(memory.sites.size());
  return Json{{"controllers", memory.sites.size()},
              {"bytes", whole(memory.capacity * n)},
              {"bytes_per_s", (memory.bandwidth * n).value()}};
}

}  // namespace

void describe_platform(Description& out, const Inputs::Platform& platform) {
  const MachineConfig& m = platform.machine;
  const int usable = m.usable_tiles();

  const std::size_t dead_tiles = m.defects.dead_tiles.size();
  const std::string dead = dead_tiles > 0 ? fmt::format(", {} dead", dead_tiles) : "";

  out.heading(fmt::format("Platform {}", m.name));
  out.line("tiles", fmt::format("{} x {} = {} ({}), {} spare{}", m.width(), m.height(),
                                grouped(m.tiles()), structure(m), m.spare.size(), dead));
  describe_defects(out, m);
  Json peaks = Json::object();
  for (const auto& [format, peak] : m.matrix.peak) {
    out.line(fmt::format("peak {}", format),
             fmt::format("{} per tile, {} in all", to_string(peak), to_string(peak * usable)));
    peaks[format] = (peak * usable).value();
  }
  out.line("vector engine", to_exact_string(m.vector.throughput) + " per tile");
  out.line("SRAM", fmt::format("{} per tile at {}, {} in all", to_string(m.sram.capacity),
                               to_string(m.sram.bandwidth), to_string(m.sram.capacity * usable)));
  if (m.collective_share > 0) {
    out.line("collectives", fmt::format("take {:g} % of the engines while in the background",
                                        100 * m.collective_share));
  }
  out.line("DRAM", controllers_text(m.dram));
  if (!m.host.sites.empty()) out.line("host memory", controllers_text(m.host));
  for (const NamedLinkConfig& kind : m.link_kinds()) {
    out.line("links, " + kind.name,
             fmt::format("{} each direction, {}", to_string(kind.link.bandwidth),
                         to_string(kind.link.latency)));
  }
  const bool has_cut = !m.fabric && m.tiles() > 1;
  const Bandwidth half = has_cut ? bisection(m) : Bandwidth(0);
  if (!m.fabric) {
    out.line("bisection", has_cut ? to_string(half) + " each direction" : "single tile");
  }

  Json& j = out.json["platform"];
  j["name"] = m.name;
  j["tiles"] = Json{{"width", m.width()},
                    {"height", m.height()},
                    {"total", m.tiles()},
                    {"usable", usable},
                    {"spare", static_cast<int>(m.spare.size())},
                    {"dead", static_cast<int>(dead_tiles)}};
  j["dies"] = Json{{"x", m.dies_x}, {"y", m.dies_y}, {"total", m.dies_x * m.dies_y}};
  j["peak_flops_per_s"] = std::move(peaks);
  j["vector_elements_per_s"] = m.vector.throughput.value() * usable;
  j["sram"] = Json{{"bytes_per_tile", whole(m.sram.capacity)},
                   {"bytes", whole(m.sram.capacity * usable)},
                   {"bytes_per_s_per_tile", m.sram.bandwidth.value()}};
  j["dram"] = controllers_json(m.dram);
  j["host"] = controllers_json(m.host);
  j["bisection_bytes_per_s"] = has_cut ? Json(half.value()) : Json();
  j["assumptions"] = m.assumptions;
  describe_settings(out, "platform", platform.document);
}

}  // namespace tilewright::cli
