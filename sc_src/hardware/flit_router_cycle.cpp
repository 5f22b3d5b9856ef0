// One cycle of one router: what FlitNetwork does between the arrival of a flit and its departure.
//
// All decisions of a cycle are taken on the state the previous one left, credits and flits that
// have just arrived included: the switch allocation does not see the channels this cycle's VC
// allocation gives away (unless it speculates), and the VC allocation does not see the channels
// this cycle's tails give back.
#include <algorithm>
#include <cstdlib>

#include <tilewright/hardware/flit_network.h>

namespace tilewright {

namespace {

/// The first bit at or after `start`, then from bit 0 on.
unsigned next_bit(std::uint32_t bits, unsigned start) {
  const std::uint32_t later = bits >> start << start;
  return static_cast<unsigned>(__builtin_ctz(later != 0 ? later : bits));
}

template <class Visit>
void each_bit(std::uint32_t bits, Visit visit) {
  for (; bits != 0; bits &= bits - 1) visit(static_cast<unsigned>(__builtin_ctz(bits)));
}

}  // namespace

void FlitNetwork::step_router(std::uint32_t router) {
  Router& r = routers_[router];
  if (r.waiting_ports != 0) finish_routing(router, r);
  Match match;
  if (r.switch_ports != 0 || config_.speculative) match = allocate_switch(router, r);
  const bool slow_switch = config_.switch_allocation_delay > 1;
  if (slow_switch) delay_switch(router, r, match);
  if (r.vc_ports != 0) allocate_channels(router, r);
  if (r.waiting_ports != 0) finish_channels(router, r);
  if (slow_switch) match = finish_switch(router, r);
  for (unsigned i = 0; i < match.count; ++i) {
    traverse(router, r, match.winners[i].in, match.winners[i].vc);
  }

  r.vc_ports = r.switch_ports = r.waiting_ports = 0;
  for (unsigned port = 0; port < kPorts; ++port) {
    const InputUnit& in = r.in[port];
    r.vc_ports |= (in.vc_request != 0 ? 1u : 0u) << port;
    r.switch_ports |= (in.switch_request != 0 ? 1u : 0u) << port;
    r.waiting_ports |= ((in.routing | in.vc_pending | in.switch_pending) != 0 ? 1u : 0u) << port;
  }
}

// A head has come to the front of its channel. It may ask for an output channel in cycle `base`
// plus the routing delay.
void FlitNetwork::start_head(std::uint32_t router, Router& r, unsigned port, unsigned vc,
                             std::uint64_t base) {
  VirtualChannel& c = channels(router, port)[vc];
  const Flit& flit = place(r.in[port], vc, c.first);
  if (flit.head == 0) broken("a packet without a head", router, port);
  Packet& p = pool_[flit.packet];
  const unsigned leg = aim(p, router);
  if (p.dx == 0 && p.dy == 0) {
    c.out_port = kLocal;
  } else {
    const Directions ways = routing_->ways(p, router);
    const unsigned out = (ways & (ways - 1)) == 0 ? static_cast<unsigned>(__builtin_ctz(ways))
                                                  : least_used(router, p, ways);
    c.out_port = static_cast<std::uint8_t>(out);
    c.out_class = static_cast<std::uint8_t>(
        detours_ ? leg : routing_->channel_class(p, router, static_cast<Direction>(out)));
  }
  const Mask bit = Mask{1} << vc;
  if (config_.routing_delay == 0) {
    c.state = VcState::vc_allocation;
    r.in[port].vc_request |= bit;
    r.vc_ports |= 1u << port;
  } else {
    c.state = VcState::routing;
    c.due = static_cast<std::uint32_t>(base + static_cast<unsigned>(config_.routing_delay));
    r.in[port].routing |= bit;
    r.waiting_ports |= 1u << port;
  }
}

// Of several ways the one with most free channels of the packet's class, then most channels with a
// credit, then most hops to go along it, then x.
unsigned FlitNetwork::least_used(std::uint32_t router, const Packet& p, Directions ways) const {
  unsigned best = 0;
  int most = -1;
  each_bit(ways, [&](unsigned d) {
    const OutputUnit& out = routers_[router].out[d];
    const Mask mine = class_vcs_[routing_->channel_class(p, router, static_cast<Direction>(d))];
    const int hops = std::abs(d < 2 ? p.dx : p.dy);
    const int room = (__builtin_popcount(out.free & mine) << 24) +
                     (__builtin_popcount(out.credit & mine) << 16) + hops;
    if (room <= most) return;
    best = d;
    most = room;
  });
  return best;
}

void FlitNetwork::finish_routing(std::uint32_t router, Router& r) {
  each_bit(r.waiting_ports, [&](unsigned port) {
    InputUnit& in = r.in[port];
    each_bit(in.routing, [&](unsigned vc) {
      VirtualChannel& c = channels(router, port)[vc];
      if (c.due != static_cast<std::uint32_t>(now_)) return;
      c.state = VcState::vc_allocation;
      in.routing &= ~(Mask{1} << vc);
      in.vc_request |= Mask{1} << vc;
      r.vc_ports |= 1u << port;
    });
  });
}

// Separable, one iteration: each input offers one channel per output, each output grants one input,
// each input accepts one grant; all by round robin, moved on only by what was accepted.
FlitNetwork::Match FlitNetwork::allocate_switch(std::uint32_t router, Router& r) {
  Match match;
  std::uint8_t offers[kPorts][kPorts];
  std::uint32_t by_output[kPorts] = {}, grants[kPorts] = {};
  std::uint32_t outputs = 0;
  const std::uint32_t ports = config_.speculative ? r.switch_ports | r.vc_ports : r.switch_ports;
  std::uint32_t busy = 0;  // outputs whose link has not finished a flit
  each_bit(r.slow_ports, [&](unsigned out) {
    if (r.out[out].busy >> kFraction > now_) busy |= 1u << out;
  });
  each_bit(ports, [&](unsigned port) {
    if (stalled(router, port)) return;
    const InputUnit& in = r.in[port];
    const VirtualChannel* const channel = channels(router, port);
    std::uint32_t offered = busy;
    const auto offer = [&](unsigned out, unsigned vc) {
      offered |= 1u << out;
      offers[port][out] = static_cast<std::uint8_t>(vc);
      by_output[out] |= 1u << port;
    };
    const Mask early = (Mask{1} << in.offset) - 1;
    const auto active = [&](unsigned vc) {
      const unsigned out = channel[vc].out_port;
      if ((offered >> out & 1u) != 0) return;
      if ((r.out[out].credit >> channel[vc].out_vc & 1u) != 0) offer(out, vc);
    };
    each_bit(in.switch_request & ~early, active);
    each_bit(in.switch_request & early, active);
    if (config_.speculative) {
      const auto speculate = [&](unsigned vc) {
        const unsigned out = channel[vc].out_port;
        if ((offered >> out & 1u) != 0) return;
        const Mask may = allowed(channel[vc]);
        if ((r.out[out].free & r.out[out].credit & may) != 0) offer(out, vc);
      };
      each_bit(in.vc_request & ~early, speculate);
      each_bit(in.vc_request & early, speculate);
    }
    outputs |= offered & ~busy;
  });

  std::uint32_t granted = 0;
  each_bit(outputs, [&](unsigned out) {
    const unsigned in = next_bit(by_output[out], r.out[out].grant);
    grants[in] |= 1u << out;
    granted |= 1u << in;
  });
  each_bit(granted, [&](unsigned port) {
    InputUnit& in = r.in[port];
    const auto accept = [&](unsigned out) {
      const unsigned vc = offers[port][out];
      match.add(port, vc);
      r.out[out].grant = static_cast<std::uint8_t>(port + 1 == kPorts ? 0 : port + 1);
      in.accept = static_cast<std::uint8_t>(out + 1 == kPorts ? 0 : out + 1);
      in.offset = static_cast<std::uint8_t>(vc + 1 == stride_ ? 0 : vc + 1);
    };
    if (port == kLocal && lanes_ > 1) {
      each_bit(grants[port], accept);  // as many inputs as it has links
    } else {
      accept(next_bit(grants[port], in.accept));
    }
  });
  return match;
}

// Separable, one iteration, like the switch allocation: each head asks for every free channel of
// its output port, each channel grants one head, each head accepts one channel.
void FlitNetwork::allocate_channels(std::uint32_t router, Router& r) {
  std::uint32_t asking = 0;
  each_bit(r.vc_ports, [&](unsigned port) {
    if (stalled(router, port)) return;
    asking |= 1u << port;
    if (config_.vc_allocation_delay == 1) return;
    each_bit(r.in[port].vc_request, [&](unsigned vc) {
      VirtualChannel& c = channels(router, port)[vc];
      c.due =
          static_cast<std::uint32_t>(now_ + static_cast<unsigned>(config_.vc_allocation_delay) - 1);
      c.granted = false;
    });
  });
  // Classes share no channels but those to the tile, which have none.
  for (unsigned of = 0; of < classes_; ++of) {
    std::array<Mask, kPorts> requests[kPorts] = {};
    std::uint32_t outputs = 0;
    each_bit(asking, [&](unsigned port) {
      each_bit(r.in[port].vc_request, [&](unsigned vc) {
        const VirtualChannel& c = channels(router, port)[vc];
        if (of != (c.out_port == kLocal ? 0 : c.out_class)) return;
        requests[c.out_port][port] |= Mask{1} << vc;
        outputs |= 1u << c.out_port;
      });
    });
    each_bit(outputs, [&](unsigned out) {
      const Mask free = r.out[out].free & (out == kLocal ? all_vcs_ : class_vcs_[of]);
      if (free != 0) allocate_channels_at(router, r, out, requests[out], free);
    });
  }
  if (config_.vc_allocation_delay == 1) return;
  each_bit(asking, [&](unsigned port) {
    InputUnit& in = r.in[port];
    in.vc_pending |= in.vc_request;
    in.vc_request = 0;
    r.waiting_ports |= 1u << port;
  });
}

void FlitNetwork::allocate_channels_at(std::uint32_t router, Router& r, unsigned out,
                                       const std::array<Mask, kPorts>& requests, Mask free) {
  std::uint32_t ports = 0;
  for (unsigned port = 0; port < kPorts; ++port) ports |= (requests[port] != 0 ? 1u : 0u) << port;
  std::uint16_t* const grant = &grants_[(router * kPorts + out) * stride_];

  // By input channel: the output channels that grant it.
  std::array<std::array<Mask, kMaxVirtualChannels>, kPorts> granted;
  std::array<Mask, kPorts> winners{};
  each_bit(free, [&](unsigned out_vc) {
    unsigned port = grant[out_vc] / stride_;
    const unsigned from = grant[out_vc] % stride_;
    Mask candidates = requests[port] >> from << from;
    if (candidates == 0) {
      // The round ends with the first channels of the port it began with.
      const std::uint32_t others = ports & ~(1u << port);
      if (others != 0) port = next_bit(others, port);
      candidates = requests[port];
    }
    const unsigned vc = static_cast<unsigned>(__builtin_ctz(candidates));
    if ((winners[port] >> vc & 1u) == 0) granted[port][vc] = 0;
    winners[port] |= Mask{1} << vc;
    granted[port][vc] |= Mask{1} << out_vc;
  });
  for (unsigned port = 0; port < kPorts; ++port) {
    each_bit(winners[port], [&](unsigned vc) {
      VirtualChannel& c = channels(router, port)[vc];
      const unsigned first = out * stride_;
      const unsigned start = c.accept >= first && c.accept < first + stride_ ? c.accept - first : 0;
      const unsigned out_vc = next_bit(granted[port][vc], start);
      const unsigned all = kPorts * stride_;
      grant[out_vc] = static_cast<std::uint16_t>((port * stride_ + vc + 1) % all);
      c.accept = static_cast<std::uint16_t>((first + out_vc + 1) % all);
      c.out_vc = static_cast<std::uint8_t>(out_vc);
      if (config_.vc_allocation_delay > 1) {
        c.granted = true;
      } else {
        r.in[port].vc_request &= ~(Mask{1} << vc);
        assign_channel(router, r, port, vc, out_vc);
      }
    });
  }
}

void FlitNetwork::assign_channel(std::uint32_t router, Router& r, unsigned in, unsigned vc,
                                 unsigned out_vc) {
  VirtualChannel& c = channels(router, in)[vc];
  OutputUnit& out = r.out[c.out_port];
  const Mask bit = Mask{1} << out_vc;
  if ((out.free & bit) == 0) broken("an output channel is given away twice", router, c.out_port);
  out.free &= ~bit;
  c.state = VcState::active;
  r.in[in].switch_request |= Mask{1} << vc;
}

// VC allocation of several cycles: what was granted counts if the channel is still free.
void FlitNetwork::finish_channels(std::uint32_t router, Router& r) {
  each_bit(r.waiting_ports, [&](unsigned port) {
    InputUnit& in = r.in[port];
    each_bit(in.vc_pending, [&](unsigned vc) {
      VirtualChannel& c = channels(router, port)[vc];
      if (c.due != static_cast<std::uint32_t>(now_)) return;
      in.vc_pending &= ~(Mask{1} << vc);
      if (c.granted && (r.out[c.out_port].free >> c.out_vc & 1u) != 0) {
        assign_channel(router, r, port, vc, c.out_vc);
      } else {
        in.vc_request |= Mask{1} << vc;
      }
    });
  });
}

// Switch allocation of several cycles: channels that have asked wait for the outcome, and what was
// granted counts if there still is a credit.
void FlitNetwork::delay_switch(std::uint32_t router, Router& r, const Match& match) {
  each_bit(r.switch_ports, [&](unsigned port) {
    InputUnit& in = r.in[port];
    VirtualChannel* const channel = channels(router, port);
    each_bit(in.switch_request, [&](unsigned vc) {
      channel[vc].due = static_cast<std::uint32_t>(
          now_ + static_cast<unsigned>(config_.switch_allocation_delay) - 1);
      channel[vc].granted = false;
    });
    in.switch_pending |= in.switch_request;
    in.switch_request = 0;
    r.waiting_ports |= 1u << port;
  });
  for (unsigned i = 0; i < match.count; ++i) {
    channels(router, match.winners[i].in)[match.winners[i].vc].granted = true;
  }
}

FlitNetwork::Match FlitNetwork::finish_switch(std::uint32_t router, Router& r) {
  Match match;
  each_bit(r.waiting_ports, [&](unsigned port) {
    InputUnit& in = r.in[port];
    const VirtualChannel* const channel = channels(router, port);
    each_bit(in.switch_pending, [&](unsigned vc) {
      if (channel[vc].due != static_cast<std::uint32_t>(now_)) return;
      in.switch_pending &= ~(Mask{1} << vc);
      in.switch_request |= Mask{1} << vc;
      if (channel[vc].granted) match.add(port, vc);
    });
  });
  return match;
}

void FlitNetwork::traverse(std::uint32_t router, Router& r, unsigned in, unsigned vc) {
  VirtualChannel& c = channels(router, in)[vc];
  if (c.state != VcState::active) return;  // speculation: no channel was allocated
  OutputUnit& out = r.out[c.out_port];
  const Mask out_bit = Mask{1} << c.out_vc;
  if ((out.credit & out_bit) == 0) return;  // speculation: a channel without credit was allocated

  Flit flit = place(r.in[in], vc, c.first);
  c.first = static_cast<std::uint16_t>(c.first + 1u == r.in[in].depth ? 0 : c.first + 1u);
  --c.count;
  std::uint16_t& credits = this->credits(router, c.out_port, c.out_vc);
  if (credits == 0) broken("a flit leaves without a credit", router, c.out_port);
  if (--credits == 0) out.credit &= ~out_bit;
  return_place(router, in, vc, 0);
  flit.vc = c.out_vc & 31u;
  depart(router, c.out_port, flit, 0);

  const Mask bit = Mask{1} << vc;
  if (flit.tail != 0) {
    (config_.wait_for_tail_credit ? out.tail_sent : out.free) |= out_bit;
    r.in[in].switch_request &= ~bit;
    c.state = VcState::idle;
    if (c.count > 0) start_head(router, r, in, vc, now_ + 1);
  } else if (c.count == 0) {
    r.in[in].switch_request &= ~bit;
  }
}

void FlitNetwork::return_place(std::uint32_t router, unsigned port, unsigned vc, unsigned age) {
  const InputUnit& in = routers_[router].in[port];
  const unsigned wire = 1 + in.wire - age;
  if (port == kLocal) {
    slot_at(now_ + wire).source_credits.push_back({router, vc});
    ++pending_;
    return;
  }
  LinkTransfer credit;
  credit.flit.vc = vc & 31u;
  credit.port = in.upstream_port;
  credit.cycles = static_cast<std::uint16_t>(wire + static_cast<unsigned>(config_.credit_delay));
  LinkPhase phase = LinkPhase::credit;
  sc_core::sc_time delay = delays_[credit.cycles];
  in.upstream->nb_transport_bw(credit, phase, delay);
}

void FlitNetwork::depart(std::uint32_t router, unsigned port, const Flit& flit, unsigned age) {
  ++hops_;
  Traffic& traffic = traffic_[router * kPorts + port];
  ++traffic.flits;
  if (flit.tail != 0) count_tail(traffic, flit);
  last_move_ = now_;
  const unsigned far = 1 + static_cast<unsigned>(config_.switch_traversal_delay) - age;
  if (port == kLocal) {
    slot_at(now_ + far + static_cast<unsigned>(config_.terminal_delay))
        .ejected.push_back({router, kLocal, flit});
    ++pending_;
    return;
  }
  OutputUnit& out = routers_[router].out[port];
  if (!probes_.empty()) tell_claim(router, port, flit, age);
  LinkTransfer t;
  t.flit = flit;
  t.port = out.far_port;
  t.cycles = static_cast<std::uint16_t>(far + out.wire + (out.step == kOne ? 0 : occupy(out)));
  LinkPhase phase = LinkPhase::flit;
  sc_core::sc_time delay = delays_[t.cycles];
  out.link->nb_transport_fw(t, phase, delay);
}

// Takes the link for a flit. Returns the cycles this takes beyond the first one.
unsigned FlitNetwork::occupy(OutputUnit& out) const {
  out.busy = std::max(out.busy, now_ << kFraction) + out.step;
  return static_cast<unsigned>(((out.busy + kOne - 1) >> kFraction) - now_ - 1);
}

// A packet's bytes, and its message with the last one, count when the tail passes.
void FlitNetwork::count_tail(Traffic& t, const Flit& flit) {
  const std::uint64_t bytes = pool_[flit.packet].bytes;
  const auto limit = static_cast<std::uint32_t>(config_.packet_flits);
  if (limit == 0) {
    t.bytes += bytes;
    ++t.messages;
    return;
  }
  const std::uint32_t flits = messages_[flit.packet].flits, end = flit.index + 1;
  const std::uint32_t begin = flit.index / limit * limit;
  t.bytes += bytes_before(end, bytes, flits) - bytes_before(begin, bytes, flits);
  if (end == flits) ++t.messages;
}

/// Out of line, to keep it out of the way of those whom nobody watches.
[[gnu::cold]] void FlitNetwork::tell_claim(std::uint32_t router, unsigned port, const Flit& flit,
                                           unsigned age) {
  const OutputUnit& out = routers_[router].out[port];
  const Packet& p = pool_[flit.packet];
  const std::uint32_t flits = messages_[flit.packet].flits;
  const std::uint64_t bytes =
      bytes_before(flit.index + 1, p.bytes, flits) - bytes_before(flit.index, p.bytes, flits);
  const auto time = [this](std::uint64_t cycles) {
    return (cycles >> kFraction) * config_.period +
           (((cycles & (kOne - 1)) * config_.period + kOne / 2) >> kFraction);
  };
  // Behind the crossbar.
  const std::uint64_t ahead =
      std::uint64_t{1u + static_cast<unsigned>(config_.switch_traversal_delay) - age} << kFraction;
  const std::uint64_t start = std::max(out.busy, now_ << kFraction) + ahead;
  for (Probe* probe : probes_) {
    probe->link_claimed(now_ * config_.period, topology_.first_link(router) + port,
                        now_ * config_.period, time(start), time(start + out.step), p, bytes);
  }
}

}  // namespace tilewright
