#include <gtest/gtest.h>

#include <tilewright/plan/kernels.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

DecoderConfig gpt() {
  DecoderConfig c;
  c.name = "gpt";
  c.layers = 4;
  c.hidden = 512;
  c.heads = c.kv_heads = 8;
  c.head_dim = 64;
  c.ffn = 2048;
  c.vocab = 1024;
  c.sequence = c.max_positions = 256;
  c.dropout = true;
  return c;
}

DecoderConfig llama() {
  DecoderConfig c = gpt();
  c.name = "llama";
  c.kv_heads = 2;
  c.norm = NormKind::rms_norm;
  c.activation = ActivationKind::silu;
  c.gated_mlp = true;
  c.position = PositionKind::rotary;
  c.tied_embeddings = c.qkv_bias = c.projection_bias = c.mlp_bias = c.dropout = false;
  return c;
}

const Block& layer(const Graph& g) { return g.blocks[1]; }

int collectives(const std::vector<Kernel>& kernels, CollectiveKind kind) {
  int n = 0;
  for (const Kernel& k : kernels) n += k.collective && k.collective->kind == kind ? 1 : 0;
  return n;
}
int all_reduces(const std::vector<Kernel>& kernels) {
  return collectives(kernels, CollectiveKind::all_reduce);
}

double flop(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.matrix ? k.gemm.flop() : 0;
  return sum;
}

KernelOptions options(int tensor, std::int64_t samples, bool recompute,
                      bool sequence_parallel = false) {
  PlanConfig plan;
  plan.tensor = tensor;
  plan.sequence_parallel = sequence_parallel;
  const Splits splits = make_splits(plan);
  KernelOptions o{splits, boundary_layouts(build_graph(gpt()), splits)};
  o.samples = samples;
  o.recompute = recompute;
  return o;
}

TEST(Kernels, MegatronHasTwoAllReducesPerLayerAndDirection) {
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const BlockKernels k = make_kernels(layer(g), options(2, 3, true));
    EXPECT_EQ(all_reduces(k.forward), 2) << c.name;
    EXPECT_EQ(all_reduces(k.recompute), 2) << c.name;
    EXPECT_EQ(all_reduces(k.backward), 2) << c.name;
    for (const Kernel& kernel : k.forward) {
      if (kernel.collective) {
        EXPECT_EQ(kernel.collective->bytes, 2 * 3 * 256 * 512);
      }
    }
    const BlockKernels alone = make_kernels(layer(g), options(1, 3, true));
    EXPECT_EQ(all_reduces(alone.forward) + all_reduces(alone.backward), 0) << c.name;
  }
}

TEST(Kernels, FlopsDoNotDependOnTheSplitAndRecomputationAddsTheForward) {
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const double forward = layer(g).forward_flop().value();
    const double backward = layer(g).backward_flop().value();
    for (const int t : {1, 2}) {
      const BlockKernels k = make_kernels(layer(g), options(t, 5, true));
      EXPECT_DOUBLE_EQ(flop(k.forward) * t, 5 * forward) << c.name;
      EXPECT_DOUBLE_EQ(flop(k.recompute) * t, 5 * forward) << c.name;
      EXPECT_DOUBLE_EQ(flop(k.backward) * t, 5 * backward) << c.name;
    }
  }
}

TEST(Kernels, StashIsTheKorthikantiFormula) {
  const Graph g = build_graph(gpt());
  const std::int64_t s = 256, h = 512, a = 8, b = 3;
  const std::int64_t sbh = s * b * h, scores = a * s * s * b;
  EXPECT_EQ(make_kernels(layer(g), options(1, b, false)).stash_bytes(), 34 * sbh + 5 * scores);
  for (const int t : {2, 4, 8}) {
    EXPECT_EQ(make_kernels(layer(g), options(t, b, false)).stash_bytes(),
              10 * sbh + 24 * sbh / t + 5 * scores / t);
  }
  const BlockKernels full = make_kernels(layer(g), options(2, b, true));
  EXPECT_EQ(full.stash_bytes(), 2 * sbh);
  EXPECT_EQ(full.stash_bytes() + full.rebuilt_bytes(), 10 * sbh + 12 * sbh + 5 * scores / 2);
}

TEST(Kernels, SequenceParallelismReplacesAllReducesByPairs) {
  // Korthikanti et al., figures 4 and 5: g is all-gather forward and reduce-scatter backward, g-bar
  // the reverse; the backward pass gathers again what the weight gradients need.
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const BlockKernels k = make_kernels(layer(g), options(2, 3, false, true));
    EXPECT_EQ(all_reduces(k.forward) + all_reduces(k.backward), 0) << c.name;
    EXPECT_EQ(collectives(k.forward, CollectiveKind::all_gather), 2) << c.name;
    EXPECT_EQ(collectives(k.forward, CollectiveKind::reduce_scatter), 2) << c.name;
    EXPECT_EQ(collectives(k.backward, CollectiveKind::all_gather), 4) << c.name;
    EXPECT_EQ(collectives(k.backward, CollectiveKind::reduce_scatter), 2) << c.name;
    EXPECT_EQ(k.input_bytes, 3 * 256 * 512 * 2 / 2);
    // Norm gains and biases see this rank's tokens only.
    const std::int64_t norms = c.norm == NormKind::layer_norm ? 4 : 2;
    EXPECT_EQ(k.partial_gradients[0], norms * 512 * 2) << c.name;
  }
}

TEST(Kernels, SequenceParallelStashIsTheKorthikantiFormula) {
  const Graph g = build_graph(gpt());
  const std::int64_t s = 256, h = 512, a = 8, b = 3;
  const std::int64_t sbh = s * b * h, scores = a * s * s * b;
  for (const int t : {2, 4, 8}) {
    EXPECT_EQ(make_kernels(layer(g), options(t, b, false, true)).stash_bytes(),
              (34 * sbh + 5 * scores) / t);
  }
}

TEST(Kernels, EveryTensorThatLeavesAKernelIsMadeOnceAndReadLater) {
  const Graph g = build_graph(gpt());
  for (const Block& block : g.blocks) {
    const BlockKernels k = make_kernels(block, options(2, 2, false));
    for (const auto* list : {&k.forward, &k.backward}) {
      std::vector<std::string> made;
      for (const Kernel& kernel : *list) {
        if (kernel.collective && kernel.reads[0].tensor == kernel.writes[0].tensor) continue;
        for (const Access& w : kernel.writes) {
          EXPECT_EQ(std::count(made.begin(), made.end(), w.tensor), 0) << kernel.name;
          made.push_back(w.tensor);
          EXPECT_GT(w.bytes, 0) << kernel.name << " " << w.tensor;
        }
      }
    }
  }
}

TEST(Kernels, BackwardWritesEveryGradientOfAttention) {
  const Graph g = build_graph(llama());
  const BlockKernels k = make_kernels(layer(g), options(2, 2, false));
  const auto written = [&](const std::string& tensor) -> std::int64_t {
    for (const Kernel& kernel : k.backward) {
      for (const Access& w : kernel.writes) {
        if (w.tensor == tensor) return w.bytes;
      }
    }
    return 0;
  };
  const std::int64_t tokens = 2 * 256;
  EXPECT_EQ(written("d.v"), tokens * 64 * 2 / 2 * 2);  // 2 kv heads over 2 ranks, fp16
  EXPECT_EQ(written("d.k.raw"), tokens * 64 * 2);
  EXPECT_EQ(written("d.q.raw"), tokens * 4 * 64 * 2);
}

TEST(Kernels, InferenceRunsForwardAloneAndKeepsNothing) {
  const Graph g = build_graph(gpt());
  KernelOptions o = options(2, 2, false);
  o.training = false;
  const BlockKernels k = make_kernels(layer(g), o);
  EXPECT_TRUE(k.backward.empty());
  EXPECT_EQ(k.stash_bytes(), 0);
  for (const Kernel& kernel : k.forward) {
    for (const Access& w : kernel.writes) {
      EXPECT_EQ(w.tensor.find("mask"), std::string::npos) << "dropout does not run in inference";
    }
  }
}

}  // namespace
}  // namespace tilewright
