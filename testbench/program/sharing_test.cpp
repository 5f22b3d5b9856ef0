// Loads that tiles share: their text, their sets, and what is wrong with them.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/program/program.h>
#include <tilewright/program/text.h>

#include "pair.h"
#include "support/program_equal.h"

namespace tilewright {
namespace {

using test::error_of;
using test::with;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two replicas of a stage share weights, tile by tile; the ranks of each share an input.
const char* const kStage = R"(tilewright-program 1
segment layer
  load weights bytes=1KiB shared=1
  load input bytes=4KiB head=1KiB shared=0
  load own bytes=64
group left
  tiles 0 1
  peers 0 0
  peers 0 1
  call layer micro_batch=0..1
group right
  tiles 2 3
  peers 2 2
  peers 0 1
  call layer micro_batch=0..1
)";

TEST(Sharing, SetsGoByTableAndEntryAcrossGroups) {
  const std::vector<SharingSet> sets = sharing_sets(parse_program(kStage));
  ASSERT_EQ(sets.size(), 4u);
  const auto tiles = [&](std::size_t i) {
    std::vector<std::uint32_t> numbers;
    for (const TileId t : sets[i].tiles) numbers.push_back(index(t));
    return numbers;
  };
  EXPECT_THAT(tiles(0), ElementsAre(0, 1));
  EXPECT_THAT(tiles(1), ElementsAre(2, 3));
  EXPECT_THAT(tiles(2), ElementsAre(0, 2));
  EXPECT_THAT(tiles(3), ElementsAre(1, 3));
  EXPECT_EQ(sets[1].table, 0u);
  EXPECT_EQ(sets[3].table, 1u);
}

TEST(Sharing, TilesWithoutAnEntryLoadAlone) {
  const Program p = parse_program(with(kStage, "peers 2 2", "peers none none"));
  EXPECT_EQ(sharing_sets(p).size(), 3u);
}

TEST(Sharing, TextIsExact) {
  const Program program = parse_program(kStage);
  const std::string text = program_text(program);
  EXPECT_THAT(text, HasSubstr("load \"input\" bytes=4096 head=1024 shared=0 phase=forward"));
  const Program again = parse_program(text);
  EXPECT_EQ(test::difference(program, again), "");
  EXPECT_EQ(program_text(again), text);
}

TEST(Sharing, FaultsAreNamed) {
  EXPECT_THAT(
      error_of(with(kStage, "peers 2 2", "peers 2")),
      HasSubstr("group 'right', segment 'layer', instruction 1 (dma_in load 'input'): shared "
                "loads need a peer table 0 with an entry for each of the 2 tiles"));
  EXPECT_THAT(error_of(with(kStage, "shared=1", "shared=7")), HasSubstr("need a peer table 7"));
  EXPECT_THAT(error_of(with(kStage, "peers 2 2", "peers 5 5")),
              HasSubstr("peer table 0 makes tile 2 share loads with tile 5, whose own entry is "
                        "another"));
  EXPECT_THAT(error_of(with(kStage, "shared=1", "shared=none")), HasSubstr("p.twp:3"));
  EXPECT_THAT(error_of(with(kStage, "load own bytes=64", "store own bytes=64 shared=0")),
              HasSubstr("unknown key; 'store' takes"));
  EXPECT_THAT(error_of(with(kStage, "bytes=1KiB", "bytes=1KiB/2+0")),
              HasSubstr("only a load of as many bytes on every rank is shared"));
}

TEST(Sharing, AllMakeEquallyManyLoadsOfEquallyManyBytes) {
  std::string text = kStage;
  text = text.replace(text.rfind("micro_batch=0..1"), 16, "micro_batch=0..2");
  EXPECT_THAT(
      error_of(text),
      HasSubstr("tile 2 makes 3 loads of together 3072 bytes by peer table 1, but tile 0 of "
                "group 'left', which shares them, 2 of 2048 bytes"));
}

TEST(Sharing, ATableBelongsToOneListOfCalls) {
  EXPECT_THAT(error_of(with(kStage, "group right", "  background layer\ngroup right")),
              HasSubstr("a background call shares loads by peer table 0, and so does another call "
                        "of the group"));
}

}  // namespace
}  // namespace tilewright
