// Which way a packet leaves a router.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tilewright/hardware/protocol.h>
#include <tilewright/machine/topology.h>

namespace tilewright {

/// A set of directions: bit d stands for Direction d.
using Directions = unsigned;
constexpr Directions only(Direction d) { return 1u << static_cast<unsigned>(d); }

/// A routing algorithm on a mesh or torus, which never leads away from the destination.
///
/// Some need several classes of virtual channels to be free of deadlocks. Buffers of a message
/// network are unlimited, so there classes are of account in the check only; at flit fidelity each
/// class has its part of a port's channels.
class Routing {
 public:
  /// The link in a direction, in one class of virtual channels.
  struct Channel {
    Direction direction;
    unsigned channel_class;
  };

  virtual ~Routing() = default;

  /// The directions, at least one, in which `p` may leave `tile`: it has dx and dy hops to go, not
  /// both 0. Among several the network chooses, by what is least in use at that router.
  virtual Directions ways(const Packet& p, std::uint32_t tile) const = 0;

  virtual unsigned classes() const { return 1; }
  /// The class in which `p` leaves `tile` by `out`, one of its ways.
  virtual unsigned channel_class(const Packet& /*p*/, std::uint32_t /*tile*/,
                                 Direction /*out*/) const {
    return 0;
  }
  /// Whether any packet may come to `tile` on channel `in` and leave it on `out`; the check for
  /// deadlocks asks. Packets never turn back.
  virtual bool turns(Channel in, Channel out, std::uint32_t tile) const = 0;

  /// Whether the packets of one source and destination arrive in the order of their injection.
  virtual bool in_order() const { return true; }
  /// Whether draw() is to be called for each packet that is injected.
  virtual bool random() const { return false; }
  /// Draws what the packet's way depends on. `number` counts the packets that its source has
  /// injected before.
  virtual void draw(Packet&, std::uint64_t /*number*/) const {}
};

/// The names that make_routing() knows, the default first.
const std::vector<std::string>& routing_names();

/// By the name used in machine descriptions (docs/machine.md). `seed` is for those that draw.
/// Throws InputError naming those that are known, and fit for a torus if it is one. The topology
/// must outlive the routing.
std::unique_ptr<Routing> make_routing(const std::string& name, const Topology& topology,
                                      std::uint64_t seed = 1);

/// The channels that may come to wait for each other in a circle under `routing`, as link numbers:
/// each is held while its packet waits for the next one, the last for the first. Empty if there is
/// no circle: then no set of packets can block itself, however small the buffers are (Dally and
/// Seitz, IEEE Trans. Computers C-36, 1987).
std::vector<std::uint32_t> dependency_cycle(const Topology& topology, const Routing& routing);
/// Throws InputError naming `what` and the circle, if there is one.
void check_deadlock_free(const Topology& topology, const Routing& routing, const std::string& what);

}  // namespace tilewright
