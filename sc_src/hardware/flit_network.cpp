#include <algorithm>
#include <limits>
#include <string>

#include <tilewright/hardware/flit_network.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

namespace {

constexpr std::uint64_t kPatience = 100000;

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

void check(const FlitConfig& c) {
  require_range("width", c.width, 1, 32767);
  require_range("height", c.height, 1, 32767);
  require_range("width * height", std::int64_t{c.width} * c.height, 1, kMaxTiles - 1);
  require(!c.torus || (c.width != 2 && c.height != 2), "torus",
          std::to_string(c.width) + "x" + std::to_string(c.height),
          "sides of 1 or of at least 3 routers");
  require_range("period (ps)", static_cast<std::int64_t>(c.period), 1, 1000000000000);
  require_range("flit_bytes", c.flit_bytes, 1, 1 << 20);
  require_range("packet_flits", c.packet_flits, 0, 1 << 20);
  require_range("virtual_channels", c.virtual_channels, 1, FlitNetwork::kMaxVirtualChannels);
  require_range("buffer_flits", c.buffer_flits, 1, 4096);
  require_range("routing_delay", c.routing_delay, 0, 100);
  require_range("vc_allocation_delay", c.vc_allocation_delay, 1, 100);
  require_range("switch_allocation_delay", c.switch_allocation_delay, 1, 100);
  require_range("switch_traversal_delay", c.switch_traversal_delay, 1, 100);
  require_range("link_delay", c.link_delay, 1, 1000);
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

FlitNetwork::FlitNetwork(const FlitConfig& config, EventQueue& queue, std::uint32_t agent)
    : config_(config), queue_(queue), agent_(agent), topology_(topology_of(config)) {
  routing_ = make_routing(config.routing, topology_, config.routing_seed);
  check_deadlock_free(topology_, *routing_, "flit network: routing '" + config.routing + "'");
  tiles_ = static_cast<std::uint32_t>(config.width * config.height);
  vcs_ = static_cast<std::uint32_t>(config.virtual_channels);
  depth_ = static_cast<std::uint32_t>(config.buffer_flits);
  all_vcs_ = vcs_ == 32 ? ~Mask{0} : (Mask{1} << vcs_) - 1;
  const unsigned classes = routing_classes_ = routing_->classes();
  require(vcs_ >= classes, "virtual_channels", std::to_string(vcs_),
          ("with routing '" + config.routing + "': at least " + std::to_string(classes)).c_str());
  for (unsigned vc = 0; vc < vcs_; ++vc) class_vcs_[vc * classes / vcs_] |= Mask{1} << vc;
  if (routing_->random()) injected_.resize(tiles_);
  stall_below_ = static_cast<std::uint64_t>(config.stall_probability * 0x1p64);

  const std::size_t ports = std::size_t{tiles_} * kPorts;
  routers_.resize(tiles_);
  channels_.resize(ports * vcs_);
  grants_.resize(ports * vcs_);
  credits_.resize(ports * vcs_);
  buffers_.resize(ports * vcs_ * depth_);
  sources_.resize(tiles_);
  source_credits_.resize(std::size_t{tiles_} * vcs_);
  traffic_.assign(ports, 0);
  busy_routers_.resize((tiles_ + 63) / 64);
  busy_sources_.resize((tiles_ + 63) / 64);
  inputs_ = std::vector<Input>(tiles_);
  outputs_ = std::vector<Output>(tiles_);
  for (std::uint32_t t = 0; t < tiles_; ++t) {
    inputs_[t].network = outputs_[t].network = this;
    inputs_[t].router = outputs_[t].router = t;
  }

  const int wire = std::max(config.link_delay, config.terminal_delay);
  const int farthest = 1 + std::max(config.switch_traversal_delay, config.credit_delay) + wire;
  std::uint64_t size = 1;
  while (size <= static_cast<std::uint64_t>(farthest)) size *= 2;
  slots_.resize(size);
  slot_mask_ = size - 1;
  flit_time_ =
      time_of(1 + static_cast<unsigned>(config.switch_traversal_delay + config.link_delay));
  credit_time_ = time_of(1 + static_cast<unsigned>(config.link_delay + config.credit_delay));
  clear_state();
  queue.attach_agent(agent, *this);
}

void FlitNetwork::clear_state() {
  for (Router& router : routers_) {
    for (InputUnit& in : router.in) {
      FlitBackward* const upstream = in.upstream;
      const std::uint8_t port = in.upstream_port;
      in = InputUnit();
      in.upstream = upstream;
      in.upstream_port = port;
    }
    for (OutputUnit& out : router.out) {
      out.free = out.credit = all_vcs_;
      out.tail_sent = 0;
      out.grant = 0;
    }
    router.vc_ports = router.switch_ports = router.waiting_ports = 0;
  }
  channels_.assign(channels_.size(), VirtualChannel());
  grants_.assign(grants_.size(), 0);
  credits_.assign(credits_.size(), static_cast<std::uint16_t>(depth_));
  source_credits_.assign(source_credits_.size(), static_cast<std::uint16_t>(depth_));
  for (Source& s : sources_) {
    s = Source();
    s.out.free = s.out.credit = all_vcs_;
    s.last_vc = static_cast<std::uint8_t>(vcs_ - 1);
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
  const auto whole = [this](const OutputUnit& out) {
    return out.free == all_vcs_ && out.credit == all_vcs_;
  };
  for (const Router& router : routers_) {
    for (const OutputUnit& out : router.out) {
      if (!whole(out)) return false;
    }
  }
  for (const Source& source : sources_) {
    if (!whole(source.out) || source.first != kNoSlot) return false;
  }
  const auto full = [this](std::uint16_t credits) { return credits == depth_; };
  return in_flight() + pending_ + queued_ == 0 &&
         std::all_of(credits_.begin(), credits_.end(), full) &&
         std::all_of(source_credits_.begin(), source_credits_.end(), full);
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

void FlitNetwork::inject(Packet& p, Picoseconds now) {
  if (p.slot >= messages_.size()) messages_.resize(std::max<std::size_t>(p.slot + 1, 1024));
  p.injected = now;
  p.lead = 0;
  p.arrived = false;
  if (!injected_.empty()) routing_->draw(p, injected_[p.source]++);
  Message& m = messages_[p.slot];
  m = Message();
  const auto size = static_cast<std::uint64_t>(config_.flit_bytes);
  const std::uint64_t flits = std::max<std::uint64_t>(1, (p.bytes + size - 1) / size);
  if (flits > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("flit network: a message of " + std::to_string(p.bytes) +
                     " bytes has more than 2^32 flits; allowed: larger flit_bytes");
  }
  m.flits = static_cast<std::uint32_t>(flits);
  Source& s = sources_[p.source];
  if (s.first == kNoSlot) {
    s.first = p.slot;
    s.next_flit = 0;
    s.flits = m.flits;
    set_bit(busy_sources_, p.source);
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
  if (now_ - last_move_ > kPatience) {
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
    take_credit(routers_[router].out[port], credits_[c.output * vcs_ + c.vc], c.vc, router, port);
  }
  for (const CreditArrival& c : slot.source_credits) {
    take_credit(sources_[c.output].out, source_credits_[c.output * vcs_ + c.vc], c.vc, c.output,
                kLocal);
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
  for_each_bit(busy_sources_, [this](std::uint32_t tile) { step_source(tile); });
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
  VirtualChannel& c = channels(a.router, a.port)[vc];
  if (c.count == depth_) broken("a buffer overflows", a.router, a.port);
  std::uint32_t at = c.first + std::uint32_t{c.count};
  if (at >= depth_) at -= depth_;
  place(a.router, a.port, vc, at) = a.flit;
  ++c.count;
  Router& r = routers_[a.router];
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
  if (count == depth_) broken("more credits than places", router, port);
  ++count;
  const Mask bit = Mask{1} << vc;
  out.credit |= bit;
  if ((out.tail_sent & bit) != 0 && count == depth_) {
    out.tail_sent &= ~bit;
    out.free |= bit;
  }
}

void FlitNetwork::step_source(std::uint32_t tile) {
  Source& s = sources_[tile];
  if (!s.holds_vc) {
    const Mask usable = s.out.free & s.out.credit;
    if (usable == 0) return;
    const unsigned start = (s.last_vc + 1u) % vcs_;
    const Mask later = usable >> start << start;
    s.vc = static_cast<std::uint8_t>(__builtin_ctz(later != 0 ? later : usable));
    s.last_vc = s.vc;
    s.holds_vc = true;
    s.out.free &= ~(Mask{1} << s.vc);
  }
  const Mask bit = Mask{1} << s.vc;
  if ((s.out.credit & bit) == 0) return;
  std::uint16_t& credits = source_credits_[tile * vcs_ + s.vc];
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
  slot_at(now_ + 1 + static_cast<unsigned>(config_.terminal_delay)).flits.push_back(a);
  ++pending_;
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
      clear_bit(busy_sources_, tile);
    } else {
      s.flits = messages_[s.first].flits;
    }
  }
}

void FlitNetwork::eject(const Arrival& a) {
  Packet& p = pool_[a.flit.packet];
  Message& m = messages_[a.flit.packet];
  if (p.destination != a.router) broken("a flit has lost its way", a.router, kLocal);
  // Within a packet flits keep their order; packets of one message may overtake each other.
  if (config_.packet_flits == 0 && a.flit.index != (m.arrived & 0xffffffu)) {
    broken("flits of a packet out of order", a.router, kLocal);
  }
  ++left_;
  last_move_ = now_;
  const auto back = static_cast<unsigned>(1 + config_.terminal_delay + config_.credit_delay);
  slot_at(now_ + back).credits.push_back({a.router * kPorts + kLocal, a.flit.vc});
  ++pending_;
  if (++m.arrived != m.flits) return;
  m.left = now_;
  p.tail = now_ * config_.period;
  queue_.push(p.tail, EventClass::delivery, a.router, kLocal, a.flit.packet);
}

tlm::tlm_sync_enum FlitNetwork::Input::nb_transport_fw(FlitTransfer& t, FlitPhase&,
                                                       sc_core::sc_time&) {
  network->slot_at(network->now_ + t.cycles).flits.push_back({router, t.port, t.flit});
  ++network->pending_;
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum FlitNetwork::Output::nb_transport_bw(FlitTransfer& t, FlitPhase&,
                                                        sc_core::sc_time&) {
  network->slot_at(network->now_ + t.cycles)
      .credits.push_back({router * kPorts + t.port, t.flit.vc});
  ++network->pending_;
  return tlm::TLM_ACCEPTED;
}

}  // namespace tilewright
