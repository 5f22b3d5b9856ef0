#include <tilewright/plan/kernels.h>

#include <gtest/gtest.h>

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

int collectives(const std::vector<Kernel>& kernels) {
  int n = 0;
  for (const Kernel& k : kernels) n += k.all_reduce > 0 ? 1 : 0;
  return n;
}

double flop(const std::vector<Kernel>& kernels) {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.matrix ? k.gemm.flop() : 0;
  return sum;
}

KernelOptions options(int tensor, std::int64_t samples, bool recompute) {
  KernelOptions o;
  o.tensor = tensor;
  o.samples = samples;
  o.recompute = recompute;
  return o;
}

TEST(Kernels, MegatronHasTwoAllReducesPerLayerAndDirection) {
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const BlockKernels k = make_kernels(layer(g), options(2, 3, true));
    EXPECT_EQ(collectives(k.forward), 2) << c.name;
    EXPECT_EQ(collectives(k.recompute), 2) << c.name;
    EXPECT_EQ(collectives(k.backward), 2) << c.name;
    for (const Kernel& kernel : k.forward) {
      if (kernel.all_reduce > 0) {
        EXPECT_EQ(kernel.all_reduce, 2 * 3 * 256 * 512);
      }
    }
    const BlockKernels alone = make_kernels(layer(g), options(1, 3, true));
    EXPECT_EQ(collectives(alone.forward) + collectives(alone.backward), 0) << c.name;
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

TEST(Kernels, EveryTensorThatLeavesAKernelIsMadeOnceAndReadLater) {
  const Graph g = build_graph(gpt());
  for (const Block& block : g.blocks) {
    const BlockKernels k = make_kernels(block, options(2, 2, false));
    for (const auto* list : {&k.forward, &k.backward}) {
      std::vector<std::string> made;
      for (const Kernel& kernel : *list) {
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
