// `tilewright program`: the replay of a dumped program is the run itself.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;
using tilewright::testing_support::Job;
using tilewright::testing_support::kMachine;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::TemporaryFolder;
using tilewright::testing_support::tilewright;

const char* const kExample = "workloads/programs/ring-all-reduce.twp";
const char* const kDie = "platforms/tx8-die.yaml";

std::vector<std::string> joined(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Settings of the small job.
class Replay : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Replay, GivesTheTimeAndTheCountersOfTheRun) {
  const Job job;
  const std::string file = job.folder().path("job.twp");
  const Outcome dump =
      tilewright(joined(joined({"program", "--dump", file}, job.files()), GetParam()));
  ASSERT_EQ(dump.exit_code, 0) << dump.err;
  EXPECT_THAT(dump.out, HasSubstr("instructions in "));

  const Outcome run = job.run(joined(GetParam(), {"--json", "-"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const std::string platform = job.files()[1];
  const Outcome replay =
      tilewright({"program", "--run", file, "--platform", platform, "--json", "-"});
  ASSERT_EQ(replay.exit_code, 0) << replay.err;
  const json a = json::parse(run.out), b = json::parse(replay.out);
  for (const char* same : {"machine", "iteration_time_s", "breakdown_s", "bubble_fraction", "tiles",
                           "traffic_bytes", "links", "dram", "memory", "simulation"}) {
    EXPECT_EQ(a.at(same), b.at(same)) << same;
  }
  EXPECT_EQ(a["flops"]["hardware"], b["flops"]["hardware"]);
  const double model = a["flops"]["model"], mfu = a["flops"]["mfu"], hfu = a["flops"]["hfu"];
  EXPECT_NEAR(b["flops"]["model"].get<double>(), model, 1e-9 * model);
  EXPECT_NEAR(b["flops"]["mfu"].get<double>(), mfu, 1e-9);
  EXPECT_NEAR(b["flops"]["hfu"].get<double>(), hfu, 1e-9);
  for (const char* bound : {"dram", "bisection"}) {
    EXPECT_EQ(a["bounds_s"][bound], b["bounds_s"][bound]) << bound;
  }
  // The plan's bound leaves recomputation out or counts it as the program does: never above ours.
  EXPECT_LE(b["bounds_s"]["compute"].get<double>(),
            b["iteration_time_s"].get<double>() * (1 + 1e-12));
  ASSERT_EQ(a["stages"].size(), b["stages"].size());
  for (std::size_t s = 0; s < a["stages"].size(); ++s) {
    for (const char* same :
         {"stage", "tiles", "busy_s", "peak_sram_bytes", "peak_dram_bytes", "breakdown_s"}) {
      EXPECT_EQ(a["stages"][s].at(same), b["stages"][s].at(same)) << s << ' ' << same;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    SmallJobs, Replay,
    testing::Values(
        std::vector<std::string>{}, std::vector<std::string>{"--set", "recomputation=full"},
        std::vector<std::string>{"--set", "parallelism.data=2", "--set", "batch.global=7"},
        std::vector<std::string>{"--set", "mode=inference", "--set", "parallelism.pipeline=4"},
        std::vector<std::string>{"--set", "schedule=gpipe"}));

TEST(ProgramCommand, DumpsAreTheSameBytesEveryTime) {
  const Job job;
  const auto arguments = joined({"program", "--dump", "-"}, job.files());
  const Outcome first = tilewright(arguments), second = tilewright(arguments);
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("\ntilewright-program 1\n"));
  EXPECT_EQ(first.out, second.out);
}

TEST(ProgramCommand, TheMainJobsDumpStaysSmall) {
  const Outcome o = tilewright({"program", "--dump", "-", "--platform", "platforms/tx8-wafer.yaml",
                                "--model", "workloads/models/megatron-18b.yaml", "--plan",
                                "workloads/plans/megatron-18b-tx8.yaml"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_GT(o.out.size(), 100'000u);
  EXPECT_LT(o.out.size(), 2'000'000u);
}

TEST(ProgramCommand, TheExampleTakesTheTimeThatItsPageWorksOut) {
  const Outcome o = tilewright({"program", "--run", kExample, "--platform", kDie, "--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json r = json::parse(o.out);
  EXPECT_EQ(r["model"], "ring-all-reduce");
  EXPECT_EQ(r["tiles"]["used"], 4);
  const double loads = 2097152 / 256e9 + 100e-9;
  const double multiplication = 2.0 * 512 * 1024 * 256 / 16e12;
  const double ring = 6 * 262144 / 1024e9 + 3 * 786432 / 2e12;
  const double time = r["iteration_time_s"];
  EXPECT_GT(time, loads + multiplication + ring);
  EXPECT_LT(time, 1.02 * (loads + multiplication + ring));
  EXPECT_EQ(r["traffic_bytes"]["tensor"], 4 * 6 * 262144);
}

TEST(ProgramCommand, TheReportOfAProgramLeavesOutWhatOnlyAModelKnows) {
  const Outcome o = tilewright({"program", "--run", kExample, "--platform", kDie});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith("ring-all-reduce on tx8-die\nTilewright "));
  EXPECT_THAT(o.out, AllOf(Not(HasSubstr("samples")), Not(HasSubstr("parameters"))));
  EXPECT_THAT(o.err, StartsWith("host: "));
}

TEST(ProgramCommand, SettingsReachThePlatform) {
  const auto time = [](const std::vector<std::string>& more) {
    const Outcome o =
        tilewright(joined({"program", "--run", kExample, "--platform", kDie, "--json", "-"}, more));
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return json::parse(o.out)["iteration_time_s"].get<double>();
  };
  EXPECT_LT(time({"--set", "tile.matrix.fp16=32TFLOP/s"}), time({}));
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& message,
                    int code = 2) {
  const Outcome o = tilewright(arguments);
  EXPECT_EQ(o.exit_code, code);
  EXPECT_EQ(o.out, "");
  EXPECT_THAT(o.err, HasSubstr(message));
}

TEST(ProgramCommand, WrongUseIsExplained) {
  expect_refused({"program"}, "program: give --dump FILE or --run FILE");
  expect_refused({"program", "--dump", "-", "--run", kExample}, "give --dump FILE or --run FILE");
  expect_refused({"program", "--dump", "-", "--platform", kDie},
                 "program --dump: missing --model, --plan");
  expect_refused({"program", "--run", kExample}, "program --run: missing --platform");
  expect_refused({"program", "--run", kExample, "--platform", kDie, "--plan", "x"},
                 "program --run: --plan has no meaning here");
  for (const std::vector<std::string>& option :
       {std::vector<std::string>{"--fidelity", "message"}, {"--check-protocol"}, {"--vcd", "x"}}) {
    std::vector<std::string> arguments{"program", "--dump", "-",      "--platform", kDie,
                                       "--model", "x",      "--plan", "x"};
    arguments.insert(arguments.end(), option.begin(), option.end());
    expect_refused(arguments, "program --dump: " + option[0] + " has no meaning here");
  }
  expect_refused({"program", "--run", "nothing.twp", "--platform", kDie},
                 "cannot read 'nothing.twp': No such file");
}

TEST(ProgramCommand, FaultsInAFileNameTheLine) {
  const TemporaryFolder folder;
  const std::string file = folder.write("bad.twp", "tilewright-program 1\nsegmant x\n");
  expect_refused({"program", "--run", file, "--platform", kDie},
                 file + ":2: 'segmant': not a statement; allowed are ");
}

TEST(ProgramCommand, AProgramTheMachineCannotRunIsRefused) {
  const TemporaryFolder folder;
  const std::string machine = folder.write("small.yaml", kMachine);  // 4 x 2 tiles
  const std::string file = folder.write(
      "far.twp", "tilewright-program 1\nsegment s\nload x bytes=1\ngroup g\ntiles 99\ncall s\n");
  expect_refused({"program", "--run", file, "--platform", machine}, "99");
}

TEST(ProgramCommand, AProgramThatDeadlocksSaysWhoWaits) {
  const TemporaryFolder folder;
  const std::string file = folder.write("stuck.twp", R"(tilewright-program 1
channel a
segment s
  recv x channel=a peers=0 bytes=8
  send x channel=a peers=0 bytes=8 after=0
group left
  tiles 0
  peers 0: 1
  call s
group right
  tiles 1
  peers 0: 0
  call s
)");
  const Outcome o = tilewright({"program", "--run", file, "--platform", kDie});
  EXPECT_EQ(o.exit_code, 4);
  EXPECT_THAT(o.err,
              HasSubstr("tile (0,0) of left: net_recv waits for message 'a' from tile (1,0)"));
  EXPECT_THAT(o.err,
              HasSubstr("tile (1,0) of right: net_recv waits for message 'a' from tile (0,0)"));
  EXPECT_THAT(o.err, HasSubstr("they wait in a circle"));
}

TEST(ProgramRun, HostMemoryNeedsAMachineThatHasIt) {
  const TemporaryFolder folder;
  const std::string file = folder.write("offload.twp", R"(tilewright-program 1
segment fetch
  load weights bytes=1MB space=host
group all
  tiles 0
  call fetch
)");
  const Outcome without = tilewright({"program", "--run", file, "--platform", kDie});
  EXPECT_EQ(without.exit_code, 2);
  EXPECT_THAT(without.err,
              HasSubstr("uses host memory (load in segment fetch, weights, instruction 1), but the "
                        "machine has none for it"));
  const Outcome with = tilewright({"program", "--run", file, "--platform", kDie, "--json", "-",
                                   "--set", "host.bandwidth=100GB/s", "--set", "host.capacity=1TiB",
                                   "--set", "host.latency=1us", "--set", "host.sites=[[0,0]]"});
  ASSERT_EQ(with.exit_code, 0) << with.err;
  const json j = json::parse(with.out);
  EXPECT_DOUBLE_EQ(j["iteration_time_s"], 11e-6);  // 1 us + 1 MB / 100 GB/s, at the tile itself
  EXPECT_EQ(j["breakdown_s"]["offload_wait"], j["iteration_time_s"]);
  EXPECT_EQ(j["communication_s"]["offload"]["exposed"], j["iteration_time_s"]);
  EXPECT_EQ(j["traffic_bytes"]["offload"], 1000000);
  EXPECT_EQ(j["traffic_bytes"]["memory"], 0);
  EXPECT_EQ(j["host"]["read_bytes"], 1000000);
  EXPECT_EQ(j["dram"]["read_bytes"], 0);
  EXPECT_DOUBLE_EQ(j["bounds_s"]["host"], 10e-6);
}

}  // namespace
