// The network at message fidelity: the state of all links, in contiguous arrays, and the rule by
// which packets move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tilewright/hardware/detours.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/routing.h>
#include <tilewright/machine/route_table.h>

namespace tilewright {

/// Time per byte and head latency of one kind of link.
struct LinkTiming {
  double ps_per_byte = 0;
  Picoseconds latency = 0;
};
/// Throws InputError naming `what` when the bandwidth is zero.
LinkTiming link_timing(const LinkConfig& link, const std::string& what);

/// How packets move from link to link.
enum class Switching {
  cut_through,        ///< the head goes on as soon as it has arrived, the rest follows
  store_and_forward,  ///< a packet goes on when all of it has arrived
  circuit,            ///< all links of the way are taken at once and held until the tail is there
};

/// Virtual cut-through network with unlimited buffers. A packet's head takes each link when it has
/// arrived and the link is free, in order of arrival (where the routing leaves a choice, of the
/// link that is free first); it then holds the link for bytes/bandwidth and reaches the next router
/// after the link's latency. The tail follows no earlier than the head's link allows, so an idle
/// network delivers after Σ latency + bytes / (smallest bandwidth).
///
///  - Heads that reach one router at the same time are served round robin over its input ports.
///    Packets injected by the tile itself come after them (EventClass).
///  - Serialisation is kept to 2^-24 ps per link, so rounding to picoseconds does not accumulate.
///  - Injection and ejection ports are unlimited; the last hop therefore schedules the delivery at
///    the tail directly.
///  - `store_and_forward`: the head waits at each router until the tail has come, so an idle
///  network
///    delivers after Σ (latency + bytes / bandwidth).
///  - `circuit`: a packet takes its place in the queues of all its links when it is injected,
///  begins
///    when it holds them all (those it has got wait, idle), and holds them until its tail has
///    arrived, Σ latency + bytes / (smallest bandwidth) later. All requests are made in one
///    instant, so there is no deadlock. Held times are rounded to picoseconds.
///  - A packet to several tiles (NocConfig::multicast) is one as far as their ways are; a router
///    where they part sends a copy each way. A copy that waits for its link holds up no other.
///  - Dead tiles and links of a mesh are gone round (Detours).
///  - On a fabric of switches packets follow a RouteTable; a switch is a router without a tile.
///  - A link is held for bytes/bandwidth of that link, not for as long as a slower one upstream
///    feeds it.
class MessageNetwork final : public Network, public EventHandler {
 public:
  MessageNetwork(const MachineConfig& machine, EventQueue& queue);

  bool in_order() const override { return !routing_ || routing_->in_order(); }
  Path path(std::uint32_t from, std::uint32_t to) override;
  void inject(Packet& p, Picoseconds now, Picoseconds lead = 0) override;
  std::string copies_nothing() const override;
  void inject(const std::vector<Packet*>& copies, Picoseconds now, Picoseconds lead) override;

  tlm::tlm_fw_transport_if<LinkTypes>& input(std::uint32_t node) override { return inputs_[node]; }
  tlm::tlm_bw_transport_if<LinkTypes>& output(std::uint32_t node) override {
    return outputs_[node];
  }
  void wire_out(std::uint32_t node, unsigned port, LinkForward& neighbour) override {
    link(node, port).out = &neighbour;
  }
  void wire_in(std::uint32_t, unsigned, LinkBackward&) override {}  // nothing goes back

  /// Arrivals: heads of packets at routers on their way.
  void handle(Picoseconds now, EventClass, std::uint32_t tile, const Event* events,
              std::size_t count) override {
    arrive<false>(now, tile, events, count);
  }

  IdVector<LinkId, LinkStatistics> statistics() const override;
  std::uint64_t hops() const override;

 private:
  /// Everything a hop needs to know about a link.
  struct Link {
    Picoseconds busy = 0;  ///< when the last reservation ends, whole picoseconds
    std::uint64_t bytes = 0;
    LinkForward* out = nullptr;  ///< of the router's bound socket
    std::uint32_t messages = 0;
    std::uint32_t fraction : 24;  ///< rest of `busy`
    std::uint32_t kind : 8;       ///< LinkKind
    Link() : fraction(0), kind(0) {}
  };
  static_assert(sizeof(Link) == 32, "two links per cache line");

  /// What the target socket of a router is bound to: small, so that a hop touches one cache line
  /// of the neighbour.
  class alignas(64) Input : public NonblockingTarget<LinkTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_fw(LinkTransfer& t, LinkPhase& phase,
                                       sc_core::sc_time& delay) override;
    EventQueue* queue = nullptr;
    std::uint32_t node = 0;
  };
  static_assert(sizeof(Input) == 64, "one cache line");
  /// What the initiator socket of a router is bound to. A multi-bound target wants a different one
  /// from each neighbour.
  class Output : public NonblockingInitiator<LinkTypes> {};

  Link& link(std::uint32_t node, unsigned port) {
    return links_[topology_.first_link(node) + port];
  }
  void route_grid(const MachineConfig& machine);
  void route_fabric(const MachineConfig& machine);
  void aim(Packet& p, std::uint32_t tile, std::uint32_t end);
  void go_round(Packet& p, std::uint32_t tile);
  unsigned earliest(std::uint32_t tile, const Packet& p, Directions ways, Picoseconds head) const;
  void begin(Packet& p, Picoseconds now);
  void connect_circuit(Packet& p, Picoseconds now);
  std::uint32_t grid_link(std::uint32_t tile, Packet& p, Picoseconds head);
  std::uint32_t next_link(std::uint32_t node, Packet& p, Picoseconds head);
  template <bool copying>
  void arrive(Picoseconds now, std::uint32_t node, const Event* events, std::size_t count);
  template <bool copying>
  void pass(std::uint32_t node, Packet& p, Picoseconds now);
  void forward(std::uint32_t node, Packet& p, Picoseconds now);
  void claim(Link& link, Packet& p, Picoseconds now);
  void branch(std::uint32_t node, Packet& leader, Picoseconds now);
  void tell_claim(Picoseconds now, const Link& link, Picoseconds head, Picoseconds start,
                  const Packet& p);

  struct Turn {
    unsigned rank;
    Packet* packet;
  };

  /// Takes the arrivals where packets may be copied: without it nobody need look for such.
  class CopyingArrivals final : public EventHandler {
   public:
    explicit CopyingArrivals(MessageNetwork& network) : network_(network) {}
    void handle(Picoseconds now, EventClass, std::uint32_t node, const Event* events,
                std::size_t count) override {
      network_.arrive<true>(now, node, events, count);
    }

   private:
    MessageNetwork& network_;
  };
  static constexpr std::uint32_t kNil = 0xffffffffu;
  /// A copy at a router, and the link by which it leaves.
  struct Branch {
    std::uint32_t link;
    Packet* packet;
  };

  struct Place {
    std::int16_t x, y;
  };

  EventQueue& queue_;
  Switching switching_;
  bool direct_ = true;                   // packets that are injected only need to be forwarded
  std::vector<LinkTiming> timing_;       // by LinkKind
  std::unique_ptr<Routing> routing_;     // of a mesh or torus
  std::unique_ptr<RouteTable> table_;    // of a fabric
  std::unique_ptr<Detours> detours_;     // of a mesh with defects
  std::vector<std::uint32_t> injected_;  // by source, for routings that draw; else empty
  std::vector<Place> places_;            // of the tiles, to spare the divisions
  std::vector<Link> links_;
  std::vector<std::uint16_t> last_port_;  // round robin: the port served last
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<Turn> turns_;             // scratch
  std::vector<std::uint32_t> circuit_;  // scratch: links
  LinkTransfer transfer_;               // scratch
  std::string copies_nothing_;
  CopyingArrivals copying_arrivals_{*this};
  std::vector<std::uint32_t> companions_;  // by slot: the next that a copied packet stands for
  std::vector<Branch> branches_;           // scratch
};

}  // namespace tilewright
