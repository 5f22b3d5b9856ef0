// Communication beside computation: what is hidden, what stays exposed.
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

DecoderConfig trunk() {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = 8;
  c.hidden = 256;
  c.heads = c.kv_heads = 8;
  c.head_dim = 32;
  c.ffn = 1024;
  c.vocab = 0;
  c.sequence = c.max_positions = 128;
  return c;
}

/// Matrix engines and links alone take time.
MachineConfig row(int tiles, double bandwidth) {
  MachineConfig m;
  m.name = "row";
  m.tiles_x = tiles;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency::unlimited();
  m.sram.capacity = Bytes(1e12);
  m.noc.link = m.noc.die_link = {Bandwidth(bandwidth), Seconds(0)};
  return m;
}

PlanConfig replicas(int data, std::int64_t micro_batches) {
  PlanConfig p;
  p.name = "test";
  p.data = data;
  p.micro_batch = 1;
  p.global_batch = data * micro_batches;
  p.optimizer = OptimizerKind::none;
  return p;
}

/// Seconds of a ring all-reduce, reduce-scatter (half) or all-gather (half) of `bytes`.
double all_reduce(std::int64_t bytes, int ranks, double bandwidth) {
  return 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / bandwidth;
}

struct Job {
  Graph graph = build_graph(trunk());
  double compute(std::int64_t micro_batches) const {
    return graph.training_flop().value() * static_cast<double>(micro_batches) * 1e-12;
  }
  std::int64_t gradient_bytes() const { return graph.parameters() * 2; }
};

// One simulation per process: each case is a test of its own.

TEST(Overlap, WithoutBucketsEverythingIsExposed) {
  const Job job;
  const double slow = 4e9;
  const Result r = simulate(row(4, slow), job.graph, replicas(4, 2), test::checked());
  const double expected = job.compute(2) + all_reduce(job.gradient_bytes(), 4, slow);
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
}

TEST(Overlap, BucketsHideAllButTheLastBlock) {
  const Job job;
  // Links so fast that a layer's gradients pass while the next layer's backward runs.
  const double fast = 50e9;
  const double layer = all_reduce(job.gradient_bytes() / 8, 4, fast);
  ASSERT_LT(layer, job.compute(1) / 8 * 2 / 3);
  PlanConfig p = replicas(4, 2);
  p.overlap.bucket = 1;
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  const double expected = job.compute(2) + layer;
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
}

TEST(Overlap, SlowLinksLeaveWhatComputationDoesNotCover) {
  const Job job;
  const double slow = 2e9;
  const double layer = all_reduce(job.gradient_bytes() / 8, 4, slow);
  ASSERT_GT(layer, job.compute(1) / 8);
  PlanConfig p = replicas(4, 1);
  p.overlap.bucket = 1;
  const Result r = simulate(row(4, slow), job.graph, p, test::checked());
  // The first gradients are there after the last layer's backward; from then on the links are busy.
  const double first = job.compute(1) / 3 + job.compute(1) * 2 / 3 / 8;
  EXPECT_NEAR(r.iteration_time.value(), first + 8 * layer, 2e-3 * (first + 8 * layer));
}

TEST(Overlap, ZeroThreeGathersAhead) {
  const Job job;
  const double fast = 100e9;
  PlanConfig p = replicas(4, 2);
  p.zero = 3;
  p.overlap.bucket = 1;
  const double gather = all_reduce(job.gradient_bytes() / 8, 4, fast) / 2;
  ASSERT_LT(2 * gather, job.compute(1) / 3 / 8);
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  // Only the first gather and the last scatter are not beside a computation.
  const double expected = job.compute(2) + 2 * gather;
  EXPECT_NEAR(r.iteration_time.value(), expected, 2e-3 * expected);
}

TEST(Overlap, ZeroThreeWithoutPrefetchWaitsForEveryGather) {
  const Job job;
  const double fast = 100e9;
  PlanConfig p = replicas(4, 2);
  p.zero = 3;
  p.overlap.bucket = 1;
  p.overlap.prefetch = 0;
  const double gather = all_reduce(job.gradient_bytes() / 8, 4, fast) / 2;
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  // Two micro-batches of eight forward and eight backward passes. In backward a gather waits behind
  // the scatter of the layer before.
  EXPECT_GT(r.iteration_time.value(), job.compute(2) + 32 * gather);
  EXPECT_LT(r.iteration_time.value(), job.compute(2) + 50 * gather);
}

TEST(Overlap, ChunksHideTensorParallelSums) {
  const Job job;
  PlanConfig p = replicas(1, 1);
  p.tensor = 4;
  const double fast = 100e9;
  p.overlap.tensor_chunks = 8;
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  const double sums = 8 * 2 * all_reduce(2 * 128 * 256, 4, fast);
  // The last eighth of each sum comes after its GEMM: forward, for backward it is beside the weight
  // gradient.
  const double expected = job.compute(1) / 4 + sums / 8;
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value());
}

PlanConfig inference() {
  PlanConfig p = replicas(1, 1);
  p.mode = Mode::inference;
  return p;
}

TEST(Overlap, ChunksHideGathersOfSequenceParallelism) {
  const Job job;
  PlanConfig p = inference();
  p.tensor = 4;
  p.sequence_parallel = true;
  p.overlap.tensor_chunks = 8;
  const double fast = 100e9;
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  // Two gathers and two scatters in a layer. The first eighth of a gather comes before its GEMM,
  // the last of a scatter after.
  const double transfers = 8 * 4 * all_reduce(2 * 128 * 256, 4, fast) / 2;
  const double expected = job.graph.forward_flop().value() * 1e-12 / 4 + transfers / 8;
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
  EXPECT_DOUBLE_EQ(r.flops_hardware.value(), r.flops_model.value());
}

TEST(Overlap, ChunksHideGathersOfTheBackwardPass) {
  const Job job;
  PlanConfig p = replicas(1, 1);
  p.tensor = 4;
  p.sequence_parallel = true;
  p.overlap.tensor_chunks = 8;
  const double fast = 100e9;
  const Result r = simulate(row(4, fast), job.graph, p, test::checked());
  // Forward as above. Backward the first eighths of two gathers; what weight gradients gather, and
  // the ends of the scatters, are beside GEMMs. Gradients of the norms are summed at the end.
  const double transfers = 8 * 6 * all_reduce(2 * 128 * 256, 4, fast) / 2;
  const std::int64_t norms = 8 * 4 * 256 * 2;
  const double expected = job.compute(1) / 4 + transfers / 8 + all_reduce(norms, 4, fast);
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
}

/// Attention over four context ranks.
struct Ring {
  Job job;
  PlanConfig plan = inference();
  double compute = job.graph.forward_flop().value() * 1e-12 / 4;
  /// Of a layer's attention, one block of keys and values against the rank's own queries.
  double attention = 4.0 * 128 * 128 * 256 * 1e-12 / 16;
  /// Keys and values of a block pass to the next rank.
  static double step(double bandwidth) { return 2 * 32 * 256 * 2 / bandwidth; }

  Ring() {
    plan.context = 4;
    plan.fuse_attention = true;
    plan.overlap.ring_attention = true;
  }
  double run(double bandwidth) const {
    return simulate(row(4, bandwidth), job.graph, plan, test::checked()).iteration_time.value();
  }
};

TEST(Overlap, WithoutARingKeysAndValuesAreGatheredFirst) {
  Ring ring;
  ring.plan.overlap.ring_attention = false;
  const double fast = 100e9, expected = ring.compute + 8 * 3 * Ring::step(fast);
  EXPECT_NEAR(ring.run(fast), expected, 1e-3 * expected);
}

TEST(Overlap, ARingHidesKeysAndValuesBehindTheAttention) {
  const Ring ring;
  const double fast = 100e9;
  ASSERT_LT(Ring::step(fast), ring.attention);
  EXPECT_NEAR(ring.run(fast), ring.compute, 1e-3 * ring.compute);
}

TEST(Overlap, ASlowRingLeavesWhatTheAttentionDoesNotCover) {
  const Ring ring;
  const double slow = 10e9;
  ASSERT_GT(Ring::step(slow), ring.attention);
  const double expected = ring.compute + 8 * 3 * (Ring::step(slow) - ring.attention);
  EXPECT_NEAR(ring.run(slow), expected, 1e-3 * expected);
}

TEST(Overlap, ARingBringsHomeGradientsOfKeysAndValues) {
  Ring ring;
  ring.plan.mode = Mode::training;
  const double fast = 100e9;
  const Result r = simulate(row(4, fast), ring.job.graph, ring.plan, test::checked());
  // The last step of a block's sum comes after the attention; the weights' sums at the end.
  const double expected = r.flops_hardware.value() * 1e-12 / 4 + 8 * Ring::step(fast) +
                          all_reduce(ring.job.gradient_bytes(), 4, fast);
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
  EXPECT_EQ(r.communication[static_cast<std::size_t>(Cause::tensor)].active.value(), 0);
}

/// The same where a query sees 49 keys: of the 48 before its own a rank gets a block and a half.
struct WindowedRing : Ring {
  /// Of a layer's attention, so many keys for each query.
  static double keys(int n) { return 4.0 * 32 * n * 256 * 1e-12; }

  WindowedRing() {
    DecoderConfig model = trunk();
    model.sliding_window = 49;
    job.graph = build_graph(model);
    compute = job.graph.forward_flop().value() * 1e-12 / 4;
  }
};

TEST(Overlap, AHaloComesFirst) {
  WindowedRing ring;
  ring.plan.overlap.ring_attention = false;
  const double fast = 100e9, expected = ring.compute + 8 * 1.5 * Ring::step(fast);
  EXPECT_NEAR(ring.run(fast), expected, 1e-3 * expected);
}

TEST(Overlap, ARingEndsWithTheWindow) {
  const WindowedRing ring;
  const double fast = 100e9;
  ASSERT_LT(Ring::step(fast), WindowedRing::keys(16));
  EXPECT_NEAR(ring.run(fast), ring.compute, 1e-3 * ring.compute);
}

TEST(Overlap, ASlowRingEndsWithTheWindow) {
  const WindowedRing ring;
  const double slow = 10e9;
  // Of 49 keys (1 + ... + 32) / 32 are a query's rank's own, to the next whole one 16, and
  // (1 + ... + 16) / 32, 5, of the farthest block.
  const double expected =
      ring.compute + 8 * (Ring::step(slow) - WindowedRing::keys(16) + Ring::step(slow) / 2 -
                          WindowedRing::keys(49 - 16 - 5));
  EXPECT_NEAR(ring.run(slow), expected, 1e-3 * expected);
}

TEST(Overlap, GradientsOfAHaloGoBack) {
  WindowedRing ring;
  ring.plan.mode = Mode::training;
  ring.plan.overlap.ring_attention = false;
  const double fast = 100e9;
  const Result r = simulate(row(4, fast), ring.job.graph, ring.plan, test::checked());
  // Keys and values come before the attention; backward, where they are kept, beside the MLP's
  // backward pass. Their gradients go home after the attention's.
  const double expected = r.flops_hardware.value() * 1e-12 / 4 + 8 * 2 * 1.5 * Ring::step(fast) +
                          all_reduce(ring.job.gradient_bytes(), 4, fast);
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
}

TEST(Overlap, GradientsGoBackAsFarAsTheRingWent) {
  WindowedRing ring;
  ring.plan.mode = Mode::training;
  const double fast = 100e9;
  const Result r = simulate(row(4, fast), ring.job.graph, ring.plan, test::checked());
  // A block and a half of sums comes after the attention.
  const double expected = r.flops_hardware.value() * 1e-12 / 4 + 8 * 1.5 * Ring::step(fast) +
                          all_reduce(ring.job.gradient_bytes(), 4, fast);
  EXPECT_NEAR(r.iteration_time.value(), expected, 1e-3 * expected);
}

}  // namespace
}  // namespace tilewright
