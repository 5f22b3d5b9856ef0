// Whole iterations of small convolutional networks, against times worked out by hand.
#include <algorithm>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>
#include <support/forked.h>

#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/convnet.h>

namespace tilewright {
namespace {

/// Two stages of basic blocks behind a stem on 8 x 8 pixels of 2 channels.
ConvnetConfig tiny() {
  ConvnetConfig c;
  c.name = "tiny";
  c.height = c.width = 8;
  c.channels = 2;
  c.classes = 10;
  c.stem = {4, 3, 1, 0, 1};
  c.block = ConvBlock::basic;
  c.stages = {{1, 4, 0, 1, 1}, {2, 8, 0, 2, 1}};
  return c;
}

// FLOPs of one image. 64 pixels, then 16.
constexpr double kStem = 2.0 * 64 * 9 * 2 * 4;
constexpr double kFirst = 2.0 * 64 * 9 * 4 * 4 * 2;
constexpr double kSecond = 2.0 * 16 * (9 * 4 * 8 + 9 * 8 * 8 + 4 * 8);
constexpr double kThird = 2.0 * 16 * 9 * 8 * 8 * 2;
constexpr double kHead = 2.0 * 8 * 10;

/// Everything but the matrix engine is free: 1 TFLOP/s makes one FLOP one picosecond.
MachineConfig free_links(int width) {
  MachineConfig m;
  m.name = "free links";
  m.tiles_x = width;
  m.tiles_y = 1;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency::unlimited();
  m.sram.capacity = Bytes(1e12);
  m.noc.link = m.noc.die_link = {Bandwidth::unlimited(), Seconds(0)};
  return m;
}

PlanConfig plan(int pipeline, std::int64_t micro_batches) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = pipeline;
  p.micro_batch = 3;
  p.global_batch = 3 * micro_batches;
  p.optimizer = OptimizerKind::none;
  return p;
}

TEST(Convnet, TrainingStepTakesThreeTimesTheForwardButForTheImagesGradient) {
  const double forward = kStem + kFirst + kSecond + kThird + kHead;
  const Result r = simulate(free_links(1), build_graph(tiny()), plan(1, 2), test::checked());
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 6 * (3 * forward - kStem) * 1e-12);
  EXPECT_DOUBLE_EQ(r.flops_model.value(), 6 * (3 * forward - kStem));
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value());
  EXPECT_DOUBLE_EQ(r.hfu, 1);
  EXPECT_EQ(r.samples, 6);
  EXPECT_EQ(r.tokens, 0);
}

TEST(Convnet, InferenceStreamsThroughUnequalStages) {
  PlanConfig p = plan(3, 5);
  p.mode = Mode::inference;
  p.stage_layers = {1, 1, 1};
  const Result r = simulate(free_links(3), build_graph(tiny()), p, test::checked());
  const double stages[] = {kStem + kFirst, kSecond, kThird + kHead};
  // All pass once, and the slowest, the first, four times more.
  const double sum = stages[0] + stages[1] + stages[2];
  ASSERT_GT(stages[0], std::max(stages[1], stages[2]));
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 3 * (sum + 4 * stages[0]) * 1e-12);
}

TEST(Convnet, RanksThatShareAnImageDivideAllButTheHead) {
  PlanConfig p = plan(1, 2);
  p.context = 2;
  const Result r = simulate(free_links(2), build_graph(tiny()), p, test::checked());
  const double divided = 3 * (kStem + kFirst + kSecond + kThird) - kStem;
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 6 * (divided / 2 + 3 * kHead) * 1e-12);
}

TEST(Convnet, DramBoundInferenceTakesAsLongAsItsBytes) {
  // One tile behind 1 GB/s, engines for free. The SRAM holds the 2,602 weights and no activation
  // of 64 images; what lies between a convolution and the next norm and activation stays inside a
  // kernel. Bytes of one image, read and written by each kernel:
  constexpr double kBytes = 8 * 8 * 2 * 2 + 512        // image -> 64 pixels of 4 channels
                            + 512 + 512                // first block
                            + 512 + 512 + 512          //   with its shortcut
                            + 512 + 256 + 256 + 256    // to 16 pixels of 8 channels
                            + 128 + 256 + 256          //   a quarter of the pixels, the branch
                            + 256 + 256                // last block
                            + 256 + 256 + 256          //
                            + 256 + 16 + 16 + 2 * 10;  // mean, and classes
  MachineConfig m = free_links(1);
  m.matrix.peak["fp16"] = FlopRate(1e18);
  m.sram.capacity = Bytes(24 << 10);
  m.dram.sites = {{0, 0}};
  m.dram.bandwidth = Bandwidth(1e9);
  m.dram.capacity = Bytes(1e9);
  PlanConfig p = plan(1, 1);
  p.mode = Mode::inference;
  p.micro_batch = 64;
  p.global_batch = 256;
  const Graph g = build_graph(tiny());
  ASSERT_EQ(g.parameters(), 2602);
  const Result r = simulate(m, g, p, test::checked());
  EXPECT_DOUBLE_EQ(r.bounds.dram.value(), 256 * kBytes / 1e9);
  EXPECT_GE(r.iteration_time.value(), r.bounds.dram.value());
  EXPECT_LE(r.iteration_time.value(), 1.02 * r.bounds.dram.value());
}

TEST(Convnet, EveryPlanDoesTheSameWork) {
  ConvnetConfig c = tiny();
  c.stages.push_back({1, 16, 0, 2, 1});
  const Graph g = build_graph(c);
  MachineConfig m = free_links(8);
  m.sram.capacity = Bytes(1 << 16);
  m.vector.throughput = Frequency(1e11);
  m.noc.link = m.noc.die_link = {Bandwidth(1e11), Seconds(1e-9)};
  m.dram.sites = {{0, 0}};
  m.dram.bandwidth = Bandwidth(1e11);
  m.dram.capacity = Bytes(1e9);
  struct Degrees {
    int pipeline, tensor, data, zero, context;
  };
  for (const auto& [pipeline, tensor, data, zero, context] : {Degrees{1, 1, 1, 0, 1},
                                                              {4, 1, 2, 0, 1},
                                                              {2, 2, 2, 1, 1},
                                                              {1, 2, 4, 3, 1},
                                                              {1, 4, 1, 0, 1},
                                                              {4, 2, 1, 0, 1},
                                                              {1, 1, 1, 0, 2},
                                                              {2, 1, 2, 1, 2},
                                                              {1, 2, 2, 3, 2},
                                                              {4, 1, 1, 0, 2}}) {
    for (const ScheduleKind schedule : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
      PlanConfig p = plan(pipeline, 4);
      p.micro_batch = 1;
      p.tensor = tensor;
      p.data = data;
      p.context = context;
      p.zero = zero;
      p.global_batch = 8;
      p.schedule = schedule;
      p.optimizer = OptimizerKind::sgd;
      p.uneven = Uneven::pad;  // ten classes
      // The classes are padded to a multiple of the tensor degree, and ranks that share an image
      // all name its class.
      const double classes = (10 + tensor - 1) / tensor * tensor * context - 10;
      const double model = 8 * g.training_flop().value();
      const double hardware = model + 8 * 3 * 2.0 * 16 * classes;
      EXPECT_EQ(testing_support::forked([&] {
                  const Result r = simulate(m, g, p, test::checked());
                  const bool bounded =
                      r.bounds.pipeline <= r.iteration_time && r.bounds.dram <= r.iteration_time;
                  return fmt::format("{} {} {}", r.flops_model.value(), r.flops_hardware.value(),
                                     bounded);
                }),
                fmt::format("{} {} true", model, hardware))
          << pipeline << " " << tensor << " " << data << " " << context;
    }
  }
}

}  // namespace
}  // namespace tilewright
