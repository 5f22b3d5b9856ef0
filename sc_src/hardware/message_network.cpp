#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include <tilewright/hardware/message_network.h>

namespace tilewright {

namespace {

unsigned first(Directions d) { return static_cast<unsigned>(__builtin_ctz(d)); }

/// One hop in direction `d` is done.
void step(Packet& p, unsigned d) {
  const auto sign = static_cast<std::int16_t>((d & 1u) != 0 ? 1 : -1);
  (d < 2 ? p.dx : p.dy) = static_cast<std::int16_t>((d < 2 ? p.dx : p.dy) + sign);
}

Switching switching(const std::string& name) {
  if (name == "cut-through") return Switching::cut_through;
  if (name == "store-and-forward") return Switching::store_and_forward;
  if (name == "circuit") return Switching::circuit;
  throw InputError("noc.switching: '" + name +
                   "' is not known; allowed: cut-through, store-and-forward, circuit");
}

}  // namespace

LinkTiming link_timing(const LinkConfig& link, const std::string& what) {
  if (!(link.bandwidth.value() > 0)) throw InputError(what + ": the bandwidth must be above zero");
  LinkTiming timing;
  timing.ps_per_byte = 1e12 / link.bandwidth.value();  // unlimited: 0
  timing.latency = to_picoseconds(link.latency);
  return timing;
}

MessageNetwork::MessageNetwork(const MachineConfig& machine, EventQueue& queue)
    : Network(Topology(machine)),
      queue_(queue),
      links_(topology_.links()),
      last_port_(nodes(), 0),
      inputs_(nodes()),
      outputs_(nodes()) {
  switching_ = switching(machine.noc.switching);
  topology_.grid() ? route_grid(machine) : route_fabric(machine);
  direct_ = injected_.empty() && switching_ != Switching::circuit;
  if (machine.tiles() > 1 || !topology_.grid()) {
    for (const NamedLinkConfig& kind : machine.link_kinds()) {
      timing_.push_back(link_timing(kind.link, kind.name + " links"));
    }
  }
  for (std::uint32_t i = 0; i < topology_.links(); ++i) {
    links_[i].kind = static_cast<std::uint32_t>(topology_.link(i).kind) & 0xffu;
  }
  for (std::uint32_t node = 0; node < nodes(); ++node) {
    inputs_[node].queue = &queue;
    inputs_[node].node = node;
  }
  copies_nothing_ = !machine.noc.multicast ? "the network of the machine does not copy packets "
                                             "(noc.multicast)"
                    : switching_ == Switching::circuit
                        ? "noc.switching 'circuit' holds one way at a time, which does not part"
                        : "";
  if (copies_nothing_.empty()) {
    queue.attach(EventClass::arrival, copying_arrivals_);
  } else {
    queue.attach(EventClass::arrival, *this);
  }
}

void MessageNetwork::route_grid(const MachineConfig& machine) {
  const std::string& name = machine.noc.routing;
  if (topology_.width() > 32767 || topology_.height() > 32767) {
    throw InputError("the mesh may be at most 32767 tiles wide and high");
  }
  routing_ = make_routing(name, topology_, machine.noc.routing_seed);
  check_deadlock_free(topology_, *routing_, "noc.routing: '" + name + "'");
  if (routing_->random()) injected_.resize(tiles());
  detours_ = make_detours(topology_, name);
}

void MessageNetwork::route_fabric(const MachineConfig& machine) {
  table_ = std::make_unique<RouteTable>(topology_, machine);
  const std::vector<std::uint32_t> circle = table_->dependency_cycle(topology_);
  if (circle.empty()) return;
  throw InputError("noc.routing: '" + machine.noc.routing +
                   "' can deadlock: packets may wait for each other along " +
                   topology_.circle_text(circle));
}

/// Sets the hops that a packet at `tile` has to go to `end`.
inline void MessageNetwork::aim(Packet& p, std::uint32_t tile, std::uint32_t end) {
  const auto [dx, dy] = topology_.hops(tile, end);
  p.dx = static_cast<std::int16_t>(dx);
  p.dy = static_cast<std::int16_t>(dy);
}

/// Begins the next leg of a packet's way, if it is at the end of one.
void MessageNetwork::go_round(Packet& p, std::uint32_t tile) {
  if (p.way > 0 && (p.dx != 0 || p.dy != 0)) return;
  aim(p, tile, detours_->leg_end(p.source, p.destination, p.way++));
}

/// Of several ways the one whose link is free first; of equal ones that with more hops to go along
/// it, then x.
unsigned MessageNetwork::earliest(std::uint32_t tile, const Packet& p, Directions ways,
                                  Picoseconds head) const {
  unsigned best = kDirections;
  Picoseconds start = 0;
  int hops = 0;
  for (; ways != 0; ways &= ways - 1) {
    const unsigned d = first(ways);
    const Picoseconds free = std::max(head, links_[tile * kDirections + d].busy);
    const int to_go = std::abs(d < 2 ? p.dx : p.dy);
    if (best != kDirections && (free > start || (free == start && to_go <= hops))) continue;
    best = d;
    start = free;
    hops = to_go;
  }
  return best;
}

/// The link of a grid that a packet takes next, and its dx and dy behind it.
inline std::uint32_t MessageNetwork::grid_link(std::uint32_t tile, Packet& p, Picoseconds head) {
  if (detours_) go_round(p, tile);
  const Directions ways = routing_->ways(p, tile);
  const unsigned d = (ways & (ways - 1)) == 0 ? first(ways) : earliest(tile, p, ways, head);
  step(p, d);
  p.port = static_cast<std::uint16_t>(d ^ 1u);
  return tile * kDirections + d;
}

/// The number of the link by which a packet leaves `node`.
inline std::uint32_t MessageNetwork::next_link(std::uint32_t node, Packet& p, Picoseconds head) {
  if (!table_) return grid_link(node, p, head);
  const std::uint32_t number = table_->link(node, p.destination);
  p.port = topology_.link(number).to_port;
  return number;
}

Path MessageNetwork::path(std::uint32_t from, std::uint32_t to) {
  Path path;
  Packet p;
  p.source = from;
  p.destination = to;
  if (!table_) aim(p, from, to);
  for (std::uint32_t node = from; node != to;) {
    const std::uint32_t number = next_link(node, p, 0);
    const Topology::Link& link = topology_.link(number);
    const LinkTiming& timing = timing_[static_cast<std::size_t>(link.kind)];
    ++path.hops;
    path.latency += timing.latency;
    if (switching_ != Switching::store_and_forward) {
      path.ps_per_byte = std::max(path.ps_per_byte, timing.ps_per_byte);
    } else if (path.hops == 1) {
      path.ps_per_byte = timing.ps_per_byte;
    } else {
      path.stored_ps_per_byte += timing.ps_per_byte;
    }
    node = link.to;
  }
  return path;
}

void MessageNetwork::inject(Packet& p, Picoseconds now, Picoseconds lead) {
  p.way = 0;
  if (!table_) aim(p, p.source, p.destination);
  p.tail = now;
  p.injected = now;
  p.lead = lead;
  p.sequence = sequence_++;
  p.arrived = false;
  if (p.source == p.destination) {
    queue_.push(now, EventClass::delivery, p.destination, kDirections, p.slot);
  } else if (direct_) {
    forward(p.source, p, now);
  } else {
    begin(p, now);
  }
}

void MessageNetwork::begin(Packet& p, Picoseconds now) {
  if (!injected_.empty()) routing_->draw(p, injected_[p.source]++);
  switching_ == Switching::circuit ? connect_circuit(p, now) : forward(p.source, p, now);
}

// The routers on the way pass the packet on at once; the last one hands it over when it arrives.
void MessageNetwork::connect_circuit(Packet& p, Picoseconds now) {
  Picoseconds start = now - p.lead, latency = 0;
  double ps_per_byte = 0;
  circuit_.clear();
  for (std::uint32_t node = p.source; node != p.destination;) {
    const std::uint32_t number = next_link(node, p, start);
    const LinkTiming& timing = timing_[links_[number].kind];
    circuit_.push_back(number);
    start = std::max(start, links_[number].busy);
    latency += timing.latency;
    ps_per_byte = std::max(ps_per_byte, timing.ps_per_byte);
    node = topology_.link(number).to;
  }
  const Picoseconds sent =
      std::max(now, start + whole_picoseconds(static_cast<double>(p.bytes) * ps_per_byte));
  p.tail = sent + latency;
  for (const std::uint32_t number : circuit_) {
    Link& link = links_[number];
    link.busy = p.tail;
    link.bytes += p.bytes;
    ++link.messages;
    if (!probes_.empty()) tell_claim(now, link, now - p.lead, start, p);
  }
  transfer_.packet = &p;
  LinkPhase phase = LinkPhase::head;
  sc_core::sc_time delay = sc_core::sc_time::from_value(std::max(now, start) + latency - now);
  links_[circuit_.back()].out->nb_transport_fw(transfer_, phase, delay);
}

/// A packet's head takes a link. Part of forward() above all, so it shall stand there.
[[gnu::always_inline]] inline void MessageNetwork::claim(Link& link, Packet& p, Picoseconds now) {
  const Picoseconds head = now - p.lead;
  const LinkTiming& timing = timing_[link.kind];
  constexpr std::uint32_t kOne = 1u << 24, kMask = kOne - 1;

  const double serial = static_cast<double>(p.bytes) * timing.ps_per_byte;
  const auto whole = static_cast<Picoseconds>(serial);
  const auto part = static_cast<std::uint32_t>((serial - static_cast<double>(whole)) * kOne + 0.5);

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

  if (!probes_.empty()) tell_claim(now, link, head, start, p);

  const Picoseconds leave = std::max(now, start);
  p.lead = leave - start;
  p.tail = std::max(p.tail, end + ((sum & kMask) >> 23)) + timing.latency;
  Picoseconds arrival = leave + timing.latency;
  if (switching_ == Switching::store_and_forward) {
    p.lead = 0;
    arrival = p.tail;
  }
  transfer_.packet = &p;
  LinkPhase phase = LinkPhase::head;
  sc_core::sc_time delay = sc_core::sc_time::from_value(arrival - now);
  link.out->nb_transport_fw(transfer_, phase, delay);
}

void MessageNetwork::forward(std::uint32_t node, Packet& p, Picoseconds now) {
  claim(links_[next_link(node, p, now - p.lead)], p, now);
}

/// Out of line, to keep it out of the way of those whom nobody watches.
[[gnu::cold]] void MessageNetwork::tell_claim(Picoseconds now, const Link& link, Picoseconds head,
                                              Picoseconds start, const Packet& p) {
  const auto number = static_cast<std::uint32_t>(&link - links_.data());
  for (Probe* probe : probes_) {
    probe->link_claimed(now, number, head, start, link.busy + (link.fraction >> 23), p, p.bytes);
  }
}

tlm::tlm_sync_enum MessageNetwork::Input::nb_transport_fw(LinkTransfer& t, LinkPhase&,
                                                          sc_core::sc_time& delay) {
  const Packet& p = *t.packet;
  const Picoseconds head = queue->now() + delay.value();
  const unsigned port = std::min<unsigned>(p.port, 7);  // has three bits; handle() knows better
  if (p.destination != node) {
    queue->push(head, EventClass::arrival, node, port, p.slot);
  } else if (p.kind != PacketKind::write_data) {
    queue->push(p.tail, EventClass::delivery, node, port, p.slot);
  } else {
    queue->push(head, EventClass::write_arrival, node, port, p.slot);
  }
  return tlm::TLM_ACCEPTED;
}

template <bool copying>
inline void MessageNetwork::pass(std::uint32_t node, Packet& p, Picoseconds now) {
  if constexpr (copying) {
    if (p.kind == PacketKind::copied) return branch(node, p, now);
  }
  forward(node, p, now);
}

template <bool copying>
void MessageNetwork::arrive(Picoseconds now, std::uint32_t node, const Event* events,
                            std::size_t count) {
  if (count == 1) {
    Packet& p = pool_[static_cast<std::uint32_t>(events->slot())];
    last_port_[node] = p.port;
    pass<copying>(node, p, now);
    return;
  }
  // Round robin over the ports, starting after the one served last; first come first served within
  // a port (equal times within a port need a link without serialisation time).
  const unsigned ports = topology_.ports(node);
  turns_.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    Packet& p = pool_[static_cast<std::uint32_t>(events[i].slot())];
    turns_[i] = {(p.port + ports - last_port_[node] - 1u) % ports, &p};
  }
  std::sort(turns_.begin(), turns_.end(), [](const Turn& a, const Turn& b) {
    return a.rank != b.rank ? a.rank < b.rank : a.packet->sequence < b.packet->sequence;
  });
  last_port_[node] = turns_.back().packet->port;
  for (const Turn& turn : turns_) pass<copying>(node, *turn.packet, now);
}

std::string MessageNetwork::copies_nothing() const { return copies_nothing_; }

void MessageNetwork::inject(const std::vector<Packet*>& copies, Picoseconds now, Picoseconds lead) {
  Packet& first = *copies.front();
  if (copies.size() == 1) return inject(first, now, lead);
  first.way = 0;
  if (!injected_.empty()) routing_->draw(first, injected_[first.source]++);
  first.tail = first.injected = now;
  first.lead = lead;
  for (Packet* p : copies) {
    p->way = first.way;
    if (!table_) aim(*p, p->source, p->destination);
    p->injected = now;
    p->sequence = sequence_++;
    p->arrived = false;
    if (p->slot >= companions_.size()) companions_.resize(p->slot + 1, kNil);
  }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    companions_[copies[i]->slot] = i + 1 < copies.size() ? copies[i + 1]->slot : kNil;
  }
  branch(first.source, first, now);
}

/// A packet that stands for its companions too is at a router: each goes on from here, those that
/// leave by one link as one.
void MessageNetwork::branch(std::uint32_t node, Packet& leader, Picoseconds now) {
  const Picoseconds head = now - leader.lead;
  const unsigned port = std::min<unsigned>(leader.port, 7);
  branches_.clear();
  for (std::uint32_t slot = leader.slot; slot != kNil; slot = companions_[slot]) {
    Packet& p = pool_[slot];
    p.tail = leader.tail;
    p.lead = leader.lead;
    p.kind = PacketKind::read_data;
    if (p.destination == node) {
      queue_.push(p.tail, EventClass::delivery, node, port, slot);
    } else {
      branches_.push_back({next_link(node, p, head), &p});
    }
  }
  std::stable_sort(branches_.begin(), branches_.end(),
                   [](const Branch& a, const Branch& b) { return a.link < b.link; });
  for (auto first = branches_.begin(); first != branches_.end();) {
    const std::uint32_t number = first->link, end = topology_.link(number).to;
    const auto last =
        std::find_if(first, branches_.end(), [&](const Branch& b) { return b.link != number; });
    // It is led by one that goes on from the next router: one at most does not.
    if (last - first > 1 && first->packet->destination == end) std::iter_swap(first, first + 1);
    for (auto b = first; b != last; ++b) {
      companions_[b->packet->slot] = b + 1 != last ? (b + 1)->packet->slot : kNil;
    }
    Packet& p = *first->packet;
    if (last - first > 1) p.kind = PacketKind::copied;
    first = last;
    claim(links_[number], p, now);
  }
}

IdVector<LinkId, LinkStatistics> MessageNetwork::statistics() const {
  IdVector<LinkId, LinkStatistics> result;
  for (const LinkPlace& place : places()) {
    const Link& link = links_[place.number];
    LinkStatistics s;
    s.from = place.from;
    s.to = place.to;
    s.kind = static_cast<LinkKind>(link.kind);
    s.bytes = link.bytes;
    s.messages = link.messages;
    s.busy = static_cast<Picoseconds>(
        std::llround(static_cast<double>(link.bytes) * timing_[link.kind].ps_per_byte));
    result.push_back(s);
  }
  return result;
}

std::uint64_t MessageNetwork::hops() const {
  std::uint64_t sum = 0;
  for (const Link& link : links_) sum += link.messages;
  return sum;
}

}  // namespace tilewright
