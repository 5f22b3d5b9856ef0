// `tilewright network` as its users run it.
#include <algorithm>

#include <gtest/gtest.h>
#include <support/subprocess.h>

namespace tilewright::testing_support {
namespace {

TEST(NetworkCommand, PrintsATableAndEstimates) {
  const TemporaryFolder folder;
  const std::string csv = folder.path("curve.csv");
  const Outcome o = tilewright({"network", "--mesh", "4x4", "--traffic", "uniform", "--packet", "1",
                                "--load", "0.1,0.3", "--measure", "2000", "--csv", csv, "--curve",
                                folder.path("curve.svg")});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("zero load                  16.00 cycles over 3.500 routers"),
            std::string::npos)
      << o.out;
  EXPECT_NE(o.out.find("capacity of busiest link   at a load of 1.0000"), std::string::npos);
  EXPECT_NE(read_text(folder.path("curve.svg")).find("4x4 flit, uniform, packets of 1 flits"),
            std::string::npos);
  const std::string table = read_text(csv);
  EXPECT_EQ(table.rfind("offered,created,accepted,latency_mean,", 0), 0u);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
}

TEST(NetworkCommand, RunsAreTheSame) {
  const std::vector<std::string> arguments{
      "network",     "--mesh",    "5x3",  "--traffic", "tornado", "--load",
      "0.1:0.2:0.1", "--measure", "1000", "--csv",     "-"};
  const Outcome a = tilewright(arguments), b = tilewright(arguments);
  EXPECT_EQ(a.exit_code, 0) << a.err;
  EXPECT_EQ(a.out, b.out);
}

TEST(NetworkCommand, MessageFidelityAgreesAtLowLoad) {
  for (const char* fidelity : {"flit", "message"}) {
    const Outcome o =
        tilewright({"network", "--mesh", "8x1", "--traffic", "bit-complement", "--load", "0.001",
                    "--measure", "20000", "--fidelity", fidelity, "--csv", "-"});
    ASSERT_EQ(o.exit_code, 0) << o.err;
    EXPECT_NE(o.out.find("0.001,"), std::string::npos);
  }
}

// One packet of 8 flits each to the neighbour, two to the far corner: 4 R + 2 + 7 cycles.
TEST(NetworkCommand, CountsLatenciesInBins) {
  const TemporaryFolder folder;
  const std::string trace = folder.write("t.trace", "0 0 1 8\n100 1 0 8\n200 0 3 8\n300 3 0 8\n");
  const Outcome o = tilewright({"network", "--mesh", "2x2", "--trace", trace, "--latencies", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const std::string load =
      o.out.substr(o.out.find('\n') + 1, o.out.find(",17") - 1 - o.out.find('\n'));
  EXPECT_EQ(o.out,
            "offered,from_cycles,to_cycles,count\n" + load + ",17,17,2\n" + load + ",21,21,2\n");
}

TEST(NetworkCommand, RunsATrace) {
  const TemporaryFolder folder;
  const std::string trace =
      folder.write("t.trace", "# cycle source destination flits\n0 0 3 8\n0, 3, 0, 8\n40 1 1 1\n");
  const Outcome o = tilewright({"network", "--mesh", "2x2", "--trace", trace});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("trace done after 46 cycles"), std::string::npos) << o.out;
}

// The window of a trace of one packet closes before it arrives, after 2 · 4 + 2 + 7 cycles.
TEST(NetworkCommand, AFinishedTraceIsNotSaturated) {
  const TemporaryFolder folder;
  const std::string trace = folder.write("t.trace", "0 0 1 8\n");
  const Outcome o = tilewright({"network", "--mesh", "2x1", "--trace", trace});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(o.out.find("saturated"), std::string::npos) << o.out;
  // 8 flits to two tiles in the 17 cycles that the packet takes
  EXPECT_NE(o.out.find("   4.0000    0.2353     17.00 "), std::string::npos) << o.out;
  const Outcome cut = tilewright({"network", "--mesh", "2x1", "--trace", trace, "--drain", "10"});
  EXPECT_NE(cut.out.find(" -         0  saturated\n"), std::string::npos) << cut.out;
}

TEST(NetworkCommand, HasNoLatencyWithoutPackets) {
  const std::vector<std::string> arguments{"network",  "--mesh",    "2x2", "--load",
                                           "0.000001", "--measure", "1"};
  const Outcome o = tilewright(arguments);
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_NE(o.out.find("   0.0000    0.0000         -      -      -      -      -        -         "
                       "0  no packet was created in the measured cycles\n"),
            std::string::npos)
      << o.out;
  std::vector<std::string> csv = arguments;
  csv.insert(csv.end(), {"--csv", "-"});
  EXPECT_NE(tilewright(csv).out.find("\n1e-06,0,0,,,,,,,0,0,"), std::string::npos);
}

TEST(NetworkCommand, RefusesWhatItCannotDo) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "network");
    const Outcome o = tilewright(arguments);
    EXPECT_EQ(o.exit_code, 2) << o.out;
    return o.err;
  };
  EXPECT_NE(error({"--traffic", "unifrom"}).find("did you mean 'uniform'"), std::string::npos);
  EXPECT_NE(error({"--vcs", "40"}).find("--vcs: '40' is not allowed; allowed: 1 to 32"),
            std::string::npos);
  EXPECT_NE(error({"--mesh", "8"}).find("WIDTHxHEIGHT"), std::string::npos);
  EXPECT_NE(error({"--load", "0.1,x"}).find("--load"), std::string::npos);
  EXPECT_NE(error({"--load", "2", "--packet", "1"}).find("one packet per cycle"),
            std::string::npos);
  EXPECT_NE(error({"--routing", "zigzag"}).find("allowed: xy"), std::string::npos);
  EXPECT_NE(error({"--speculative", "--vc-delay", "2"}).find("speculative"), std::string::npos);
  EXPECT_NE(error({"--csv", "-", "--latencies", "-"}).find("cannot both go to stdout"),
            std::string::npos);
  EXPECT_NE(error({"--fidelity", "flits"}).find("did you mean 'flit'"), std::string::npos);
  const TemporaryFolder folder;
  const std::string trace = folder.write("t.trace", "0 0 99 8\n");
  EXPECT_NE(error({"--mesh", "2x2", "--trace", trace}).find("t.trace:1:"), std::string::npos);
  EXPECT_NE(error({"--trace", "."}).find("the trace '.' is a directory"), std::string::npos);
}

}  // namespace
}  // namespace tilewright::testing_support
