// The network of a machine as tiles, memory and observers see it, at any fidelity.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/fidelity.h>
#include <tilewright/hardware/packet_pool.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/machine/topology.h>

namespace tilewright {

/// The zero-load properties of the way between two tiles: n bytes whose first one leaves at 0 have
/// all arrived after latency + n · (ps_per_byte + stored_ps_per_byte).
struct Path {
  int hops = 0;
  Picoseconds latency = 0;  ///< sum over the hops
  /// At which bytes leave the source: of the slowest link; store-and-forward: of the first.
  double ps_per_byte = 0;
  double stored_ps_per_byte = 0;  ///< store-and-forward: sum over the links behind the first
};

/// Takes packets at their source and announces them at their destination by an event with their
/// slot: EventClass::delivery when all of it is there, EventClass::write_arrival for data that goes
/// to a memory. The state of all routers is the network's; the Router modules give it the sockets
/// it sends through, the same ones at any fidelity.
class Network {
 public:
  explicit Network(Topology topology)
      : topology_(std::move(topology)), joined_(topology_.links(), false) {}
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  const Topology& topology() const { return topology_; }
  std::uint32_t tiles() const { return topology_.tiles(); }
  std::uint32_t nodes() const { return topology_.nodes(); }

  Packet& packet(std::uint32_t slot) { return pool_[slot]; }
  Packet& allocate() { return pool_.allocate(); }
  void free(Packet& p) { pool_.free(p); }

  /// Whether the messages of one source and destination arrive in the order of their injection.
  virtual bool in_order() const = 0;
  /// What a message between two working tiles takes when it is alone.
  virtual Path path(std::uint32_t from, std::uint32_t to) = 0;
  /// The most bytes that go to or from a memory at once; larger loads and stores are cut.
  virtual std::uint64_t burst() const { return kWhole; }
  static constexpr std::uint64_t kWhole = std::numeric_limits<std::uint64_t>::max();

  /// Sends `p` (bytes, source, destination, kind and the rest set) at the current time `now`.
  /// `lead` is how long ago its head could have left; 0 for what is longer than a burst.
  virtual void inject(Packet& p, Picoseconds now, Picoseconds lead = 0) = 0;

  /// Why no packet of this network can go to several tiles; empty if it can.
  virtual std::string copies_nothing() const = 0;
  /// Sends one packet that its routers copy where ways part: it passes a link once for all whose
  /// ways go over it. `copies`: what arrives, alike but for their destinations, none of which is
  /// the source.
  virtual void inject(const std::vector<Packet*>& copies, Picoseconds now, Picoseconds lead) = 0;

  // For Router: what its sockets are bound to, and what they find at the other end of a link.
  virtual tlm::tlm_fw_transport_if<LinkTypes>& input(std::uint32_t node) = 0;
  virtual tlm::tlm_bw_transport_if<LinkTypes>& output(std::uint32_t node) = 0;
  virtual void wire_out(std::uint32_t node, unsigned port, LinkForward& neighbour) = 0;
  virtual void wire_in(std::uint32_t node, unsigned port, LinkBackward& neighbour) = 0;

  /// A Router has made this link of the topology.
  void join(std::uint32_t link) { joined_[link] = true; }
  bool joined(std::uint32_t link) const { return joined_[link]; }

  /// Every link that works, in order of node and port (tiles of a mesh: east, west, south, north).
  std::vector<LinkPlace> places() const;
  /// `probe` hears of the claims of all links, after those that watch already.
  void watch(Probe& probe) { probes_.push_back(&probe); }
  /// Statistics of every link, in the order of places().
  virtual IdVector<LinkId, LinkStatistics> statistics() const = 0;
  /// Links passed by messages so far, summed over all messages.
  virtual std::uint64_t hops() const = 0;

 protected:
  const Topology topology_;
  PacketPool pool_;
  std::vector<Probe*> probes_;
  std::uint32_t sequence_ = 0;  // of the next packet

 private:
  std::vector<bool> joined_;  // by link
};

/// `agent`: number for EventQueue::attach_agent(). Throws InputError when the machine's network
/// does not exist at that fidelity.
std::unique_ptr<Network> make_network(Fidelity fidelity, const MachineConfig& machine,
                                      EventQueue& queue, std::uint32_t agent);

}  // namespace tilewright
