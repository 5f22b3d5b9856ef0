// Bytes that each axis of parallelism injects, against closed forms (model.md §9).
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

constexpr std::int64_t kSequence = 64, kHidden = 128, kLayers = 4, kBatch = 2, kMicroBatches = 3;
/// Bytes of an activation of one micro-batch of one replica.
constexpr std::int64_t kActivation = kBatch * kSequence * kHidden * 2;

DecoderConfig trunk() {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = kLayers;
  c.hidden = kHidden;
  c.heads = c.kv_heads = 8;
  c.head_dim = 16;
  c.ffn = 512;
  c.vocab = 0;
  c.sequence = c.max_positions = kSequence;
  return c;
}

MachineConfig mesh() {
  MachineConfig m;
  m.name = "mesh";
  m.tiles_x = m.tiles_y = 8;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1e9);
  m.noc.link = m.noc.die_link = {Bandwidth(1e12), Seconds(1e-9)};
  return m;
}

PlanConfig plan() {
  PlanConfig p;
  p.name = "test";
  p.micro_batch = kBatch;
  p.global_batch = kBatch * kMicroBatches;
  return p;
}

/// Bytes that all ranks together send on channels whose names start with `prefix`.
std::int64_t sent(const LoweredPlan& lowered, const std::string& prefix) {
  std::int64_t bytes = 0;
  const Program& program = lowered.program;
  for (const TileGroup& g : program.groups) {
    for (const std::vector<Call>* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        for (const Instruction& i : program.segments[call.segment].code) {
          if (i.op != Opcode::send || program.channels[i.channel].rfind(prefix, 0) != 0) continue;
          for (std::uint32_t r = 0; r < g.tiles.size(); ++r) {
            if (g.peers[i.operand][r] == kNoTile) continue;
            bytes += static_cast<std::int64_t>(i.share.bytes(g.first_rank + r));
          }
        }
      }
    }
  }
  return bytes;
}

std::int64_t parameters(const LoweredPlan& lowered) { return lowered.stages[0].local_parameters; }

TEST(Volume, TensorIsFourAllReducesPerLayerAndSixWithRecomputation) {
  for (const int t : {2, 4, 8}) {
    PlanConfig p = plan();
    p.tensor = t;
    const std::int64_t all_reduce = 2 * (t - 1) * kActivation;
    const Graph g = build_graph(trunk());
    EXPECT_EQ(sent(lower(g, p, mesh()), "tensor"), kLayers * kMicroBatches * 4 * all_reduce);
    p.recomputation = Recomputation::full;
    EXPECT_EQ(sent(lower(g, p, mesh()), "tensor"), kLayers * kMicroBatches * 6 * all_reduce);
  }
}

TEST(Volume, EveryAlgorithmOfAnAllReduceMovesAsMuch) {
  PlanConfig p = plan();
  p.tensor = 8;
  p.data = 4;
  p.global_batch *= 4;
  const Graph g = build_graph(trunk());
  const LoweredPlan ring = lower(g, p, mesh());
  for (const CollectiveAlgorithm a :
       {CollectiveAlgorithm::two_rings, CollectiveAlgorithm::row_column,
        CollectiveAlgorithm::halving_doubling, CollectiveAlgorithm::direct,
        CollectiveAlgorithm::tree}) {
    SCOPED_TRACE(to_string(a));
    p.collectives.set("", CollectiveKind::all_reduce, {a, ""});
    const LoweredPlan other = lower(g, p, mesh());
    // Trees cut the whole into pieces, which are rounded up.
    EXPECT_NEAR(static_cast<double>(sent(other, "tensor")) / sent(ring, "tensor"), 1, 1e-3);
    EXPECT_NEAR(static_cast<double>(sent(other, "data")) / sent(ring, "data"), 1, 1e-3);
  }
  // Over the data axis alone.
  p.collectives = {};
  p.collectives.set("data", CollectiveKind::all_reduce,
                    {CollectiveAlgorithm::halving_doubling, "p.yaml:9: collectives.data"});
  EXPECT_EQ(sent(lower(g, p, mesh()), "data ^2"), sent(ring, "data") / 3);
  p.data = 3;
  try {
    lower(g, p, mesh());
    FAIL() << "runs";
  } catch (const InputError& e) {
    EXPECT_EQ(e.what(),
              std::string("p.yaml:9: collectives.data: all_reduce over axis data: halving-doubling "
                          "needs a number of ranks that is a power of two; a group has 3"));
  }
}

TEST(Volume, SequenceParallelPairsAndTheGathersOfTheBackwardPass) {
  PlanConfig p = plan();
  p.tensor = 4;
  p.sequence_parallel = true;
  const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
  // Four pairs, and two gathers more for the weight gradients; gains of two norms once (with their
  // biases).
  const std::int64_t half = 3 * kActivation;
  const std::int64_t norms = kLayers * 4 * kHidden * 2;
  EXPECT_EQ(sent(l, "tensor"), kLayers * kMicroBatches * 10 * half + 2 * 3 * norms);
}

TEST(Volume, TwoDimensionalTensorParallelism) {
  PlanConfig p = plan();
  p.tensor = 8;
  p.tensor_shape = {4, 2};
  const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
  // What passes between the pairs is cut over y: all-reduces over x are of half the activation.
  EXPECT_EQ(sent(l, "tensor_x"), kLayers * kMicroBatches * 2 * 4 * (2 * 3 * kActivation / 2));
  // A two-dimensional cut moves less over each link than a one-dimensional one of as many ranks.
  PlanConfig flat = plan();
  flat.tensor = 8;
  EXPECT_LT(sent(l, "tensor"), sent(lower(build_graph(trunk()), flat, mesh()), "tensor"));
}

TEST(Volume, ContextGathersKeysAndValuesAndScattersTheirGradients) {
  for (const int c : {2, 4}) {
    PlanConfig p = plan();
    p.context = c;
    const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
    // Forward K and V; backward K and V again, and the sums of both gradients.
    const std::int64_t kv = 6 * (c - 1) * kActivation;
    const std::int64_t gradients = 2 * (c - 1) * parameters(l) * 2;
    EXPECT_EQ(sent(l, "context"), kLayers * kMicroBatches * kv + gradients);
  }
}

TEST(Volume, ARingMovesWhatTheGathersMove) {
  for (const int c : {2, 3, 4}) {
    for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
      for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
        DecoderConfig model = trunk();
        model.sequence = model.max_positions = 96;
        const Graph g = build_graph(model);
        PlanConfig p = plan();
        p.context = c;
        p.tensor = 2;
        p.sequence_parallel = true;
        p.fuse_attention = true;
        p.recomputation = r;
        p.schedule = kind;
        const LoweredPlan gathered = lower(g, p, mesh());
        p.overlap.ring_attention = true;
        const LoweredPlan ring = lower(g, p, mesh());
        EXPECT_EQ(sent(ring, "context"), sent(gathered, "context"));
        EXPECT_EQ(sent(ring, "tensor"), sent(gathered, "tensor"));
        EXPECT_DOUBLE_EQ(ring.compute_bound, gathered.compute_bound);
        // Two blocks at a time instead of all.
        if (c > 2) {
          EXPECT_LT(ring.stages[0].sram_bytes(), gathered.stages[0].sram_bytes());
        }
      }
    }
  }
}

TEST(Volume, ChunksMoveWhatTheWholeMoves) {
  for (const bool sequence_parallel : {false, true}) {
    for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
      for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
        PlanConfig p = plan();
        p.tensor = 4;
        p.sequence_parallel = sequence_parallel;
        p.recomputation = r;
        p.schedule = kind;
        const LoweredPlan whole = lower(build_graph(trunk()), p, mesh());
        p.overlap.tensor_chunks = 3;
        const LoweredPlan chunked = lower(build_graph(trunk()), p, mesh());
        EXPECT_EQ(sent(chunked, "tensor"), sent(whole, "tensor"));
        EXPECT_DOUBLE_EQ(chunked.compute_bound, whole.compute_bound);
        EXPECT_GT(chunked.program.segments[0].code.size(), whole.program.segments[0].code.size());
      }
    }
  }
}

TEST(Volume, ExpertsAreReachedByFourExchangesPerLayer) {
  DecoderConfig model = trunk();
  model.experts.count = 8;
  model.experts.top_k = 2;
  model.experts.ffn = 64;
  for (const int e : {2, 4, 8}) {
    PlanConfig p = plan();
    p.data = p.expert = e;
    p.global_batch *= e;
    const LoweredPlan l = lower(build_graph(model), p, mesh());
    // Each rank's top-2 routes, of which (e-1)/e leave it: dispatch, combine, and back.
    const std::int64_t exchange = 2 * kActivation * (e - 1);
    // All but the experts' weights are summed over the axis.
    std::int64_t summed = 0;
    for (const auto& [axes, n] : l.stages[0].parameters_by_axes) summed += axes != 0 ? n : 0;
    EXPECT_LT(summed, parameters(l));
    EXPECT_EQ(sent(l, "expert"), kLayers * kMicroBatches * 4 * exchange + 2 * (e - 1) * summed * 2);
  }
}

TEST(Volume, ZeroMovesTwiceTheParametersAndThreeTimesWhenWeightsAreCut) {
  // After the computation, beside it block by block, and in two buckets.
  for (const auto& [d, bucket] : {std::pair(2, 0), {4, 0}, {4, 1}, {4, 800'000}}) {
    PlanConfig p = plan();
    p.data = d;
    p.global_batch *= d;
    p.overlap.bucket = bucket;
    const auto volume = [&](int zero) {
      p.zero = zero;
      const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
      // In units of all parameters passing a ring once.
      const double unit = static_cast<double>((d - 1) * parameters(l) * 2);
      return static_cast<double>(sent(l, "data")) / unit;
    };
    EXPECT_DOUBLE_EQ(volume(0), 2);
    EXPECT_DOUBLE_EQ(volume(1), 2);
    // From stage 2 on gradients are reduced, and at 3 weights gathered, in every micro-batch.
    EXPECT_DOUBLE_EQ(volume(2), kMicroBatches + 1);
    EXPECT_DOUBLE_EQ(volume(3), 3 * kMicroBatches);
    p.global_batch = kBatch * d;
    EXPECT_DOUBLE_EQ(volume(2), 2);
    EXPECT_DOUBLE_EQ(volume(3), 3);
    p.global_batch = kBatch * kMicroBatches * d;
  }
}

TEST(Volume, SeveralAxesSumAsOneRing) {
  // Hierarchical sums move no more than a ring over all ranks: 2·(n-1)/n of the gradients each.
  PlanConfig p = plan();
  p.data = 4;
  p.context = 2;
  p.global_batch *= 4;
  const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
  const std::int64_t kv = 4 * kLayers * kMicroBatches * 6 * kActivation;
  EXPECT_EQ(sent(l, "context") - kv + sent(l, "data"), 8 * 2 * 7 * parameters(l) * 2 / 8);
}

TEST(Volume, PipelineHandsOverOneActivationPerBoundaryAndDirection) {
  PlanConfig p = plan();
  p.pipeline = 4;
  p.tensor = 2;
  const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
  EXPECT_EQ(sent(l, "pipeline"), 2 * 3 * 2 * kMicroBatches * kActivation);
}

TEST(Volume, ScatterAndGatherMovesABoundaryOnce) {
  PlanConfig p = plan();
  p.pipeline = 4;
  p.tensor = 4;
  const std::int64_t tensor = sent(lower(build_graph(trunk()), p, mesh()), "tensor");
  p.scatter_gather = true;
  const LoweredPlan l = lower(build_graph(trunk()), p, mesh());
  const std::int64_t transfers = 2 * 3 * kMicroBatches;
  EXPECT_EQ(sent(l, "pipeline"), transfers * kActivation);
  EXPECT_EQ(sent(l, "tensor"), tensor + transfers * 3 * kActivation);
}

TEST(Volume, ParametersDoNotDependOnThePlan) {
  const Graph g = build_graph(trunk());
  for (const int t : {1, 2, 4}) {
    for (const int c : {1, 2}) {
      for (const int zero : {0, 3}) {
        PlanConfig p = plan();
        p.pipeline = 2;
        p.tensor = t;
        p.context = c;
        p.data = 2;
        p.global_batch *= 2;
        p.zero = zero;
        std::int64_t held = 0;
        for (const StagePlan& s : lower(g, p, mesh()).stages) held += s.parameters;
        EXPECT_EQ(held, g.parameters());
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
