#include <algorithm>

#include <tilewright/hardware/traffic_networks.h>

namespace tilewright {

namespace {

MachineConfig machine_of(const FlitConfig& c) {
  MachineConfig m;
  m.tiles_x = c.width;
  m.tiles_y = c.height;
  m.torus = c.torus;
  m.noc.routing = c.routing;
  m.noc.routing_seed = c.routing_seed;
  const double period = static_cast<double>(c.period) * 1e-12;
  const auto hop = static_cast<double>(router_cycles(c) + static_cast<std::uint64_t>(c.link_delay));
  m.noc.link = {Bandwidth(c.flit_bytes / period), Seconds(hop * period)};
  m.noc.die_link = m.noc.link;
  return m;
}

}  // namespace

std::uint64_t zero_load_cycles(const FlitConfig& c, std::uint64_t routers, std::uint64_t flits) {
  return 1 + 2 * static_cast<std::uint64_t>(c.terminal_delay) + routers * router_cycles(c) +
         (routers - 1) * static_cast<std::uint64_t>(c.link_delay) + flits - 1;
}

MessageTraffic::MessageTraffic(const FlitConfig& config, EventQueue& queue, std::uint32_t agent)
    : queue_(queue),
      agent_(agent),
      config_(config),
      network_(machine_of(config), queue),
      ends_((zero_load_cycles(config, 1, 1) - 1) * config.period) {
  check(config);
  routers_ = make_routers(network_);
  const std::uint32_t tiles = network_.tiles();
  source_free_.assign(tiles, 0);
  sink_free_.assign(tiles, 0);
  waiting_.resize(tiles);
  first_.assign(tiles, 0);
  queue.attach_agent(agent, *this);
}

Picoseconds MessageTraffic::serial(const Packet& p) const {
  return p.bytes / static_cast<std::uint64_t>(config_.flit_bytes) * config_.period;
}

void MessageTraffic::send(Packet& p) {
  const Picoseconds start = std::max(p.injected, source_free_[p.source]);
  source_free_[p.source] = start + serial(p);
  waiting_[p.source].push_back(p.slot);
  queue_.push(start, EventClass::agent, p.source, 0, agent_);
}

void MessageTraffic::handle(Picoseconds now, EventClass, std::uint32_t tile, const Event*,
                            std::size_t) {
  std::vector<std::uint32_t>& queue = waiting_[tile];
  Packet& p = network_.packet(queue[first_[tile]++]);
  if (first_[tile] == queue.size()) {
    queue.clear();
    first_[tile] = 0;
  }
  const Picoseconds created = p.injected;
  network_.inject(p, now);
  p.injected = created;
}

Picoseconds MessageTraffic::received(const Packet& p, Picoseconds now) {
  const Picoseconds arrived = p.source == p.destination ? now + serial(p) : now;
  const Picoseconds done = std::max(arrived + ends_, sink_free_[p.destination] + serial(p));
  sink_free_[p.destination] = done;
  return done;
}

}  // namespace tilewright
