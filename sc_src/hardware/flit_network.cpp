#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <tilewright/hardware/flit_network.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

namespace {

constexpr std::uint64_t kPatience = 100000;
constexpr double kMostFlits = 1 << 24;  // of a message: Flit::index

template <class Visit>
void for_each_bit(std::vector<std::uint64_t>& set, Visit visit) {
  for (std::size_t word = 0; word < set.size(); ++word) {
    for (std::uint64_t bits = set[word]; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(word * 64 + static_cast<unsigned>(__builtin_ctzll(bits))));
    }
  }
}
void set_bit(std::vector<std::uint64_t>& set, std::uint32_t i) {
  set[i / 64] |= std::uint64_t{1} << (i % 64);
}
void clear_bit(std::vector<std::uint64_t>& set, std::uint32_t i) {
  set[i / 64] &= ~(std::uint64_t{1} << (i % 64));
}

}  // namespace

FlitNetwork::FlitNetwork(const FlitConfig& config, EventQueue& queue, std::uint32_t agent)
    : FlitNetwork(config, topology_of(config), queue, agent,
                  "flit network: routing '" + config.routing + "'") {}

FlitNetwork::FlitNetwork(const MachineConfig& machine, EventQueue& queue, std::uint32_t agent)
    : FlitNetwork(flit_config(machine), Topology(machine), queue, agent,
                  "noc.routing: '" + machine.noc.routing + "'") {}

FlitNetwork::FlitNetwork(const FlitConfig& config, Topology topology, EventQueue& queue,
                         std::uint32_t agent, const std::string& routing_name)
    : Network(std::move(topology)), config_(config), queue_(queue), agent_(agent) {
  check(config);
  routing_ = make_routing(config.routing, topology_, config.routing_seed);
  check_deadlock_free(topology_, *routing_, routing_name);
  tiles_ = topology_.tiles();
  vcs_ = static_cast<std::uint32_t>(config.virtual_channels);
  lanes_ = config.direct_terminals ? kDirections : 1;
  stride_ = std::max<std::uint32_t>(vcs_, lanes_);
  all_vcs_ = vcs_ == 32 ? ~Mask{0} : (Mask{1} << vcs_) - 1;
  detours_ = make_detours(topology_, config.routing);
  const unsigned classes = classes_ =
      detours_ ? std::min<unsigned>(vcs_, kMaxClasses) : routing_->classes();
  if (vcs_ < classes) {
    throw InputError(routing_name + " needs " + std::to_string(classes) +
                     " virtual channels; there are " + std::to_string(vcs_));
  }
  for (unsigned vc = 0; vc < vcs_; ++vc) class_vcs_[vc * classes / vcs_] |= Mask{1} << vc;
  for (unsigned vc = 0; vc < stride_; ++vc) lane_vcs_[vc % lanes_] |= Mask{1} << vc;
  if (routing_->random()) injected_.resize(tiles_);
  stall_below_ = static_cast<std::uint64_t>(config.stall_probability * 0x1p64);

  const std::size_t ports = std::size_t{tiles_} * kPorts;
  routers_.resize(tiles_);
  lay_out_ports();
  channels_.resize(ports * stride_);
  grants_.resize(ports * stride_);
  credits_.resize(ports * stride_);
  sources_.resize(std::size_t{tiles_} * lanes_);
  source_credits_.resize(std::size_t{tiles_} * stride_);
  traffic_.resize(ports);
  busy_routers_.resize((tiles_ + 63) / 64);
  busy_sources_.resize((sources_.size() + 63) / 64);
  inputs_ = std::vector<Input>(tiles_);
  outputs_ = std::vector<Output>(tiles_);
  for (std::uint32_t t = 0; t < tiles_; ++t) {
    inputs_[t].network = outputs_[t].network = this;
    inputs_[t].router = outputs_[t].router = t;
  }
  clear_state();
  queue.attach_agent(agent, *this);
}

FlitConfig::Link FlitNetwork::link_of(LinkKind kind) const {
  if (config_.links.empty()) return {config_.link_delay, 1, config_.buffer_flits};
  return config_.links[static_cast<std::size_t>(kind)];
}

// Delays, rates and buffers of all ports, and the ring of cycles that the longest delay takes.
void FlitNetwork::lay_out_ports() {
  const auto terminal =
      static_cast<std::uint16_t>(config_.direct_terminals ? 0 : config_.terminal_delay);
  const auto own_depth = static_cast<std::uint16_t>(config_.buffer_flits);
  std::size_t places = 0;
  unsigned longest = terminal;
  for (std::uint32_t t = 0; t < tiles_; ++t) {
    Router& r = routers_[t];
    for (unsigned port = 0; port < kDirections; ++port) {
      const Topology::Link& link = topology_.link(t, port);
      if (!link.works) continue;
      const FlitConfig::Link kind = link_of(link.kind);
      OutputUnit& out = r.out[port];
      out.far_port = static_cast<std::uint8_t>(link.to_port);
      out.depth = static_cast<std::uint16_t>(kind.buffer_flits);
      out.wire = static_cast<std::uint16_t>(kind.delay);
      out.step = static_cast<std::uint32_t>(std::llround(kind.cycles_per_flit * kOne));
      if (out.step != kOne) r.slow_ports |= 1u << port;
      longest = std::max(longest, out.wire + static_cast<unsigned>(kind.cycles_per_flit) + 1);
      InputUnit& far = routers_[link.to].in[link.to_port];
      far.upstream_port = static_cast<std::uint8_t>(port);
      far.depth = out.depth;
      far.wire = out.wire;
    }
    r.out[kLocal].depth = r.in[kLocal].depth = own_depth;
    r.out[kLocal].wire = r.in[kLocal].wire = terminal;
  }
  for (Router& r : routers_) {
    for (unsigned port = 0; port < kPorts; ++port) {
      r.in[port].place = static_cast<std::uint32_t>(places);
      places += std::size_t{r.in[port].depth} * (port == kLocal ? stride_ : vcs_);
    }
  }
  if (places > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("flit network: the buffers hold " + std::to_string(places) +
                     " flits; allowed: below 2^32");
  }
  buffers_.resize(places);
  longest_ = 2 + std::max(config_.switch_traversal_delay, config_.credit_delay) +
             static_cast<int>(longest);
  std::uint64_t size = 1;
  while (size <= longest_) size *= 2;
  slots_.resize(size);
  slot_mask_ = size - 1;
  for (std::uint64_t cycles = 0; cycles <= longest_; ++cycles) {
    delays_.push_back(sc_core::sc_time::from_value(cycles * config_.period));
  }
}

void FlitNetwork::wire_out(std::uint32_t node, unsigned port, LinkForward& neighbour) {
  routers_[node].out[port].link = &neighbour;
}

void FlitNetwork::wire_in(std::uint32_t node, unsigned port, LinkBackward& neighbour) {
  routers_[node].in[port].upstream = &neighbour;
}

void FlitNetwork::clear_state() {
  std::size_t first_credit = 0;
  for (Router& router : routers_) {
    for (InputUnit& in : router.in) {
      in.routing = in.vc_request = in.vc_pending = in.switch_request = in.switch_pending = 0;
      in.offset = in.accept = 0;
    }
    for (OutputUnit& out : router.out) {
      out.free = out.credit = all_vcs_;
      out.tail_sent = 0;
      out.grant = 0;
      out.busy = 0;
      std::fill_n(credits_.begin() + static_cast<std::ptrdiff_t>(first_credit), stride_, out.depth);
      first_credit += stride_;
    }
    router.vc_ports = router.switch_ports = router.waiting_ports = 0;
  }
  channels_.assign(channels_.size(), VirtualChannel());
  grants_.assign(grants_.size(), 0);
  const auto own_depth = static_cast<std::uint16_t>(config_.buffer_flits);
  source_credits_.assign(source_credits_.size(), own_depth);
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Source& s = sources_[i];
    s = Source();
    s.out.depth = own_depth;
    s.out.free = s.out.credit = lane_vcs_[i % lanes_];
    s.last_vc = static_cast<std::uint8_t>(stride_ - 1);
  }
  busy_routers_.assign(busy_routers_.size(), 0);
  busy_sources_.assign(busy_sources_.size(), 0);
  for (Slot& slot : slots_) slot = Slot();
  pending_ = queued_ = 0;
}

void FlitNetwork::reset() {
  clear_state();
  pool_ = PacketPool();
  messages_.clear();
  left_ = entered_;
  injected_.assign(injected_.size(), 0);
}

bool FlitNetwork::at_rest() const {
  const auto whole = [](const OutputUnit& out, Mask vcs, const std::uint16_t* credits) {
    bool full = out.free == vcs && out.credit == vcs;
    for (; vcs != 0; vcs &= vcs - 1) full = full && credits[__builtin_ctz(vcs)] == out.depth;
    return full;
  };
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    if (!whole(routers_[i / kPorts].out[i % kPorts], all_vcs_, &credits_[i * stride_])) {
      return false;
    }
  }
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const std::uint16_t* const credits = &source_credits_[i / lanes_ * stride_];
    if (sources_[i].first != kNoSlot || !whole(sources_[i].out, lane_vcs_[i % lanes_], credits)) {
      return false;
    }
  }
  return in_flight() + pending_ + queued_ == 0;
}

Path FlitNetwork::path(std::uint32_t from, std::uint32_t to) {
  Path path;
  Packet p;
  p.source = from;
  p.destination = to;
  for (std::uint32_t node = from; node != to;) {
    aim(p, node);
    const auto port = static_cast<unsigned>(__builtin_ctz(routing_->ways(p, node)));
    const OutputUnit& out = routers_[node].out[port];
    ++path.hops;
    path.latency += (router_cycles(config_) + out.wire) * config_.period;
    const double cycles_per_flit = static_cast<double>(out.step) / kOne;
    path.ps_per_byte =
        std::max(path.ps_per_byte,
                 cycles_per_flit * static_cast<double>(config_.period) / config_.flit_bytes);
    node = topology_.link(node, port).to;
  }
  return path;
}

std::uint64_t FlitNetwork::burst() const {
  if (config_.packet_flits == 0) return kWhole;
  return static_cast<std::uint64_t>(config_.packet_flits * config_.flit_bytes);
}

IdVector<LinkId, LinkStatistics> FlitNetwork::statistics() const {
  IdVector<LinkId, LinkStatistics> result;
  for (const LinkPlace& place : places()) {
    const std::uint32_t router = index(place.from);
    const Topology::Link& link = topology_.link(place.number);
    const Traffic& t = traffic_[router * kPorts + (place.number - topology_.first_link(router))];
    LinkStatistics s;
    s.from = place.from;
    s.to = place.to;
    s.kind = link.kind;
    s.bytes = t.bytes;
    s.messages = t.messages;
    s.busy = static_cast<Picoseconds>(
        std::llround(static_cast<double>(t.flits) * link_of(link.kind).cycles_per_flit *
                     static_cast<double>(config_.period)));
    result.push_back(s);
  }
  return result;
}

std::uint64_t FlitNetwork::hops() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < traffic_.size(); ++i) {
    if (i % kPorts != kLocal) sum += traffic_[i].messages;
  }
  return sum;
}

void FlitNetwork::broken(const char* what, std::uint32_t router, unsigned port) const {
  throw InternalError(std::string("flit network, router ") + std::to_string(router) + ", port " +
                      std::to_string(port) + ", cycle " + std::to_string(now_) + ": " + what);
}

bool FlitNetwork::stalled(std::uint32_t router, unsigned port) const {
  if (stall_below_ == 0) return false;
  std::uint64_t x = config_.stall_seed * 0x9e3779b97f4a7c15u + now_ * 0xd1342543de82ef95u +
                    (router * kPorts + port) * 0xaf251af3b0f025b5u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return (x ^ (x >> 31)) < stall_below_;
}

/// Sets the hops that a packet at `router` has to go on its leg. Returns the leg's number.
unsigned FlitNetwork::aim(Packet& p, std::uint32_t router) {
  std::uint32_t end = p.destination;
  const unsigned leg = detours_ ? leg_at(p, router, end) : 0;
  const auto [dx, dy] = topology_.hops(router, end);
  p.dx = static_cast<std::int16_t>(dx);
  p.dy = static_cast<std::int16_t>(dy);
  return leg;
}

/// The leg of a packet's way on which it leaves `router`, and where it ends. The packets of one
/// message are at different places, so it is found by the place: ways are shortest and pass no tile
/// twice.
unsigned FlitNetwork::leg_at(const Packet& p, std::uint32_t router, std::uint32_t& end) {
  const bool y_first = config_.routing == "yx";
  const int x = topology_.x(router), y = topology_.y(router);
  const auto between = [](int at, int a, int b) {
    return std::min(a, b) <= at && at <= std::max(a, b);
  };
  std::uint32_t from = p.source;
  for (unsigned leg = 0;; ++leg) {
    end = detours_->leg_end(p.source, p.destination, leg);
    const int x0 = topology_.x(from), y0 = topology_.y(from);
    const int x1 = topology_.x(end), y1 = topology_.y(end);
    const bool in_row = y == (y_first ? y1 : y0) && between(x, x0, x1);
    const bool in_column = x == (y_first ? x0 : x1) && between(y, y0, y1);
    if ((in_row || in_column) && (router != end || end == p.destination)) return leg;
    if (end == p.destination) broken("a flit has lost its way", router, kLocal);
    from = end;
  }
}

/// Throws InputError when a packet's way has more legs than there are classes.
void FlitNetwork::check_legs(const Packet& p) {
  unsigned legs = 1;
  while (detours_->leg_end(p.source, p.destination, legs - 1) != p.destination) ++legs;
  if (legs <= classes_) return;
  throw InputError("flit network: the way from " + topology_.name(p.source) + " to " +
                   topology_.name(p.destination) + " has " + std::to_string(legs) +
                   " legs round dead tiles and links, each of which needs virtual channels of its "
                   "own; allowed: " +
                   std::to_string(classes_) + ", with " + std::to_string(vcs_) + " channels");
}

/// Which of its source's lanes a packet takes: that of its first link, where the routing leaves a
/// choice the one with fewest flits.
unsigned FlitNetwork::lane_of(Packet& p) {
  if (lanes_ == 1) return 0;
  aim(p, p.source);
  const Source* const lanes = &sources_[std::size_t{p.source} * lanes_];
  unsigned best = kDirections;
  for (Directions ways = routing_->ways(p, p.source); ways != 0; ways &= ways - 1) {
    const auto d = static_cast<unsigned>(__builtin_ctz(ways));
    if (best == kDirections || lanes[d].waiting < lanes[best].waiting) best = d;
  }
  return best;
}

void FlitNetwork::inject(Packet& p, Picoseconds now, Picoseconds) {
  p.injected = now;
  p.lead = 0;
  p.arrived = false;
  p.sequence = sequence_++;
  if (config_.direct_terminals && p.source == p.destination) {
    queue_.push(now, EventClass::delivery, p.destination, kLocal, p.slot);
    return;
  }
  if (p.slot >= messages_.size()) messages_.resize(std::max<std::size_t>(p.slot + 1, 1024));
  if (!injected_.empty()) routing_->draw(p, injected_[p.source]++);
  if (detours_) check_legs(p);
  Message& m = messages_[p.slot];
  m = Message();
  const double flits = std::max(1.0, std::ceil(static_cast<double>(p.bytes) / config_.flit_bytes));
  if (flits > kMostFlits) {
    throw InputError("flit network: a message of " + std::to_string(p.bytes) +
                     " bytes has more than 2^24 flits; allowed: larger flits");
  }
  m.flits = static_cast<std::uint32_t>(flits);
  const auto number = static_cast<std::uint32_t>(p.source * lanes_ + lane_of(p));
  Source& s = sources_[number];
  s.waiting += m.flits;
  if (s.first == kNoSlot) {
    s.first = p.slot;
    s.next_flit = 0;
    s.flits = m.flits;
    set_bit(busy_sources_, number);
  } else {
    messages_[s.last].next = p.slot;
  }
  s.last = p.slot;
  ++queued_;
  schedule(now);
}

void FlitNetwork::schedule(Picoseconds now) {
  if (scheduled_) return;
  const std::uint64_t cycle = std::max(next_, (now + config_.period - 1) / config_.period);
  scheduled_ = true;
  // The last event of its instant: what is injected at this time takes part.
  queue_.push(cycle * config_.period, EventClass::agent, static_cast<std::uint32_t>(kMaxTiles - 1),
              7, agent_);
}

void FlitNetwork::handle(Picoseconds now, EventClass, std::uint32_t, const Event*, std::size_t) {
  scheduled_ = false;
  const std::uint64_t before = next_;
  now_ = now / config_.period;
  next_ = now_ + 1;
  if (now_ != before) last_move_ = now_;  // it was idle
  cycle();
  if (in_flight() + pending_ + queued_ == 0 && !external_busy_) return;
  if (now_ - last_move_ > kPatience + longest_) {
    throw DeadlockError("flit network: nothing has moved for " + std::to_string(kPatience) +
                        " cycles; " + std::to_string(in_flight()) + " flits are in the network, " +
                        std::to_string(queued_) + " messages wait at their source");
  }
  schedule(now + 1);
}

void FlitNetwork::replace(std::uint32_t router, FlitExternalRouter& external) {
  if (router >= tiles_) {
    throw InputError("flit network: router " + std::to_string(router) + " is not among the " +
                     std::to_string(tiles_));
  }
  external_.resize(tiles_, nullptr);
  external_[router] = &external;
}

void FlitNetwork::cycle() {
  ++cycles_;
  Slot& slot = slot_at(now_);
  for (FlitExternalRouter* e : external_) {
    if (e != nullptr) e->give();
  }
  pending_ -=
      slot.flits.size() + slot.ejected.size() + slot.credits.size() + slot.source_credits.size();
  for (const Arrival& a : slot.flits) arrive(a);
  for (const CreditArrival& c : slot.credits) {
    const std::uint32_t router = c.output / kPorts, port = c.output % kPorts;
    if (!external_.empty() && external_[router] != nullptr) {
      external_[router]->credit(port, c.vc);
      continue;
    }
    take_credit(routers_[router].out[port], credits_[c.output * stride_ + c.vc], c.vc, router,
                port);
  }
  for (const CreditArrival& c : slot.source_credits) {
    take_credit(sources_[c.output * lanes_ + c.vc % lanes_].out,
                source_credits_[c.output * stride_ + c.vc], c.vc, c.output, kLocal);
  }
  for (const Arrival& a : slot.ejected) eject(a);
  slot.flits.clear();
  slot.credits.clear();
  slot.source_credits.clear();
  slot.ejected.clear();
  external_busy_ = false;
  for (FlitExternalRouter* e : external_) {
    if (e != nullptr && e->clock()) external_busy_ = true;
  }
  for_each_bit(busy_sources_, [this](std::uint32_t number) { step_source(number); });
  for_each_bit(busy_routers_, [this](std::uint32_t router) {
    step_router(router);
    const Router& r = routers_[router];
    if ((r.vc_ports | r.switch_ports | r.waiting_ports) == 0) clear_bit(busy_routers_, router);
  });
}

void FlitNetwork::arrive(const Arrival& a) {
  if (!external_.empty() && external_[a.router] != nullptr) {
    external_[a.router]->flit(a.port, a.flit);
    return;
  }
  const unsigned vc = a.flit.vc;
  if (config_.direct_terminals && pool_[a.flit.packet].destination == a.router) {
    return_place(a.router, a.port, vc, 0);
    receive(a.router, a.flit, (now_ + 1) * config_.period);
    return;
  }
  VirtualChannel& c = channels(a.router, a.port)[vc];
  Router& r = routers_[a.router];
  const std::uint32_t depth = r.in[a.port].depth;
  if (c.count == depth) broken("a buffer overflows", a.router, a.port);
  std::uint32_t at = c.first + std::uint32_t{c.count};
  if (at >= depth) at -= depth;
  place(r.in[a.port], vc, at) = a.flit;
  ++c.count;
  if (c.state == VcState::idle) {
    start_head(a.router, r, a.port, vc, now_);
  } else if (c.state == VcState::active && c.count == 1) {
    r.in[a.port].switch_request |= Mask{1} << vc;
    r.switch_ports |= 1u << a.port;
  } else {
    return;  // behind others
  }
  set_bit(busy_routers_, a.router);
}

void FlitNetwork::take_credit(OutputUnit& out, std::uint16_t& count, unsigned vc,
                              std::uint32_t router, unsigned port) {
  if (count == out.depth) broken("more credits than places", router, port);
  ++count;
  const Mask bit = Mask{1} << vc;
  out.credit |= bit;
  if ((out.tail_sent & bit) != 0 && count == out.depth) {
    out.tail_sent &= ~bit;
    out.free |= bit;
  }
}

void FlitNetwork::step_source(std::uint32_t number) {
  const std::uint32_t tile = number / lanes_;
  Source& s = sources_[number];
  if (!s.holds_vc) {
    const Mask usable = s.out.free & s.out.credit;
    if (usable == 0) return;
    const unsigned start = (s.last_vc + 1u) % stride_;
    const Mask later = usable >> start << start;
    s.vc = static_cast<std::uint8_t>(__builtin_ctz(later != 0 ? later : usable));
    s.last_vc = s.vc;
    s.holds_vc = true;
    s.out.free &= ~(Mask{1} << s.vc);
  }
  const Mask bit = Mask{1} << s.vc;
  if ((s.out.credit & bit) == 0) return;
  std::uint16_t& credits = source_credits_[tile * stride_ + s.vc];
  if (credits == 0) broken("a flit leaves without a credit", tile, kLocal);
  if (--credits == 0) s.out.credit &= ~bit;

  const auto limit = static_cast<std::uint32_t>(config_.packet_flits);
  Message& m = messages_[s.first];
  Arrival a;
  a.router = tile;
  a.port = kLocal;
  a.flit.packet = s.first;
  a.flit.index = s.next_flit & 0xffffffu;
  a.flit.vc = s.vc;
  a.flit.head = limit == 0 ? s.next_flit == 0 : s.next_flit % limit == 0;
  if (s.next_flit == 0) m.entered = now_;
  ++s.next_flit;
  const bool last = s.next_flit == s.flits;
  a.flit.tail = last || (limit != 0 && s.next_flit % limit == 0);
  --s.waiting;
  ++entered_;
  last_move_ = now_;
  if (a.flit.tail) {
    s.holds_vc = false;
    (config_.wait_for_tail_credit ? s.out.tail_sent : s.out.free) |= bit;
  }
  if (last) {
    --queued_;
    s.first = m.next;
    s.next_flit = 0;
    if (s.first == kNoSlot) {
      s.last = kNoSlot;
      clear_bit(busy_sources_, number);
    } else {
      s.flits = messages_[s.first].flits;
    }
  }
  if (config_.direct_terminals) {
    arrive(a);
  } else {
    slot_at(now_ + 1 + static_cast<unsigned>(config_.terminal_delay)).flits.push_back(a);
    ++pending_;
  }
}

void FlitNetwork::eject(const Arrival& a) {
  const auto back = static_cast<unsigned>(1 + config_.terminal_delay + config_.credit_delay);
  slot_at(now_ + back).credits.push_back({a.router * kPorts + kLocal, a.flit.vc});
  ++pending_;
  receive(a.router, a.flit, now_ * config_.period);
}

/// A flit has reached its tile. Its message, if it is the last one, is delivered at `at`.
void FlitNetwork::receive(std::uint32_t router, const Flit& flit, Picoseconds at) {
  Packet& p = pool_[flit.packet];
  Message& m = messages_[flit.packet];
  if (p.destination != router) broken("a flit has lost its way", router, kLocal);
  // Within a packet flits keep their order; packets of one message may overtake each other.
  if (config_.packet_flits == 0 && flit.index != m.arrived) {
    broken("flits of a packet out of order", router, kLocal);
  }
  ++left_;
  last_move_ = now_;
  if (++m.arrived != m.flits) return;
  m.left = now_;
  p.tail = at;
  const bool write = p.kind == PacketKind::write_data;
  queue_.push(at, write ? EventClass::write_arrival : EventClass::delivery, router, kLocal, p.slot);
}

tlm::tlm_sync_enum FlitNetwork::Input::nb_transport_fw(LinkTransfer& t, LinkPhase&,
                                                       sc_core::sc_time&) {
  network->slot_at(network->now_ + t.cycles).flits.push_back({router, t.port, t.flit});
  ++network->pending_;
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum FlitNetwork::Output::nb_transport_bw(LinkTransfer& t, LinkPhase&,
                                                        sc_core::sc_time&) {
  network->slot_at(network->now_ + t.cycles)
      .credits.push_back({router * kPorts + t.port, t.flit.vc});
  ++network->pending_;
  return tlm::TLM_ACCEPTED;
}

}  // namespace tilewright
