// `tilewright collective` as its users run it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job.h"

namespace tilewright::testing_support {
namespace {

using ::testing::HasSubstr;

/// 16 tiles, links of 100 GB/s.
const char* const kMesh = R"(machine: mesh
mesh: { tiles_per_die: [4, 4] }
tile:
  matrix: { fp16: 1 TFLOP/s }
  vector: { throughput: 32 Gelem/s }
  sram: { capacity: 1 MiB }
noc: { link_bandwidth: 100 GB/s, hop_latency: 2 ns }
)";

class CollectiveCommand : public ::testing::Test {
 protected:
  Outcome run(std::vector<std::string> arguments) const {
    std::vector<std::string> all{"collective", "--platform", platform_};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return tilewright(all);
  }
  std::string error(const std::vector<std::string>& arguments) const {
    const Outcome o = run(arguments);
    EXPECT_EQ(o.exit_code, 2) << o.out;
    EXPECT_EQ(o.out, "");
    return o.err;
  }
  TemporaryFolder folder_;
  std::string platform_ = folder_.write("mesh.yaml", kMesh);
};

TEST_F(CollectiveCommand, PrintsTimeBoundAndRatio) {
  // Reduce-scatter: 15/16 of 160 MB over the two links of a corner at 100 GB/s.
  const Outcome o = run({"--kind", "reduce_scatter", "--bytes", "160MB"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("on 16 tiles of mesh"));
  EXPECT_THAT(o.out, HasSubstr("algorithm    row-column (the cheapest by the cost model)"));
  EXPECT_THAT(o.out, HasSubstr("lower bound  750.0 us"));
  EXPECT_THAT(o.out, HasSubstr("ratio        1.000"));
  EXPECT_THAT(o.out, HasSubstr("two-rings"));
}

TEST_F(CollectiveCommand, TakesAnAlgorithmAGroupAndARoot) {
  // A ring of two: half of 1 MB each way, twice, over one link each way.
  Outcome o =
      run({"--kind", "all_reduce", "--bytes", "1MB", "--algorithm", "ring", "--group", "2x1+1+2"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("on 2 tiles of mesh"));
  EXPECT_THAT(o.out, HasSubstr("time         10.00 us"));
  o = run({"--kind", "broadcast", "--bytes", "1MB", "--root", "2,1", "--algorithm", "tree"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  o = run({"--kind", "all_gather", "--bytes", "1MB", "--set", "defects.dead_tiles=[[1,1]]",
           "--link-load", folder_.path("load.csv")});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("on 15 tiles"));
  EXPECT_THAT(read_text(folder_.path("load.csv")), HasSubstr("from,to"));
}

TEST_F(CollectiveCommand, RunsOnACluster) {
  const Outcome o =
      tilewright({"collective", "--platform", TILEWRIGHT_SOURCE_DIR "/platforms/a100-cluster.yaml",
                  "--set", "cluster.nodes=4", "--kind", "all_reduce", "--bytes", "256MiB"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  // Inside the nodes first: every device then reduces an eighth over its own network port.
  EXPECT_THAT(o.out, HasSubstr("algorithm    row-column"));
}

TEST_F(CollectiveCommand, RefusesWhatItCannotDo) {
  EXPECT_THAT(error({"--bytes", "1MB"}), HasSubstr("missing --kind"));
  EXPECT_THAT(error({"--kind", "all_reduce"}), HasSubstr("missing --bytes"));
  EXPECT_THAT(error({"--kind", "all-reduce", "--bytes", "1MB"}),
              HasSubstr("unknown kind 'all-reduce'; known: all_reduce, reduce_scatter, all_gather, "
                        "all_to_all, broadcast; did you mean 'all_reduce'?"));
  EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--algorithm", "rings"}),
              HasSubstr("did you mean 'ring'?"));
  for (const char* bytes : {"0B", "many", "-1MB", "9e30B", "12", "nan"}) {
    EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", bytes}),
                HasSubstr("--bytes: '" + std::string(bytes) + "' is not allowed"));
  }
  for (const char* group : {"5x1", "4x4+1+0", "0x2", "2", "axb", "2x2+1", "-1x2", "2x2+0+0+0"}) {
    EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--group", group}),
                HasSubstr("--group: '" + std::string(group) + "' is not allowed"));
  }
  EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--group", "1x1"}),
              HasSubstr("takes at least 2"));
  EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--root", "0,0"}),
              HasSubstr("--root has no meaning for all_reduce"));
  EXPECT_THAT(error({"--kind", "broadcast", "--bytes", "1MB", "--root", "4,0"}),
              HasSubstr("--root: '4,0' is not allowed"));
  EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--group", "3x1", "--algorithm",
                     "halving-doubling"}),
              HasSubstr("a power of two; a group has 3"));
  EXPECT_THAT(error({"--kind", "all_to_all", "--bytes", "1MB", "--algorithm", "tree"}),
              HasSubstr("tree cannot run all_to_all; it runs: all_reduce, broadcast"));
  EXPECT_THAT(error({"--kind", "all_reduce", "--bytes", "1MB", "--set", "plan.x=1"}),
              HasSubstr("plan.x"));
}

}  // namespace
}  // namespace tilewright::testing_support
