#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/flit_config.h>
#include <tilewright/hardware/flit_network.h>

namespace tilewright {

namespace {

// Delays and credits are counted in 16 bits.
constexpr int kLongestWire = 30000, kDeepestBuffer = 65535;

void require(bool ok, const char* name, const std::string& value, const char* allowed) {
  if (ok) return;
  throw InputError(std::string("flit network: ") + name + ": " + value +
                   " is not allowed; allowed: " + allowed);
}

void require_range(const char* name, std::int64_t value, std::int64_t min, std::int64_t max) {
  if (value >= min && value <= max) return;
  throw InputError(std::string("flit network: ") + name + ": " + std::to_string(value) +
                   " is not allowed; allowed: " + std::to_string(min) + " to " +
                   std::to_string(max));
}

/// The kinds of links that the machine has, by LinkKind; others stay null.
std::vector<const NamedLinkConfig*> used_kinds(const std::vector<NamedLinkConfig>& kinds,
                                               const Topology& topology) {
  std::vector<const NamedLinkConfig*> used(kinds.size(), nullptr);
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    if (!topology.link(i).works) continue;
    const auto kind = static_cast<std::size_t>(topology.link(i).kind);
    used[kind] = &kinds[kind];
  }
  return used;
}

/// What has no flit model at all.
void refuse_what_has_no_routers(const MachineConfig& m) {
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw InputError(fmt::format("fidelity flit: {} {}; use fidelity message", what, why));
  };
  if (m.fabric) {
    refuse("a fabric of switches", "has no routers with the ports of a mesh");
  }
  if (m.noc.switching != "cut-through") {
    refuse("noc.switching '" + m.noc.switching + "'",
           "is of whole messages, while flits go through virtual channels");
  }
}

}  // namespace

void check(const FlitConfig& c) {
  require_range("width", c.width, 1, 32767);
  require_range("height", c.height, 1, 32767);
  require_range("width * height", std::int64_t{c.width} * c.height, 1, kMaxTiles - 1);
  require(!c.torus || (c.width != 2 && c.height != 2), "torus",
          std::to_string(c.width) + "x" + std::to_string(c.height),
          "sides of 1 or of at least 3 routers");
  require_range("period (ps)", static_cast<std::int64_t>(c.period), 1, 1000000000000);
  require(c.flit_bytes >= 1 && c.flit_bytes <= 1 << 20, "flit_bytes", std::to_string(c.flit_bytes),
          "1 to 1048576");
  require_range("packet_flits", c.packet_flits, 0, 1 << 20);
  require_range("virtual_channels", c.virtual_channels, 1, FlitNetwork::kMaxVirtualChannels);
  require_range("buffer_flits", c.buffer_flits, 1, 4096);
  require_range("routing_delay", c.routing_delay, 0, 100);
  require_range("vc_allocation_delay", c.vc_allocation_delay, 1, 100);
  require_range("switch_allocation_delay", c.switch_allocation_delay, 1, 100);
  require_range("switch_traversal_delay", c.switch_traversal_delay, 1, 100);
  require_range("link_delay", c.link_delay, 1, kLongestWire);
  for (const FlitConfig::Link& link : c.links) {
    require_range("link delay", link.delay, 1, kLongestWire);
    require_range("buffer_flits of a link", link.buffer_flits, 1, kDeepestBuffer);
    require(link.cycles_per_flit >= 1 && link.cycles_per_flit <= 4096, "cycles_per_flit",
            std::to_string(link.cycles_per_flit), "1 to 4096");
    require(link.cycles_per_flit == 1 || c.switch_allocation_delay == 1, "switch_allocation_delay",
            std::to_string(c.switch_allocation_delay), "1 where links are slower than others");
  }
  require_range("terminal_delay", c.terminal_delay, 1, 1000);
  require_range("credit_delay", c.credit_delay, 0, 100);
  require(!c.speculative || (c.vc_allocation_delay == 1 && c.switch_allocation_delay == 1),
          "speculative", "true", "false, unless both allocations take one cycle");
  require(c.stall_probability >= 0 && c.stall_probability < 1, "stall_probability",
          std::to_string(c.stall_probability), "0 to below 1");
}

Topology topology_of(const FlitConfig& config) {
  check(config);
  MachineConfig machine;
  machine.tiles_x = config.width;
  machine.tiles_y = config.height;
  machine.torus = config.torus;
  return Topology(machine);
}

std::uint64_t router_cycles(const FlitConfig& c) {
  const int allocation = c.speculative ? 1 : c.vc_allocation_delay + c.switch_allocation_delay;
  return static_cast<std::uint64_t>(c.routing_delay + allocation + c.switch_traversal_delay);
}

FlitConfig flit_config(const MachineConfig& m) {
  refuse_what_has_no_routers(m);
  const FlitRouterConfig& routers = m.noc.flit;
  FlitConfig c;
  c.width = m.width();
  c.height = m.height();
  c.torus = m.torus;
  c.routing = m.noc.routing;
  c.routing_seed = m.noc.routing_seed;
  c.virtual_channels = routers.virtual_channels;
  c.packet_flits = routers.packet_flits;
  c.speculative = routers.speculative;
  c.direct_terminals = true;

  const std::vector<NamedLinkConfig> kinds = m.link_kinds();
  const std::vector<const NamedLinkConfig*> used = used_kinds(kinds, Topology(m));
  Picoseconds shortest = kNever;
  double fastest = 0;  // bytes per second
  for (const NamedLinkConfig* kind : used) {
    if (kind == nullptr) continue;
    shortest = std::min(shortest, to_picoseconds(kind->link.latency));
    fastest = std::max(fastest, kind->link.bandwidth.value());
  }
  if (shortest == kNever) return c;  // one tile: no links

  const Picoseconds router = router_cycles(c);
  const Picoseconds least = router + 1;  // and a cycle on the wire
  if (shortest < least) {
    throw InputError(fmt::format(
        "fidelity flit: a hop latency of {} is too short for the {} cycles of a router and its "
        "wire; allowed: at least {} ps",
        to_string(to_seconds(shortest)), least, least));
  }
  c.period = std::min<Picoseconds>(1000, shortest / least);
  if (routers.clock.value() > 0) {
    const std::string allowed = fmt::format(
        "allowed: {} to 1000 GHz",
        to_string(Frequency(1e12 * static_cast<double>(least) / static_cast<double>(shortest))));
    if (routers.clock.value() > 1e12) {
      throw InputError(fmt::format(
          "noc.flit.clock: a cycle at {} is shorter than 1 ps, the simulation's step; {}",
          to_string(routers.clock), allowed));
    }
    c.period = static_cast<Picoseconds>(std::llround(1e12 / routers.clock.value()));
    if ((shortest + c.period / 2) / c.period < least) {
      throw InputError(fmt::format(
          "noc.flit.clock: at {} the shortest hop, {}, is shorter than the {} cycles of a router "
          "and its wire; {}",
          to_string(routers.clock), to_string(to_seconds(shortest)), least, allowed));
    }
  }
  c.flit_bytes = fastest * static_cast<double>(c.period) * 1e-12;
  if (!(c.flit_bytes >= 1 && c.flit_bytes <= 1 << 20)) {
    throw InputError(fmt::format(
        "fidelity flit: in a cycle of {} the fastest link, {}, moves {:.3g} bytes, which make a "
        "flit; allowed: 1 byte to 1 MiB (noc.flit.clock sets the cycle)",
        to_string(to_seconds(c.period)), to_string(Bandwidth(fastest)), c.flit_bytes));
  }
  for (const NamedLinkConfig* kind : used) {
    FlitConfig::Link link;
    if (kind != nullptr) {
      const Picoseconds hop = (to_picoseconds(kind->link.latency) + c.period / 2) / c.period;
      if (hop - router > static_cast<Picoseconds>(kLongestWire)) {
        throw InputError(fmt::format(
            "fidelity flit: the {} hop, {}, takes {} cycles of {}; allowed: at most {} (a lower "
            "noc.flit.clock has fewer)",
            kind->name, to_string(kind->link.latency), hop, to_string(to_seconds(c.period)),
            static_cast<Picoseconds>(kLongestWire) + router));
      }
      link.delay = static_cast<int>(hop - router);
      link.cycles_per_flit = fastest / kind->link.bandwidth.value();
      // A place is used again after the loop of its credit, in which the link moves this many.
      const double loop = c.switch_traversal_delay + 2 * link.delay + c.credit_delay + 1 +
                          std::ceil(link.cycles_per_flit);
      const int wanted = static_cast<int>(std::ceil(loop / link.cycles_per_flit));
      link.buffer_flits = routers.buffer_flits > 0 ? routers.buffer_flits : std::max(8, wanted);
    }
    c.links.push_back(link);
  }
  c.link_delay = c.links.front().delay;
  return c;
}

}  // namespace tilewright
