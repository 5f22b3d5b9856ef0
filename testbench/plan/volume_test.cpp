// Bytes that each axis of parallelism injects, against closed forms (model.md §9).
#include <algorithm>

#include <gtest/gtest.h>
#include <support/program_equal.h>
#include <support/sent.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/kernels.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

#include "support/plain_mesh.h"
#include "support/volume_job.h"

namespace tilewright {
namespace {

using namespace test;

MachineConfig mesh() { return test::plain_mesh(8, 8); }

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

/// Bytes of keys and values, and of their gradients, that context ranks send.
std::int64_t keys_sent(const LoweredPlan& l, int context) {
  return sent(l, "context") - 2 * (context - 1) * parameters(l) * 2;
}

TEST(Volume, AWindowMovesItsHaloWhereThatIsLessThanEverything) {
  for (const int kv_heads : {8, 2}) {
    for (const int c : {2, 4, 8}) {
      for (const std::int64_t w : {1, 2, 9, 10, 17, 30, 33, 34, 57, 58}) {
        DecoderConfig model = trunk();
        model.kv_heads = kv_heads;
        model.sliding_window = w;
        const Graph g = build_graph(model);
        PlanConfig p = plan();
        p.fuse_attention = true;
        const double alone = lower(g, p, mesh()).compute_bound;
        p.context = c;
        p.fuse_attention = false;
        // Keys and values forward, again backward, and their gradients: of every rank the tokens
        // before its own.
        const std::int64_t token = kActivation / kSequence * kv_heads / 8;
        const std::int64_t before = std::min(w - 1, kSequence - kSequence / c);
        const std::int64_t expected = kLayers * kMicroBatches * 6 * c * before * token;
        EXPECT_EQ(keys_sent(lower(g, p, mesh()), c), expected) << "c " << c << " w " << w;
        p.fuse_attention = true;
        const LoweredPlan fused = lower(g, p, mesh());
        EXPECT_EQ(keys_sent(fused, c), expected) << "c " << c << " w " << w;
        p.overlap.ring_attention = true;
        const LoweredPlan ring = lower(g, p, mesh());
        EXPECT_EQ(keys_sent(ring, c), expected) << "c " << c << " w " << w;
        // The work is what it was.
        for (const LoweredPlan* l : {&fused, &ring}) {
          EXPECT_NEAR(l->compute_bound * c, alone, 1e-12 * alone);
        }
      }
    }
  }
}

TEST(Volume, HalosWithRecomputationAndApartWeightGradients) {
  // A block and a half before each rank's own, beside tensor ranks.
  DecoderConfig model = trunk();
  model.sliding_window = 25;
  const Graph g = build_graph(model);
  for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::zb_h1}) {
      PlanConfig p = plan();
      p.context = 4;
      p.tensor = 2;
      p.sequence_parallel = true;
      p.fuse_attention = true;
      p.recomputation = r;
      p.schedule = kind;
      for (const bool ring : {false, true}) {
        p.overlap.ring_attention = ring;
        const LoweredPlan narrow = lower(g, p, mesh());
        const LoweredPlan wide = lower(build_graph(trunk()), p, mesh());
        // 24 of the 48 tokens that are not a rank's own.
        const std::int64_t passes = r == Recomputation::none ? 6 : 8;
        EXPECT_EQ(sent(wide, "context") - sent(narrow, "context"),
                  kLayers * kMicroBatches * passes * 4 * 24 * kActivation / kSequence);
        EXPECT_EQ(sent(narrow, "tensor"), sent(wide, "tensor"));
      }
    }
  }
}

TEST(Volume, AnUnevenCutMovesTheHaloOfTheLargestPart) {
  DecoderConfig model = trunk();
  model.sliding_window = 9;
  PlanConfig p = plan();
  p.context = 3;
  p.uneven = Uneven::pad;
  // Ranks of 22, 21 and 21 tokens all fetch the 8 before theirs.
  EXPECT_EQ(keys_sent(lower(build_graph(model), p, mesh()), 3),
            kLayers * kMicroBatches * 6 * 3 * 8 * kActivation / kSequence);
}

TEST(Volume, AWindowThatSeesEverythingChangesNoProgram) {
  for (const bool ring : {false, true}) {
    PlanConfig p = plan();
    p.context = 4;
    p.fuse_attention = p.overlap.ring_attention = ring;
    DecoderConfig model = trunk();
    const LoweredPlan open = lower(build_graph(model), p, mesh());
    model.sliding_window = kSequence;
    const LoweredPlan wide = lower(build_graph(model), p, mesh());
    EXPECT_EQ(test::difference(open.program, wide.program), "");
    for (const Segment& s : open.program.segments) {
      for (const Instruction& i : s.code) {
        EXPECT_EQ(open.program.names[i.name].find("halo"), std::string::npos);
      }
    }
  }
}

TEST(Volume, TokensThatTwoAxesCutHaveHalosToo) {
  DecoderConfig model = trunk();
  PlanConfig p = plan();
  p.context = 2;
  p.tensor = 8;
  p.tensor_shape = {2, 2, 2};
  const std::string both = "tensor_z context";
  const LoweredPlan open = lower(build_graph(model), p, mesh());
  EXPECT_EQ(sent(open, both), 0);
  const std::int64_t keys = 6 * kActivation;  // and values, forward, backward, and their gradients
  const std::int64_t gathered = sent(open, "tensor_z ") + sent(open, "context ");
  for (const bool fused : {false, true}) {
    for (const std::int64_t w : {2, 5, 17, 33, 48}) {
      model.sliding_window = w;
      p.fuse_attention = p.overlap.ring_attention = fused;
      const LoweredPlan l = lower(build_graph(model), p, mesh());
      // Four ranks of 16 tokens each take the w - 1 before theirs, from one rank or several.
      EXPECT_EQ(sent(l, both), kLayers * kMicroBatches * 4 * (w - 1) * keys / kSequence) << w;
      // What is left is the sums of weight gradients: keys and values are not gathered.
      EXPECT_EQ(sent(l, "tensor_z +") + sent(l, "context "),
                gathered - kLayers * kMicroBatches * 3 * keys)
          << w;
    }
    model.sliding_window = 49;  // sees everything
    const LoweredPlan l = lower(build_graph(model), p, mesh());
    EXPECT_EQ(sent(l, both), 0);
  }
}

TEST(Volume, ARankKeepsTheHaloAndNothingElse) {
  DecoderConfig model = trunk();
  model.ffn = kHidden;  // temporaries are most in the attention's backward pass
  PlanConfig p = plan();
  p.context = 4;
  const auto temporaries = [&](std::int64_t window, bool training) {
    model.sliding_window = window;
    const Graph g = build_graph(model);
    KernelOptions o{make_splits(p, g)};
    o.boundary = boundary_layouts(g, o.splits);
    o.samples = kBatch;
    o.fuse_attention = true;
    o.training = training;
    return make_kernels(g.blocks[g.chain[1]], o).temporaries;
  };
  // Of 64 tokens a rank holds its own 16 and the 24 before them: of keys and values, and in
  // training of their gradients.
  const std::int64_t token = kActivation / kSequence;
  EXPECT_EQ(temporaries(0, false) - temporaries(25, false), 2 * 24 * token);
  EXPECT_EQ(temporaries(0, true) - temporaries(25, true), 4 * 24 * token);
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
