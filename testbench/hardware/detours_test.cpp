// Ways round dead tiles and links: valid, shortest, free of deadlock, mirrored with the machine.
#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/hardware/detours.h>
#include <tilewright/hardware/routing.h>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

MachineConfig mesh(int width, int height) {
  MachineConfig m;
  m.tiles_x = width;
  m.tiles_y = height;
  return m;
}

/// A link of the mesh in its class of virtual channels, which is the number of the leg.
using Channel = std::pair<std::uint32_t, unsigned>;

/// The channels of the way from one tile to another.
std::vector<Channel> walk(const Topology& topology, const Routing& routing, Detours& detours,
                          std::uint32_t from, std::uint32_t to) {
  std::vector<Channel> way;
  Packet p;
  unsigned leg = 0;
  for (std::uint32_t tile = from; tile != to;) {
    const std::uint32_t end = detours.leg_end(from, to, leg);
    while (tile != end) {
      p.dx = static_cast<std::int16_t>(topology.x(end) - topology.x(tile));
      p.dy = static_cast<std::int16_t>(topology.y(end) - topology.y(tile));
      const auto d = static_cast<unsigned>(__builtin_ctz(routing.ways(p, tile)));
      way.emplace_back(tile * kDirections + d, leg);
      tile = topology.link(tile, d).to;
    }
    ++leg;
  }
  return way;
}

std::vector<int> distances(const Topology& topology, std::uint32_t from) {
  std::vector<int> far(topology.tiles(), -1);
  std::queue<std::uint32_t> open({from});
  far[from] = 0;
  for (; !open.empty(); open.pop()) {
    for (unsigned d = 0; d < kDirections; ++d) {
      const Topology::Link& link = topology.link(open.front(), d);
      if (!link.works || far[link.to] >= 0) continue;
      far[link.to] = far[open.front()] + 1;
      open.push(link.to);
    }
  }
  return far;
}

bool has_cycle(const std::map<Channel, std::set<Channel>>& graph) {
  std::map<Channel, int> waiting;  // dependencies on it
  for (const auto& [from, all] : graph) {
    waiting[from];
    for (const Channel& to : all) ++waiting[to];
  }
  std::vector<Channel> free;
  for (const auto& [channel, n] : waiting) {
    if (n == 0) free.push_back(channel);
  }
  std::size_t removed = 0;
  while (!free.empty()) {
    const Channel c = free.back();
    free.pop_back();
    ++removed;
    const auto found = graph.find(c);
    if (found == graph.end()) continue;
    for (const Channel& to : found->second) {
      if (--waiting[to] == 0) free.push_back(to);
    }
  }
  return removed != waiting.size();
}

/// `defects` dead tiles and links, some of them in one direction only; nothing when that cuts the
/// mesh apart.
std::optional<MachineConfig> broken(int width, int height, int defects, unsigned seed) {
  MachineConfig m = mesh(width, height);
  std::mt19937 random(seed);
  std::set<std::pair<int, int>> tiles;
  for (int i = 0; i < defects; ++i) {
    const int x = static_cast<int>(random() % static_cast<unsigned>(width));
    const int y = static_cast<int>(random() % static_cast<unsigned>(height));
    const bool dead = random() % 2 == 0, both = random() % 2 == 0, down = random() % 2 == 0;
    if (dead) {
      tiles.insert({x, y});
    } else if ((down ? y + 1 < height : x + 1 < width)) {
      const TileId a = m.tile(x, y), b = down ? m.tile(x, y + 1) : m.tile(x + 1, y);
      m.defects.dead_links.emplace_back(a, b);
      if (both) m.defects.dead_links.emplace_back(b, a);
    }
  }
  m.defects.dead_tiles.assign(tiles.begin(), tiles.end());
  if (m.usable_tiles() < 2 || Topology(m).unreachable().first != Topology::kNone) return {};
  return m;
}

TEST(Detours, EveryPairIsJoinedByAShortestWayWithoutDeadlock) {
  int machines = 0;
  for (unsigned seed = 0; seed < 60; ++seed) {
    const int width = 2 + static_cast<int>(seed % 6), height = 2 + static_cast<int>(seed / 6 % 5);
    const auto m = broken(width, height, 1 + static_cast<int>(seed % 7), seed);
    if (!m) continue;
    ++machines;
    const Topology topology(*m);
    const auto routing = make_routing("xy", topology);
    Detours detours(topology, false);
    std::map<Channel, std::set<Channel>> waits;
    for (std::uint32_t a = 0; a < topology.tiles(); ++a) {
      if (topology.dead(a)) continue;
      const std::vector<int> far = distances(topology, a);
      for (std::uint32_t b = 0; b < topology.tiles(); ++b) {
        if (topology.dead(b)) continue;
        const std::vector<Channel> way = walk(topology, *routing, detours, a, b);
        ASSERT_EQ(way.size(), static_cast<std::size_t>(far[b])) << seed << ": " << a << " to " << b;
        for (std::size_t i = 0; i < way.size(); ++i) {
          ASSERT_TRUE(topology.link(way[i].first).works) << seed << ": " << a << " to " << b;
          if (i > 0) waits[way[i - 1]].insert(way[i]);
        }
      }
    }
    EXPECT_FALSE(has_cycle(waits)) << seed;
  }
  EXPECT_GT(machines, 30);
}

// The same routes in one class of channels do wait in a circle: the check above can fail.
TEST(Detours, OneClassWouldNotDo) {
  MachineConfig m = mesh(3, 3);
  m.defects.dead_tiles = {{1, 1}};
  const Topology topology(m);
  Detours detours(topology, false);
  const auto routing = make_routing("xy", topology);
  std::map<Channel, std::set<Channel>> waits;
  for (std::uint32_t a = 0; a < 9; ++a) {
    for (std::uint32_t b = 0; b < 9; ++b) {
      if (topology.dead(a) || topology.dead(b)) continue;
      const auto way = walk(topology, *routing, detours, a, b);
      for (std::size_t i = 1; i < way.size(); ++i) {
        waits[{way[i - 1].first, 0}].insert({way[i].first, 0});
      }
    }
  }
  EXPECT_TRUE(has_cycle(waits));
}

TEST(Detours, WaysThatWorkStayAsTheyAre) {
  MachineConfig m = mesh(5, 4);
  m.defects.dead_tiles = {{2, 1}};
  const Topology topology(m);
  Detours detours(topology, false);
  const auto at = [&](int x, int y) { return index(m.tile(x, y)); };
  EXPECT_EQ(detours.leg_end(at(0, 0), at(4, 3), 0), at(4, 3));
  EXPECT_EQ(detours.leg_end(at(2, 0), at(2, 0), 0), at(2, 0));
  // Along row 1 the way is by row 2, nearer to the middle than row 0: up to the defect in x, down,
  // and a leg of its own back to row 1.
  EXPECT_EQ(detours.leg_end(at(0, 1), at(4, 1), 0), at(1, 2));
  EXPECT_EQ(detours.leg_end(at(0, 1), at(4, 1), 1), at(4, 1));
}

TEST(Detours, MirroredMachinesHaveMirroredWays) {
  int compared = 0;
  for (unsigned seed = 100; seed < 130; ++seed) {
    // Even sides: no tile lies on an axis.
    const int width = 6, height = 4;
    const auto m = broken(width, height, 3, seed);
    if (!m) continue;
    for (const bool flip_y : {false, true}) {
      const auto mirror = [&](std::uint32_t t) {
        const int x = m->x(static_cast<TileId>(t)), y = m->y(static_cast<TileId>(t));
        return index(flip_y ? m->tile(x, height - 1 - y) : m->tile(width - 1 - x, y));
      };
      MachineConfig other = mesh(width, height);
      for (const auto& [x, y] : m->defects.dead_tiles) {
        const TileId t = static_cast<TileId>(mirror(index(m->tile(x, y))));
        other.defects.dead_tiles.emplace_back(m->x(t), m->y(t));
      }
      for (const auto& [a, b] : m->defects.dead_links) {
        other.defects.dead_links.emplace_back(static_cast<TileId>(mirror(index(a))),
                                              static_cast<TileId>(mirror(index(b))));
      }
      const Topology here(*m), there(other);
      Detours ways(here, false), mirrored(there, false);
      for (std::uint32_t a = 0; a < here.tiles(); ++a) {
        for (std::uint32_t b = 0; b < here.tiles(); ++b) {
          if (here.dead(a) || here.dead(b)) continue;
          for (unsigned leg = 0; leg < 4; ++leg) {
            ASSERT_EQ(mirror(ways.leg_end(a, b, leg)), mirrored.leg_end(mirror(a), mirror(b), leg))
                << seed << ": " << a << " to " << b;
          }
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 5000);
}

/// All turns but the way back.
class AnyTurn final : public Routing {
 public:
  Directions ways(const Packet&, std::uint32_t) const override { return 1; }
  bool turns(Channel, Channel, std::uint32_t) const override { return true; }
};

TEST(DeadlockCheck, FindsTheCircle) {
  const MachineConfig m = mesh(2, 2);
  const Topology topology(m);
  EXPECT_THAT(dependency_cycle(topology, *make_routing("xy", topology)), IsEmpty());
  EXPECT_EQ(dependency_cycle(topology, AnyTurn()).size(), 4u);
  try {
    check_deadlock_free(topology, AnyTurn(), "noc.routing: 'any'");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(),
                 "noc.routing: 'any' can deadlock: packets may wait for each other along (0,0) -> "
                 "(1,0) -> (1,1) -> (0,1) -> (0,0)");
  }
  // A row has no circle, whatever the turns; nor has a square without one of its links.
  EXPECT_THAT(dependency_cycle(Topology(mesh(5, 1)), AnyTurn()), IsEmpty());
  MachineConfig open = mesh(2, 2);
  open.defects.dead_links = {{open.tile(0, 0), open.tile(1, 0)},
                             {open.tile(1, 0), open.tile(0, 0)}};
  EXPECT_THAT(dependency_cycle(Topology(open), AnyTurn()), IsEmpty());
}

}  // namespace
}  // namespace tilewright
