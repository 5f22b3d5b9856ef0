// `tilewright run`, whole: small jobs whose answers are known, and what must hold for any job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using tilewright::testing_support::Job;
using tilewright::testing_support::kModel;
using tilewright::testing_support::kPlan;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::with;

json result(const Job& job, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--json", "-"});
  const Outcome o = job.run(more);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return o.exit_code == 0 ? json::parse(o.out) : json();
}

double iteration(const Job& job, const std::vector<std::string>& more = {}) {
  return result(job, more)["iteration_time_s"].get<double>();
}

void expect_sums_to(const json& breakdown, double total) {
  double sum = 0;
  for (const auto& part : breakdown) sum += part.get<double>();
  EXPECT_NEAR(sum, total, 1e-12 * total);
}

TEST(Run, ReportGoesToStdoutAndTheHostToStderr) {
  const Job job;
  const Outcome o = job.run();
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, StartsWith("small-gpt with plan small-plan on small\n"));
  EXPECT_THAT(o.out, HasSubstr("Where the time goes"));
  EXPECT_THAT(o.out, Not(HasSubstr("host")));
  EXPECT_THAT(o.err, StartsWith("host: "));
  EXPECT_THAT(o.err, Not(HasSubstr("\r")));  // no progress bar away from a terminal
}

TEST(Run, TheSameBytesEveryTime) {
  const Job job;
  const Outcome first = job.run({"--json", "-"}), second = job.run({"--json", "-"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
  EXPECT_EQ(job.run().out, job.run().out);
}

TEST(Run, JsonFileEqualsJsonOnStdout) {
  const Job job;
  const std::string file = job.folder().path("result.json");
  EXPECT_EQ(job.run({"--json", file}).exit_code, 0);
  EXPECT_EQ(read_text(file), job.run({"--json", "-"}).out);
}

TEST(Run, ProfileHoldsTheHostsTimeAndTheResultDoesNot) {
  const Job job;
  const std::string file = job.folder().path("profile.json");
  const json r = result(job, {"--profile", file});
  const json profile = json::parse(read_text(file));
  EXPECT_GT(profile["wall_s"].get<double>(), 0);
  EXPECT_GT(profile["peak_memory_bytes"].get<double>(), 1e6);
  EXPECT_TRUE(profile["phases_s"].contains("run"));
  EXPECT_EQ(profile["events"], r["simulation"]["events"]);
  EXPECT_FALSE(r.contains("wall_s"));
}

TEST(Run, TimesAddUp) {
  const json r = result(Job{});
  const double total = r["iteration_time_s"];
  EXPECT_GT(total, 0);
  expect_sums_to(r["breakdown_s"], total);
  ASSERT_EQ(r["stages"].size(), 2u);
  std::int64_t layers = 0;
  for (const auto& stage : r["stages"]) {
    expect_sums_to(stage["breakdown_s"], total);
    layers += stage["layers"].get<std::int64_t>();
    EXPECT_LE(stage["peak_sram_bytes"].get<double>(), 1 << 20);
  }
  EXPECT_EQ(layers, 4);
  EXPECT_NEAR(r["throughput"]["samples_per_s"].get<double>(), 8 / total, 1e-9 / total);
  EXPECT_NEAR(r["throughput"]["tokens_per_s"].get<double>(), 8 * 128 / total, 1e-6 / total);
}

TEST(Run, NoBoundIsAboveTheSimulatedTime) {
  const json r = result(Job{});
  for (const auto& [name, bound] : r["bounds_s"].items()) {
    EXPECT_LE(bound.get<double>(), r["iteration_time_s"].get<double>() * (1 + 1e-12)) << name;
    EXPECT_GE(bound.get<double>(), 0) << name;
  }
  EXPECT_GT(r["bounds_s"]["compute"].get<double>(), 0);
  EXPECT_GE(r["bounds_s"]["pipeline"].get<double>(),
            r["bounds_s"]["compute"].get<double>() * (1 - 1e-12));
}

TEST(Run, FewerRanksThanTilesLeaveTilesIdleAndSaySo) {
  Job job;
  const json r = result(job);
  EXPECT_EQ(r["tiles"]["total"], 8);
  EXPECT_EQ(r["tiles"]["used"], 4);
  EXPECT_EQ(r["tiles"]["idle"], 4);
  EXPECT_THAT(job.run().out, HasSubstr("of 8 used, 0 spare, 4 idle"));
}

TEST(Run, OneTileAlone) {
  Job job;
  const json r = result(job, {"--set", "parallelism.pipeline=1", "--set", "parallelism.tensor=1"});
  EXPECT_EQ(r["tiles"]["used"], 1);
  EXPECT_EQ(r["bubble_fraction"], 0.0);
  EXPECT_EQ(r["traffic_bytes"]["tensor"], 0);
  EXPECT_EQ(r["traffic_bytes"]["pipeline"], 0);
}

TEST(Run, AShortLastMicroBatchIsShort) {
  // 7 samples in micro-batches of 2: throughput counts 7, work lies between that of 6 and of 8.
  Job job;
  const json seven = result(job, {"--set", "batch.global=7"});
  EXPECT_EQ(seven["throughput"]["samples_per_iteration"], 7.0);
  const double t7 = seven["iteration_time_s"];
  EXPECT_GT(t7, iteration(job, {"--set", "batch.global=6"}));
  EXPECT_LT(t7, iteration(job));
}

TEST(Run, OnlyAShortLastMicroBatchIsNoted) {
  // Two data-parallel ranks share the experts, so that a micro-batch has the samples of both.
  Job job;
  job.model(std::string(kModel) + "  experts: {count: 4, top_k: 2, ffn: 128}\n");
  job.plan("plan: p\nparallelism: {data: 2, expert: 2}\nbatch: {global: 8, micro: 1}\n");
  EXPECT_THAT(result(job)["notes"].dump(), Not(HasSubstr("micro-batches of")));
  const json uneven = result(job, {"--set", "batch.global=6", "--set", "batch.micro=2"});
  EXPECT_THAT(uneven["notes"].dump(),
              HasSubstr("1 micro-batches of 4 samples and a last one of 2"));
}

TEST(Run, RecomputationAddsHardwareFlopsAndNoModelFlops) {
  const json none = result(Job{}), full = result(Job{}, {"--set", "recomputation=full"});
  EXPECT_EQ(full["flops"]["model"], none["flops"]["model"]);
  EXPECT_GT(full["flops"]["hardware"].get<double>(), none["flops"]["hardware"].get<double>());
  const double model = none["flops"]["model"];
  EXPECT_NEAR(none["flops"]["hardware"].get<double>(), model, 1e-12 * model);
  EXPECT_GT(full["breakdown_s"]["recomputation"].get<double>(), 0);
  EXPECT_EQ(none["breakdown_s"]["recomputation"], 0.0);
}

TEST(Run, InferenceHasNoBackward) {
  const json r = result(Job{}, {"--set", "mode=inference"});
  const json t = result(Job{});
  EXPECT_NEAR(r["flops"]["model"].get<double>() * 3, t["flops"]["model"].get<double>(),
              1e-9 * t["flops"]["model"].get<double>());
  EXPECT_LT(r["iteration_time_s"].get<double>(), t["iteration_time_s"].get<double>());
}

TEST(Run, DataParallelReplicasSynchroniseTheirGradients) {
  const json r = result(Job{}, {"--set", "parallelism.data=2"});
  EXPECT_EQ(r["tiles"]["used"], 8);
  EXPECT_GT(r["traffic_bytes"]["data"].get<double>(), 0);
}

TEST(Run, AHuggingFaceModelRuns) {
  Job job;
  job.model(R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
    "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4,
    "num_hidden_layers": 4, "vocab_size": 1000, "max_position_embeddings": 256,
    "hidden_act": "silu", "rms_norm_eps": 1e-5, "tie_word_embeddings": false})",
            "config.json");
  const json r = result(job);
  // embedding and head 2 x 1000 x 256; layer: q, o 2 x 256^2, k, v 2 x 256 x 128, three of
  // 256 x 512, two norms; final norm.
  EXPECT_EQ(r["parameters"], 512'000 + 4 * (131'072 + 65'536 + 393'216 + 512) + 256);
}

/// Every way of running a job that has a switch; the files of Job otherwise.
class Variant : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(Variant, RunsToTheEndAndAddsUp) {
  const json r = result(Job(), GetParam());
  const double time = r["iteration_time_s"];
  expect_sums_to(r["breakdown_s"], time);
  for (const auto& [name, bound] : r["bounds_s"].items()) {
    EXPECT_LE(bound.get<double>(), time * (1 + 1e-12)) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Run, Variant,
    testing::Values(std::vector<std::string>{"--set", "precision=fp32", "--set",
                                             "tile.matrix.fp32=250 GFLOP/s"},
                    std::vector<std::string>{"--set", "optimizer=sgd"},
                    std::vector<std::string>{"--set", "optimizer=none"},
                    std::vector<std::string>{"--set", "placement=serpentine"},
                    std::vector<std::string>{"--set", "schedule=gpipe"},
                    std::vector<std::string>{"--set", "parallelism.sequence_parallel=true"},
                    std::vector<std::string>{"--set", "dram.policy=interleaved"},
                    std::vector<std::string>{"--set", "mode=inference"}));

TEST(Run, APaddedVocabularyIsReported) {
  // 1022 = 2 * 511 over 4 ranks: 256 rows each.
  const json r = result(Job(), {"--set", "decoder.vocab=1022", "--set", "parallelism.tensor=4"});
  EXPECT_THAT(r["notes"].dump(), HasSubstr("the vocabulary of 1022 is padded to 1024 for 4"));
  const json even = result(Job(), {"--set", "parallelism.tensor=4"});
  EXPECT_THAT(even["notes"].dump(), Not(HasSubstr("padded")));
}

TEST(Run, TheDojoTileRunsASmallJob) {
  const Outcome o = tilewright::testing_support::tilewright(
      {"run", "--platform", "platforms/dojo-tile.yaml", "--model", "workloads/models/gpt2",
       "--plan", "workloads/plans/gpt2-tx8-die.yaml", "--set", "precision=bf16", "--set",
       "batch.global=8", "--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_EQ(json::parse(o.out)["tiles"]["total"], 9000);
}

/// Links and DRAM serve in arrival order, so a part that got faster can let messages overtake
/// others they used to follow, and a job may lose a little to the new order (list scheduling's
/// anomaly).
constexpr double kOrderEffect = 0.01;

/// More of one resource; the answer must not get worse.
struct Upgrade {
  const char* name;
  std::vector<const char*> settings;  ///< for the small job
  std::vector<const char*> doubled;   ///< for GPT-2 on the die of the wafer
};

void PrintTo(const Upgrade& upgrade, std::ostream* out) { *out << upgrade.name; }

class NeverSlower : public testing::TestWithParam<Upgrade> {};

TEST_P(NeverSlower, WithMoreOfIt) {
  for (const char* kept : {"recomputation=none", "recomputation=full", "recomputation=selective",
                           "fusion=attention"}) {
    const Job job;
    double before = iteration(job, {"--set", kept});
    for (const char* setting : GetParam().settings) {
      const double now = iteration(job, {"--set", kept, "--set", setting});
      EXPECT_LE(now, before * (1 + kOrderEffect)) << kept << ' ' << setting;
      before = now;
    }
  }
}

TEST_P(NeverSlower, AShippedJobWithTwiceOfIt) {
  const auto seconds = [](const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"run",
                                       "--platform",
                                       "platforms/tx8-die.yaml",
                                       "--model",
                                       "workloads/models/gpt2",
                                       "--plan",
                                       "workloads/plans/gpt2-tx8-die.yaml",
                                       "--json",
                                       "-"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome o = tilewright::testing_support::tilewright(arguments);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return json::parse(o.out)["iteration_time_s"].get<double>();
  };
  double before = seconds({});
  for (const char* setting : GetParam().doubled) {
    const double now = seconds({"--set", setting});
    EXPECT_LE(now, before * (1 + kOrderEffect)) << setting;
    before = now;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Resources, NeverSlower,
    testing::Values(Upgrade{"sram",
                            {"tile.sram.capacity=2MiB", "tile.sram.capacity=8MiB",
                             "tile.sram.capacity=64MiB", "tile.sram.capacity=1GiB"},
                            {"tile.sram.capacity=6MiB", "tile.sram.capacity=12MiB",
                             "tile.sram.capacity=24MiB", "tile.sram.capacity=512MiB"}},
                    Upgrade{"sram_bandwidth",
                            {"tile.sram.bandwidth=400GB/s", "tile.sram.bandwidth=unlimited"},
                            {"tile.sram.bandwidth=4TB/s", "tile.sram.bandwidth=8TB/s"}},
                    Upgrade{"flops",
                            {"tile.matrix.fp16=2TFLOP/s", "tile.matrix.fp16=16TFLOP/s",
                             "tile.matrix.fp16=1000TFLOP/s"},
                            {"tile.matrix.fp16=32TFLOP/s", "tile.matrix.fp16=64TFLOP/s"}},
                    Upgrade{"vector",
                            {"tile.vector.throughput=64Gelem/s", "tile.vector.throughput=1Telem/s"},
                            {"tile.vector.throughput=1024Gelem/s",
                             "tile.vector.throughput=2048Gelem/s"}},
                    Upgrade{"links",
                            {"noc.link_bandwidth=64GB/s", "noc.link_bandwidth=1TB/s"},
                            {"noc.link_bandwidth=2048GB/s", "noc.link_bandwidth=4096GB/s"}},
                    Upgrade{"die_links",
                            {"noc.die_link_bandwidth=32GB/s", "noc.die_link_bandwidth=1TB/s"},
                            {"noc.die_link_bandwidth=512GB/s"}},
                    Upgrade{"dram",
                            {"dram.bandwidth=64GB/s", "dram.bandwidth=1TB/s"},
                            {"dram.bandwidth=512GB/s", "dram.bandwidth=1024GB/s"}}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
