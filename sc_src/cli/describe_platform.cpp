#include <algorithm>
#include <cstdint>
#include <string>

#include <fmt/format.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

/// The bandwidth in one direction over the cut between column x-1 and x (or row y-1 and y).
Bandwidth cut_bandwidth(const MachineConfig& m, bool vertical, int at) {
  const int lines = vertical ? m.height() : m.width();
  const int per_die = vertical ? m.tiles_x : m.tiles_y;
  const LinkConfig& link = at % per_die == 0 ? m.noc.die_link : m.noc.link;
  return link.bandwidth * lines;
}

/// The slower of the two middle cuts, one direction; unlimited for a single tile.
Bandwidth bisection(const MachineConfig& m) {
  Bandwidth slowest = Bandwidth::unlimited();
  if (m.width() > 1) slowest = std::min(slowest, cut_bandwidth(m, true, m.width() / 2));
  if (m.height() > 1) slowest = std::min(slowest, cut_bandwidth(m, false, m.height() / 2));
  return slowest;
}

/// Bytes are whole: written as integers.
std::uint64_t whole(Bytes b) { return static_cast<std::uint64_t>(b.value()); }

}  // namespace

void describe_platform(Description& out, const Inputs::Platform& platform) {
  const MachineConfig& m = platform.machine;
  const int usable = m.usable_tiles();
  const int controllers = static_cast<int>(m.dram.sites.size());

  out.heading(fmt::format("Platform {}", m.name));
  out.line("tiles", fmt::format("{} x {} = {} ({} x {} dies of {} x {}), {} spare", m.width(),
                                m.height(), grouped(m.tiles()), m.dies_x, m.dies_y, m.tiles_x,
                                m.tiles_y, m.spare.size()));
  Json peaks = Json::object();
  for (const auto& [format, peak] : m.matrix.peak) {
    out.line(fmt::format("peak {}", format),
             fmt::format("{} per tile, {} in all", to_string(peak), to_string(peak * usable)));
    peaks[format] = (peak * usable).value();
  }
  out.line("vector engine", to_exact_string(m.vector.throughput) + " per tile");
  out.line("SRAM", fmt::format("{} per tile at {}, {} in all", to_string(m.sram.capacity),
                               to_string(m.sram.bandwidth), to_string(m.sram.capacity * usable)));
  if (controllers == 0) {
    out.line("DRAM", "none");
  } else {
    out.line("DRAM", fmt::format("{} controllers of {} at {}, {} at {} in all", controllers,
                                 to_string(m.dram.capacity), to_string(m.dram.bandwidth),
                                 to_string(m.dram.capacity * controllers),
                                 to_string(m.dram.bandwidth * controllers)));
  }
  out.line("links on a die", fmt::format("{} each direction, {}", to_string(m.noc.link.bandwidth),
                                         to_string(m.noc.link.latency)));
  out.line("links between dies",
           fmt::format("{} each direction, {}", to_string(m.noc.die_link.bandwidth),
                       to_string(m.noc.die_link.latency)));
  const Bandwidth half = bisection(m);
  out.line("bisection", m.tiles() > 1 ? to_string(half) + " each direction" : "single tile");

  Json& j = out.json["platform"];
  j["name"] = m.name;
  j["tiles"] = Json{{"width", m.width()},
                    {"height", m.height()},
                    {"total", m.tiles()},
                    {"usable", usable},
                    {"spare", static_cast<int>(m.spare.size())}};
  j["dies"] = Json{{"x", m.dies_x}, {"y", m.dies_y}, {"total", m.dies_x * m.dies_y}};
  j["peak_flops_per_s"] = std::move(peaks);
  j["vector_elements_per_s"] = m.vector.throughput.value() * usable;
  j["sram"] = Json{{"bytes_per_tile", whole(m.sram.capacity)},
                   {"bytes", whole(m.sram.capacity * usable)},
                   {"bytes_per_s_per_tile", m.sram.bandwidth.value()}};
  j["dram"] = Json{{"controllers", controllers},
                   {"bytes", whole(m.dram.capacity * controllers)},
                   {"bytes_per_s", (m.dram.bandwidth * controllers).value()}};
  j["bisection_bytes_per_s"] = m.tiles() > 1 ? Json(half.value()) : Json();
  j["assumptions"] = m.assumptions;
  describe_settings(out, "platform", platform.document);
}

}  // namespace tilewright::cli
