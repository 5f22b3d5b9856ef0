// Which tile runs which rank.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/placement.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

MachineConfig mesh(int dies_x, int dies_y, int tiles_x, int tiles_y) {
  MachineConfig m;
  m.name = "mesh";
  m.dies_x = dies_x;
  m.dies_y = dies_y;
  m.tiles_x = tiles_x;
  m.tiles_y = tiles_y;
  return m;
}

MachineConfig platform(const std::string& name) {
  return read_machine(Document::load(
      std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/" + name + ".yaml", "platform"));
}

PlanConfig plan(int pipeline, int tensor, int data = 1, PlacementKind kind = PlacementKind::block) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = pipeline;
  p.tensor = tensor;
  p.data = data;
  p.placement = kind;
  return p;
}

void expect_valid(const Placement& placed, const PlanConfig& p, const MachineConfig& m) {
  EXPECT_EQ(placed.tiles.size(), static_cast<std::size_t>(p.ranks()));
  const std::set<TileId> distinct(placed.tiles.begin(), placed.tiles.end());
  EXPECT_EQ(distinct.size(), placed.tiles.size());
  const auto usable = m.usable_map();
  for (const TileId t : placed.tiles) {
    ASSERT_LT(index(t), static_cast<std::uint32_t>(m.tiles()));
    EXPECT_TRUE(usable[index(t)]);
  }
}

TEST(RingOrder, VisitsEveryCellByNeighbours) {
  for (int w = 1; w <= 9; ++w) {
    for (int h = 1; h <= 9; ++h) {
      const auto ring = ring_order(w, h);
      const std::set<std::pair<int, int>> cells(ring.begin(), ring.end());
      ASSERT_EQ(ring.size(), static_cast<std::size_t>(w * h));
      EXPECT_EQ(cells.size(), ring.size());
      for (const auto& [x, y] : ring) EXPECT_TRUE(x >= 0 && x < w && y >= 0 && y < h);
      const auto distance = [&](std::size_t a, std::size_t b) {
        return std::abs(ring[a].first - ring[b].first) + std::abs(ring[a].second - ring[b].second);
      };
      for (std::size_t i = 1; i < ring.size(); ++i)
        EXPECT_EQ(distance(i - 1, i), 1) << w << "x" << h;
      const bool even = w >= 2 && h >= 2 && w * h % 2 == 0;
      if (even) {
        EXPECT_EQ(distance(0, ring.size() - 1), 1) << w << "x" << h;
      }
    }
  }
}

TEST(RingOrder, ShapesWithoutACycleAreSnakes) {
  // 3 × 5 and 5 × 5 have an odd number of cells, 1 × N is a line: no cycle exists.
  EXPECT_EQ(ring_order(5, 5).back(), std::pair(4, 4));
  EXPECT_EQ(ring_order(3, 5).back(), std::pair(2, 4));
  EXPECT_EQ(ring_order(6, 1).back(), std::pair(5, 0));
  EXPECT_EQ(ring_order(1, 6).back(), std::pair(0, 5));
}

TEST(Placement, OneDiePerStageOnTheWafer) {
  const MachineConfig m = platform("tx8-wafer");
  const PlanConfig p = plan(20, 16);
  const Placement placed = place(p, m);
  expect_valid(placed, p, m);
  EXPECT_EQ(placed.block_width, 4);
  EXPECT_EQ(placed.block_height, 4);
  for (int s = 0; s < 20; ++s) {
    const auto group = placed.tile_group(s, 0);
    const int die = m.die(group[0]);
    for (std::size_t i = 0; i < group.size(); ++i) {
      EXPECT_EQ(m.die(group[i]), die);
      EXPECT_EQ(m.hops(group[i], group[(i + 1) % group.size()]), 1);  // a ring, its end included
    }
    if (s == 0) continue;
    // The same corner of the neighbouring die: four hops for every rank.
    for (int r = 0; r < 16; ++r)
      EXPECT_EQ(m.hops(placed.tile(s - 1, 0, r), placed.tile(s, 0, r)), 4);
  }
}

TEST(Placement, ReplicasOfAStageAreNeighbours) {
  const MachineConfig m = platform("tx8-wafer");
  const PlanConfig p = plan(8, 16, 2);
  const Placement placed = place(p, m);
  expect_valid(placed, p, m);
  for (int s = 0; s < 8; ++s) {
    for (int r = 0; r < 16; ++r) {
      std::vector<TileId> group;
      for (int d = 0; d < placed.replicas; ++d) group.push_back(placed.tile(s, d, r));
      ASSERT_EQ(group.size(), 2u);
      EXPECT_EQ(m.hops(group[0], group[1]), 4);
    }
  }
}

TEST(Placement, SmallGroupsShareADieAndLargeOnesTakeWholeDies) {
  const MachineConfig m = platform("tx8-wafer");
  const auto shape = [&](int pipeline, int tensor) {
    const PlanConfig p = plan(pipeline, tensor);
    const Placement placed = place(p, m);
    expect_valid(placed, p, m);
    return std::pair(placed.block_width, placed.block_height);
  };
  EXPECT_EQ(shape(40, 8), std::pair(4, 2));
  EXPECT_EQ(shape(80, 4), std::pair(2, 2));
  EXPECT_EQ(shape(160, 2), std::pair(2, 1));
  EXPECT_EQ(shape(320, 1), std::pair(1, 1));
  EXPECT_EQ(shape(8, 32), std::pair(8, 4));
  // 8 × 4 leaves a column of dies over; ten groups fit only upright.
  EXPECT_EQ(shape(10, 32), std::pair(4, 8));
  EXPECT_EQ(shape(4, 64), std::pair(8, 8));
  EXPECT_EQ(shape(1, 320), std::pair(20, 16));
  EXPECT_EQ(shape(20, 12), std::pair(4, 3));  // does not divide the die but stays inside it
  EXPECT_EQ(shape(40, 6), std::pair(3, 2));
}

TEST(Placement, GroupsThatStayInsideDiesCrossNoBoundary) {
  const MachineConfig m = platform("tx8-wafer");
  const Placement placed = place(plan(40, 6), m);
  for (int s = 0; s < 40; ++s) {
    const auto group = placed.tile_group(s, 0);
    for (const TileId t : group) EXPECT_EQ(m.die(t), m.die(group[0]));
  }
  // More groups than fit that way go over the boundaries rather than fail.
  EXPECT_EQ(place(plan(48, 6), m).tiles.size(), 288u);
}

TEST(Placement, OddGroups) {
  const MachineConfig m = mesh(1, 1, 5, 5);
  for (const int t : {3, 5, 15, 25}) {
    const PlanConfig p = plan(t == 3 ? 5 : 25 / t, t);  // five rows of one 3 × 1 each
    const Placement placed = place(p, m);
    expect_valid(placed, p, m);
    const auto group = placed.tile_group(0, 0);
    for (std::size_t i = 1; i < group.size(); ++i) EXPECT_EQ(m.hops(group[i - 1], group[i]), 1);
  }
  // 24 of 25 tiles: 6 × 4 does not fit, and no other rectangle does.
  PlanConfig p = plan(1, 24);
  EXPECT_THROW(place(p, m), InputError);
  p.placement = PlacementKind::serpentine;
  expect_valid(place(p, m), p, m);
}

TEST(Placement, SpareTilesAreAvoided) {
  const MachineConfig m = platform("dojo-tile");
  for (const auto& [pipeline, tensor] :
       {std::pair(25, 16), {25, 36}, {1, 24}, {50, 177}, {8, 354}, {100, 60}, {25, 300}}) {
    const PlanConfig p = plan(pipeline, tensor);
    try {
      expect_valid(place(p, m), p, m);
    } catch (const InputError& e) {
      EXPECT_THAT(e.what(), HasSubstr("serpentine"));
    }
  }
  // Every usable tile, in serpentine.
  const PlanConfig all = plan(25, 354, 1, PlacementKind::serpentine);
  expect_valid(place(all, m), all, m);
}

TEST(Placement, ARectangleWithASpareTileIsSkipped) {
  MachineConfig m = mesh(1, 1, 4, 4);
  m.spare = {{0, 0}};
  const Placement placed = place(plan(3, 4), m);
  EXPECT_EQ(placed.tile(0, 0, 0), m.tile(2, 0));
  EXPECT_EQ(placed.tile(1, 0, 0), m.tile(2, 2));  // the snake turns
  EXPECT_EQ(placed.tile(2, 0, 0), m.tile(0, 2));
  // Four groups of 2 × 2 do not fit any more, and no other rectangle of four does either.
  try {
    place(plan(4, 4), m);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("16 ranks, but machine 'mesh' has 15 usable"));
  }
}

TEST(Placement, SerpentineIsASnake) {
  const MachineConfig m = mesh(2, 2, 3, 2);
  const Placement placed = place(plan(6, 4, 1, PlacementKind::serpentine), m);
  EXPECT_EQ(placed.block_width, 0);
  for (std::size_t i = 1; i < placed.tiles.size(); ++i) {
    EXPECT_EQ(m.hops(placed.tiles[i - 1], placed.tiles[i]), 1);
  }
}

std::string error_of(const PlanConfig& p, const MachineConfig& m) {
  try {
    place(p, m);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Placement, WhatDoesNotFitIsRefusedWithBothNumbers) {
  const MachineConfig m = platform("tx8-wafer");
  PlanConfig p = plan(21, 16);
  p.where_placement = "plans/a.yaml:7: placement";
  EXPECT_THAT(error_of(p, m), AllOf(HasSubstr("plans/a.yaml:7: placement"), HasSubstr("336 ranks"),
                                    HasSubstr("320 usable tiles")));
  // 30 squares of 3 × 3 fit on 20 × 16, and 32 lines of 9 × 1.
  EXPECT_EQ(place(plan(30, 9), m).block_width, 3);
  EXPECT_EQ(place(plan(32, 9), m).block_width, 9);
  p = plan(33, 9);
  EXPECT_THAT(error_of(p, m),
              AllOf(HasSubstr("33 rectangles of 9 tiles"), HasSubstr("at most 32 of 9 × 1 fit"),
                    HasSubstr("'placement: serpentine' would")));
  p = plan(2, 17 * 2);  // 17 × 2 fits, 34 × 1 does not
  EXPECT_EQ(error_of(p, m), "");
  p = plan(1, 31);
  EXPECT_THAT(error_of(p, m), HasSubstr("no rectangle of 31 tiles"));
  p = plan(40, 8);
  p.block_width = 8;
  p.block_height = 1;
  EXPECT_THAT(error_of(p, m), HasSubstr("at most 32 of 8 × 1 fit"));
}

TEST(Placement, TheUsersRectangleIsUsed) {
  const MachineConfig m = platform("tx8-wafer");
  PlanConfig p = plan(20, 16);
  p.block_width = 20;
  p.block_height = 1;
  p.tensor = 20;
  p.pipeline = 16;
  const Placement placed = place(p, m);
  EXPECT_EQ(placed.block_width, 20);
  EXPECT_EQ(placed.tile(3, 0, 0), m.tile(0, 3));
}

TEST(Placement, EveryRankHasItsOwnTileWhateverTheShape) {
  std::mt19937 random(3);
  int placed_block = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto pick = [&](int most) {
      return 1 + static_cast<int>(random() % static_cast<unsigned>(most));
    };
    MachineConfig m = mesh(pick(4), pick(4), pick(6), pick(6));
    std::set<std::pair<int, int>> spare;
    for (int i = static_cast<int>(random() % 4); i > 0 && m.tiles() > 4; --i) {
      spare.insert(
          {static_cast<int>(random()) % m.width(), static_cast<int>(random()) % m.height()});
    }
    for (const auto& [x, y] : spare) {
      if (x >= 0 && y >= 0) m.spare.emplace_back(x, y);
    }
    PlanConfig p = plan(pick(12), pick(20), pick(3));
    const bool fits = p.ranks() <= m.usable_tiles();
    p.placement = PlacementKind::serpentine;
    if (fits) {
      expect_valid(place(p, m), p, m);
    } else {
      EXPECT_THROW(place(p, m), InputError);
    }
    p.placement = PlacementKind::block;
    try {
      const Placement placed = place(p, m);
      ++placed_block;
      expect_valid(placed, p, m);
      EXPECT_EQ(placed.block_width * placed.block_height, p.tensor);
      for (int s = 0; s < p.pipeline; ++s) {
        for (int r = 0; r < p.data; ++r) {
          const auto group = placed.tile_group(s, r);
          for (std::size_t i = 1; i < group.size(); ++i) {
            EXPECT_EQ(m.hops(group[i - 1], group[i]), 1);
          }
        }
      }
    } catch (const InputError&) {
    }
  }
  EXPECT_GT(placed_block, 500);
}

TEST(Placement, DeadTilesAreGoneRound) {
  MachineConfig m = mesh(2, 1, 4, 4);
  m.defects.dead_tiles = {{1, 0}};
  // Of the eight rectangles of 2 × 2 the first is left out.
  const PlanConfig blocks = plan(7, 4);
  const Placement placed = place(blocks, m);
  expect_valid(placed, blocks, m);
  EXPECT_EQ(placed.tiles.front(), m.tile(2, 0));
  EXPECT_THROW(place(plan(8, 4), m), InputError);
  // The snake skips the tile alone.
  const PlanConfig snake = plan(31, 1, 1, PlacementKind::serpentine);
  const Placement all = place(snake, m);
  expect_valid(all, snake, m);
  EXPECT_EQ(all.tiles[0], m.tile(0, 0));
  EXPECT_EQ(all.tiles[1], m.tile(2, 0));
  EXPECT_EQ(all.tiles[6], m.tile(7, 0));
  EXPECT_THROW(place(plan(32, 1, 1, PlacementKind::serpentine), m), InputError);
}

}  // namespace
}  // namespace tilewright
