#include <algorithm>
#include <initializer_list>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include <gtest/gtest.h>

#include <tilewright/plan/cost.h>
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

/// 2 of 8 experts for each of 256 tokens, and shared experts behind a gate.
DecoderConfig moe() {
  DecoderConfig c = llama();
  c.name = "moe";
  c.experts.count = 8;
  c.experts.top_k = 2;
  c.experts.ffn = 768;
  c.experts.shared_ffn = 1024;
  c.experts.shared_gate = true;
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
  const Splits splits = make_splits(plan, build_graph(gpt()));
  KernelOptions o{splits, boundary_layouts(build_graph(gpt()), splits)};
  o.samples = samples;
  o.dropped.all = recompute;
  return o;
}

/// Parameters whose gradients hold one rank's samples or tokens only.
std::int64_t summed_parameters(const Block& block, const Splits& splits) {
  std::int64_t sum = 0;
  for (const Operator& op : block.operators) {
    if (splits.summed_gradients(op) != 0) sum += splits.local_parameters(op);
  }
  return sum;
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
    EXPECT_EQ(summed_parameters(layer(g), options(2, 3, false, true).splits), norms * 512)
        << c.name;
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
  for (const DecoderConfig& c : {gpt(), moe()}) {
    for (const Block& block : build_graph(c).blocks) {
      for (const bool sequence_parallel : {false, true}) {
        const BlockKernels k = make_kernels(block, options(2, 2, false, sequence_parallel));
        for (const auto* list : {&k.forward, &k.backward}) {
          std::vector<std::string> made;
          for (const Kernel& kernel : *list) {
            if (kernel.collective && kernel.reads[0].tensor == kernel.writes[0].tensor) continue;
            for (const Access& w : kernel.writes) {
              EXPECT_EQ(std::count(made.begin(), made.end(), w.tensor), 0)
                  << kernel.name << " " << w.tensor;
              made.push_back(w.tensor);
              EXPECT_GT(w.bytes, 0) << kernel.name << " " << w.tensor;
            }
          }
        }
      }
    }
  }
}

const Kernel& named(const std::vector<Kernel>& kernels, const std::string& prefix) {
  for (const Kernel& k : kernels) {
    if (k.name.compare(0, prefix.size(), prefix) == 0) return k;
  }
  throw std::runtime_error("no kernel " + prefix);
}

TEST(Kernels, ExpertsAreTheBatchOfOneGemmWithWeightsOfTheirOwn) {
  const Graph g = build_graph(moe());
  const std::int64_t samples = 3, rows = 256 * 2 / 8, t = 2;
  const BlockKernels k = make_kernels(layer(g), options(t, samples, false));
  const Kernel& up = named(k.forward, "expert_up");
  EXPECT_EQ(up.gemm.batch, 8);
  EXPECT_EQ(up.gemm.m, samples * rows);
  EXPECT_EQ(up.gemm.n, 2 * 768 / t);
  EXPECT_EQ(up.gemm.k, 512);
  EXPECT_EQ(up.a.bytes, 2 * samples * 256 * 2 * 512);  // 2 routes of each token
  EXPECT_EQ(up.b.bytes, 2 * 8 * 512 * (2 * 768 / t));  // the weights once
  const Kernel& wgrad = named(k.backward, "expert_up.wgrad");
  EXPECT_EQ(wgrad.gemm.batch, 8);
  EXPECT_EQ(wgrad.gemm.k, samples * rows);
  EXPECT_EQ(wgrad.writes.front().bytes, up.b.bytes);
  EXPECT_EQ(named(k.backward, "expert_up.dgrad").gemm.batch, 8);
  // A permutation waits for all experts: it is no part of their GEMM.
  EXPECT_EQ(named(k.forward, "expert_down").name, "expert_down");
  EXPECT_FALSE(named(k.forward, "combine").matrix);
}

TEST(Kernels, ExpertFlopsDoNotDependOnTheSplitButForTheReplicatedRouter) {
  const Graph g = build_graph(moe());
  const double forward = layer(g).forward_flop().value();
  const double router = layer(g).find(OpRole::router).forward_flop().value();
  for (const int t : {1, 2}) {
    for (const bool sequence_parallel : {false, true}) {
      const BlockKernels k = make_kernels(layer(g), options(t, 5, true, sequence_parallel));
      const double again = sequence_parallel ? 0 : (t - 1) * router;
      EXPECT_DOUBLE_EQ(flop(k.forward) * t, 5 * (forward + again));
      EXPECT_DOUBLE_EQ(flop(k.recompute) * t, 5 * (forward + again));
      EXPECT_DOUBLE_EQ(flop(k.backward) * t, 2 * 5 * (forward + again));
    }
  }
}

TEST(Kernels, ExpertsUnderTensorParallelismSumEveryRoute) {
  const Graph g = build_graph(moe());
  const std::int64_t tokens = 3 * 256 * 512 * 2, routes = 2 * tokens;
  const auto sizes = [](const std::vector<Kernel>& kernels, CollectiveKind kind) {
    std::vector<std::int64_t> bytes;
    for (const Kernel& k : kernels) {
      if (k.collective && k.collective->kind == kind) bytes.push_back(k.collective->bytes);
    }
    return bytes;
  };
  using Sizes = std::vector<std::int64_t>;
  const BlockKernels k = make_kernels(layer(g), options(2, 3, false));
  // Projection, experts, shared experts; backward: shared experts, experts, QKV.
  EXPECT_EQ(sizes(k.forward, CollectiveKind::all_reduce), (Sizes{tokens, routes, tokens}));
  EXPECT_EQ(sizes(k.backward, CollectiveKind::all_reduce), (Sizes{routes, tokens, tokens}));
  const BlockKernels s = make_kernels(layer(g), options(2, 3, false, true));
  EXPECT_EQ(all_reduces(s.forward) + all_reduces(s.backward), 0);
  EXPECT_EQ(sizes(s.forward, CollectiveKind::reduce_scatter), (Sizes{tokens, routes, tokens}));
  EXPECT_EQ(sizes(s.forward, CollectiveKind::all_gather), (Sizes{tokens, routes, tokens}));
  EXPECT_EQ(sizes(s.backward, CollectiveKind::reduce_scatter), (Sizes{routes, tokens, tokens}));
  // Gradients that hold this rank's tokens only: two norms and the router.
  EXPECT_EQ(summed_parameters(layer(g), options(2, 3, false, true).splits), 2 * 512 + 9 * 512);
}

TEST(Kernels, StashOfExperts) {
  const Graph g = build_graph(moe());
  const std::int64_t tokens = 3 * 256, h = 512;
  for (const int t : {1, 2}) {
    const std::int64_t whole = 2 * (4 * h)                    // x, x2 and both norms' results
                               + 4 * 9 + 2 * 3 + 4 * 2        // router, gates, routes
                               + 2 * 2 * (h + h) + 2 * h;     // routes in and out, shared out
    const std::int64_t cut = 2 * (h + 2 * 128 + 8 * 256 + h)  // q, k, v, p, context
                             + 2 * (2 * 3 * 768 + 3 * 1024);  // within experts
    EXPECT_EQ(make_kernels(layer(g), options(t, 3, false)).stash_bytes(),
              tokens * (whole + cut / t));
    EXPECT_EQ(make_kernels(layer(g), options(t, 3, false, true)).stash_bytes(),
              tokens * (whole + cut) / t);
  }
}

TEST(Kernels, EveryWeightGetsItsGradient) {
  for (const bool gate : {false, true}) {
    DecoderConfig c = moe();
    c.experts.shared_gate = gate;
    c.dropout = gate;
    const Block block = layer(build_graph(c));
    const BlockKernels k = make_kernels(block, options(2, 2, false));
    std::set<std::string> written;
    for (const Kernel& kernel : k.backward) {
      for (const Access& w : kernel.writes) written.insert(w.tensor);
    }
    for (const Operator& op : block.operators) {
      if (op.kind != OpKind::gemm) continue;
      EXPECT_EQ(written.count("d." + op.weights.front().tensor), 1u) << op.name;
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

RoleSet roles(std::initializer_list<OpRole> list) {
  RoleSet set;
  for (const OpRole role : list) set.set(static_cast<std::size_t>(role));
  return set;
}

BlockKernels dropping(const Block& block, const RoleSet& dropped, int tensor = 1,
                      bool sequence_parallel = false) {
  KernelOptions o = options(tensor, 3, false, sequence_parallel);
  o.dropped.roles = dropped;
  return make_kernels(block, o);
}

TEST(Recompute, SelectiveDropsTheAttentionCoreAndRunsTheScoresAgain) {
  // Korthikanti et al.: sbh(10 + 24/t) without, 34 sbh / t with sequence parallelism.
  const Graph g = build_graph(gpt());
  const std::int64_t s = 256, h = 512, a = 8, b = 3;
  const std::int64_t sbh = s * b * h, scores = a * s * s * b;
  const RoleSet core = Recomputation::selective.of(0, 0).roles;
  for (const int t : {1, 2, 4, 8}) {
    for (const bool sequence_parallel : {false, true}) {
      const BlockKernels k = dropping(layer(g), core, t, sequence_parallel);
      EXPECT_EQ(k.stash_bytes(), sequence_parallel ? 34 * sbh / t : 10 * sbh + 24 * sbh / t);
      EXPECT_EQ(k.rebuilt_bytes(), 5 * scores / t);
      ASSERT_EQ(k.recompute.size(), 1u);
      EXPECT_EQ(k.recompute[0].name, "scores+softmax");
      EXPECT_DOUBLE_EQ(flop(k.recompute) * t,
                       3 * layer(g).find(OpRole::scores).forward_flop().value());
    }
  }
}

TEST(Recompute, TheFewestOperatorsRunAgain) {
  const Graph g = build_graph(gpt());
  const Block& b = layer(g);
  const auto names = [](const BlockKernels& k) {
    std::vector<std::string> names;
    for (const Kernel& kernel : k.recompute) names.push_back(kernel.name);
    return names;
  };
  using Names = std::vector<std::string>;
  const std::int64_t whole = dropping(b, {}).stash_bytes(), tokens = 3 * 256;
  // A norm is made from its input, an activation from the projection before it.
  BlockKernels k = dropping(b, roles({OpRole::mlp_norm}));
  EXPECT_EQ(names(k), Names{"mlp_norm"});
  EXPECT_EQ(k.stash_bytes(), whole - tokens * 2 * 512);
  k = dropping(b, roles({OpRole::activation}));
  EXPECT_EQ(names(k), Names{"activation"});
  EXPECT_EQ(k.stash_bytes(), whole - tokens * 2 * 2048);
  // Softmax alone needs the scores, which nobody keeps.
  EXPECT_EQ(names(dropping(b, roles({OpRole::softmax}))), Names{"scores+softmax"});
  // The sum of the residual needs its branch, and under tensor parallelism the branch's all-reduce.
  k = dropping(b, roles({OpRole::attention_residual}), 2);
  EXPECT_EQ(names(k), (Names{"projection", "projection.out.all_reduce", "attention_residual"}));
  EXPECT_DOUBLE_EQ(flop(k.recompute) * 2, 3 * b.find(OpRole::projection).forward_flop().value());
  // The last residual leaves nothing but a mask, which is drawn again.
  k = dropping(b, roles({OpRole::mlp_residual}));
  EXPECT_EQ(names(k), Names{});
  EXPECT_EQ(k.stash_bytes(), whole - tokens * 512);
  // What nobody keeps is no less for being named.
  k = dropping(b, roles({OpRole::projection, OpRole::mlp_down}));
  EXPECT_EQ(names(k), Names{});
  EXPECT_EQ(k.stash_bytes(), whole);
}

TEST(Recompute, DroppingEverythingByNameLeavesTheLastProjectionOut) {
  const Graph g = build_graph(gpt());
  const Block& b = layer(g);
  RoleSet all;
  all.set();
  const BlockKernels k = dropping(b, all);
  EXPECT_EQ(k.stash_bytes(), 2 * 3 * 256 * 512);
  EXPECT_DOUBLE_EQ(flop(k.recompute),
                   3 * (b.forward_flop() - b.find(OpRole::mlp_down).forward_flop()).value());
}

TEST(Recompute, OutsideTheLayers) {
  const Graph g = build_graph(gpt());
  const std::int64_t sbh = 3 * 256 * 512, logits = 4 * 3 * 256 * 1024;
  const Block &embedding = g.blocks[0], &head = g.blocks[2];
  EXPECT_EQ(dropping(embedding, {}).stash_bytes(), sbh);
  const BlockKernels redrawn = dropping(embedding, roles({OpRole::embedding}));
  EXPECT_EQ(redrawn.stash_bytes(), 0);
  EXPECT_TRUE(redrawn.recompute.empty());
  EXPECT_EQ(dropping(head, {}).stash_bytes(), 4 * sbh + logits);
  const BlockKernels k = dropping(head, roles({OpRole::final_norm, OpRole::loss}));
  EXPECT_EQ(k.stash_bytes(), 2 * sbh);
  EXPECT_EQ(k.rebuilt_bytes(), 2 * sbh + logits);
  EXPECT_DOUBLE_EQ(flop(k.recompute), 3 * head.forward_flop().value());
  // Full recomputation is of layers: elsewhere only masks are not kept.
  EXPECT_EQ(make_kernels(embedding, options(1, 3, true)).stash_bytes(), 0);
  EXPECT_EQ(make_kernels(head, options(1, 3, true)).stash_bytes(), 4 * sbh + logits);
}

/// Everything a recomputation must keep to, whatever it drops.
void expect_consistent(const Block& block, const RoleSet& dropped, int t, bool sequence_parallel) {
  const BlockKernels none = dropping(block, {}, t, sequence_parallel);
  const BlockKernels k = dropping(block, dropped, t, sequence_parallel);
  std::set<std::string> there, masks;
  std::map<std::string, std::int64_t> rebuilt, made;
  for (const SizedTensor& s : k.stash) there.insert(s.name);
  for (const SizedTensor& s : k.rebuilt) rebuilt[s.name] = s.bytes;
  for (const Operator& op : block.operators) {
    for (const Operand& out : op.outputs) {
      if (out.storage == Storage::mask) masks.insert(out.tensor);
    }
  }
  // What is kept and what is rebuilt are what was kept, masks drawn again apart.
  std::int64_t redrawn = 0;
  for (const SizedTensor& s : none.stash) {
    if (there.count(s.name) + rebuilt.count(s.name) == 1) continue;
    EXPECT_EQ(masks.count(s.name), 1u) << s.name;
    redrawn += s.bytes;
  }
  EXPECT_EQ(k.stash_bytes() + k.rebuilt_bytes() + redrawn, none.stash_bytes());
  // Every kernel that runs again reads what is there, and makes something for those after it.
  for (const Kernel& kernel : k.recompute) {
    EXPECT_EQ(kernel.phase, Phase::recompute);
    std::vector<Access> reads = kernel.reads;
    if (kernel.matrix) reads.insert(reads.end(), {kernel.a, kernel.b});
    for (const Access& r : reads) {
      const bool given = r.cls == TensorClass::weight || r.tensor == "targets" ||
                         r.tensor == "tokens" || r.tensor.empty();
      EXPECT_TRUE(given || there.count(r.tensor) > 0) << kernel.name << " reads " << r.tensor;
    }
    EXPECT_FALSE(kernel.writes.empty()) << kernel.name;
    for (const Access& w : kernel.writes) {
      EXPECT_EQ(w.cls == TensorClass::saved, rebuilt.count(w.tensor) > 0) << w.tensor;
      there.insert(w.tensor);
      if (rebuilt.count(w.tensor) > 0) made[w.tensor] = w.bytes;
    }
  }
  EXPECT_EQ(made, rebuilt);
  EXPECT_DOUBLE_EQ(flop(k.forward), flop(none.forward));
  EXPECT_DOUBLE_EQ(flop(k.backward), flop(none.backward));
  EXPECT_LE(flop(k.recompute), flop(none.forward));
}

TEST(Kernels, ABlocksInputIsReadUnderItsOwnName) {
  // Two readers that cut it differently: the second gets a copy, for what a stage receives, and
  // what its backward pass reads again, is the first.
  const Graph g = build_graph(gpt());
  PlanConfig plan;
  plan.tensor = 2;
  plan.cuts = {{OpRole::attention_norm, "tensor", Dim::batch, ""},
               {OpRole::attention_residual, "tensor", Dim::row, ""}};
  const Splits splits = make_splits(plan, g);
  KernelOptions o{splits, boundary_layouts(g, splits)};
  o.samples = 2;
  const BlockKernels k = make_kernels(layer(g), o);
  EXPECT_EQ(k.forward.front().reads.front().tensor, k.input);
  EXPECT_EQ(named(k.forward, "x.all_to_all").reads.front().tensor, k.input);
}

TEST(Recompute, AnySetOfOperatorsIsConsistent) {
  std::mt19937 random(7);
  DecoderConfig dropout = moe();
  dropout.dropout = true;
  for (const DecoderConfig& c : {gpt(), llama(), moe(), dropout}) {
    for (const Block& block : build_graph(c).blocks) {
      for (int round = 0; round < 40; ++round) {
        RoleSet dropped;
        for (int r = 0; r < kOpRoles; ++r) dropped[static_cast<std::size_t>(r)] = random() % 3 == 0;
        SCOPED_TRACE(c.name + " " + block.name + " " + dropped.to_string());
        expect_consistent(block, dropped, 1 + round % 2, round % 4 == 3);
      }
    }
  }
}

/// What the kernels read and write, weights and all.
std::int64_t moved(const std::vector<Kernel>& kernels) {
  std::int64_t sum = 0;
  for (const Kernel& k : kernels) {
    sum += k.a.bytes + k.b.bytes;
    for (const Access& r : k.reads) sum += r.bytes;
    for (const Access& w : k.writes) sum += w.bytes;
  }
  return sum;
}

// Scores and the results of both projections are written and read again, and two residuals and the
// result of the up projection, which are written anyway, are read.
TEST(SeparateKernels, EachOperatorIsOneAndItsResultIsMoved) {
  const Graph g = build_graph(gpt());
  const std::int64_t s = 256, h = 512, a = 8, b = 3;
  const std::int64_t sbh = s * b * h * 2, scores = a * s * s * b * 2;
  KernelOptions o = options(1, b, false);
  const BlockKernels fused = make_kernels(layer(g), o);
  o.fuse_pointwise = false;
  const BlockKernels separate = make_kernels(layer(g), o);
  EXPECT_EQ(separate.forward.size(), layer(g).operators.size());
  for (std::size_t i = 0; i < separate.forward.size(); ++i) {
    EXPECT_EQ(separate.forward[i].name, layer(g).operators[i].name);
  }
  EXPECT_EQ(moved(separate.forward) - moved(fused.forward), 2 * scores + (2 + 2 + 1 + 4) * sbh);
  EXPECT_GT(moved(separate.backward), moved(fused.backward));
  EXPECT_EQ(separate.stash_bytes(), fused.stash_bytes());
  EXPECT_DOUBLE_EQ(flop(separate.forward), flop(fused.forward));
  EXPECT_DOUBLE_EQ(flop(separate.backward), flop(fused.backward));
}

std::vector<std::string> normalising(const std::vector<Kernel>& kernels) {
  std::vector<std::string> names;
  for (const Kernel& k : kernels) {
    if (!k.normalised.empty()) names.push_back(k.normalised);
  }
  return names;
}

// The first norm of a layer reads the layer's input and writes its result, which the QKV projection
// reads; the second is part of the kernel that makes its input, and writes what the up projection
// reads.
TEST(FusedNorm, WritesItsResultOnlyWhereItIsKept) {
  const std::vector<std::string> both{"attention_norm.out", "mlp_norm.out"};
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const std::int64_t sbh = 256 * 3 * 512 * 2;
    for (const int t : {1, 2}) {
      KernelOptions o = options(t, 3, false), fuse = o;
      fuse.fuse_norm = true;
      BlockKernels plain = make_kernels(layer(g), o), fused = make_kernels(layer(g), fuse);
      EXPECT_EQ(normalising(fused.forward), both) << c.name;
      // Kept: the layer's input is read once less.
      EXPECT_EQ(moved(plain.forward) - moved(fused.forward), sbh);
      EXPECT_EQ(fused.stash_bytes(), plain.stash_bytes());
      EXPECT_EQ(moved(plain.backward), moved(fused.backward));

      // Made again before backward: neither result is written the first time, both the second.
      o.dropped.all = fuse.dropped.all = true;
      plain = make_kernels(layer(g), o);
      fused = make_kernels(layer(g), fuse);
      EXPECT_EQ(normalising(fused.forward), both);
      EXPECT_EQ(normalising(fused.recompute), both);
      EXPECT_EQ(moved(plain.forward) - moved(fused.forward), 3 * sbh);
      EXPECT_EQ(moved(plain.recompute) - moved(fused.recompute), sbh);
      EXPECT_EQ(fused.rebuilt_bytes(), plain.rebuilt_bytes());

      o.dropped.all = fuse.dropped.all = false;
      o.training = fuse.training = false;
      EXPECT_EQ(
          moved(make_kernels(layer(g), o).forward) - moved(make_kernels(layer(g), fuse).forward),
          3 * sbh);
      EXPECT_DOUBLE_EQ(flop(plain.forward), flop(fused.forward));
      EXPECT_EQ(all_reduces(plain.forward), all_reduces(fused.forward));
    }
  }
}

TEST(FusedNorm, TheGemmDoesItsWorkAndScalesItsResult) {
  const Graph g = build_graph(llama());
  KernelOptions o = options(1, 3, false);
  o.fuse_norm = true;
  o.training = false;
  const std::int64_t tokens = 3 * 256, h = 512, width = 512 + 2 * 128;
  const BlockKernels k = make_kernels(layer(g), o);
  const Kernel& first = k.forward.front();
  EXPECT_EQ(first.name.rfind("attention_norm+qkv", 0), 0u);
  EXPECT_EQ(first.a.tensor, "x");
  EXPECT_EQ(first.a.bytes, 2 * tokens * h);
  EXPECT_EQ(first.b.bytes, 2 * h * width);
  o.fuse_norm = false;
  const BlockKernels plain = make_kernels(layer(g), o);
  EXPECT_DOUBLE_EQ(first.vector_elements, plain.forward[0].vector_elements +
                                              plain.forward[1].vector_elements +
                                              static_cast<double>(tokens * width));
}

TEST(FusedNorm, NotWhereACollectiveOrAnotherReaderComesBetween) {
  // Sequence parallelism gathers the normalised rows; experts are sent them.
  KernelOptions o = options(2, 3, false, true);
  o.fuse_norm = true;
  EXPECT_TRUE(normalising(make_kernels(layer(build_graph(gpt())), o).forward).empty());
  o = options(1, 3, false);
  o.fuse_norm = true;
  const Graph g = build_graph(moe());
  EXPECT_EQ(normalising(make_kernels(layer(g), o).forward),
            std::vector<std::string>{"attention_norm.out"});
  // What is recomputed but for its reader is made by itself.
  o.dropped.roles = roles({OpRole::mlp_norm});
  const BlockKernels k = make_kernels(layer(build_graph(gpt())), o);
  EXPECT_TRUE(normalising(k.recompute).empty());
  ASSERT_EQ(k.recompute.size(), 1u);
  EXPECT_EQ(k.recompute[0].name, "mlp_norm");
}

TEST(FusedAttention, KeepsNoScoresAndMakesThemAgainInBackward) {
  for (const DecoderConfig& c : {gpt(), llama()}) {
    const Graph g = build_graph(c);
    const double scores = 3 * layer(g).find(OpRole::scores).forward_flop().value();
    for (const int t : {1, 2}) {
      for (const bool sequence_parallel : {false, true}) {
        KernelOptions o = options(t, 3, false, sequence_parallel);
        const BlockKernels apart = make_kernels(layer(g), o);
        o.fuse_attention = true;
        const BlockKernels fused = make_kernels(layer(g), o);
        // 5as²b less with dropout, 2as²b without.
        const std::int64_t core = (c.dropout ? 5 : 2) * 8 * 256 * 256 * 3;
        EXPECT_EQ(fused.stash_bytes(), apart.stash_bytes() - core / t) << c.name;
        EXPECT_EQ(fused.rebuilt_bytes(), 0);
        EXPECT_TRUE(fused.recompute.empty());
        EXPECT_DOUBLE_EQ(flop(fused.forward), flop(apart.forward));
        EXPECT_DOUBLE_EQ(flop(fused.backward) * t, flop(apart.backward) * t + scores);
        for (const auto* list : {&fused.forward, &fused.backward}) {
          for (const Kernel& k : *list) {
            for (const Access& w : k.writes) {
              EXPECT_NE(w.tensor.substr(0, 2), "p.") << k.name;
              EXPECT_NE(w.tensor, "p");
              EXPECT_NE(w.tensor, "scores.out");
            }
          }
        }
      }
    }
  }
}

const Kernel& exactly(const std::vector<Kernel>& kernels, const std::string& name) {
  for (const Kernel& k : kernels) {
    if (k.name == name) return k;
  }
  throw std::runtime_error("no kernel " + name);
}

TEST(FusedAttention, MovesEveryOperandOnceWhenItFits) {
  DecoderConfig c = llama();  // 8 heads of 64 on 2 key-value heads
  c.position = PositionKind::none;
  const Graph g = build_graph(c);
  KernelOptions o = options(1, 3, false);
  o.fuse_attention = true;
  const BlockKernels k = make_kernels(layer(g), o);
  const std::int64_t tokens = 3 * 256, q = 2 * tokens * 512, kv = q / 4;
  TileRates rates;
  MachineConfig m;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.vector.throughput = Frequency(512e9);
  rates.engines = make_compute_model(m);
  rates.format = "fp16";
  rates.dram.sram.bandwidth = Bandwidth(2e12);
  rates.dram.dram = 16e9;
  const auto cost = [&](const Kernel& kernel, std::int64_t sram) {
    return kernel_cost(kernel, {}, sram, DType::fp16, o.state, rates);
  };
  const Kernel &forward = exactly(k.forward, "attention"),
               &backward = exactly(k.backward, "attention.grad");
  EXPECT_EQ(cost(forward, 1 << 20).load, q + 2 * kv);
  EXPECT_EQ(cost(forward, 1 << 20).store, q);
  // Queries, result, its gradient; keys and values; the queries' gradient is read and written while
  // it is summed, and written out.
  EXPECT_EQ(cost(backward, 1 << 20).load, q + q + q + 2 * kv + 2 * q);
  EXPECT_EQ(cost(backward, 1 << 20).store, q + 2 * kv);
  // Less SRAM: keys and values pass once for every block of query rows, never fewer times.
  std::int64_t before = 0;
  for (const std::int64_t kib : {1024, 256, 128, 64, 48}) {
    const std::int64_t load = cost(forward, kib << 10).load;
    EXPECT_EQ((load - q) % (2 * kv), 0) << kib;
    EXPECT_GE(load, before) << kib;
    before = load;
  }
  EXPECT_GT(before, q + 2 * kv);
}

TEST(Kernels, SpecialFunctionsCountAsThePassesTheyTakeAsLongAs) {
  const auto elements = [](const std::vector<Kernel>& kernels) {
    double sum = 0;
    for (const Kernel& k : kernels) sum += k.vector_elements;
    return sum;
  };
  for (const bool fused : {false, true}) {
    const Graph g = build_graph(gpt());
    KernelOptions o = options(1, 3, false);
    o.fuse_attention = fused;
    const BlockKernels plain = make_kernels(layer(g), o);
    o.special_passes = 4;
    const BlockKernels slow = make_kernels(layer(g), o);
    // One exponential a score and one tanh an element of the MLP; in backward the tanh again, and
    // fused the exponential too.
    const Operator &softmax = layer(g).find(OpRole::softmax),
                   &activation = layer(g).find(OpRole::activation);
    const double scores = 3 * Operator::vector_elements(softmax.extents),
                 mlp = 3 * Operator::vector_elements(activation.extents);
    EXPECT_DOUBLE_EQ(elements(slow.forward) - elements(plain.forward), 3 * (scores + mlp));
    EXPECT_DOUBLE_EQ(elements(slow.backward) - elements(plain.backward),
                     3 * (mlp + (fused ? scores : 0)));
  }
}

Kernel plain_gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.name = "gemm";
  kernel.matrix = true;
  kernel.gemm = {1, m, n, k};
  kernel.a = {"a", TensorClass::temporary, 2 * m * k};
  kernel.b = {"b", TensorClass::weight, 2 * k * n};
  kernel.writes = {{"c", TensorClass::temporary, 2 * m * n}};
  return kernel;
}

TEST(KernelCosts, LoadsAndStoresContendForTheSramWhereTheMachineSaysSo) {
  MachineConfig m;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.sram.bandwidth = Bandwidth(1e11);
  m.dram.bandwidth = Bandwidth(1e12);
  m.dram.sites = {{0, 0}};
  const Kernel kernel = plain_gemm(512, 256, 128);
  const auto cost = [&] {
    const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
    const KernelCost c = kernel_cost(kernel, {}, 1 << 20, DType::fp16, StateBytes{}, rates);
    return std::make_pair(c, kernel_seconds(kernel, c, rates));
  };
  const auto [alone, seconds] = cost();
  m.sram.contention = true;
  const auto [shared, longer] = cost();
  EXPECT_EQ(alone.beside.total(), 0);
  EXPECT_EQ(shared.beside.read, shared.store);
  EXPECT_EQ(shared.beside.written, shared.load);
  EXPECT_NEAR(longer - seconds, static_cast<double>(shared.load + shared.store) / 1e11, 1e-9);
}

TEST(KernelCosts, WhatIsNormalisedAsItIsLoadedLeavesOnceIfItIsKept) {
  MachineConfig m;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.vector.throughput = Frequency(1e12);
  m.dram.bandwidth = Bandwidth(1e12);
  m.dram.sites = {{0, 0}};
  Kernel kernel = plain_gemm(2048, 4096, 1024);
  const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
  const auto cost = [&](std::int64_t sram) {
    return kernel_cost(kernel, {}, sram, DType::fp16, StateBytes{}, rates);
  };
  const KernelCost plain = cost(1 << 16);
  ASSERT_GT(plain.blocking->a_traffic, 2 * 2048 * 1024);  // A comes several times
  kernel.normalised = "n";
  EXPECT_EQ(cost(1 << 16).load, plain.load);
  EXPECT_EQ(cost(1 << 16).store, plain.store);
  kernel.writes.push_back({"n", TensorClass::saved, 2 * 2048 * 1024});
  const KernelCost kept = cost(1 << 16);
  EXPECT_EQ(kept.load, plain.load);
  EXPECT_EQ(kept.store, plain.store + 2 * 2048 * 1024);
  EXPECT_EQ(kept.footprint, plain.footprint);
  EXPECT_EQ(cost(64 << 20).load, 2 * (2048 * 1024 + 1024 * 4096));
}

TEST(KernelCosts, ASystolicArrayIsFedThroughItsEdges) {
  MachineConfig m;
  m.matrix.model = "systolic";
  m.matrix.systolic.rows = m.matrix.systolic.columns = 16;
  m.matrix.systolic.clock = Frequency(1e9);
  m.matrix.systolic.speed["fp16"] = 1;
  m.matrix.peak["fp16"] = FlopRate(512e9);
  m.dram.bandwidth = Bandwidth(1e12);
  m.dram.sites = {{0, 0}};
  const Kernel kernel = plain_gemm(64, 32, 1000);
  const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
  const KernelCost c = kernel_cost(kernel, {}, 1 << 20, DType::fp16, StateBytes{}, rates);
  // 4 x 2 folds; the result passes as the kernel's write as well.
  EXPECT_EQ(c.sram.read, 2 * (64 * 1000 * 2 + 1000 * 32 * 4));
  EXPECT_EQ(c.sram.written, 2 * 64 * 32 * 2);
}

TEST(FusedAttention, ItsResultCanBeRecomputed) {
  const Graph g = build_graph(gpt());
  KernelOptions o = options(2, 3, false);
  o.fuse_attention = true;
  o.dropped.roles = roles({OpRole::context});
  const BlockKernels k = make_kernels(layer(g), o);
  ASSERT_EQ(k.recompute.size(), 1u);
  EXPECT_EQ(k.recompute[0].name, "attention");
  EXPECT_EQ(k.rebuilt_bytes(), 2 * 3 * 256 * 512 / 2);
  // Of the core nothing is kept that could be dropped.
  o.dropped.roles = Recomputation::selective.of(0, 0).roles;
  EXPECT_TRUE(make_kernels(layer(g), o).recompute.empty());
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

// --- split backward ---

KernelOptions split(KernelOptions o) {
  o.split_backward = true;
  return o;
}

TEST(SplitBackward, WeightGradientsAreApartAndTheWorkIsTheSame) {
  for (const DecoderConfig& c : {gpt(), llama(), moe()}) {
    const Graph g = build_graph(c);
    for (const Block& block : g.blocks) {
      for (const int t : {1, 2}) {
        const BlockKernels whole = make_kernels(block, options(t, 3, false));
        const BlockKernels apart = make_kernels(block, split(options(t, 3, false)));
        double inputs = 0, weights = 0, gemms = 0;
        for (const Operator& op : block.operators) {
          inputs += op.input_gradient_flop().value();
          weights += op.weight_gradient_flop().value();
          gemms += op.kind == OpKind::gemm ? 1 : 0;
        }
        EXPECT_DOUBLE_EQ(flop(apart.backward) + flop(apart.weight), flop(whole.backward));
        if (t == 1) {
          EXPECT_DOUBLE_EQ(flop(apart.backward), 3 * inputs) << c.name << " " << block.name;
          EXPECT_DOUBLE_EQ(flop(apart.weight), 3 * weights) << c.name << " " << block.name;
        }
        double products = 0;
        for (const Kernel& k : apart.weight) {
          products += k.matrix ? 1 : 0;
          for (const Access* a : {&k.a, &k.b}) EXPECT_NE(a->cls, TensorClass::weight);
        }
        EXPECT_EQ(products, gemms) << c.name << " " << block.name;
      }
    }
  }
}

TEST(SplitBackward, KeepsInputsAndGradientsOfTheProducts) {
  const Graph g = build_graph(gpt());
  const std::int64_t sbh = 256 * 3 * 512;
  const BlockKernels k = make_kernels(layer(g), split(options(1, 3, false)));
  std::int64_t activations = 0, gradients = 0;
  for (const SizedTensor& t : k.held_activations) activations += t.bytes;
  for (const SizedTensor& t : k.held_gradients) gradients += t.bytes;
  // Two bytes of the inputs of QKV, projection, up (h each) and down (4h) ...
  EXPECT_EQ(activations, 2 * (1 + 1 + 1 + 4) * sbh);
  // ... and of the gradients of their results: 3h, h, 4h, h. Dropout makes those of the last ones
  // tensors of their own.
  EXPECT_EQ(gradients, 2 * (3 + 1 + 4 + 1) * sbh);
  // Without dropout the gradient that comes in is that of the down projection's result.
  DecoderConfig c = gpt();
  c.dropout = false;
  const BlockKernels plain = make_kernels(layer(build_graph(c)), split(options(1, 3, false)));
  EXPECT_TRUE(std::any_of(plain.held_gradients.begin(), plain.held_gradients.end(),
                          [&](const SizedTensor& t) { return t.name == plain.output_gradient; }));
}

TEST(SplitBackward, AnEmbeddingHasWeightGradientsAlone) {
  const Graph g = build_graph(gpt());
  const BlockKernels k = make_kernels(g.blocks[0], split(options(2, 3, false)));
  EXPECT_TRUE(k.backward.empty());
  EXPECT_EQ(k.weight.size(), 1u);
}

TEST(SplitBackward, GathersForWeightGradientsWithThem) {
  const Graph g = build_graph(gpt());
  const BlockKernels k = make_kernels(layer(g), split(options(2, 3, false, true)));
  // Sequence parallel: the inputs of QKV and up are gathered for their weight gradients; backward
  // the gradients of projection's and down's results are gathered, for both uses.
  EXPECT_EQ(collectives(k.weight, CollectiveKind::all_gather), 2);
  EXPECT_EQ(collectives(k.backward, CollectiveKind::all_gather), 2);
  EXPECT_EQ(collectives(k.backward, CollectiveKind::reduce_scatter), 2);
}

}  // namespace
}  // namespace tilewright
