// The network at flit fidelity: the state of all routers, in contiguous arrays, and what happens in
// a cycle.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <tilewright/hardware/detours.h>
#include <tilewright/hardware/flit_config.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/routing.h>

namespace tilewright {

/// A router that is not FlitNetwork's own, such as one in RTL. In each cycle the network first
/// takes what it gives (give()), then hands over what arrives for it, then clocks it.
class FlitExternalRouter {
 public:
  virtual ~FlitExternalRouter() = default;
  /// Departures and credits that are due: calls FlitNetwork::depart() and return_place().
  virtual void give() = 0;
  virtual void flit(unsigned port, const Flit& flit) = 0;
  virtual void credit(unsigned port, unsigned vc) = 0;
  /// Returns whether anything is left in the router, so that it needs a next cycle.
  virtual bool clock() = 0;
};

/// Wormhole network of input-queued virtual-channel routers with credits. When the last flit of a
/// packet has reached its destination its event is due in the same cycle, with direct terminals at
/// the end of that cycle. A packet whose source is its destination then uses no router.
///
/// On a mesh with dead tiles or links each leg of a way (Detours) has a class of virtual channels.
///
/// A link slower than a flit per cycle is a port whose next flit waits; flits leave it at the exact
/// mean rate.
///
/// The network has one event in the queue, on its cycle grid, and only while a flit, a credit or a
/// waiting packet exists; in a cycle only routers that hold a flit are visited. Routers meet only
/// through links, whose delay is at least one cycle, so the order in which they are visited does
/// not matter. Order of delivery is that of injection within a packet, not between packets.
///
/// Throws InternalError when an invariant breaks (a credit count outside [0, depth], a buffer that
/// overflows, flits of a packet out of order) and DeadlockError when nothing moves for 100000
/// cycles.
class FlitNetwork final : public Network, public EventHandler {
 public:
  /// `agent`: number for EventQueue::attach_agent().
  FlitNetwork(const FlitConfig& config, EventQueue& queue, std::uint32_t agent);
  /// That of a machine, see flit_config().
  FlitNetwork(const MachineConfig& machine, EventQueue& queue, std::uint32_t agent);

  const FlitConfig& config() const { return config_; }
  bool in_order() const override { return false; }
  Path path(std::uint32_t from, std::uint32_t to) override;
  /// A packet's bytes.
  std::uint64_t burst() const override;

  /// Queues `p` at its source. Its head enters the network in the cycle of `now` or the first one
  /// after it. A lead is lost.
  void inject(Packet& p, Picoseconds now, Picoseconds lead = 0) override;
  std::string copies_nothing() const override {
    return "at fidelity flit no router copies flits; use fidelity message";
  }
  void inject(const std::vector<Packet*>&, Picoseconds, Picoseconds) override {
    throw InternalError("flits are not copied");
  }

  tlm::tlm_fw_transport_if<LinkTypes>& input(std::uint32_t node) override { return inputs_[node]; }
  tlm::tlm_bw_transport_if<LinkTypes>& output(std::uint32_t node) override {
    return outputs_[node];
  }
  void wire_out(std::uint32_t node, unsigned port, LinkForward& neighbour) override;
  void wire_in(std::uint32_t node, unsigned port, LinkBackward& neighbour) override;

  IdVector<LinkId, LinkStatistics> statistics() const override;
  std::uint64_t hops() const override;

  /// Puts `external` in the place of a router; before the first packet. Its links stay those of the
  /// Router module of that tile.
  void replace(std::uint32_t router, FlitExternalRouter& external);
  /// For it: a flit that won the switch `age` cycles ago leaves by `port`, its `vc` that of the
  /// next buffer; the place of a flit that did so becomes free in the input buffer of `port`.
  void depart(std::uint32_t router, unsigned port, const Flit& flit, unsigned age);
  void return_place(std::uint32_t router, unsigned port, unsigned vc, unsigned age);
  std::uint64_t now() const { return now_; }  ///< the cycle, as a number

  /// Cycles from a packet's entry into the network to its delivery, once it is delivered.
  std::uint64_t network_cycles(const Packet& p) const {
    return messages_[p.slot].left - messages_[p.slot].entered;
  }

  /// Flits that are in the network, on links or in buffers.
  std::uint64_t in_flight() const { return entered_ - left_; }
  std::uint64_t flits_entered() const { return entered_; }
  std::uint64_t flits_left() const { return left_; }
  /// Routers left by a flit so far, summed over all flits.
  std::uint64_t flit_hops() const { return hops_; }
  /// Flits that have left a router by a port (a Direction, or kDirections: to its tile).
  std::uint64_t flits(std::uint32_t router, unsigned port) const {
    return traffic_[router * kPorts + port].flits;
  }
  std::uint64_t cycles() const { return cycles_; }  ///< that were simulated, idle ones left out

  /// Whether it holds nothing, and every credit and every channel is back where it belongs.
  bool at_rest() const;

  /// Drops everything: queued packets, flits, credits; all round robins start anew.
  void reset();

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

  static constexpr unsigned kPorts = kDirections + 1;  ///< the mesh links, then the tile
  static constexpr unsigned kLocal = kDirections;
  static constexpr unsigned kMaxVirtualChannels = 32;

 private:
  using Mask = std::uint32_t;                // of virtual channels
  static constexpr unsigned kFraction = 20;  // bits, of cycles that are no whole ones
  static constexpr std::uint32_t kOne = 1u << kFraction;

  enum class VcState : std::uint8_t { idle, routing, vc_allocation, active };

  /// One virtual channel of an input port.
  struct VirtualChannel {
    std::uint32_t due = 0;     // cycle in which a stage of more than one cycle ends
    std::uint16_t first = 0;   // place of the front flit in the ring
    std::uint16_t count = 0;   // flits held
    std::uint16_t accept = 0;  // VC allocation: round robin over output channels
    VcState state = VcState::idle;
    std::uint8_t out_port = 0;
    std::uint8_t out_vc = 0;
    std::uint8_t out_class = 0;  // of the channels it may take there
    bool granted = false;        // outcome of the stage that is due
  };

  /// An input port: which of its channels wait for what.
  struct InputUnit {
    Mask routing = 0, vc_request = 0, vc_pending = 0, switch_request = 0, switch_pending = 0;
    std::uint8_t offset = 0;  // round robin over the channels
    std::uint8_t accept = 0;  // switch allocation: round robin over the outputs
    std::uint8_t upstream_port = 0;
    std::uint16_t depth = 0;  // of a channel's buffer
    std::uint16_t wire = 0;   // cycles of the link, for credits
    std::uint32_t place = 0;  // of the first channel's first flit, in buffers_
    LinkBackward* upstream = nullptr;
  };

  /// An output port: what is known of the buffers behind it.
  struct OutputUnit {
    Mask free = 0;           // channels no packet holds
    Mask credit = 0;         // channels with at least one credit
    Mask tail_sent = 0;      // wait_for_tail_credit: held until the credits are back
    std::uint8_t grant = 0;  // switch allocation: round robin over the inputs
    std::uint8_t far_port = 0;
    std::uint16_t depth = 0;    // of a channel's buffer at the far end
    std::uint16_t wire = 0;     // cycles of the link
    std::uint32_t step = kOne;  // cycles that the link takes for a flit, with kFraction bits
    std::uint64_t busy = 0;     // until then, likewise; kept where `step` is above one
    LinkForward* link = nullptr;
  };

  struct Router {
    std::array<InputUnit, kPorts> in;
    std::array<OutputUnit, kPorts> out;
    std::uint32_t vc_ports = 0, switch_ports = 0;  // inputs with requests
    std::uint32_t waiting_ports = 0;               // inputs with a stage of several cycles
    std::uint32_t slow_ports = 0;                  // outputs whose link takes cycles for a flit
  };

  /// What leaves a tile: a queue of packets and its view of the router's local input, or with
  /// direct terminals of its part of the channels there.
  struct Source {
    std::uint32_t first = kNoSlot, last = kNoSlot;
    std::uint32_t next_flit = 0, flits = 0;  // of the packet in front
    std::uint64_t waiting = 0;               // flits of all packets
    std::uint8_t vc = 0, last_vc = 0;
    bool holds_vc = false;
    OutputUnit out;
  };

  /// Of a message, beside its Packet.
  struct Message {
    std::uint32_t next = kNoSlot;  // in the source's queue
    std::uint32_t flits = 0, arrived = 0;
    std::uint64_t entered = 0, left = 0;
  };

  struct Arrival {
    std::uint32_t router;
    std::uint32_t port;
    Flit flit;
  };
  struct CreditArrival {
    std::uint32_t output;  // router * kPorts + port, or a tile
    std::uint32_t vc;
  };
  /// What happens in one future cycle.
  struct Slot {
    std::vector<Arrival> flits;
    std::vector<Arrival> ejected;
    std::vector<CreditArrival> credits;
    std::vector<CreditArrival> source_credits;
  };

  /// Winners of the switch allocation, at most one for an output.
  struct Match {
    struct Winner {
      std::uint8_t in, vc;
    };
    unsigned count = 0;
    std::array<Winner, kPorts> winners;
    void add(unsigned in, unsigned vc) {
      winners[count++] = {static_cast<std::uint8_t>(in), static_cast<std::uint8_t>(vc)};
    }
  };

  /// What has left by a port.
  struct Traffic {
    std::uint64_t flits = 0, bytes = 0, messages = 0;
  };

  class alignas(64) Input : public NonblockingTarget<LinkTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_fw(LinkTransfer& t, LinkPhase& phase,
                                       sc_core::sc_time& delay) override;
    FlitNetwork* network = nullptr;
    std::uint32_t router = 0;
  };
  class Output : public tlm::tlm_bw_transport_if<LinkTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_bw(LinkTransfer& t, LinkPhase& phase,
                                       sc_core::sc_time& delay) override;
    void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
    FlitNetwork* network = nullptr;
    std::uint32_t router = 0;
  };

  static constexpr std::uint32_t kNoSlot = 0xffffffffu;
  static constexpr unsigned kMaxClasses = 4;

  Slot& slot_at(std::uint64_t cycle) { return slots_[cycle & slot_mask_]; }
  VirtualChannel* channels(std::uint32_t router, unsigned port) {
    return &channels_[(router * kPorts + port) * stride_];
  }
  std::uint16_t& credits(std::uint32_t router, unsigned port, unsigned vc) {
    return credits_[(router * kPorts + port) * stride_ + vc];
  }
  Flit& place(const InputUnit& in, unsigned vc, unsigned at) {
    return buffers_[in.place + vc * in.depth + at];
  }
  /// Of a message of `bytes` in `flits`, those before flit `index`.
  std::uint64_t bytes_before(std::uint32_t index, std::uint64_t bytes, std::uint32_t flits) const {
    if (index == flits) return bytes;
    return std::min(bytes, static_cast<std::uint64_t>(index * config_.flit_bytes));
  }
  bool stalled(std::uint32_t router, unsigned port) const;
  [[noreturn]] void broken(const char* what, std::uint32_t router, unsigned port) const;

  FlitNetwork(const FlitConfig& config, Topology topology, EventQueue& queue, std::uint32_t agent,
              const std::string& routing_name);
  void lay_out_ports();
  FlitConfig::Link link_of(LinkKind kind) const;
  unsigned aim(Packet& p, std::uint32_t router);
  unsigned leg_at(const Packet& p, std::uint32_t router, std::uint32_t& end);
  void check_legs(const Packet& p);
  unsigned lane_of(Packet& p);
  void clear_state();
  void schedule(Picoseconds now);
  void cycle();
  void arrive(const Arrival& a);
  void eject(const Arrival& a);
  void receive(std::uint32_t router, const Flit& flit, Picoseconds at);
  void take_credit(OutputUnit& out, std::uint16_t& count, unsigned vc, std::uint32_t router,
                   unsigned port);
  void step_source(std::uint32_t number);
  unsigned occupy(OutputUnit& out) const;
  void count_tail(Traffic& t, const Flit& flit);
  void tell_claim(std::uint32_t router, unsigned port, const Flit& flit, unsigned age);

  // One router in one cycle (flit_router_cycle.cpp).
  void step_router(std::uint32_t router);
  void start_head(std::uint32_t router, Router& r, unsigned port, unsigned vc, std::uint64_t base);
  unsigned least_used(std::uint32_t router, const Packet& p, Directions ways) const;
  /// The channels of an output port that the packet at the front of `c` may take.
  Mask allowed(const VirtualChannel& c) const {
    return c.out_port == kLocal ? all_vcs_ : class_vcs_[c.out_class];
  }
  void finish_routing(std::uint32_t router, Router& r);
  Match allocate_switch(std::uint32_t router, Router& r);
  void allocate_channels(std::uint32_t router, Router& r);
  void allocate_channels_at(std::uint32_t router, Router& r, unsigned out,
                            const std::array<Mask, kPorts>& requests, Mask free);
  void assign_channel(std::uint32_t router, Router& r, unsigned in, unsigned vc, unsigned out_vc);
  void finish_channels(std::uint32_t router, Router& r);
  void delay_switch(std::uint32_t router, Router& r, const Match& match);
  Match finish_switch(std::uint32_t router, Router& r);
  void traverse(std::uint32_t router, Router& r, unsigned in, unsigned vc);

  FlitConfig config_;
  EventQueue& queue_;
  std::uint32_t agent_;
  std::uint32_t tiles_, vcs_;
  std::uint32_t stride_;  // channels of a port in the arrays
  unsigned lanes_;        // sources of a tile: one, or with direct terminals one for each link
  std::unique_ptr<Routing> routing_;
  std::unique_ptr<Detours> detours_;  // of a mesh with defects
  unsigned classes_ = 1;              // of virtual channels: of the routing, or of legs
  Mask all_vcs_ = 0;
  std::array<Mask, kMaxClasses> class_vcs_{};  // the channels of each class
  std::vector<std::uint32_t> injected_;        // by source, for routings that draw; else empty
  std::uint64_t stall_below_ = 0;              // of 2^64

  std::vector<Router> routers_;
  std::vector<VirtualChannel> channels_;
  std::vector<std::uint16_t> grants_;  // VC allocation: round robin of every output channel
  std::vector<std::uint16_t> credits_;
  std::vector<Flit> buffers_;
  std::vector<Source> sources_;               // lane by lane, tile by tile
  std::array<Mask, kDirections> lane_vcs_{};  // of the tile's own channels
  std::vector<std::uint16_t> source_credits_;
  std::vector<Traffic> traffic_;
  std::vector<std::uint64_t> busy_routers_, busy_sources_;  // bit sets
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<FlitExternalRouter*> external_;  // by router; empty: none
  bool external_busy_ = false;

  std::vector<Message> messages_;  // by slot

  std::vector<Slot> slots_;
  std::uint64_t slot_mask_ = 0;
  std::uint64_t longest_ = 0;             // delay, in cycles
  std::vector<sc_core::sc_time> delays_;  // by cycles, up to the longest
  std::uint64_t pending_ = 0;             // entries in slots_
  std::uint64_t queued_ = 0;              // messages in source queues
  std::uint64_t now_ = 0;                 // the cycle, as a number
  std::uint64_t next_ = 0;                // the first one not yet simulated
  bool scheduled_ = false;
  std::uint64_t entered_ = 0, left_ = 0, hops_ = 0, cycles_ = 0, last_move_ = 0;
};

}  // namespace tilewright
