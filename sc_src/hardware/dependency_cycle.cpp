// The check for deadlocks: circles in the graph of channel dependencies.
#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/error.h>
#include <tilewright/hardware/routing.h>
#include <tilewright/machine/circle.h>

namespace tilewright {

std::vector<std::uint32_t> dependency_cycle(const Topology& topology, const Routing& routing) {
  // Channels are numbered link · classes + class, so those of a tile are consecutive.
  const unsigned classes = routing.classes();
  std::vector<std::uint32_t> circle =
      find_circle(topology.links() * classes, [&](std::uint32_t channel, std::uint32_t i) {
        const std::uint32_t link = channel / classes, tile = topology.link(link).to;
        if (!topology.link(link).works || i == kDirections * classes) return kNoSuccessor;
        const unsigned in = link % kDirections, out = i / classes;
        if (out == (in ^ 1u) || !topology.link(tile, out).works) return kSkip;
        const bool turns = routing.turns({static_cast<Direction>(in), channel % classes},
                                         {static_cast<Direction>(out), i % classes}, tile);
        return turns ? tile * kDirections * classes + i : kSkip;
      });
  for (std::uint32_t& channel : circle) channel /= classes;
  return circle;
}

void check_deadlock_free(const Topology& topology, const Routing& routing,
                         const std::string& what) {
  const std::vector<std::uint32_t> circle = dependency_cycle(topology, routing);
  if (circle.empty()) return;
  throw InputError(what + " can deadlock: packets may wait for each other along " +
                   topology.circle_text(circle));
}

}  // namespace tilewright
