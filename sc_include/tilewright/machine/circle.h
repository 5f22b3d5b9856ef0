// Circles in a directed graph.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace tilewright {

constexpr std::uint32_t kNoSuccessor = 0xffffffffu;  ///< there are no more
constexpr std::uint32_t kSkip = 0xfffffffeu;         ///< none here, but perhaps at the next number

/// The nodes of a circle in order, empty if there is none. `successor(node, i)` for i = 0, 1, ...
/// are the nodes that `node` points to, or one of the values above. Depth first, in linear time.
template <class Successor>
std::vector<std::uint32_t> find_circle(std::uint32_t nodes, Successor successor) {
  enum : std::uint8_t { unseen, open, done };  // open: on the path
  std::vector<std::uint8_t> state(nodes, unseen);
  std::vector<std::pair<std::uint32_t, std::uint32_t>> path;  // node, number of its next successor
  for (std::uint32_t first = 0; first < nodes; ++first) {
    if (state[first] != unseen) continue;
    state[first] = open;
    path.emplace_back(first, 0);
    while (!path.empty()) {
      const std::uint32_t node = path.back().first;
      const std::uint32_t next = successor(node, path.back().second++);
      if (next == kSkip) continue;
      if (next == kNoSuccessor) {
        state[node] = done;
        path.pop_back();
      } else if (state[next] == unseen) {
        state[next] = open;
        path.emplace_back(next, 0);
      } else if (state[next] == open) {
        std::vector<std::uint32_t> circle;
        auto at = std::find_if(path.begin(), path.end(),
                               [next](const auto& entry) { return entry.first == next; });
        for (; at != path.end(); ++at) circle.push_back(at->first);
        return circle;
      }
    }
  }
  return {};
}

}  // namespace tilewright
