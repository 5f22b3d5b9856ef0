// Every kind of wrong input: exit code 2, one message that says what, where, and what is allowed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job.h"

namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using tilewright::testing_support::Job;
using tilewright::testing_support::kMachine;
using tilewright::testing_support::kModel;
using tilewright::testing_support::kPlan;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::tilewright;
using tilewright::testing_support::with;

void expect_refused(const Outcome& o, const std::vector<std::string>& fragments) {
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, StartsWith("tilewright: error: "));
  for (const std::string& f : fragments) EXPECT_THAT(o.err, HasSubstr(f));
}

TEST(Files, Missing) {
  expect_refused(tilewright({"run", "--platform", "no/such.yaml", "--model", "m", "--plan", "p"}),
                 {"no/such.yaml"});
  expect_refused(tilewright({"describe", "--model", "no-such-model"}), {"no-such-model"});
}

TEST(Files, ModelFolderWithoutAModel) {
  const Job job;
  std::filesystem::create_directory(job.folder().path("empty"));
  expect_refused(tilewright({"describe", "--model", job.folder().path("empty")}),
                 {"neither a config.json nor a YAML file"});
}

TEST(Files, Empty) {
  Job job;
  job.plan("");
  expect_refused(job.run(), {"plan.yaml"});
}

TEST(Files, BrokenYamlNamesTheLine) {
  Job job;
  job.plan("plan: x\nparallelism: {pipeline: [\n");
  expect_refused(job.run(), {"plan.yaml:"});
}

TEST(Keys, UnknownOnesNameTheNearest) {
  Job job;
  job.platform(with(kMachine, "hop_latency", "hop_latencey"));
  expect_refused(job.run(), {"platform.yaml:"});
  job.platform(std::string(kMachine) + "  latancy: 3 ns\n");
  expect_refused(job.run(), {"platform.yaml:19", "latancy", "'latency'"});
  job.platform(kMachine);
  job.plan(std::string(kPlan) + "recomputaton: full\n");
  expect_refused(job.run(), {"plan.yaml:8", "recomputaton", "'recomputation'"});
  job.plan(kPlan);
  job.model(std::string(kModel) + "  head: 8\n");
  expect_refused(job.run(), {"model.yaml:8", "head", "'heads'"});
}

TEST(Units, WrongMissingAndNegative) {
  Job job;
  job.platform(with(kMachine, "link_bandwidth: 32 GB/s", "link_bandwidth: 32 GB"));
  expect_refused(job.run(), {"platform.yaml:10", "link_bandwidth", "GB/s"});
  job.platform(with(kMachine, "hop_latency: 1 ns", "hop_latency: 1"));
  expect_refused(job.run(), {"platform.yaml:11", "hop_latency", "ns"});
  job.platform(with(kMachine, "capacity: 4 GiB", "capacity: -4 GiB"));
  expect_refused(job.run(), {"platform.yaml:16", "capacity"});
}

TEST(Degrees, MoreStagesThanLayers) {
  Job job;
  job.plan(with(kPlan, "pipeline: 2", "pipeline: 5"));
  expect_refused(job.run({"--set", "parallelism.tensor=1"}), {"plan.yaml:3", "5", "4"});
}

TEST(Degrees, ZeroAndNonsense) {
  Job job;
  expect_refused(job.run({"--set", "parallelism.tensor=0"}), {"--set", "parallelism.tensor"});
  expect_refused(job.run({"--set", "parallelism.tensor=2.5"}), {"parallelism.tensor"});
}

TEST(Degrees, HeadsNotDivisibleByTheTensorDegree) {
  Job job;
  expect_refused(job.run({"--set", "parallelism.tensor=3", "--set", "parallelism.pipeline=1"}),
                 {"parallelism.tensor", "3", "8", "heads"});
}

TEST(Degrees, MoreRanksThanTiles) {
  Job job;
  expect_refused(job.run({"--set", "parallelism.tensor=8"}), {"16", "8", "'small'"});
}

TEST(Degrees, ExplicitStagesThatDoNotAddUp) {
  Job job;
  job.plan(std::string(kPlan) + "stages: [1, 2]\n");
  expect_refused(job.run(), {"plan.yaml:8", "3", "4"});
}

TEST(Model, ZeroLayers) {
  Job job;
  expect_refused(job.run({"--set", "decoder.layers=0"}), {"decoder.layers", "0"});
}

TEST(Model, WidthNotDivisibleByHeads) {
  Job job;
  expect_refused(job.run({"--set", "decoder.heads=7"}), {"heads", "7", "256"});
}

TEST(Model, JsonThatIsNotOne) {
  Job job;
  job.model(R"({"name": "left-pad", "version": "1.3.0"})", "config.json");
  expect_refused(job.run(), {"config.json"});
  job.model(R"({"model_type": "bert", "architectures": ["BertModel"]})", "config.json");
  expect_refused(job.run(), {"config.json", "BertModel", "LlamaForCausalLM"});
  job.model("[1, 2, 3]", "config.json");
  expect_refused(job.run(), {"config.json"});
}

TEST(Batch, ZeroAndTooLargeAMicroBatch) {
  Job job;
  expect_refused(job.run({"--set", "batch.global=0"}), {"batch.global", "0"});
  expect_refused(job.run({"--set", "batch.micro=0"}), {"batch.micro"});
  expect_refused(job.run({"--set", "batch.micro=9"}), {"batch.micro", "9", "8"});
}

TEST(Batch, TooManyMicroBatches) {
  const Job job;
  expect_refused(job.run({"--set", "batch.global=1000000000", "--set", "batch.micro=1"}),
                 {"batch.micro", "at most 1000000 are possible", "wanted: at least 1000"});
}

TEST(Time, RunsOutForRatesThatAreTooLow) {
  const Job job;
  expect_refused(job.run({"--set", "tile.matrix.fp16=1FLOP/s"}),
                 {"would take", "engine time", "simulated time is limited"});
  expect_refused(job.run({"--set", "tile.vector.throughput=0.001elem/s"}), {"would take"});
}

TEST(Memory, AnSramTooSmallForOneBlockSaysSo) {
  const Job job;
  expect_refused(job.run({"--set", "tile.sram.capacity=100B"}),
                 {"tile.sram.capacity: 100 B (100 bytes)", "smallest blocks", "260 bytes"});
}

TEST(Overrides, UnknownKeyNamesTheNearest) {
  Job job;
  expect_refused(job.run({"--set", "noc.link_bandwith=1GB/s"}),
                 {"noc.link_bandwith", "'noc.link_bandwidth'"});
}

TEST(Overrides, GivenTwice) {
  Job job;
  expect_refused(job.run({"--set", "batch.micro=1", "--set", "batch.micro=2"}), {"batch.micro"});
}

TEST(Memory, WhatDoesNotFitNamesStageAndLargestConsumers) {
  Job job;
  expect_refused(job.run({"--set", "dram.capacity=1MiB"}), {"stage", "MiB"});
}

}  // namespace
