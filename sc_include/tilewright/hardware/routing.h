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

/// A routing algorithm on a mesh. A deterministic one keeps the messages of one source and
/// destination in order, which receivers rely on.
class Routing {
 public:
  virtual ~Routing() = default;
  /// The directions, at least one, in which `p` may leave `tile`: it has dx and dy hops to go, not
  /// both 0.
  virtual Directions ways(const Packet& p, std::uint32_t tile) const = 0;
  /// Whether any packet may come to `tile` in direction `in` and leave it in direction `out`; the
  /// check for deadlocks asks. Packets never turn back.
  virtual bool turns(Direction in, Direction out, std::uint32_t tile) const = 0;
};

/// By the name used in machine descriptions: "xy". Throws InputError naming the known ones.
std::unique_ptr<Routing> make_routing(const std::string& name);

/// Links that may come to wait for each other in a circle under `routing`: each link of the result
/// is held while its packet waits for the next one, the last for the first. Empty if there is no
/// circle: then no set of packets can block itself, however small the buffers are (Dally and Seitz,
/// IEEE Trans. Computers C-36, 1987).
std::vector<std::uint32_t> dependency_cycle(const Topology& topology, const Routing& routing);
/// Throws InputError naming `what` and the circle, if there is one.
void check_deadlock_free(const Topology& topology, const Routing& routing, const std::string& what);

}  // namespace tilewright
