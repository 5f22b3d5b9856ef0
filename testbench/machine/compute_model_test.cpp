// Timing of the matrix engine: against another simulator's cycles, and what must hold of any model.
#include <cmath>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/compute_model.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SystolicConfig array(std::int64_t rows, std::int64_t columns, Dataflow dataflow) {
  SystolicConfig c;
  c.rows = rows;
  c.columns = columns;
  c.dataflow = dataflow;
  c.clock = Frequency(1e9);
  c.speed = {{"fp16", 1}};
  return c;
}

GemmShape gemm(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t batch = 1) {
  return {batch, m, n, k,
          2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
              static_cast<double>(k)};
}

Dataflow dataflow(const std::string& name) {
  return name == "os"   ? Dataflow::output_stationary
         : name == "ws" ? Dataflow::weight_stationary
                        : Dataflow::input_stationary;
}

constexpr Dataflow kDataflows[] = {Dataflow::output_stationary, Dataflow::weight_stationary,
                                   Dataflow::input_stationary};

TEST(Systolic, CyclesEqualScaleSimInEveryRow) {
  std::ifstream in(TILEWRIGHT_SOURCE_DIR "/testbench/reference/systolic_scalesim.csv");
  ASSERT_TRUE(in);
  std::string line;
  std::getline(in, line);
  int rows = 0;
  while (std::getline(in, line)) {
    std::vector<std::string> f;
    std::stringstream fields(line);
    for (std::string field; std::getline(fields, field, ',');) f.push_back(field);
    ASSERT_EQ(f.size(), 18u) << line;
    const GemmShape g = gemm(std::stoll(f[1]), std::stoll(f[2]), std::stoll(f[3]));
    const SystolicArray a(array(std::stoll(f[4]), std::stoll(f[5]), dataflow(f[6])));
    EXPECT_EQ(a.folds(g), std::stoll(f[10]) * std::stoll(f[11])) << line;
    EXPECT_EQ(a.cycles_per_fold(g), std::stoll(f[12])) << line;
    EXPECT_EQ(a.cycles(g), std::stod(f[13])) << line;
    for (const std::int64_t batch : {2, 7, 96}) {
      EXPECT_EQ(a.cycles(gemm(g.m, g.n, g.k, batch)), static_cast<double>(batch) * a.cycles(g));
    }
    ++rows;
  }
  EXPECT_EQ(rows, 96);
}

// A 4 × 4 array, output stationary, M = N = K = 4: the last operands of cell (3, 3) enter after
// 3 + 3 skew cycles and 4 steps: 10 cycles.
TEST(Systolic, TracedByHand) {
  EXPECT_EQ(SystolicArray(array(4, 4, Dataflow::output_stationary)).cycles(gemm(4, 4, 4)), 10);
  // Weights first: 4 cycles to load them.
  EXPECT_EQ(SystolicArray(array(4, 4, Dataflow::weight_stationary)).cycles(gemm(4, 4, 4)), 14);
}

TEST(Systolic, OneRowIsMuchFasterThanMany) {
  const SystolicArray a(array(128, 128, Dataflow::weight_stationary));
  EXPECT_LT(a.cycles(gemm(1, 256, 768)), 0.7 * a.cycles(gemm(256, 256, 768)));
  // Bound by loading the weights.
  EXPECT_GE(a.cycles(gemm(1, 256, 768)), 12 * 128);
}

TEST(Systolic, PipelinedFoldsLieBetweenTheMacsAndTheUnpipelinedFolds) {
  std::mt19937 random(7);
  const auto draw = [&](int most) {
    return std::int64_t{1} +
           static_cast<std::int64_t>(std::exp2(std::uniform_real_distribution<>(0, most)(random)));
  };
  for (int i = 0; i < 3000; ++i) {
    SystolicConfig c = array(draw(8), draw(8), kDataflows[i % 3]);
    const GemmShape g = gemm(draw(13), draw(13), draw(13), draw(4));
    for (const std::int64_t arrays : {1, 4}) {
      c.arrays = arrays;
      c.pipelined_folds = false;
      const double plain = SystolicArray(c).cycles(g);
      c.pipelined_folds = true;
      const double pipelined = SystolicArray(c).cycles(g);
      EXPECT_LE(pipelined, plain);
      EXPECT_GE(pipelined * 2 * static_cast<double>(c.rows * c.columns * arrays), g.flop);
      SystolicConfig more = c;
      ++more.arrays;
      EXPECT_LE(SystolicArray(more).cycles(g), pipelined);
    }
  }
  // One fold has nothing to overlap with; very many approach the full rate.
  SystolicConfig c = array(16, 16, Dataflow::weight_stationary);
  c.pipelined_folds = true;
  EXPECT_EQ(SystolicArray(c).cycles(gemm(64, 16, 16)), 64 + 32 + 16 - 2);
  EXPECT_NEAR(SystolicArray(c).cycles(gemm(1024, 4096, 4096)), 1024.0 * 65536, 100);
}

MachineConfig machine(const std::string& matrix) {
  return read_machine(
      Document::parse("machine: m\nmesh: { tiles_per_die: [1, 1] }\ntile:\n"
                      "  matrix:\n" +
                          matrix +
                          "  vector: { throughput: 512 Gelem/s }\n"
                          "  sram: { capacity: 3 MiB }\n"
                          "noc: { link_bandwidth: 1 TB/s, hop_latency: 1 ns }\n",
                      "platform", {}, "m.yaml"));
}

std::string error_of(const std::string& matrix) {
  try {
    machine(matrix);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

const char* const kSystolic =
    "    model: systolic\n    rows: 128\n    columns: 64\n    arrays: 2\n    dataflow: ws\n"
    "    clock: 1 GHz\n    speed: { fp16: 1, int8: 2 }\n";

TEST(ComputeModels, SystolicArrayIsReadAndTimed) {
  const MachineConfig m = machine(kSystolic);
  EXPECT_EQ(m.peak("fp16").value(), 2.0 * 128 * 64 * 2 * 1e9);
  EXPECT_EQ(m.peak("int8").value(), 2.0 * m.peak("fp16").value());
  const auto model = make_compute_model(m);
  const GemmShape g = gemm(512, 1024, 1024);
  const double cycles = SystolicArray(m.matrix.systolic).cycles(g);
  EXPECT_EQ(cycles, 8 * 16 / 2 * (512 + 256 + 64 - 2));
  EXPECT_DOUBLE_EQ(model->matrix_seconds(g, "fp16"), cycles * 1e-9);
  EXPECT_DOUBLE_EQ(model->matrix_seconds(g, "int8"), cycles * 0.5e-9);
  EXPECT_THROW(model->matrix_seconds(g, "fp32"), InputError);
  GemmShape causal = g;
  causal.flop /= 2;
  EXPECT_DOUBLE_EQ(model->matrix_seconds(causal, "fp16"), cycles * 0.5e-9);
}

TEST(ComputeModels, FasterClockAndSparsityAreNeverSlower) {
  for (const char* text : {kSystolic, "    fp16: 16 TFLOP/s\n",
                           "    model: table\n    fp16: 16 TFLOP/s\n"
                           "    table: [{ m: 1, n: 1, k: 1, efficiency: 0.5 }]\n"}) {
    const GemmShape g = gemm(300, 200, 100);
    const double time = make_compute_model(machine(text))->matrix_seconds(g, "fp16");
    const double sparse = make_compute_model(machine(std::string(text) + "    sparsity: 2\n"))
                              ->matrix_seconds(g, "fp16");
    EXPECT_DOUBLE_EQ(sparse, time / 2);
  }
  double last = 1;
  for (const double clock : {0.5e9, 1e9, 1.7e9, 3e9}) {
    MachineConfig m = machine(kSystolic);
    m.matrix.systolic.clock = Frequency(clock);
    const double time = make_compute_model(m)->matrix_seconds(gemm(77, 1000, 333), "fp16");
    EXPECT_LT(time, last);
    last = time;
  }
}

TEST(ComputeModels, SparsityMayDifferByFormat) {
  const std::string own = "    fp16: 16 TFLOP/s\n    int8: 32 TFLOP/s\n    sparsity: { int8: 2 }\n";
  const MachineConfig m = machine(own);
  EXPECT_EQ(m.peak("fp16").value(), 16e12);
  EXPECT_EQ(m.peak("int8").value(), 64e12);
  const MachineConfig s = machine(std::string(kSystolic) + "    sparsity: { int8: 4 }\n");
  const GemmShape g = gemm(300, 200, 100);
  EXPECT_DOUBLE_EQ(make_compute_model(s)->matrix_seconds(g, "int8"),
                   make_compute_model(s)->matrix_seconds(g, "fp16") / 8);
  EXPECT_THAT(error_of("    fp16: 16 TFLOP/s\n    sparsity: { fp15: 2 }\n"), HasSubstr("fp15"));
}

TEST(ComputeModels, WhatCrossesTheEdgesOfASystolicArray) {
  // 3 x 2 folds of 16 x 32: A crosses once per column of folds, B once per row of them.
  const GemmShape g = gemm(48, 64, 100);
  const auto traffic = [&](Dataflow dataflow, const GemmShape& shape) {
    return SystolicArray(array(16, 32, dataflow)).traffic(shape, 2);
  };
  const OperandTraffic os = traffic(Dataflow::output_stationary, g);
  EXPECT_EQ(os.read, 2 * (48 * 100 * 2 + 100 * 64 * 3));
  EXPECT_EQ(os.written, 2 * 48 * 64);
  // Weights stay: 7 x 2 folds. A crosses twice, sums leave seven times and come back six.
  const OperandTraffic ws = traffic(Dataflow::weight_stationary, g);
  EXPECT_EQ(ws.read, 2 * (100 * 64 + 48 * 100 * 2) + 4 * 48 * 64 * 6);
  EXPECT_EQ(ws.written, 4 * 48 * 64 * 7);
  const OperandTraffic is = traffic(Dataflow::input_stationary, g);
  EXPECT_EQ(is.read, 2 * (48 * 100 + 100 * 64 * 2) + 4 * 48 * 64 * 6);
  GemmShape batch = g;
  batch.batch = 5;
  EXPECT_EQ(traffic(Dataflow::output_stationary, batch).read, 5 * os.read);
  // Full output-stationary folds of long sums: R + C elements a cycle.
  const GemmShape full = gemm(16, 32, 10000);
  EXPECT_EQ(traffic(Dataflow::output_stationary, full).read, 10000 * (16 + 32) * 2);
  EXPECT_FALSE(make_compute_model(machine("    fp16: 1 TFLOP/s\n"))->traffic(g, 2).has_value());
  // Smaller sums move less.
  const auto spilling = [](const char* sum) {
    return make_compute_model(machine(std::string(kSystolic) + sum))->traffic(gemm(48, 64, 300), 2);
  };
  EXPECT_EQ(spilling("")->written, 4 * 48 * 64 * 3);
  EXPECT_EQ(spilling("    accumulator: 2 B\n")->written, 2 * 48 * 64 * 3);
}

TEST(ComputeModels, SumsInSramTakeTwoOrFourBytes) {
  EXPECT_EQ(machine("    fp16: 1 TFLOP/s\n").matrix.accumulator, 4);
  EXPECT_EQ(machine("    fp16: 1 TFLOP/s\n    accumulator: 2 B\n").matrix.accumulator, 2);
  EXPECT_THAT(error_of("    fp16: 1 TFLOP/s\n    accumulator: 3 B\n"),
              AllOf(HasSubstr("accumulator"), HasSubstr("3 B"), HasSubstr("2 B or 4 B")));
}

TEST(ComputeModels, NeverFasterThanThePeak) {
  std::mt19937 random(3);
  const auto model = make_compute_model(
      machine(std::string(kSystolic) + "    pipelined_folds: true\n    sparsity: 2\n"));
  const double peak = machine(std::string(kSystolic) + "    sparsity: 2\n").peak("fp16").value();
  for (int i = 0; i < 1000; ++i) {
    const GemmShape g = gemm(1 + random() % 3000, 1 + random() % 3000, 1 + random() % 3000);
    EXPECT_GE(model->matrix_seconds(g, "fp16") * (1 + 1e-12), g.flop / peak);
  }
}

const char* const kTable =
    "    model: table\n    fp16: 100 TFLOP/s\n    fp32: 10 TFLOP/s\n    table:\n"
    "      - { m: 64, n: 1024, k: 1024, efficiency: 0.2 }\n"
    "      - { m: 1024, n: 1024, k: 1024, efficiency: 0.8 }\n"
    "      - { m: 64, n: 4096, k: 1024, efficiency: 0.3 }\n"
    "      - { m: 1024, n: 4096, k: 1024, efficiency: 0.9 }\n"
    "      - { m: 1, n: 1, k: 1, efficiency: 0.5, format: fp32 }\n";

TEST(ComputeModels, TableInterpolatesBetweenItsPoints) {
  const auto model = make_compute_model(machine(kTable));
  const auto efficiency = [&](const GemmShape& g, const std::string& format) {
    return g.flop / (format == "fp16" ? 100e12 : 10e12) / model->matrix_seconds(g, format);
  };
  EXPECT_NEAR(efficiency(gemm(64, 1024, 1024), "fp16"), 0.2, 1e-12);
  EXPECT_NEAR(efficiency(gemm(1024, 4096, 1024), "fp16"), 0.9, 1e-12);
  // Half way between 64 and 1024 is 256: the geometric mean.
  EXPECT_NEAR(efficiency(gemm(256, 1024, 1024), "fp16"), 0.4, 1e-12);
  EXPECT_NEAR(efficiency(gemm(256, 2048, 1024, 8), "fp16"), std::pow(0.2 * 0.8 * 0.3 * 0.9, 0.25),
              1e-12);
  EXPECT_NEAR(efficiency(gemm(5, 6, 7), "fp32"), 0.5, 1e-12);
  EXPECT_EQ(model->caveat(gemm(256, 2048, 1024), "fp16"), "");
}

TEST(ComputeModels, TableReportsExtrapolationAndUsesTheEdge) {
  const auto model = make_compute_model(machine(kTable));
  EXPECT_THAT(model->caveat(gemm(1, 1024, 1024), "fp16"), HasSubstr("1 × 1024 × 1024 in fp16"));
  EXPECT_NE(model->caveat(gemm(64, 1024, 2048), "fp16"), "");
  const GemmShape g = gemm(1, 1024, 1024);
  EXPECT_NEAR(g.flop / 100e12 / model->matrix_seconds(g, "fp16"), 0.2, 1e-12);
}

TEST(ComputeModels, MistakesAreNamed) {
  EXPECT_THAT(
      error_of("    model: systolik\n    fp16: 1 TFLOP/s\n"),
      AllOf(HasSubstr("m.yaml:5: tile.matrix.model"), HasSubstr("systolic"), HasSubstr("table")));
  EXPECT_THAT(error_of("    model: systolic\n    rows: 4\n"), HasSubstr("tile.matrix.columns"));
  EXPECT_THAT(error_of(std::string(kSystolic) + "    fp16: 1 TFLOP/s\n"),
              HasSubstr("tile.matrix.fp16"));
  EXPECT_THAT(error_of("    fp16: 1 TFLOP/s\n    rows: 4\n"), HasSubstr("tile.matrix.rows"));
  EXPECT_THAT(error_of("    model: systolic\n    rows: 0\n"), HasSubstr("m.yaml:6"));
  EXPECT_THAT(error_of("    model: systolic\n    rows: 4\n    columns: 4\n    dataflow: ws\n"
                       "    clock: 1 GHz\n"),
              HasSubstr("no number format is supported"));
  EXPECT_THAT(error_of("    model: table\n    fp16: 1 TFLOP/s\n"),
              HasSubstr("no measurement is given"));
  EXPECT_THAT(error_of("    model: table\n    fp16: 1 TFLOP/s\n    table:\n"
                       "      - { m: 1, n: 1, k: 1, efficiency: 0.5 }\n"
                       "      - { m: 2, n: 2, k: 1, efficiency: 0.5 }\n"),
              AllOf(HasSubstr("m.yaml:7"), HasSubstr("m 1, n 2, k 1 is missing")));
  EXPECT_THAT(error_of("    model: table\n    fp16: 1 TFLOP/s\n    table:\n"
                       "      - { m: 1, n: 1, k: 1, efficiency: 1.5 }\n"),
              HasSubstr("tile.matrix.table[0].efficiency"));
  EXPECT_THAT(error_of("    model: table\n    fp16: 1 TFLOP/s\n    int8: 2 TFLOP/s\n    table:\n"
                       "      - { m: 1, n: 1, k: 1, efficiency: 0.5, format: int8 }\n"),
              HasSubstr("no point holds for fp16"));
}

}  // namespace
}  // namespace tilewright
