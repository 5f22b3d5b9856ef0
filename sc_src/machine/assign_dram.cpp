// Which controllers of a memory serve a tile.
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <tilewright/machine/topology.h>

namespace tilewright {
namespace {

using Assignment = IdVector<TileId, std::vector<DramId>>;

/// For every tile all controllers at the smallest distance, ascending. A controller is nearest to a
/// tile exactly when it is nearest to some neighbour one hop closer to it, so one breadth-first
/// wave from all sites, against the links, finds the sets in time proportional to the tiles,
/// however many sites there are. Dead tiles have none.
Assignment nearest_sets(const MachineConfig& machine, const DramConfig& memory) {
  const Topology topology(machine);
  std::vector<std::vector<DramId>> sets(topology.nodes());
  std::vector<int> distance(topology.nodes(), -1);
  std::vector<std::uint32_t> wave;
  for (std::uint32_t d = 0; d < memory.sites.size(); ++d) {
    for (const auto& [x, y] : memory.ports(static_cast<DramId>(d))) {
      const std::uint32_t tile = index(machine.tile(x, y));
      if (distance[tile] < 0) wave.push_back(tile);
      distance[tile] = 0;
      sets[tile].push_back(static_cast<DramId>(d));
    }
  }
  for (int far = 1; !wave.empty(); ++far) {
    std::vector<std::uint32_t> next;
    for (const std::uint32_t from : wave) {
      for (unsigned port = 0; port < topology.ports(from); ++port) {
        const std::uint32_t to = topology.link(from, port).to;
        if (to == Topology::kNone || !topology.link_back(from, port).works) continue;
        int& hops = distance[to];
        if (hops < 0) {
          hops = far;
          next.push_back(to);
        }
        if (hops == far) sets[to].insert(sets[to].end(), sets[from].begin(), sets[from].end());
      }
    }
    for (const std::uint32_t node : next) {
      auto& set = sets[node];
      std::sort(set.begin(), set.end());
      set.erase(std::unique(set.begin(), set.end()), set.end());
    }
    wave.swap(next);
  }
  Assignment result(topology.tiles());
  for (std::uint32_t t = 0; t < topology.tiles(); ++t) {
    result[static_cast<TileId>(t)] = std::move(sets[t]);
  }
  return result;
}

/// One controller per tile out of its nearest ones, so that the numbers of clients are even: tiles
/// without a choice first, the others to the least loaded, then single moves while they help.
Assignment assign_nearest(const MachineConfig& machine, const DramConfig& memory) {
  const Assignment sets = nearest_sets(machine, memory);
  const std::vector<bool> usable = machine.usable_map();
  Assignment result(sets.size());
  std::vector<std::uint32_t> clients(memory.sites.size(), 0);
  std::vector<TileId> undecided;
  for (std::uint32_t i = 0; i < sets.size(); ++i) {
    const TileId t = static_cast<TileId>(i);
    if (sets[t].empty()) continue;
    if (!usable[i] || sets[t].size() == 1) {
      result[t] = {sets[t].front()};
      if (usable[i]) ++clients[index(sets[t].front())];
    } else {
      undecided.push_back(t);
    }
  }
  const auto least_loaded = [&](TileId t) {
    return *std::min_element(sets[t].begin(), sets[t].end(), [&](DramId a, DramId b) {
      return clients[index(a)] < clients[index(b)];
    });
  };
  for (const TileId t : undecided) {
    const DramId d = least_loaded(t);
    result[t] = {d};
    ++clients[index(d)];
  }
  for (bool moved = true; moved;) {  // each move lowers the sum of squares, so this ends
    moved = false;
    for (const TileId t : undecided) {
      DramId& now = result[t].front();
      const DramId better = least_loaded(t);
      if (clients[index(better)] + 1 >= clients[index(now)]) continue;
      --clients[index(now)];
      ++clients[index(better)];
      now = better;
      moved = true;
    }
  }
  return result;
}

Assignment assign_interleaved(const MachineConfig& machine, const DramConfig& memory) {
  std::vector<std::vector<DramId>> by_die(
      static_cast<std::size_t>(machine.dies_x * machine.dies_y));
  std::vector<DramId> all;
  for (std::uint32_t d = 0; d < memory.sites.size(); ++d) {
    const auto id = static_cast<DramId>(d);
    for (const auto& [x, y] : memory.ports(id)) {
      auto& own = by_die[static_cast<std::size_t>(machine.die(machine.tile(x, y)))];
      if (own.empty() || own.back() != id) own.push_back(id);
    }
    all.push_back(id);
  }
  const std::vector<bool> dead = machine.dead_map();
  Assignment result(static_cast<std::size_t>(machine.tiles()));
  for (std::uint32_t i = 0; i < result.size(); ++i) {
    if (dead[i]) continue;
    const TileId t = static_cast<TileId>(i);
    const auto& own = by_die[static_cast<std::size_t>(machine.die(t))];
    result[t] = own.empty() ? all : own;
  }
  return result;
}

}  // namespace

Assignment assign_controllers(const MachineConfig& machine, const DramConfig& memory) {
  if (memory.sites.empty()) return Assignment(static_cast<std::size_t>(machine.tiles()));
  return memory.policy == DramPolicy::nearest ? assign_nearest(machine, memory)
                                              : assign_interleaved(machine, memory);
}

}  // namespace tilewright
