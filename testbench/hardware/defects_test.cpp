// Machines with defects, run: hand-computed times.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

TEST(DefectiveMesh, AMessageGoesRoundADeadTile) {
  MachineConfig m = mesh(3, 2);
  m.defects.dead_tiles = {{1, 0}};
  Script s = one_message(tile(0), tile(2), 1000, 1000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 4u * 2000 + 1000);
  EXPECT_EQ(r.links.size(), 14u - 6u);  // the dead tile's are gone
  for (const LinkStatistics& l : r.links) {
    const auto from = index(l.from), to = index(l.to);
    const bool used = (from == 0 && to == 3) || (from == 3 && to == 4) || (from == 4 && to == 5) ||
                      (from == 5 && to == 2);
    EXPECT_EQ(l.bytes, used ? 1000u : 0u) << from << " to " << to;
  }
}

TEST(DefectiveMesh, ADeadLinkIsGoneInItsDirectionOnly) {
  MachineConfig m = mesh(2, 2);
  m.defects.dead_links = {{tile(0), tile(1)}};
  const auto end = [&m](std::uint32_t from, std::uint32_t to) {
    return in_child([&] {
      Script s = one_message(tile(from), tile(to), 1000, 1000);
      return std::to_string(s.run(m).end);
    });
  };
  EXPECT_EQ(end(0, 1), "7000");  // three hops
  EXPECT_EQ(end(1, 0), "3000");
}

// Controller at tile 0, 2 ps per byte after 100 ns; tile 1 reaches it in one hop and is reached in
// three.
TEST(DefectiveMesh, DramIsReachedAndAnswersByTheWaysThatWork) {
  MachineConfig m = mesh(2, 2);
  m.dram.sites = {{0, 0}};
  m.defects.dead_links = {{tile(0), tile(1)}};
  const auto end = [&m](bool store) {
    return in_child([&] {
      Script s;
      const auto move = s.segment("move", [&](Code& c) { store ? c.store(1000) : c.load(1000); });
      s.group("G", {tile(1)}, move);
      return std::to_string(s.run(m).end);
    });
  };
  EXPECT_EQ(end(false), std::to_string(2000 + 100000 + 2000 + 3 * 2000));
  EXPECT_EQ(end(true), std::to_string(2000 + 100000 + 2000 + 3 * 2000));
}

TEST(DefectiveMesh, AWholeRowMayBeDead) {
  MachineConfig m = mesh(2, 2);
  m.defects.dead_tiles = {{0, 1}, {1, 1}};
  Script s = one_message(tile(0), tile(1), 1000, 1000);
  EXPECT_EQ(s.run(m).end, 2000u + 1000);
}

TEST(DefectiveMesh, DeadTilesRunNothing) {
  MachineConfig m = mesh(3, 2);
  m.defects.dead_tiles = {{1, 0}};
  EXPECT_THAT(in_child([&] {
                Script s = one_message(tile(0), tile(1), 1, 1);
                s.run(m);
                return std::string();
              }),
              HasSubstr("peer tile (1,0) is a dead tile"));
  EXPECT_THAT(in_child([&] {
                Script s;
                const auto nothing = s.segment("nothing", [](Code&) {});
                s.group("G", {tile(1)}, nothing);
                s.run(m);
                return std::string();
              }),
              HasSubstr("G: tile (1,0) is a dead tile"));
}

// 1 FLOP and one element per ps at full speed. The SRAM, 1 byte per ps, is no slower on a slow
// tile.
TEST(SlowTile, ItsEnginesTakeLongerAndItsMemoryDoesNot) {
  MachineConfig m = mesh(2, 1);
  m.sram.bandwidth = Bandwidth(1e12);
  m.defects.speed[tile(1)] = 0.5;
  Script s;
  const auto shape = s.matrix_shape(1000), elements = s.vector_shape(3000);
  const auto bound = s.matrix_shape(1000, 1700);
  const auto work = s.segment("work", [&](Code& c) {
    const auto a = c.compute(Engine::matrix, shape);
    const auto b = c.compute(Engine::vector, elements, 1, {a});
    c.compute(Engine::matrix, bound, 1, {b});
  });
  s.group("G", {tile(0), tile(1)}, work);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(0)].finish, 1000u + 3000u + 1700u);
  EXPECT_EQ(r.tiles[tile(1)].finish, 2000u + 6000u + 2000u);
  EXPECT_EQ(state(r, tile(0), TileState::sram_stall), 700u);
  EXPECT_EQ(state(r, tile(1), TileState::sram_stall), 0u);
}

// Pieces of an operator sum to the whole on a slow tile too.
TEST(SlowTile, PiecesSumToTheWhole) {
  MachineConfig m = mesh(1, 1);
  m.defects.speed[tile(0)] = 0.7;
  Script s;
  const auto shape = s.matrix_shape(1000, 0, 3);
  const auto work = s.segment("work", [&](Code& c) {
    for (std::uint32_t i = 0; i < 3; ++i) c[c.compute(Engine::matrix, shape)].begin = i;
  });
  s.group("G", {tile(0)}, work);
  EXPECT_EQ(s.run(m).end, 1429u);  // 1000 / 0.7, rounded
}

TEST(LateTile, StartsLate) {
  MachineConfig m = mesh(2, 1);
  m.defects.delay[tile(1)] = Seconds(5e-9);
  Script s;
  const auto shape = s.matrix_shape(1000);
  const auto work = s.segment("work", [&](Code& c) { c.compute(Engine::matrix, shape); });
  s.group("G", {tile(0), tile(1)}, work, 6);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(0)].first_start, 0u);
  EXPECT_EQ(r.tiles[tile(0)].finish, 6000u);
  EXPECT_EQ(r.tiles[tile(1)].first_start, 5000u);
  EXPECT_EQ(r.tiles[tile(1)].finish, 11000u);
  EXPECT_EQ(state(r, tile(1), TileState::bubble), 5000u);
}

// Messages to a tile that has not started wait for it.
TEST(LateTile, TakesWhatHasArrivedBefore) {
  MachineConfig m = mesh(2, 1);
  m.defects.delay[tile(1)] = Seconds(50e-9);
  Script s = one_message(tile(0), tile(1), 1000, 1000);
  EXPECT_EQ(s.run(m).end, 50000u);
}

// A ring all-reduce waits for its last rank, wherever it is: the closed form after its delay.
TEST(LateTile, AnAllReduceWaitsForIt) {
  for (std::uint32_t late = 0; late < 4; ++late) {
    const std::string end = in_child([&] {
      MachineConfig m = mesh(2, 2);
      m.defects.delay[tile(late)] = Seconds(40e-9);
      Script s;
      const std::uint16_t w = s.channel("ring");
      const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 4, 16000); });
      const std::vector<TileId> tiles{tile(0), tile(1), tile(3), tile(2)};
      s.group("G", tiles, ring).peers = ring_peers(tiles);
      return std::to_string(s.run(m).end);
    });
    EXPECT_EQ(end, std::to_string(40000 + 6 * (2000 + 4000)));
  }
}

TEST(LateTile, AllMayBeLate) {
  MachineConfig m = mesh(2, 1);
  m.defects.delay[tile(0)] = m.defects.delay[tile(1)] = Seconds(1e-6);
  Script s = one_message(tile(0), tile(1), 1000, 1000);
  EXPECT_EQ(s.run(m).end, 1000000u + 3000u);
}

// A ring round a dead tile, on a mesh and on its mirror images.
TEST(DefectiveMesh, MirroredMachinesGiveMirroredResults) {
  const int width = 4, height = 4;
  const auto run = [&](bool flip_x, bool flip_y) {
    return in_child([&] {
      MachineConfig m = mesh(width, height);
      const auto at = [&](int x, int y) {
        return m.tile(flip_x ? width - 1 - x : x, flip_y ? height - 1 - y : y);
      };
      const TileId dead = at(1, 1);
      m.defects.dead_tiles = {{m.x(dead), m.y(dead)}};
      m.defects.speed[at(2, 1)] = 0.5;
      m.defects.delay[at(0, 3)] = Seconds(20e-9);
      Script s;
      const std::uint16_t w = s.channel("ring");
      const auto shape = s.matrix_shape(10000);
      const std::vector<TileId> tiles{at(0, 1), at(2, 1), at(3, 2), at(1, 3), at(1, 0), at(0, 3)};
      const auto ring = s.segment("ring", [&](Code& c) {
        c.compute(Engine::matrix, shape);
        ring_all_reduce(c, w, 6, 60000);
      });
      s.group("G", tiles, ring).peers = ring_peers(tiles);
      const RunStatistics& r = s.run(m);
      std::string text = std::to_string(r.end);
      for (const TileId t : tiles) text += " " + std::to_string(r.tiles[t].finish);
      std::vector<std::string> links;
      for (const LinkStatistics& l : r.links) {
        const auto back = [&](TileId t) { return index(at(m.x(t), m.y(t))); };  // its own inverse
        links.push_back(std::to_string(back(l.from)) + ">" + std::to_string(back(l.to)) + ":" +
                        std::to_string(l.bytes));
      }
      std::sort(links.begin(), links.end());
      for (const std::string& l : links) text += " " + l;
      return text;
    });
  };
  const std::string upright = run(false, false);
  EXPECT_EQ(run(true, false), upright);
  EXPECT_EQ(run(false, true), upright);
  EXPECT_EQ(run(true, true), upright);
  EXPECT_THAT(upright, Not(HasSubstr("exception")));
}

}  // namespace
}  // namespace tilewright::test
