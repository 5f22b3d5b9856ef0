// The A100 machine files against measurements on A100 clusters (docs/validation.md): small jobs
// whole, large ones cut down in ways that keep what was measured. One figure is calibrated: the
// bandwidth between nodes, by ZeRO-3 on 768 and 1536 GPUs. All other rows check.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"

namespace tilewright::testing_support {
namespace {

constexpr double kPeak = 312e12;  // of one GPU
const std::vector<std::string> kSelective{"recomputation=selective",
                                          "parallelism.sequence_parallel=true"};

struct Job {
  std::string platform, model, plan;
  std::vector<std::string> settings;

  Job with(const std::vector<std::string>& more) const {
    Job job = *this;
    job.settings.insert(job.settings.end(), more.begin(), more.end());
    return job;
  }
  nlohmann::json run() const {
    std::vector<std::string> arguments{"run",
                                       "--platform",
                                       "platforms/" + platform + ".yaml",
                                       "--model",
                                       "workloads/models/" + model + ".yaml",
                                       "--plan",
                                       "workloads/plans/" + plan + ".yaml",
                                       "--json",
                                       "-"};
    for (const std::string& s : settings) arguments.insert(arguments.end(), {"--set", s});
    const Outcome o = tilewright(arguments);
    EXPECT_EQ(o.exit_code, 0) << o.err;
    return o.exit_code == 0 ? nlohmann::json::parse(o.out) : nlohmann::json();
  }
  double seconds() const { return run().at("iteration_time_s").get<double>(); }
  /// TFLOP/s of a GPU, recomputation counted, as in the tables of arXiv 2104.04473.
  double rate() const { return run().at("flops").at("hfu").get<double>() * kPeak * 1e-12; }
};

void expect_within(double tolerance, double simulated, double measured) {
  EXPECT_NEAR(simulated / measured, 1, tolerance)
      << simulated << " simulated, " << measured << " measured";
}

const Job k22b{"a100-node", "megatron-22b", "megatron-22b-a100", {}};

// Korthikanti et al. 2022, table 4: forward and backward pass of one layer. Two jobs differ by four
// layers; without an optimiser, since the table has none.
TEST(A100, LayersOfGpt22B) {
  const struct {
    std::vector<std::string> settings;
    double milliseconds;
  } rows[] = {{{"recomputation=none"}, 19.6},
              {{"recomputation=none", "parallelism.sequence_parallel=true"}, 19.0},
              {{"recomputation=full"}, 27.2},
              {{"recomputation=selective"}, 20.9},
              {kSelective, 20.3}};
  for (const auto& row : rows) {
    const Job job = k22b.with(row.settings).with({"optimizer=none"});
    const double six = job.with({"decoder.layers=6"}).seconds(),
                 two = job.with({"decoder.layers=2"}).seconds();
    expect_within(0.05, (six - two) / 4 * 1e3, row.milliseconds);
  }
}

// The same, table 5.
TEST(A100, Gpt22B) {
  expect_within(0.1, k22b.seconds(), 1.42);
  expect_within(0.1, k22b.with(kSelective).seconds(), 1.10);
}

// Narayanan et al. 2021, table 1; the rows that take a second. The paper does not print
// micro-batches.
TEST(A100, SmallModelsOfTable1) {
  const Job job{"a100-cluster", "megatron-1.7b", "megatron-sc21-a100", {}};
  expect_within(0.1, job.with({"cluster.nodes=4"}).rate(), 137);
  Job larger = job.with({"cluster.nodes=8", "parallelism.tensor=2"});
  larger.model = "megatron-3.6b";
  expect_within(0.1, larger.rate(), 138);
}

// The same, table 2: GPT-3 175B by ZeRO-3 and by pipeline, tensor and data parallelism (PTD) on
// 384, 768 and 1536 GPUs.
//
// ZeRO-3 runs on a quarter of the GPUs, each with its samples, layers and gathers: a ring takes
// nearly the same time for a layer's weights on 96 GPUs as on 384, for each gets (n - 1) / n of
// them. 8 of 96 layers: all are alike, but for the first gather and the last scatter, which nothing
// hides.
//
// PTD runs one replica with a third of its stages, one layer each, and as many micro-batches less
// as keep the bubble (p - 1) / m: a stage's work and messages are those of a layer. Left out is the
// sum of gradients over the replicas, 2 (d - 1) / d · 3.6 GB once per iteration: less than 2 % of
// it. Both leave out embedding and head.
TEST(A100, RanksZero3AndPipelinesAsTable2Does) {
  const Job zero{"a100-cluster",
                 "megatron-175b",
                 "megatron-175b-a100-zero3",
                 {"decoder.vocab=0", "decoder.layers=8"}};
  const Job ptd{"a100-cluster",
                "megatron-175b",
                "megatron-175b-a100",
                {"decoder.vocab=0", "decoder.layers=4", "cluster.nodes=4", "parallelism.pipeline=4",
                 "parallelism.data=1"}};
  const struct {
    int gpus, micro_batch, micro_batches;  // of ZeRO-3; of PTD, 3/11 of 384, 192 and 96
    double zero, ptd;
  } rows[] = {{384, 4, 105, 144, 153}, {768, 2, 52, 88, 149}, {1536, 1, 26, 44, 141}};
  double last_zero = 0, last_ptd = 0;
  for (const auto& row : rows) {
    const int gpus = row.gpus / 4;
    const double z = zero.with({"cluster.nodes=" + std::to_string(gpus / 8),
                                "parallelism.data=" + std::to_string(gpus),
                                "batch.global=" + std::to_string(gpus * row.micro_batch),
                                "batch.micro=" + std::to_string(row.micro_batch)})
                         .rate();
    const double p = ptd.with({"batch.global=" + std::to_string(row.micro_batches)}).rate();
    expect_within(0.15, z, row.zero);
    expect_within(0.1, p, row.ptd);
    EXPECT_GT(p, z) << row.gpus << " GPUs";
    if (last_zero > 0) {
      // ZeRO-3 falls to half with each doubling, PTD by a twentieth.
      EXPECT_LT(z, 0.75 * last_zero);
      EXPECT_LT(p, last_ptd);
      EXPECT_GT(p, 0.9 * last_ptd);
    }
    last_zero = z;
    last_ptd = p;
  }
}

}  // namespace
}  // namespace tilewright::testing_support
