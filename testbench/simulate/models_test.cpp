// Whole jobs on machines with other timing models than the default ones.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

DecoderConfig small_model() {
  DecoderConfig c;
  c.name = "small";
  c.layers = 4;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = 128;
  c.sequence = c.max_positions = 32;
  return c;
}

MachineConfig machine(const std::string& matrix, const std::string& dram) {
  return read_machine(
      Document::parse("machine: m\nmesh: { tiles_per_die: [4, 1] }\ntile:\n  matrix: " + matrix +
                          "\n  vector: { throughput: 512 Gelem/s }\n  sram: { capacity: 64 KiB }\n"
                          "noc: { link_bandwidth: 1 TB/s, hop_latency: 1 ns }\ndram: " +
                          dram + "\n",
                      "platform", {}, TILEWRIGHT_SOURCE_DIR "/platforms/m.yaml"));
}

Result run(const MachineConfig& m) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = 4;
  p.micro_batch = 1;
  p.global_batch = 8;
  return simulate(m, build_graph(small_model()), p, test::checked());
}

const char* const kPeak = "{ fp16: 1 TFLOP/s }";
const char* const kBandwidth =
    "{ bandwidth: 256 GB/s, capacity: 8 GiB, latency: 34 ns, per_die: [[0, 0]] }";

void expect_bounds_hold(const Result& r) {
  EXPECT_GT(r.bounds.compute.value(), 0);
  EXPECT_LE(r.bounds.compute.value(), r.iteration_time.value());
  EXPECT_LE(r.bounds.pipeline.value(), r.iteration_time.value());
  EXPECT_LE(r.bounds.dram.value(), r.iteration_time.value());
  EXPECT_LE(r.hfu, 1);
}

TEST(Models, BoundsOfASystolicMachineHold) {
  expect_bounds_hold(run(machine(
      "{ model: systolic, rows: 16, columns: 16, dataflow: ws, clock: 1 GHz, speed: { fp16: 1 } }",
      kBandwidth)));
}

TEST(Models, ATableReportsWhatItHadToExtrapolate) {
  const Result r = run(machine(
      "{ model: table, fp16: 1 TFLOP/s, table: [{ m: 64, n: 64, k: 64, efficiency: 0.5 }] }",
      kBandwidth));
  expect_bounds_hold(r);
  EXPECT_THAT(r.notes, ::testing::Contains(::testing::HasSubstr("extrapolated: GEMM")));
}

TEST(Models, BoundsOfABankedMachineHold) {
  expect_bounds_hold(
      run(machine(kPeak, "{ model: banked, memory: memories/hbm2-2.0.yaml, per_die: [[0, 0]] }")));
}

}  // namespace
}  // namespace tilewright
