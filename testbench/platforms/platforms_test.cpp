// The small platforms, run as their users run them.
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
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

// The hand-made cluster too: messages inside a node and between nodes.
TEST(PlatformBinaries, Cluster) {
  const TemporaryFolder folder;
  const std::string model = "workloads/models/megatron-22b.yaml",
                    plan = folder.write("plan.yaml", R"(plan: two-nodes
parallelism: { pipeline: 2, tensor: 8, data: 2 }
batch: { global: 8, micro: 1 }
recomputation: full
)"),
                    platform_file = "platforms/a100-cluster.yaml";
  const Outcome run = tilewright(
      {"run", "--platform", platform_file, "--model", model, "--plan", plan, "--json", "-"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const double seconds = nlohmann::json::parse(run.out).at("iteration_time_s");
  const Outcome outcome = platform("cluster", {platform_file, model, plan});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  char expected[64];
  std::snprintf(expected, sizeof expected, "iteration %.12g s", seconds);
  EXPECT_THAT(outcome.out, testing::HasSubstr("48 nodes of 8 devices"));
  EXPECT_THAT(outcome.out, testing::HasSubstr(expected));
}

TEST(PlatformBinaries, ClusterSaysWhatItNeeds) {
  const Outcome outcome =
      platform("cluster", {"platforms/tx8-die.yaml", "workloads/models/gpt2/config.json",
                           "workloads/plans/gpt2-tx8-die.yaml"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("tx8-die.yaml: wanted: a cluster without taper"));
}

TEST(PlatformBinaries, WaferSaysWhatItNeeds) {
  const Outcome outcome = platform("wafer");
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_THAT(outcome.err, testing::HasSubstr("usage: wafer PLATFORM MODEL PLAN"));
}

TEST(PlatformBinaries, WaferRefusesWhatItDoesNotElaborate) {
  const TemporaryFolder folder;
  // Up to its energy section, whose tables lie beside the file.
  std::string die = read_text(std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/tx8-die.yaml");
  die.resize(die.find("energy:\n"));
  const std::string host =
      folder.write("host.yaml", die +
                                    "host: { bandwidth: 64 GB/s, capacity: "
                                    "1 TiB, latency: 1 us, sites: [[0, 0]] }\n");
  std::string wrapped = die;
  const std::string size = "tiles_per_die: [4, 4]\n";
  ASSERT_NE(wrapped.find(size), std::string::npos);
  const std::string torus = folder.write(
      "torus.yaml", wrapped.replace(wrapped.find(size), size.size(), size + "  wrap: torus\n"));
  for (const std::string& machine : {torus, host, std::string("platforms/a100-node.yaml")}) {
    const Outcome outcome = platform("wafer", {machine, "workloads/models/gpt2/config.json",
                                               "workloads/plans/gpt2-tx8-die.yaml"});
    EXPECT_EQ(outcome.exit_code, 2) << machine;
    EXPECT_THAT(outcome.err,
                testing::HasSubstr(machine + ": wanted: a mesh, no torus, without host memory"));
  }
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

#ifdef TILEWRIGHT_RTL
// Folds · max(k, 8), the last one k + 14 cycles: 15·32 + 46, 7·17 + 31, 4·64 + 78, 4·8 + 21, 8·8 +
// 17, 15; 1159 in all.
TEST(PlatformBinaries, RtlTile) {
  const TemporaryFolder folder;
  const std::string vcd = folder.path("mixed.vcd");
  const Outcome outcome = platform("rtl-tile", {vcd});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* line : {"   32   32   32         526           526              0\n",
                           "   13   29   17         150           150              0\n",
                           "    1   40   64         334           334              0\n",
                           "   40    1    7          53            53              0\n",
                           "   24   24    3          81            81              0\n",
                           "    1    1    1          15            15              0\n",
                           "tile 3 (RTL): matrix engine busy for 1159000 ps\n",
                           "tile 0 (model): matrix engine busy for 1159000 ps\n",
                           "6 products, 0 of other duration than the model's, 0 wrong results\n"}) {
    EXPECT_THAT(outcome.out, testing::HasSubstr(line));
  }
  // One file has the waves of both: the RTL's clock, and a signal of SystemC's.
  std::ifstream file(vcd);
  std::map<std::string, std::string> identifiers, values;
  std::uint64_t time = 0, edges = 0, last_edge = 0;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word, type, width, id, name;
    words >> word;
    if (word == "$var") {
      words >> type >> width >> id >> name;
      identifiers.emplace(name, id);
    } else if (word[0] == '#') {
      EXPECT_GE(std::stoull(word.substr(1)), time);
      time = std::stoull(word.substr(1));
    } else if (word[0] == 'b') {
      words >> id;
      values[id] = word.substr(1);
    } else if (identifiers.count("clk") > 0 && word == "1" + identifiers["clk"]) {
      ++edges;
      last_edge = time;
    }
  }
  EXPECT_EQ(edges, 1159u);
  EXPECT_GT(last_edge, 1159000u);  // the ring's messages and vector work come between
  EXPECT_EQ(std::stoi(values[identifiers["products"]], nullptr, 2), 6);
}

TEST(PlatformBinaries, RtlRouter) {
  const Outcome outcome = platform("rtl-router");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, testing::ContainsRegex(
                               "[1-9][0-9]* packets, .*[1-9][0-9]* of [1-9][0-9]* flits passed "
                               "the RTL router\n0 packets took another time"));
}

TEST(PlatformBinaries, RtlPlatformsCheckTheirArguments) {
  const auto error = [](const std::string& name, const std::vector<std::string>& arguments) {
    const Outcome outcome = platform(name, arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    return outcome.err;
  };
  for (const char* load : {"x", "", "0.3x", "-0.1", "nan", "inf", "0", "2"}) {
    EXPECT_THAT(error("rtl-router", {load}),
                testing::HasSubstr(std::string("LOAD: '") + load + "' is not allowed"));
  }
  for (const char* cycles : {"x", "-1", "0", "100.5", "99999999999999999999"}) {
    EXPECT_THAT(error("rtl-router", {"0.3", cycles}),
                testing::HasSubstr(std::string("CYCLES: '") + cycles + "' is not allowed"));
  }
  EXPECT_THAT(error("rtl-router", {"0.000001", "1"}), testing::HasSubstr("no tile sent a packet"));
  EXPECT_THAT(error("rtl-router", {"0.3", "10", "/no/such/folder/a.vcd"}),
              testing::HasSubstr("cannot write '/no/such/folder/a.vcd'"));
  for (const char* vcd : {"/no/such/folder/a.vcd", ""}) {
    EXPECT_THAT(error("rtl-tile", {vcd}), testing::HasSubstr("cannot write '"));
  }
}
#endif

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
