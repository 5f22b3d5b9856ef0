// The state of all routers and links, in contiguous arrays, and the rule by which packets move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tilewright/hardware/detours.h>
#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/packet_pool.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/routing.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/machine/route_table.h>
#include <tilewright/machine/topology.h>

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

/// The zero-load properties of the way between two tiles: n bytes whose first one leaves at 0 have
/// all arrived after latency + n · (ps_per_byte + stored_ps_per_byte).
struct Path {
  int hops = 0;
  Picoseconds latency = 0;  ///< sum over the hops
  /// At which bytes leave the source: of the slowest link; store-and-forward: of the first.
  double ps_per_byte = 0;
  double stored_ps_per_byte = 0;  ///< store-and-forward: sum over the links behind the first
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
///  - Dead tiles and links of a mesh are gone round (Detours).
///  - On a fabric of switches packets follow a RouteTable; a switch is a router without a tile.
///  - A link is held for bytes/bandwidth of that link, not for as long as a slower one upstream
///    feeds it.
class Network : public EventHandler {
 public:
  Network(const MachineConfig& machine, EventQueue& queue);

  const Topology& topology() const { return topology_; }
  std::uint32_t tiles() const { return topology_.tiles(); }
  std::uint32_t nodes() const { return topology_.nodes(); }
  /// Whether the messages of one source and destination arrive in the order of their injection.
  bool in_order() const { return !routing_ || routing_->in_order(); }
  /// What a message between two working tiles takes when it is alone.
  Path path(std::uint32_t from, std::uint32_t to);

  Packet& packet(std::uint32_t slot) { return pool_[slot]; }
  Packet& allocate() { return pool_.allocate(); }
  void free(Packet& p) { pool_.free(p); }

  /// Sends `p` (bytes, destination, kind and the rest set; `lead` is how long ago its head could
  /// have left) from its source at the current time `now`.
  void inject(Packet& p, Picoseconds now, Picoseconds lead = 0);

  /// Arrivals: heads of packets at routers on their way.
  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

  /// Every link, in order of node and port (tiles of a mesh: east, west, south, north).
  std::vector<LinkPlace> places() const;
  /// `probe` hears of the claims of all links, after those that watch already.
  void watch(Probe& probe) { probes_.push_back(&probe); }

  /// Statistics of every link, in the order of places().
  IdVector<LinkId, LinkStatistics> statistics() const;
  std::uint64_t hops() const;

 private:
  friend class Router;

  /// Everything a hop needs to know about a link.
  struct Link {
    Picoseconds busy = 0;  ///< when the last reservation ends, whole picoseconds
    std::uint64_t bytes = 0;
    LinkInterface* out = nullptr;  ///< of the router's bound socket
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
    tlm::tlm_sync_enum nb_transport_fw(Packet& p, LinkPhase& phase,
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
  void forward(std::uint32_t node, Packet& p, Picoseconds now);
  void tell_claim(Picoseconds now, const Link& link, Picoseconds head, Picoseconds start,
                  const Packet& p);

  struct Turn {
    unsigned rank;
    Packet* packet;
  };

  struct Place {
    std::int16_t x, y;
  };

  Topology topology_;
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
  PacketPool pool_;
  std::vector<Probe*> probes_;
  std::vector<Turn> turns_;             // scratch
  std::vector<std::uint32_t> circuit_;  // scratch: links
  std::uint32_t sequence_ = 0;
};

}  // namespace tilewright
