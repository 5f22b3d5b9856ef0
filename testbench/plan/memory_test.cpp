// Memory plans against the figures of Korthikanti et al. (2205.05198): s = 2048, V = 51200, t = 8,
// mixed precision with gradients summed in fp32, one byte per element of a dropout mask.
#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <tilewright/plan/lower.h>
#include <tilewright/plan/stage_plan.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

constexpr std::int64_t kTokens = 2048, kVocab = 51200, kTensor = 8;
constexpr double kGiB = 1 << 30;

struct Shape {
  const char* name;
  std::int64_t heads, hidden, layers;
  int pipeline;
  std::int64_t micro_batch;
};
constexpr Shape k22{"22B", 64, 6144, 48, 1, 4};
constexpr Shape k175{"175B", 96, 12288, 96, 8, 1};
constexpr Shape k530{"530B", 128, 20480, 105, 35, 1};
constexpr Shape k1000{"1T", 160, 25600, 128, 64, 1};

DecoderConfig model(const Shape& shape) {
  DecoderConfig c;
  c.name = shape.name;
  c.layers = shape.layers;
  c.hidden = shape.hidden;
  c.heads = c.kv_heads = shape.heads;
  c.head_dim = shape.hidden / shape.heads;
  c.ffn = 4 * shape.hidden;
  c.vocab = kVocab;
  c.sequence = c.max_positions = kTokens;
  c.dropout = true;
  return c;
}

PlanConfig plan(const Shape& shape, bool sequence_parallel, const Recomputation& recomputation) {
  PlanConfig p;
  p.name = shape.name;
  p.tensor = kTensor;
  p.pipeline = shape.pipeline;
  p.micro_batch = shape.micro_batch;
  p.global_batch = shape.micro_batch * 2 * shape.pipeline;
  p.sequence_parallel = sequence_parallel;
  p.recomputation = recomputation;
  p.fp32_gradients = true;
  return p;
}

/// A machine of as many tiles as the plan has ranks, with room for everything.
MachineConfig machine(const PlanConfig& p) {
  MachineConfig m;
  m.name = "large";
  m.tiles_x = p.tensor;
  m.tiles_y = p.pipeline;
  m.matrix.peak["fp16"] = FlopRate(312e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(20e6);
  m.noc.link = m.noc.die_link = {Bandwidth(300e9), Seconds(1e-6)};
  m.dram.bandwidth = Bandwidth(2e12);
  m.dram.capacity = Bytes(1e15);
  m.dram.latency = Seconds(100e-9);
  m.dram.sites = {{0, 0}};
  return m;
}

std::int64_t bytes_of(const StagePlan& stage, const std::string& prefix) {
  std::int64_t sum = 0;
  for (const MemoryItem& item : stage.memory) {
    if (item.name.compare(0, prefix.size(), prefix) == 0) sum += item.bytes;
  }
  return sum;
}

/// Bytes that one layer keeps of a micro-batch on one rank.
std::int64_t layer_stash(const Shape& shape, bool sequence_parallel, const Recomputation& r) {
  const Graph graph = build_graph(model(shape));
  const PlanConfig p = plan(shape, sequence_parallel, r);
  const Splits splits = make_splits(p, graph);
  KernelOptions o{splits, boundary_layouts(graph, splits)};
  o.samples = shape.micro_batch;
  o.dropped = r.of(0, 0);
  return make_kernels(graph.block(1), o).stash_bytes();
}

/// 18 bytes for every parameter of the four matrices of a layer, 12 L h² / (t p) on a rank.
void expect_state(const Shape& shape, double gibibytes) {
  const Graph graph = build_graph(model(shape));
  const PlanConfig p = plan(shape, true, Recomputation::selective);
  const LoweredPlan lowered = lower(graph, p, machine(p));
  const StagePlan& first = lowered.stages.front();
  const std::int64_t h = shape.hidden, layers = first.layers;
  const std::int64_t state = bytes_of(first, "weights") + bytes_of(first, "gradients") +
                             bytes_of(first, "optimiser state");
  EXPECT_EQ(state, 18 * first.local_parameters);
  // Beside the matrices: of a layer, gain and bias of two norms (4h), the biases of QKV (3h/t) and
  // of the first projection of the MLP (4h/t), which are cut, and those of the two output
  // projections (2h); the embedding, V h / t and s h positions; with one stage, the final norm
  // (2h).
  const std::int64_t rest = layers * (6 * h + 7 * h / kTensor) + kVocab * h / kTensor +
                            kTokens * h + (shape.pipeline == 1 ? 2 * h : 0);
  const std::int64_t matrices = first.local_parameters - rest;
  EXPECT_EQ(matrices, 12 * shape.layers * h * h / (kTensor * shape.pipeline));
  EXPECT_EQ(static_cast<double>(18 * matrices) / kGiB, gibibytes);
}

TEST(Memory, StateOf22B) { expect_state(k22, 45.5625); }
TEST(Memory, StateOf175B) { expect_state(k175, 45.5625); }

/// Layers times micro-batches that the first stage holds with 1F1B: L; with v chunks per stage
/// 1 + (p-1)/(pv) as much.
std::int64_t layers_held(const Shape& shape, std::int64_t chunks) {
  const std::int64_t ranges = shape.pipeline * chunks;
  return chunks == 1 ? shape.layers : shape.layers * (ranges + shape.pipeline - 1) / ranges;
}

TEST(Memory, ActivationsOf22BAnd175BAreThePublishedOnes) {
  const auto gibibytes = [](const Shape& shape, bool sp, const Recomputation& r,
                            std::int64_t chunks) {
    return static_cast<double>(layer_stash(shape, sp, r) * layers_held(shape, chunks)) / kGiB;
  };
  EXPECT_EQ(layers_held(k22, 1), 48);
  EXPECT_EQ(layers_held(k175, 3), 124);
  EXPECT_EQ(gibibytes(k22, false, Recomputation::none, 1), 59.25);
  EXPECT_EQ(gibibytes(k22, true, Recomputation::selective, 1), 9.5625);
  // Printed to two decimals.
  EXPECT_NEAR(gibibytes(k175, false, Recomputation::none, 3), 66.84, 0.005);
  EXPECT_NEAR(gibibytes(k175, true, Recomputation::selective, 3), 12.35, 0.005);
}

TEST(Memory, TheStagePlanAddsWhatStandsOutsideTheLayers) {
  // Embedding dropout sbh p / t, final norm and head input 2 sbh / t each, fp32 logits 4 sbV / t;
  // the formulas divide by t where sequence parallelism does.
  for (const Shape& shape : {k22, k175}) {
    for (const bool sp : {false, true}) {
      const Recomputation& r = sp ? Recomputation::selective : Recomputation::none;
      const PlanConfig p = plan(shape, sp, r);
      const Graph graph = build_graph(model(shape));
      const LoweredPlan lowered = lower(graph, p, machine(p));
      const std::int64_t sbh = kTokens * shape.micro_batch * shape.hidden / (sp ? kTensor : 1);
      const std::int64_t logits = 4 * kTokens * shape.micro_batch * kVocab / kTensor;
      const std::int64_t stash = bytes_of(lowered.stages.front(), "stashed activations");
      const std::int64_t layers = layer_stash(shape, sp, r) * layers_held(shape, 1);
      const std::int64_t rebuilt = bytes_of(lowered.stages.front(), "recomputed activations");
      // What the head keeps is gone when the last layer's is rebuilt: the larger of both counts.
      const std::int64_t head = shape.pipeline == 1 ? 4 * sbh + logits : 0;
      EXPECT_EQ(rebuilt > 0, sp);
      EXPECT_EQ(stash + rebuilt, layers + shape.pipeline * sbh + std::max(head, rebuilt))
          << shape.name;
    }
  }
}

TEST(Memory, AnInterleavedPlanHoldsWhatTheFormulaSays) {
  // 175B with three chunks per stage, as published: the first stage holds 31 chunks of four layers.
  // Of the first chunk, which has the embedding's mask, it holds 2p micro-batches: two groups of p
  // have entered it before the first of them comes back.
  for (const bool sp : {false, true}) {
    const Recomputation& r = sp ? Recomputation::selective : Recomputation::none;
    PlanConfig p = plan(k175, sp, r);
    p.schedule = ScheduleKind::interleaved;
    p.interleaved_chunks = 3;
    const Graph graph = build_graph(model(k175));
    const LoweredPlan lowered = lower(graph, p, machine(p));
    const std::int64_t mask = kTokens * k175.hidden / (sp ? kTensor : 1);
    EXPECT_EQ(bytes_of(lowered.stages.front(), "stashed activations"),
              layer_stash(k175, sp, r) * 124 + mask * 16);
  }
}

TEST(Memory, CommunicationBuffersAreLinesOfTheirOwn) {
  // 175B on eight stages: beside the largest stash, in a backward slot, the next activation and the
  // next gradient are received ahead; the first stage has no activation to receive, the last one no
  // gradient. In a ring of t ranks a t-th of what is summed is on its way.
  const PlanConfig p = plan(k175, false, Recomputation::none);
  const LoweredPlan lowered = lower(build_graph(model(k175)), p, machine(p));
  const std::int64_t sbh2 = 2 * kTokens * k175.hidden;
  for (const StagePlan& s : lowered.stages) {
    const bool end = s.stage == 0 || s.stage + 1 == k175.pipeline;
    EXPECT_EQ(bytes_of(s, "communication buffers (messages"), (end ? 1 : 2) * sbh2) << s.stage;
    EXPECT_EQ(bytes_of(s, "communication buffers (sums of activations)"), sbh2 / kTensor);
  }
}

/// Figure 7: activations in percent of those with tensor parallelism alone.
struct Bars {
  Shape shape;
  double sequence, selective, both, full;
};

TEST(Memory, Figure7) {
  // The published figures were read off a drawing, in the source at hand to two decimals. They
  // cannot all be right to those: "both" is 34 sbh / t and "full" 2 sbh, so their ratio is 2.125 in
  // every model, where the figures have 2.118, 2.123 and 2.152. So ours must equal the formulas,
  // and lie within a seventh of a point of the figures.
  constexpr double kRead = 0.14;
  const Bars figure[] = {{k22, 66.84, 49.42, 16.18, 7.64},
                         {k175, 62.04, 56.53, 18.49, 8.71},
                         {k530, 58.31, 62.04, 20.27, 9.42},
                         {k1000, 58.31, 62.04, 20.27, 9.42}};
  for (const Bars& bars : figure) {
    SCOPED_TRACE(bars.shape.name);
    const std::int64_t s = kTokens, h = bars.shape.hidden, a = bars.shape.heads, t = kTensor;
    const std::int64_t sb = s * bars.shape.micro_batch;
    const std::int64_t core = 5 * a * s / t;  // per token
    const std::int64_t none = layer_stash(bars.shape, false, Recomputation::none);
    EXPECT_EQ(none, sb * (10 * h + 24 * h / t + core));
    const auto expect = [&](std::int64_t bytes, std::int64_t formula, double percent) {
      EXPECT_EQ(bytes, sb * formula);
      EXPECT_NEAR(100.0 * static_cast<double>(bytes) / static_cast<double>(none), percent, kRead);
    };
    expect(layer_stash(bars.shape, true, Recomputation::none), 34 * h / t + core, bars.sequence);
    expect(layer_stash(bars.shape, false, Recomputation::selective), 10 * h + 24 * h / t,
           bars.selective);
    expect(layer_stash(bars.shape, true, Recomputation::selective), 34 * h / t, bars.both);
    expect(layer_stash(bars.shape, false, Recomputation::full), 2 * h, bars.full);
  }
}

TEST(Memory, FusedAttentionDropsTheTermOfTheScores) {
  const Graph graph = build_graph(model(k22));
  const PlanConfig p = plan(k22, true, Recomputation::none);
  const Splits splits = make_splits(p, graph);
  KernelOptions o{splits, boundary_layouts(graph, splits)};
  o.samples = k22.micro_batch;
  o.fuse_attention = true;
  EXPECT_EQ(make_kernels(graph.block(1), o).stash_bytes(),
            34 * kTokens * k22.micro_batch * k22.hidden / kTensor);
}

TEST(Memory, GradientsInFp32AreEighteenBytesPerParameter) {
  PlanConfig p;
  EXPECT_EQ(p.state_bytes().total(), 16);
  p.fp32_gradients = true;
  EXPECT_EQ(p.state_bytes().total(), 18);
  EXPECT_EQ(p.state_bytes().gradient, 4);
  p.precision = DType::fp32;
  EXPECT_EQ(p.state_bytes().total(), 16);
}

/// model.md: 16 bytes per parameter; over d replicas 4P + 12P/d with ZeRO 1, 2P + 14P/d with 2 and
/// 16P/d with 3.
TEST(Memory, ZeroDividesTheStateOverReplicas) {
  constexpr std::int64_t kReplicas = 4;
  const Graph graph = build_graph(model(k22));
  for (int zero = 0; zero <= 3; ++zero) {
    PlanConfig p = plan(k22, true, Recomputation::selective);
    p.fp32_gradients = false;
    p.data = kReplicas;
    p.global_batch *= kReplicas;
    p.zero = zero;
    MachineConfig m = machine(p);
    m.tiles_y *= kReplicas;
    const StagePlan stage = lower(graph, p, m).stages.front();
    const auto kept = [&](int from, std::int64_t bytes) {
      return zero >= from ? bytes * stage.local_parameters / kReplicas
                          : bytes * stage.local_parameters;
    };
    // Beside its part of the gradients ZeRO 2 and 3 have those of a block that are to be scattered,
    // ZeRO 3 the weights of a block that are gathered: lines of their own.
    const auto line = [&](const std::string& name) {
      const auto item = std::find_if(stage.memory.begin(), stage.memory.end(),
                                     [&](const MemoryItem& i) { return i.name == name; });
      return item == stage.memory.end() ? -1 : item->bytes;
    };
    EXPECT_EQ(line("weights"), kept(3, 2)) << zero;
    EXPECT_EQ(line("gradients"), kept(2, 2)) << zero;
    EXPECT_EQ(line("optimiser state"), kept(1, 12)) << zero;
  }
}

}  // namespace
}  // namespace tilewright
