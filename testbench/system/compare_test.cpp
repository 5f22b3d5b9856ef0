// `tilewright compare` and `run --fidelity flit`, whole.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;
using tilewright::testing_support::Job;
using tilewright::testing_support::kMachine;
using tilewright::testing_support::kModel;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::tilewright;
using tilewright::testing_support::with;

/// One whose flits are few: 128 bytes, of 4 ns.
class FlitJob : public Job {
 public:
  FlitJob() {
    platform(
        with(with(kMachine, "hop_latency: 1 ns", "hop_latency: 16 ns\n  flit: {clock: 250 MHz}"),
             "die_hop_latency: 5 ns", "die_hop_latency: 32 ns"));
    model(with(kModel, "layers: 4", "layers: 2"));
  }
  Outcome compare(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"compare"};
    for (const auto& part : {files(), more}) {
      arguments.insert(arguments.end(), part.begin(), part.end());
    }
    return tilewright(arguments);
  }
  json differences(std::vector<std::string> more = {}) const {
    more.insert(more.end(), {"--json", "-"});
    const Outcome o = compare(more);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return o.exit_code == 0 ? json::parse(o.out) : json();
  }
};

void expect_sums_to(const json& breakdown, double total) {
  double sum = 0;
  for (const auto& part : breakdown) sum += part.get<double>();
  EXPECT_NEAR(sum, total, 1e-12 * total);
}

TEST(FlitRun, AWholeJobFlitByFlit) {
  const FlitJob job;
  const std::string loads = job.folder().path("loads.csv"), csv = job.folder().path("l.csv");
  const Outcome o = job.run({"--fidelity", "flit", "--json", "-", "--link-load", loads,
                             "--latencies", csv, "--vcd", job.folder().path("waves.vcd")});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json r = json::parse(o.out), message = json::parse(job.run({"--json", "-"}).out);
  EXPECT_EQ(r["fidelity"], "flit");
  expect_sums_to(r["breakdown_s"], r["iteration_time_s"]);
  for (const auto& stage : r["stages"]) expect_sums_to(stage["breakdown_s"], r["iteration_time_s"]);
  for (const char* const key : {"flops", "traffic_bytes", "memory"}) {
    if (key == std::string("flops")) {
      EXPECT_EQ(r[key]["hardware"], message[key]["hardware"]);
    } else {
      EXPECT_EQ(r[key], message[key]) << key;
    }
  }
  EXPECT_EQ(r["dram"]["read_bytes"], message["dram"]["read_bytes"]);
  EXPECT_EQ(r["simulation"]["messages"], message["simulation"]["messages"]);
  for (const auto& bound : r["bounds_s"]) EXPECT_LE(bound, r["iteration_time_s"]);
  // Rounding to flits and bursts, buffers and turns: some per cent, either way.
  EXPECT_NEAR(r["iteration_time_s"], message["iteration_time_s"],
              0.1 * message["iteration_time_s"].get<double>());
  EXPECT_THAT(r["notes"].dump(), HasSubstr("flits of 128 B, cycles of 4000 ps, packets of 32"));
  // The links that were watched carry what the counters say.
  const auto& hottest = r["links"]["hottest"];
  double bytes = 0, flows = 0;
  for (const auto& b : hottest["bytes"]) bytes += b.get<double>();
  for (const auto& f : hottest["flows"]) flows += f["bytes"].get<double>();
  EXPECT_GT(bytes, 0);
  EXPECT_LE(flows, bytes);
  EXPECT_NEAR(hottest["busy"], r["links"]["max"], 1e-3);
  // The histogram holds every message.
  std::uint64_t counted = 0;
  std::istringstream lines(read_text(csv));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "cause,from_s,to_s,count");
  while (std::getline(lines, line)) {
    if (line.rfind("memory", 0) != 0) counted += std::stoull(line.substr(line.rfind(',') + 1));
  }
  EXPECT_EQ(counted, r["simulation"]["messages"].get<std::uint64_t>());
  EXPECT_GT(r["latency_s"]["tensor"]["p99"], r["latency_s"]["tensor"]["p50"]);
  EXPECT_LE(r["latency_s"]["tensor"]["p99"], r["latency_s"]["tensor"]["max"]);
}

TEST(FlitRun, TheSameBytesEveryTime) {
  const FlitJob job;
  const Outcome first = job.run({"--fidelity", "flit", "--json", "-"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, job.run({"--fidelity", "flit", "--json", "-"}).out);
}

TEST(Compare, MessagesWithThemselves) {
  const json j = FlitJob().differences({"--second", "message"});
  EXPECT_GT(j["iteration_time_s"]["first"], 0);
  EXPECT_EQ(j["iteration_time_s"]["first"], j["iteration_time_s"]["second"]);
  EXPECT_EQ(j["iteration_time_s"]["relative"], 0);
  EXPECT_EQ(j["links"]["differ"], 0);
  for (const auto& state : j["breakdown_s"]) EXPECT_EQ(state["relative"], 0);
}

TEST(Compare, AgreesWithTheRunsItIsMadeOf) {
  const FlitJob job;
  const json j = job.differences();
  for (const char* const side : {"first", "second"}) {
    const json r = json::parse(job.run({"--json", "-", "--fidelity", j[side]["fidelity"]}).out);
    EXPECT_EQ(j["iteration_time_s"][side], r["iteration_time_s"]);
    for (const auto& [state, time] : r["breakdown_s"].items()) {
      EXPECT_EQ(j["breakdown_s"][state][side], time) << state;
    }
    for (const auto& stage : r["stages"]) {
      const json& own = j["stages"][stage["stage"].get<std::size_t>()];
      EXPECT_EQ(own["busy_s"][side], stage["busy_s"]);
    }
    EXPECT_EQ(j["communication_s"]["tensor"]["exposed"][side],
              r["communication_s"]["tensor"]["exposed"]);
  }
  const double a = j["iteration_time_s"]["first"], b = j["iteration_time_s"]["second"];
  EXPECT_DOUBLE_EQ(j["iteration_time_s"]["relative"], (b - a) / a);
  EXPECT_EQ(j["links"]["carry_other_bytes"], 0);  // xy leaves no choice
  EXPECT_EQ(j["first"]["name"], "message");
  EXPECT_EQ(j["second"]["name"], "flit");
}

TEST(Compare, SwitchingAndOtherValues) {
  const FlitJob job;
  const json stored = job.differences({"--second", "store-and-forward"});
  EXPECT_GT(stored["iteration_time_s"]["second"], stored["iteration_time_s"]["first"]);
  const json moved =
      job.differences({"--second", "message", "--second-set", "dram.per_die=[[1, 1]]"});
  EXPECT_GT(moved["links"]["carry_other_bytes"], 0);
  EXPECT_EQ(moved["second"]["name"], "message dram.per_die=[[1, 1]]");
  const Outcome text = job.compare({"--second", "circuit"});
  EXPECT_THAT(text.out, StartsWith("small-gpt with plan small-plan on small\n"));
  EXPECT_THAT(text.out, HasSubstr("second    circuit"));
  EXPECT_THAT(text.out, HasSubstr("tensor, waited for"));
  EXPECT_THAT(text.out, HasSubstr("tensor, p99"));
  EXPECT_THAT(text.out, HasSubstr("Stage 1 (mean over its tiles)"));
}

TEST(Compare, ASidesValueReplacesThatOfBoth) {
  const FlitJob job;
  const auto time = [&job](const std::vector<std::string>& more, const char* side) {
    std::vector<std::string> all{"--second", "message"};
    all.insert(all.end(), more.begin(), more.end());
    return job.differences(all)["iteration_time_s"][side].get<double>();
  };
  const std::string slow = "noc.link_bandwidth=8GB/s", fast = "noc.link_bandwidth=64GB/s";
  const double slow_time = time({"--set", slow}, "first"),
               fast_time = time({"--set", fast}, "first");
  EXPECT_GT(slow_time, fast_time);
  for (const std::string& own : {fast, "platform." + fast}) {
    EXPECT_EQ(time({"--set", slow, "--second-set", own}, "first"), slow_time);
    EXPECT_EQ(time({"--set", slow, "--second-set", own}, "second"), fast_time);
    EXPECT_EQ(time({"--set", "platform." + slow, "--first-set", own}, "first"), fast_time);
  }
}

TEST(Compare, AProgram) {
  const std::string root = TILEWRIGHT_SOURCE_DIR;
  const Outcome o = tilewright({"compare", "--platform", root + "/platforms/tx8-die.yaml",
                                "--program", root + "/workloads/programs/ring-all-reduce.twp"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("iteration time"));
}

TEST(Compare, WrongInputIsRefused) {
  const FlitJob job;
  const auto refused = [&](const std::vector<std::string>& more, const std::string& message) {
    const Outcome o = job.compare(more);
    EXPECT_EQ(o.exit_code, 2) << message;
    EXPECT_THAT(o.err, HasSubstr(message));
    EXPECT_EQ(o.out, "");
  };
  refused({"--first", "flits"}, "compare: --first: unknown name 'flits'");
  refused({"--first", "flits"}, "did you mean 'flit'?");
  refused({"--program", "x.twp"}, "--program stands in place of --model");
  refused({"--second-set", "noc.rooting=yx"}, "error: flit noc.rooting=yx: ");
  refused({"--first", "circuit", "--set", "noc.rooting=yx"}, "error: circuit: ");
  refused({"--second", "circuit", "--second-set", "platform.noc.switching=cut-through"},
          "compare: --second circuit and --second-set platform.noc.switching=cut-through both give "
          "noc.switching");
  refused({"--set", "noc.routing=xy", "--set", "noc.routing=yx"}, "give it once");
  refused({"--second-set", "noc.switching=circuit"},
          "flit noc.switching=circuit: fidelity flit: noc.switching 'circuit'");
  refused({"--second", "message", "--second-set", "mesh.dies=[1, 2]"}, "other links or stages");
  EXPECT_EQ(tilewright({"compare", "--model", "m"}).exit_code, 2);
  EXPECT_THAT(tilewright({"compare", "--model", "m"}).err, HasSubstr("missing --platform, --plan"));
}

}  // namespace
