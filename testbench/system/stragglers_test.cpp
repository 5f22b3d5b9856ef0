// Slow and late tiles: the report names the rank and says what it costs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using tilewright::testing_support::Job;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::tilewright;

json parsed(const Outcome& o) {
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return o.exit_code == 0 ? json::parse(o.out) : json();
}

TEST(Stragglers, NoneOnAMachineWithoutDefects) {
  const Job job;
  const json r = parsed(job.run({"--json", "-"}));
  EXPECT_EQ(r["stragglers"]["ranks"], json::array());
  EXPECT_TRUE(r["stragglers"]["cost_s"].is_null());
  EXPECT_THAT(job.run().out, Not(HasSubstr("Stragglers")));
}

TEST(Stragglers, ASlowRankIsNamedWithItsCost) {
  const Job job;
  const std::string slow = "defects.slow_tiles=[{tile: [3, 0], speed: 0.25}]";
  const json even = parsed(job.run({"--json", "-"}));
  const json r = parsed(job.run({"--json", "-", "--set", slow}));
  ASSERT_EQ(r["stragglers"]["ranks"].size(), 1u);
  const json& rank = r["stragglers"]["ranks"][0];
  EXPECT_EQ(rank["stage"], 1);
  EXPECT_EQ(rank["rank"], 1);
  EXPECT_EQ(rank["tile"], "(3,0)");
  EXPECT_EQ(rank["speed"], 0.25);
  EXPECT_EQ(rank["delay_s"], 0);
  EXPECT_EQ(r["stragglers"]["iteration_time_without_s"], even["iteration_time_s"]);
  const double cost = r["iteration_time_s"].get<double>() - even["iteration_time_s"].get<double>();
  EXPECT_EQ(r["stragglers"]["cost_s"].get<double>(), cost);
  EXPECT_GT(cost, 0);
  // The bound counts the slow rank's matrix work (stage 1 has the most), and holds.
  EXPECT_DOUBLE_EQ(r["bounds_s"]["compute"].get<double>(),
                   4 * even["bounds_s"]["compute"].get<double>());
  EXPECT_LE(r["bounds_s"]["compute"].get<double>(), r["iteration_time_s"].get<double>());
  EXPECT_LE(r["bounds_s"]["pipeline"].get<double>(), r["iteration_time_s"].get<double>());

  const std::string report = job.run({"--set", slow}).out;
  EXPECT_THAT(report, HasSubstr("stage 1, rank 1 on tile (3,0): engines at 0.25 of full speed\n"));
  EXPECT_THAT(report, HasSubstr("They cost "));
}

TEST(Stragglers, ATileWithoutARankCostsNothing) {
  const json r =
      parsed(Job().run({"--json", "-", "--set", "defects.slow_tiles=[{tile: [3, 1], speed: 0.5}]",
                        "--set", "plan.parallelism.pipeline=1"}));
  EXPECT_EQ(r["stragglers"]["ranks"].size(), 0u);
  EXPECT_EQ(r["stragglers"]["cost_s"].get<double>(), 0);
}

// Two ranks exchange messages: both end as much later as the late one begins.
TEST(Stragglers, ALateRankCostsItsDelay) {
  const Job job;
  const std::string program = job.folder().write("pair.twp", R"(tilewright-program 1
channel c
segment swap
  send "swap" channel=c peers=0 bytes=4KiB cause=tensor
  recv "swap" channel=c peers=0 bytes=4KiB cause=tensor
group pair
  tiles 0 1
  peers 0: 1 0
  call swap
)");
  job.folder().write("machine.yaml", tilewright::testing_support::kMachine);
  const std::vector<std::string> arguments{"program",
                                           "--run",
                                           program,
                                           "--platform",
                                           job.folder().path("machine.yaml"),
                                           "--set",
                                           "defects.delayed_tiles=[{tile: [1, 0], delay: 10 us}]"};
  std::vector<std::string> with_json = arguments;
  with_json.insert(with_json.end(), {"--json", "-"});
  const json r = parsed(tilewright(with_json));
  // 1 ns for the hop and 128 ns for 4 KiB at 32 GB/s.
  EXPECT_DOUBLE_EQ(r["iteration_time_s"].get<double>(), 10e-6 + 129e-9);
  EXPECT_DOUBLE_EQ(r["stragglers"]["iteration_time_without_s"].get<double>(), 129e-9);
  EXPECT_NEAR(r["stragglers"]["cost_s"].get<double>(), 10e-6, 1e-18);
  EXPECT_THAT(tilewright(arguments).out,
              HasSubstr("pair, rank 1 on tile (1,0): starts 10.00 us late\n  They cost 10.00 us"));
}

TEST(Stragglers, DeadTilesAreCountedAndAvoided) {
  const Job job;
  const json r = parsed(job.run({"--json", "-", "--set", "defects.dead_tiles=[[1, 1]]"}));
  EXPECT_EQ(r["tiles"]["dead"], 1);
  EXPECT_EQ(r["tiles"]["used"], 4);
  EXPECT_EQ(r["tiles"]["idle"], 3);
  EXPECT_THAT(job.run({"--set", "defects.dead_tiles=[[1, 1]]"}).out, HasSubstr(", 1 dead\n"));
}

TEST(Stragglers, TheSameBytesEveryTime) {
  const Job job;
  const std::string slow = "defects.slow_tiles=[{tile: [0, 0], speed: 0.9}]";
  EXPECT_EQ(job.run({"--set", slow}).out, job.run({"--set", slow}).out);
}

}  // namespace
