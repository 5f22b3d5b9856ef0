// Whole iterations whose length is known in closed form.
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

/// Four equal layers and nothing else: no embedding, no head.
DecoderConfig trunk(std::int64_t layers) {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = layers;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = 0;
  c.sequence = c.max_positions = 32;
  return c;
}

/// Everything but the matrix engine is free: 1 TFLOP/s makes one FLOP one picosecond.
MachineConfig free_links(int width, int height) {
  MachineConfig m;
  m.name = "free links";
  m.tiles_x = width;
  m.tiles_y = height;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency::unlimited();
  m.sram.capacity = Bytes(1e12);
  m.noc.link = m.noc.die_link = {Bandwidth::unlimited(), Seconds(0)};
  return m;
}

PlanConfig pipeline(int stages, std::int64_t micro_batches, ScheduleKind schedule) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = stages;
  p.micro_batch = 1;
  p.global_batch = micro_batches;
  p.schedule = schedule;
  p.optimizer = OptimizerKind::none;
  return p;
}

double state(const Result& r, TileState s) { return r.breakdown[static_cast<int>(s)].value(); }

void four_stages_eight_micro_batches(ScheduleKind schedule, Recomputation recomputation) {
  const Graph g = build_graph(trunk(4));
  PlanConfig p = pipeline(4, 8, schedule);
  p.recomputation = recomputation;
  const Result r = simulate(free_links(4, 1), g, p, test::checked());
  const double passes = recomputation == Recomputation::full ? 4 : 3;
  const double slot = g.blocks[0].forward_flop().value() * passes * 1e-12;
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 11 * slot);
  const double engines = state(r, TileState::matrix) + state(r, TileState::recomputation);
  EXPECT_DOUBLE_EQ(engines / r.iteration_time.value(), 8.0 / 11.0);
  EXPECT_DOUBLE_EQ(r.bubble_fraction, 3.0 / 11.0);
  EXPECT_DOUBLE_EQ(r.bounds.pipeline.value(), r.iteration_time.value());
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(r.stages[i].micro_batches_in_flight, schedule == ScheduleKind::gpipe ? 8 : 4 - i);
  }
}

TEST(Pipeline, RecomputationAddsExactlyItsFlops) {
  const Graph g = build_graph(trunk(4));
  const double forward = g.blocks[0].forward_flop().value();
  PlanConfig p = pipeline(2, 4, ScheduleKind::one_f_one_b);
  p.recomputation.rules.resize(2);
  p.recomputation.rules[0] = Recomputation::selective.rules[0];
  p.recomputation.rules[0].where.stages = {0};
  p.recomputation.rules[1] = Recomputation::full.rules[0];
  p.recomputation.rules[1].where.every = 4;
  const Result r = simulate(free_links(2, 1), g, p, test::checked());
  // Four micro-batches; the scores of the first stage's two layers, and the whole of the last
  // layer.
  const double scores = g.blocks[0].find(OpRole::scores).forward_flop().value();
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value() + 4 * (2 * scores + forward));
  EXPECT_DOUBLE_EQ(r.bounds.pipeline.value(), r.iteration_time.value());
}

TEST(Pipeline, FourStagesOfExperts) {
  DecoderConfig c = trunk(4);
  c.experts.count = 8;
  c.experts.top_k = 2;
  c.experts.ffn = 128;
  c.experts.shared_ffn = 64;
  c.experts.shared_gate = true;
  const Graph g = build_graph(c);
  const Result r =
      simulate(free_links(4, 1), g, pipeline(4, 8, ScheduleKind::one_f_one_b), test::checked());
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 11 * 3 * g.blocks[0].forward_flop().value() * 1e-12);
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value());
}

TEST(Pipeline, PaddedExpertsAreHardwareFlopsOnly) {
  DecoderConfig c = trunk(1);
  c.experts.count = 3;  // 32 tokens: 10.67 rows each, so 11
  c.experts.top_k = 1;
  c.experts.ffn = 128;
  const Graph g = build_graph(c);
  const Result r =
      simulate(free_links(1, 1), g, pipeline(1, 1, ScheduleKind::one_f_one_b), test::checked());
  // One row more in the two GEMMs of an expert, three times each: forward and two gradients.
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value() + 3 * 2 * 2.0 * 64 * 128);
  EXPECT_EQ(r.notes.size(), 2u);
}

TEST(Pipeline, FourStagesEightMicroBatchesGPipe) {
  four_stages_eight_micro_batches(ScheduleKind::gpipe, Recomputation::none);
}
TEST(Pipeline, FourStagesEightMicroBatches1F1B) {
  four_stages_eight_micro_batches(ScheduleKind::one_f_one_b, Recomputation::none);
}
TEST(Pipeline, FourStagesEightMicroBatches1F1BWithFullRecomputation) {
  four_stages_eight_micro_batches(ScheduleKind::one_f_one_b, Recomputation::full);
}

TEST(Pipeline, MeasuredActivationPeakIsStagesLessStageMicroBatches) {
  // The SRAM high-water marks of neighbouring stages differ by one micro-batch's stash, but for the
  // messages that wait beside it: the next activation and the next gradient, where they come from
  // another stage.
  const Result r = simulate(free_links(4, 1), build_graph(trunk(4)),
                            pipeline(4, 8, ScheduleKind::one_f_one_b), test::checked());
  const double message = 32 * 64 * 2;
  const auto stash = [&](std::size_t stage) {
    return r.stages[stage].peak_sram.value() - (stage == 0 || stage == 3 ? 1 : 2) * message;
  };
  const double step = stash(0) - stash(1);
  EXPECT_GT(step, 0);
  EXPECT_DOUBLE_EQ(stash(1) - stash(2), step);
  EXPECT_DOUBLE_EQ(stash(2) - stash(3), step);
}

/// Layers and stages; simulators that cut inside a block hang on some of these.
class Stages : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(Stages, AnyCountUpToTheLayersRuns) {
  const auto [layers, stages] = GetParam();
  const Result r = simulate(free_links(6, 6), build_graph(trunk(layers)),
                            pipeline(stages, 4, ScheduleKind::one_f_one_b), test::checked());
  std::int64_t held = 0;
  for (const StageResult& s : r.stages) held += s.layers;
  EXPECT_EQ(held, layers);
  // The bound adds up doubles, the simulation picoseconds.
  EXPECT_NEAR(r.bounds.pipeline.value(), r.iteration_time.value(), 1e-15);
}

INSTANTIATE_TEST_SUITE_P(Pipeline, Stages,
                         testing::Values(std::pair(32, 4), std::pair(32, 5), std::pair(32, 8),
                                         std::pair(32, 20), std::pair(32, 32), std::pair(36, 8),
                                         std::pair(36, 18)));

TEST(Pipeline, HardwareFlopsAreModelFlopsPlusTheRecomputedForward) {
  const Graph g = build_graph(trunk(4));
  PlanConfig p = pipeline(2, 3, ScheduleKind::one_f_one_b);
  p.tensor = 2;
  p.recomputation = Recomputation::full;
  const Result r = simulate(free_links(2, 2), g, p, test::checked());
  EXPECT_DOUBLE_EQ(r.flops_model.value(), 3 * g.training_flop().value());
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), 3 * (g.training_flop() + g.forward_flop()).value());
}

TEST(Pipeline, ResidentKernelsOverlapTheirPointwisePart) {
  // Everything in SRAM: GELU follows its GEMM block by block, so an engine never waits for a whole
  // operator of the other.
  MachineConfig m = free_links(1, 1);
  m.vector.throughput = Frequency(4e9);
  PlanConfig p = pipeline(1, 1, ScheduleKind::gpipe);
  p.mode = Mode::inference;
  const Result r = simulate(m, build_graph(trunk(1)), p, test::checked());
  // By hand: points × passes of the layer. Alone on the vector engine: the norms (5 passes each)
  // and the last block of each follower; the followers are bias (1), softmax (4), GELU (6),
  // residual (1).
  const double points = 32 * 64;
  const double alone = (5 + 5) * points / 4e9;
  const double matrix = r.flops_model.value() * 1e-12;
  const double followers = (3 * points + 4.0 * 4 * 32 * 32 + (1 + 1) * points +
                            (1 + 6) * 4 * points + (1 + 1) * points) /
                           4e9;
  EXPECT_GE(r.iteration_time.value(), alone + std::max(matrix, followers));
  EXPECT_LT(r.iteration_time.value(), alone + matrix + followers);
}

/// A mesh whose every part can be the bottleneck.
MachineConfig small_mesh() {
  MachineConfig m = free_links(4, 4);
  m.noc.link = m.noc.die_link = {Bandwidth(1e9), Seconds(1e-9)};
  m.vector.throughput = Frequency(1e10);
  m.sram.capacity = Bytes(64 << 10);
  m.dram.bandwidth = Bandwidth(1e9);
  m.dram.capacity = Bytes(1e12);
  m.dram.sites = {{0, 1}, {3, 2}};
  return m;
}

/// Bytes that tensor parallelism sends in one iteration of 4 layers and 3 micro-batches of 1.
double tensor_bytes(bool sequence_parallel, const MachineConfig& m) {
  PlanConfig p = pipeline(1, 3, ScheduleKind::one_f_one_b);
  p.tensor = 4;
  p.sequence_parallel = sequence_parallel;
  return simulate(m, build_graph(trunk(4)), p, test::checked())
      .traffic[static_cast<int>(Cause::tensor)]
      .value();
}

TEST(Pipeline, TensorTrafficIsTwoAllReducesPerLayerAndDirection) {
  // An all-reduce of n bytes over 4 ranks sends 2 · 3/4 · n from each; n = 32 tokens · 64 · 2
  // bytes.
  const double n = 32 * 64 * 2;
  EXPECT_DOUBLE_EQ(tensor_bytes(false, small_mesh()), 3 * 4 * 4 * (4 * 2 * 0.75 * n));
}

TEST(Pipeline, SequenceParallelTrafficGathersOnceMoreForWeightGradients) {
  // Forward 2 all-gathers and 2 reduce-scatters, backward 4 and 2, of 3/4 · n from each rank, and
  // the gradients of the norms' gains and biases once per iteration.
  const double n = 32 * 64 * 2, norms = 4 * (4 * 64 * 2);
  EXPECT_DOUBLE_EQ(tensor_bytes(true, small_mesh()),
                   3 * 4 * 4 * (10 * 0.75 * n) + 4 * 2 * 0.75 * norms);
}

TEST(Pipeline, BreakdownSumsToTheIteration) {
  const Graph g = build_graph(trunk(4));
  const MachineConfig m = small_mesh();
  PlanConfig p = pipeline(2, 5, ScheduleKind::one_f_one_b);
  p.tensor = 2;
  p.data = 2;
  p.global_batch = 10;
  p.optimizer = OptimizerKind::adam;
  const Result r = simulate(m, g, p, test::checked());
  double sum = 0;
  for (const Seconds s : r.breakdown) sum += s.value();
  EXPECT_NEAR(sum, r.iteration_time.value(), 1e-12);
  EXPECT_EQ(r.tiles_used, 8);
  for (const Seconds bound :
       {r.bounds.compute, r.bounds.dram, r.bounds.bisection, r.bounds.pipeline}) {
    EXPECT_GT(bound.value(), 0);
    EXPECT_LE(bound.value(), r.iteration_time.value());
  }
}

}  // namespace
}  // namespace tilewright
