// The check for deadlocks: circles in the graph of channel dependencies.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/error.h>
#include <tilewright/hardware/routing.h>

namespace tilewright {

std::vector<std::uint32_t> dependency_cycle(const Topology& topology, const Routing& routing) {
  // Depth first; a link is open while it is on the path, and a dependency on an open link closes a
  // circle.
  enum : std::uint8_t { unseen, open, done };
  std::vector<std::uint8_t> state(topology.links(), unseen);
  std::vector<std::pair<std::uint32_t, unsigned>> path;  // link, next direction to look at
  for (std::uint32_t first = 0; first < topology.links(); ++first) {
    if (!topology.link(first).works || state[first] != unseen) continue;
    path.emplace_back(first, 0);
    state[first] = open;
    while (!path.empty()) {
      const std::uint32_t link = path.back().first;
      const unsigned out = path.back().second++;
      if (out == kDirections) {
        state[link] = done;
        path.pop_back();
        continue;
      }
      const unsigned in = link % kDirections;
      const std::uint32_t tile = topology.link(link).to;
      const std::uint32_t next = tile * kDirections + out;
      if (out == (in ^ 1u) || !topology.link(next).works || state[next] == done) continue;
      if (!routing.turns(static_cast<Direction>(in), static_cast<Direction>(out), tile)) continue;
      if (state[next] == open) {
        std::vector<std::uint32_t> circle;
        auto at = std::find_if(path.begin(), path.end(),
                               [next](const auto& entry) { return entry.first == next; });
        for (; at != path.end(); ++at) circle.push_back(at->first);
        return circle;
      }
      state[next] = open;
      path.emplace_back(next, 0);
    }
  }
  return {};
}

void check_deadlock_free(const Topology& topology, const Routing& routing,
                         const std::string& what) {
  const std::vector<std::uint32_t> circle = dependency_cycle(topology, routing);
  if (circle.empty()) return;
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(circle.size(), kShown); ++i) {
    text += topology.name(circle[i] / kDirections) + " -> ";
  }
  if (circle.size() > kShown) text += "... -> ";
  throw InputError(what + " can deadlock: packets may wait for each other along " + text +
                   topology.name(circle.front() / kDirections));
}

}  // namespace tilewright
