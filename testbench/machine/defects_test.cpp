// `defects`: what is read, what is refused and with which words, who serves what is left.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/topology.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

const std::string kWhole = R"(machine: four-by-three
mesh: { dies: [2, 1], tiles_per_die: [2, 3], spare: [[1, 2]] }
tile:
  matrix: { fp16: 16 TFLOP/s }
  vector: { throughput: 512 Gelem/s }
  sram: { capacity: 3 MiB }
noc: { link_bandwidth: 1024 GB/s, hop_latency: 1 ns }
dram: { bandwidth: 256 GB/s, capacity: 256 GiB, latency: 100 ns, sites: [[0, 0], [3, 0]] }
defects:
)";

MachineConfig read(const std::string& defects) {
  return read_machine(Document::parse(kWhole + defects, "platform", {}, "m.yaml"));
}

std::string error_of(const std::string& defects) {
  try {
    read(defects);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Defects, NoneByDefault) {
  const MachineConfig m = read("  dead_tiles: []\n");
  EXPECT_EQ(m.usable_tiles(), 10);
  EXPECT_FALSE(m.has_stragglers());
  EXPECT_FALSE(Topology(m).defective());
}

TEST(Defects, AreRead) {
  const MachineConfig m = read(R"(
  dead_tiles: [[3, 2], [3, 1]]
  dead_links:
    - between: [[0, 0], [0, 1]]
    - { from: [1, 0], to: [2, 0] }
  slow_tiles:
    - { tile: [3, 0], speed: 0.5 }
    - { tiles: [[1, 1], [0, 0]], speed: 0.9 }
  delayed_tiles:
    - { tile: [0, 2], delay: 3 us }
)");
  EXPECT_THAT(m.defects.dead_tiles, ElementsAre(Pair(3, 1), Pair(3, 2)));
  EXPECT_THAT(m.spare, ElementsAre(Pair(1, 2)));  // a dead tile is dead, not spare
  EXPECT_EQ(m.usable_tiles(), 9);
  EXPECT_THAT(m.defects.dead_links,
              ElementsAre(Pair(m.tile(0, 0), m.tile(0, 1)), Pair(m.tile(0, 1), m.tile(0, 0)),
                          Pair(m.tile(1, 0), m.tile(2, 0))));
  EXPECT_EQ(m.defects.speed.size(), 5u);
  EXPECT_EQ(m.speed(m.tile(3, 0)), 0.5);
  for (const TileId t : {m.tile(0, 0), m.tile(1, 0), m.tile(0, 1), m.tile(1, 1)}) {
    EXPECT_EQ(m.speed(t), 0.9);
  }
  EXPECT_EQ(m.speed(m.tile(2, 0)), 1);
  EXPECT_EQ(m.delay(m.tile(0, 2)), Seconds(3e-6));
  EXPECT_EQ(m.delay(m.tile(0, 1)), Seconds(0));
  EXPECT_TRUE(m.has_stragglers());

  const MachineConfig even = m.without_stragglers();
  EXPECT_FALSE(even.has_stragglers());
  EXPECT_EQ(even.defects.dead_tiles, m.defects.dead_tiles);

  const Topology t(m);
  const auto works = [&](int x, int y, Direction d) {
    return t.link(index(m.tile(x, y)), static_cast<unsigned>(d)).works;
  };
  EXPECT_FALSE(works(1, 0, Direction::east));  // one direction only
  EXPECT_TRUE(works(2, 0, Direction::west));
  EXPECT_FALSE(works(0, 0, Direction::south));  // both
  EXPECT_FALSE(works(0, 1, Direction::north));
  EXPECT_FALSE(works(2, 1, Direction::east));  // towards a dead tile, and from it
  EXPECT_FALSE(works(3, 1, Direction::west));
  EXPECT_FALSE(works(3, 0, Direction::east));  // the edge
  EXPECT_TRUE(works(0, 0, Direction::east));
}

TEST(Defects, FullSpeedAndNoDelayAreNoStragglers) {
  const MachineConfig m = read(
      "  slow_tiles: [{ tile: [0, 0], speed: 1 }]\n"
      "  delayed_tiles: [{ tile: [0, 0], delay: 0 s }]\n");
  EXPECT_FALSE(m.has_stragglers());
}

TEST(Defects, EveryMistakeIsNamed) {
  EXPECT_THAT(error_of("  dead_tiles: [[4, 0]]\n"),
              AllOf(HasSubstr("m.yaml:"), HasSubstr("defects.dead_tiles"),
                    HasSubstr("[4, 0] lies outside the mesh of 4 × 3 tiles")));
  EXPECT_THAT(error_of("  dead_tiles: [[1, 1], [1, 1]]\n"), HasSubstr("[1, 1] is given twice"));
  EXPECT_THAT(error_of("  dead_tiles: [[3, 0]]\n"),
              AllOf(HasSubstr("dram.sites"), HasSubstr("[3, 0] sits on a dead tile")));
  EXPECT_THAT(error_of("  dead_links: [{ between: [[0, 0], [1, 1]] }]\n"),
              HasSubstr("[0, 0] and [1, 1] are not neighbours"));
  EXPECT_THAT(error_of("  dead_links: [{ between: [[0, 0], [0, 0]] }]\n"),
              HasSubstr("are not neighbours"));
  EXPECT_THAT(error_of("  dead_links: [{ between: [[0, 0], [0, 1]] }, "
                       "{ from: [0, 1], to: [0, 0] }]\n"),
              HasSubstr("the link from [0, 1] to [0, 0] is given twice"));
  EXPECT_THAT(error_of("  dead_links: [{ between: [[0, 0]] }]\n"), HasSubstr("found 1 tiles"));
  EXPECT_THAT(error_of("  dead_links: [{ from: [0, 0] }]\n"), HasSubstr("dead_links[0].to"));
  EXPECT_THAT(error_of("  dead_links: [{ from: [0, 0], to: [1, 0], between: [[0, 0], [1, 0]] }]\n"),
              HasSubstr("either between"));
  EXPECT_THAT(error_of("  dead_tiles: [[1, 1]]\n  dead_links: [{ from: [0, 1], to: [1, 1] }]\n"),
              HasSubstr("[1, 1] is a dead tile; all its links are gone with it"));
  EXPECT_THAT(error_of("  dead_tiles: [[1, 1]]\n  slow_tiles: [{ tile: [1, 1], speed: 0.5 }]\n"),
              HasSubstr("[1, 1] is a dead tile; its engines are not used"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tiles: [[0, 0], [1, 2]], speed: 0.5 }]\n"),
              HasSubstr("[1, 2] is a spare tile; its engines are not used"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tile: [0, 0], speed: 0.5 }, "
                       "{ tiles: [[0, 0], [1, 1]], speed: 0.9 }]\n"),
              HasSubstr("[0, 0] is given twice"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tile: [0, 0], speed: 1.5 }]\n"),
              HasSubstr("slow_tiles[0].speed"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tile: [0, 0], speed: 0 }]\n"),
              HasSubstr("slow_tiles[0].speed"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tile: [0, 0] }]\n"), HasSubstr("slow_tiles[0].speed"));
  EXPECT_THAT(error_of("  slow_tiles: [{ speed: 0.5 }]\n"), HasSubstr("either tile"));
  EXPECT_THAT(error_of("  slow_tiles: [{ tile: [0, 0], speed: 0.5, factor: 2 }]\n"),
              HasSubstr("factor"));
  EXPECT_THAT(error_of("  delayed_tiles: [{ tile: [0, 0], delay: 30 }]\n"), HasSubstr("unit"));
  EXPECT_THAT(error_of("  dead: [[0, 0]]\n"), HasSubstr("dead_tiles"));
  EXPECT_THAT(error_of("  dead_tiles: [[0, 0], [1, 0], [2, 0], [3, 0], [0, 1], [1, 1], [2, 1], "
                       "[3, 1], [0, 2], [2, 2]]\n"),
              HasSubstr("nothing is left to compute"));
}

TEST(Defects, AMeshInPiecesIsRefused) {
  EXPECT_THAT(error_of("  dead_tiles: [[1, 0], [1, 1], [0, 2]]\n"),
              HasSubstr("tile (0,0) cannot reach tile (2,0)"));
  // One direction is not enough.
  EXPECT_THAT(error_of("  dead_links: [{ from: [0, 0], to: [1, 0] }, "
                       "{ from: [0, 0], to: [0, 1] }]\n"),
              HasSubstr("tile (0,0) cannot reach tile (1,0)"));
  EXPECT_THAT(error_of("  dead_links: [{ to: [0, 0], from: [1, 0] }, "
                       "{ to: [0, 0], from: [0, 1] }]\n"),
              HasSubstr("tile (1,0) cannot reach tile (0,0)"));
}

TEST(Defects, DramIsAssignedByTheHopsThatAreLeft) {
  // (0,0) serves the left half and (3,0) the right; with the link between (1,1) and (1,0) and that
  // to (0,1) gone, (1,1) is 3 hops from (3,0) and (by row 2) 5 from (0,0).
  const MachineConfig whole = read("  dead_tiles: []\n");
  EXPECT_THAT(assign_dram(whole)[whole.tile(1, 1)], ElementsAre(DramId(0)));
  const MachineConfig m = read(
      "  dead_links:\n"
      "    - between: [[1, 1], [1, 0]]\n"
      "    - between: [[1, 1], [0, 1]]\n");
  EXPECT_THAT(assign_dram(m)[m.tile(1, 1)], ElementsAre(DramId(1)));
  const MachineConfig dead = read("  dead_tiles: [[1, 1]]\n");
  EXPECT_THAT(assign_dram(dead)[dead.tile(1, 1)], IsEmpty());
}

}  // namespace
}  // namespace tilewright
