#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include <tilewright/hardware/network.h>

namespace tilewright {

LinkTiming link_timing(const LinkConfig& link, const std::string& what) {
  if (!(link.bandwidth.value() > 0)) throw InputError(what + ": the bandwidth must be above zero");
  LinkTiming timing;
  timing.ps_per_byte = 1e12 / link.bandwidth.value();  // unlimited: 0
  timing.latency = to_picoseconds(link.latency);
  return timing;
}

Network::Network(const MachineConfig& machine, EventQueue& queue)
    : tiles_(static_cast<std::uint32_t>(machine.tiles())),
      width_(static_cast<std::uint32_t>(machine.width())),
      height_(static_cast<std::uint32_t>(machine.height())),
      die_width_(static_cast<std::uint32_t>(machine.tiles_x)),
      die_height_(static_cast<std::uint32_t>(machine.tiles_y)),
      queue_(queue),
      routing_(make_routing(machine.noc.routing)),
      places_(tiles_),
      links_(std::size_t{tiles_} * kDirections),
      last_port_(tiles_, 0),
      inputs_(tiles_),
      outputs_(tiles_) {
  if (machine.noc.switching != "cut-through") {
    throw InputError("noc.switching: '" + machine.noc.switching +
                     "' is not known; allowed: cut-through");
  }
  if (width_ > 32767 || height_ > 32767) {
    throw InputError("the mesh may be at most 32767 tiles wide and high");
  }
  if (machine.tiles() > 1) {
    timing_[static_cast<std::size_t>(LinkKind::tile)] = link_timing(machine.noc.link, "noc.link");
    timing_[static_cast<std::size_t>(LinkKind::die)] =
        machine.dies_x * machine.dies_y > 1 ? link_timing(machine.noc.die_link, "noc.die_link")
                                            : timing_[static_cast<std::size_t>(LinkKind::tile)];
  }
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
    const std::uint32_t x = tile % width_, y = tile / width_;
    places_[tile] = {static_cast<std::int16_t>(x), static_cast<std::int16_t>(y)};
    const bool die_east = x % die_width_ == die_width_ - 1, die_west = x % die_width_ == 0;
    const bool die_south = y % die_height_ == die_height_ - 1, die_north = y % die_height_ == 0;
    link(tile, Direction::east).kind = die_east;
    link(tile, Direction::west).kind = die_west;
    link(tile, Direction::south).kind = die_south;
    link(tile, Direction::north).kind = die_north;
    inputs_[tile].queue = &queue;
    inputs_[tile].tile = tile;
  }
  queue.attach(EventClass::arrival, *this);
}

Path Network::path(std::uint32_t from, std::uint32_t to) const {
  const Place a = places_[from], b = places_[to];
  const int hops = std::abs(a.x - b.x) + std::abs(a.y - b.y);
  const int die_width = static_cast<int>(die_width_), die_height = static_cast<int>(die_height_);
  const int die =
      std::abs(a.x / die_width - b.x / die_width) + std::abs(a.y / die_height - b.y / die_height);
  const LinkTiming& on_die = timing_[0];
  const LinkTiming& off_die = timing_[1];
  Path path;
  path.hops = hops;
  path.latency = static_cast<Picoseconds>(hops - die) * on_die.latency +
                 static_cast<Picoseconds>(die) * off_die.latency;
  if (hops > die) path.ps_per_byte = on_die.ps_per_byte;
  if (die > 0) path.ps_per_byte = std::max(path.ps_per_byte, off_die.ps_per_byte);
  return path;
}

void Network::inject(Packet& p, Picoseconds now, Picoseconds lead) {
  const Place from = places_[p.source], to = places_[p.destination];
  p.dx = static_cast<std::int16_t>(to.x - from.x);
  p.dy = static_cast<std::int16_t>(to.y - from.y);
  p.tail = now;
  p.injected = now;
  p.lead = lead;
  p.sequence = sequence_++;
  p.arrived = false;
  if (p.source == p.destination) {
    queue_.push(now, EventClass::delivery, p.destination, kDirections, p.slot);
    return;
  }
  forward(p.source, p, now);
}

void Network::forward(std::uint32_t tile, Packet& p, Picoseconds now) {
  const Direction d = routing_->next(p, tile);
  Link& link = this->link(tile, d);
  const LinkTiming& timing = timing_[link.kind];
  constexpr std::uint32_t kOne = 1u << 24, kMask = kOne - 1;

  const double serial = static_cast<double>(p.bytes) * timing.ps_per_byte;
  const auto whole = static_cast<Picoseconds>(serial);
  const auto part = static_cast<std::uint32_t>((serial - static_cast<double>(whole)) * kOne + 0.5);

  const Picoseconds head = now - p.lead;
  Picoseconds start = head;
  std::uint32_t fraction = 0;
  if (head <= link.busy) {
    start = link.busy;
    fraction = link.fraction;
  }
  const std::uint32_t sum = fraction + part;
  start += fraction >> 23;  // rounded for the events
  const Picoseconds end = start - (fraction >> 23) + whole + (sum >> 24);
  link.busy = end;
  link.fraction = sum & kMask;
  link.bytes += p.bytes;
  ++link.messages;

  const Picoseconds leave = std::max(now, start);
  p.lead = leave - start;
  p.tail = std::max(p.tail, end + ((sum & kMask) >> 23)) + timing.latency;
  p.port = static_cast<std::uint8_t>(d) ^ 1u;
  switch (d) {
    case Direction::east:
      --p.dx;
      break;
    case Direction::west:
      ++p.dx;
      break;
    case Direction::south:
      --p.dy;
      break;
    case Direction::north:
      ++p.dy;
      break;
  }
  LinkPhase phase = LinkPhase::head;
  sc_core::sc_time delay = sc_core::sc_time::from_value(leave + timing.latency - now);
  link.out->nb_transport_fw(p, phase, delay);
}

tlm::tlm_sync_enum Network::Input::nb_transport_fw(Packet& p, LinkPhase&, sc_core::sc_time& delay) {
  const Picoseconds head = queue->now() + delay.value();
  if (p.dx != 0 || p.dy != 0) {
    queue->push(head, EventClass::arrival, tile, p.port, p.slot);
  } else if (p.kind != PacketKind::write_data) {
    queue->push(p.tail, EventClass::delivery, tile, p.port, p.slot);
  } else {
    queue->push(head, EventClass::write_arrival, tile, p.port, p.slot);
  }
  return tlm::TLM_ACCEPTED;
}

void Network::handle(Picoseconds now, EventClass, std::uint32_t tile, const Event* events,
                     std::size_t count) {
  if (count == 1) {
    last_port_[tile] = static_cast<std::uint8_t>(events->port());
    forward(tile, pool_[static_cast<std::uint32_t>(events->slot())], now);
    return;
  }
  // Round robin over the ports, starting after the one served last; first come first served within
  // a port (equal times within a port need a link without serialisation time).
  turns_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    turns_[i] = {(events[i].port() - last_port_[tile] - 1u) % kDirections,
                 &pool_[static_cast<std::uint32_t>(events[i].slot())]};
  }
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.packet->sequence < b.packet->sequence;
  });
  last_port_[tile] = turns_.back().packet->port;
  for (const Turn& turn : turns_) forward(tile, *turn.packet, now);
}

IdVector<LinkId, LinkStatistics> Network::statistics() const {
  IdVector<LinkId, LinkStatistics> result;
  const std::int64_t step[kDirections] = {1, -1, static_cast<std::int64_t>(width_),
                                          -static_cast<std::int64_t>(width_)};
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
    for (unsigned d = 0; d < kDirections; ++d) {
      const Link& link = links_[tile * kDirections + d];
      if (link.out == nullptr) continue;
      LinkStatistics s;
      s.from = static_cast<TileId>(tile);
      s.to = static_cast<TileId>(static_cast<std::int64_t>(tile) + step[d]);
      s.kind = static_cast<LinkKind>(link.kind);
      s.bytes = link.bytes;
      s.messages = link.messages;
      s.busy = static_cast<Picoseconds>(
          std::llround(static_cast<double>(link.bytes) * timing_[link.kind].ps_per_byte));
      result.push_back(s);
    }
  }
  return result;
}

std::uint64_t Network::hops() const {
  std::uint64_t sum = 0;
  for (const Link& link : links_) sum += link.messages;
  return sum;
}

}  // namespace tilewright
