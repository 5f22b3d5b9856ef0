// The small platforms, run as their users run them.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <support/subprocess.h>

namespace tilewright::testing_support {
namespace {

Outcome platform(const std::string& name, const std::vector<std::string>& arguments = {}) {
  return run_program(std::string(TILEWRIGHT_PLATFORMS) + "/" + name, arguments);
}

// Load: 100 ns and 1 MB at 250 GB/s; message: two hops of 1 ns and 1 MB at 1 TB/s; 2·512³ FLOP at
// 16 TFLOP/s: 0.1 + 4 + 1.002 + 16.777216 µs.
TEST(PlatformBinaries, Mesh2x2) {
  const Outcome outcome = platform("mesh-2x2");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "done after 21.879216 us\n");
}

TEST(PlatformBinaries, Mesh2x2TakesFewerThan80Lines) {
  std::ifstream file(std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/mesh-2x2/main.cpp");
  int lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  EXPECT_GT(lines, 20);
  EXPECT_LT(lines, 80);
}

// The hand-made wafer is the machine that `tilewright run` elaborates.
TEST(PlatformBinaries, Wafer) {
  const std::vector<std::string> files{"platforms/tx8-wafer.yaml", "workloads/models/gpt2",
                                       "workloads/plans/gpt2-tx8-die.yaml"};
  const Outcome run = tilewright(
      {"run", "--platform", files[0], "--model", files[1], "--plan", files[2], "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const double seconds = nlohmann::json::parse(run.out).at("iteration_time_s");
  const Outcome outcome = platform("wafer", {files[0], files[1] + "/config.json", files[2]});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  char expected[64];
  std::snprintf(expected, sizeof expected, "iteration %.12g s", seconds);
  EXPECT_THAT(outcome.out, testing::HasSubstr("20 dies, 320 tiles, 80 DRAM controllers"));
  EXPECT_THAT(outcome.out, testing::HasSubstr(expected));
}

TEST(PlatformBinaries, WaferSaysWhatItNeeds) {
  const Outcome outcome = platform("wafer");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("usage: wafer PLATFORM MODEL PLAN"));
}

// Of the tiles' 4 × 2 × 20 KiB and the traffic's 2 × 64 KiB each memory has half: 144 KiB in bursts
// of 64 bytes; 80 KiB in blocks of 1 KiB and 64 KiB in the traffic's transactions of 256 bytes.
TEST(PlatformBinaries, ForeignMemory) {
  const Outcome outcome = platform("foreign-memory");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              testing::HasSubstr("traffic: 512 transactions, 0 errors, 0 wrong bytes,"));
  EXPECT_THAT(outcome.out, testing::ContainsRegex(
                               "memories: 2304 requests approximately timed .[1-9][0-9]* held "
                               "back., 336 loosely timed"));
  EXPECT_THAT(outcome.out, testing::HasSubstr("checkers: 3152 transactions, 0 violations"));
  EXPECT_THAT(outcome.err, testing::Not(testing::HasSubstr("Warning")));
}

// They must build without a header of ours.
TEST(PlatformBinaries, ForeignModulesAreForeign) {
  for (const char* name : {"memory.h", "traffic.h"}) {
    const std::string text =
        read_text(std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/foreign-memory/" + name);
    EXPECT_GT(text.size(), 1000u);
    EXPECT_EQ(text.find("#include <tilewright"), std::string::npos) << name;
    EXPECT_EQ(text.find("#include \""), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace tilewright::testing_support
