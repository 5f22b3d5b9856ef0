// The job of `./dev run`: Megatron 18.4B on the wafer, 20 stages of 16 tiles.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::tilewright;

const std::vector<std::string> kJob{"run",
                                    "--platform",
                                    "platforms/tx8-wafer.yaml",
                                    "--model",
                                    "workloads/models/megatron-18b.yaml",
                                    "--plan",
                                    "workloads/plans/megatron-18b-tx8.yaml"};

Outcome run(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = kJob;
  arguments.insert(arguments.end(), more.begin(), more.end());
  return tilewright(arguments);
}

TEST(MainJob, StaysBelowTheRoofAndAddsUp) {
  const Outcome o = run({"--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json r = json::parse(o.out);

  // PALM's ideal, compute and bubble alone with 1071 samples counted for 1024: 21 micro-batches of
  // 51 over 20 stages of two layers, F forward and 3 F backward with recomputation, are 40 slots of
  // 4 F.
  const double F = 2 * 24 * 51 * 2048.0 * 6144 * 6144 * (1 + 2048 / (6 * 6144.0)) / (16 * 16e12);
  EXPECT_NEAR(1071 / (40 * 4 * F), 8.578, 5e-4);
  // The roof for the true batch, layers alone: 39 slots of the full micro-batches, then the
  // backward pass of the last one, of 4 samples.
  EXPECT_NEAR(1024 / (39 * 4 * F + 3 * F * 4 / 51), 8.399, 5e-4);
  // With the vocabulary's head on the last stage, which paces the pipeline: the report's bound.
  EXPECT_NEAR(1024 / r["bounds_s"]["pipeline"].get<double>(), 7.457, 5e-4);
  const double throughput = r["throughput"]["samples_per_s"];
  EXPECT_LT(throughput, 7.457);
  EXPECT_GT(throughput, 4);
  EXPECT_EQ(r["throughput"]["samples_per_iteration"], 1024.0);

  const double time = r["iteration_time_s"];
  double sum = 0;
  for (const auto& part : r["breakdown_s"]) sum += part.get<double>();
  EXPECT_NEAR(sum, time, 1e-12 * time);
  for (const auto& [name, bound] : r["bounds_s"].items()) {
    EXPECT_LE(bound.get<double>(), time * (1 + 1e-12)) << name;
  }

  EXPECT_EQ(r["tiles"]["used"], 320);
  EXPECT_EQ(r["parameters"], 18'449'756'160);
  ASSERT_EQ(r["stages"].size(), 20u);
  std::int64_t layers = 0;
  for (const auto& stage : r["stages"]) {
    const int i = stage["stage"];
    layers += stage["layers"].get<std::int64_t>();
    EXPECT_EQ(stage["tiles"], 16);
    // 1F1B holds at most p - i micro-batches at stage i.
    EXPECT_LE(stage["micro_batches_in_flight"].get<int>(), 20 - i);
    EXPECT_LE(stage["peak_sram_bytes"].get<double>(), 3 * 1024 * 1024);
  }
  EXPECT_EQ(layers, 40);

  // 96 B L s h^2 (1 + s/6h + V/16Lh) with full recomputation of the layers, 72 ... without.
  const double B = 1024, L = 40, h = 6144, s = 2048, V = 51200;
  const double model = 72 * B * L * s * h * h * (1 + s / (6 * h) + V / (12 * L * h));
  EXPECT_NEAR(r["flops"]["model"].get<double>(), model, 1e-9 * model);
  const double hardware = 96 * B * L * s * h * h * (1 + s / (6 * h) + V / (16 * L * h));
  EXPECT_NEAR(r["flops"]["hardware"].get<double>(), hardware, 1e-3 * hardware);
  EXPECT_NEAR(r["flops"]["mfu"].get<double>(), model / (time * 5.12e15), 1e-9);
}

TEST(MainJob, TheSameBytesTwice) {
  const Outcome first = run({"--json", "-"}), second = run({"--json", "-"});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.out, second.out);
}

TEST(MainJob, ReportSaysWhatTakesTheRest) {
  const Outcome o = run();
  ASSERT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("The matrix engines leave"));
  EXPECT_THAT(o.out, HasSubstr("Most of it is"));
  EXPECT_THAT(o.out, HasSubstr("Closest: "));
}

}  // namespace
