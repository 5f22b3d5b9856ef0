// Fewer key/value heads than tensor ranks: what copies of them cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

#include "support/plain_mesh.h"
#include "support/sent.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kHidden = 128, kHeads = 8, kHeadDim = 16, kLayers = 3, kTokens = 64;
constexpr std::int64_t kMicroBatches = 2;

DecoderConfig model(std::int64_t kv_heads) {
  DecoderConfig c;
  c.name = "grouped";
  c.layers = kLayers;
  c.hidden = kHidden;
  c.heads = kHeads;
  c.kv_heads = kv_heads;
  c.head_dim = kHeadDim;
  c.ffn = 512;
  c.vocab = 0;
  c.sequence = c.max_positions = kTokens;
  c.position = PositionKind::rotary;
  return c;
}

MachineConfig machine() { return test::plain_mesh(4, 4); }

PlanConfig plan(int tensor) {
  PlanConfig p;
  p.name = "test";
  p.tensor = tensor;
  p.micro_batch = 1;
  p.global_batch = kMicroBatches;
  p.uneven = Uneven::pad;
  return p;
}

std::string refused(const DecoderConfig& model, const PlanConfig& plan) {
  try {
    check_plan(plan, build_graph(model), machine());
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

using test::sent;

TEST(KeyValueCopies, AreHeldAndWorkedOnButNotCounted) {
  for (const std::int64_t kv : {1, 2}) {
    for (const int t : {4, 8}) {
      const Graph g = build_graph(model(kv));
      const LoweredPlan l = lower(g, plan(t), machine());
      const StagePlan& s = l.stages[0];
      EXPECT_EQ(s.parameters, g.parameters());
      // What the ranks hold beyond the model: t - kv key heads and as many value heads, and norms.
      const std::int64_t columns = 2 * (t - kv) * kHeadDim;
      std::int64_t norms = 0;
      for (const Operator& op : g.blocks[0].operators) {
        if (op.kind == OpKind::norm) norms += op.parameters;
      }
      std::int64_t biases = 0;  // of the projections back, which every rank holds
      for (const OpRole role : {OpRole::projection, OpRole::mlp_down}) {
        const Operator& op = g.blocks[0].find(role);
        biases += op.parameters - op.extents[Dim::col] * op.extents[Dim::red];
      }
      const std::int64_t per_column =
          g.blocks[0].find(OpRole::qkv).parameters / ((kHeads + 2 * kv) * kHeadDim);
      EXPECT_EQ(t * s.local_parameters,
                g.parameters() + kLayers * (columns * per_column + (t - 1) * (norms + biases)));
      // Model FLOPs are the model's; the matrix engines project the copies too, three times.
      EXPECT_DOUBLE_EQ(l.model_flop, g.training_flop().value() * kMicroBatches);
      const double copies =
          6.0 * static_cast<double>(kTokens * kHidden * columns * kLayers * kMicroBatches);
      EXPECT_NEAR(l.compute_bound * 1e12 * t, l.model_flop + copies, 1e-6 * l.model_flop);
    }
  }
}

TEST(KeyValueCopies, EveryRankKeepsOneKeyAndOneValueHead) {
  const Graph g = build_graph(model(2));
  const PlanConfig p = plan(8);
  const MachineConfig m = machine();
  const Placement placement = place(p, m);
  StagePlanner planner(g, p, m, placement);
  std::int64_t kept = 0;
  for (const SizedTensor& t : planner.kernels(planner.variant(0, 0), 1).stash) {
    if (t.name != "k" && t.name != "v") continue;
    EXPECT_EQ(t.bytes, kTokens * kHeadDim * 2);
    ++kept;
  }
  EXPECT_EQ(kept, 2);
}

TEST(KeyValueCopies, SumTheirGradientsOverTheRanksThatShareThem) {
  for (const std::int64_t kv : {1, 2}) {
    for (const int t : {4, 8}) {
      for (const int d : {1, 2}) {
        PlanConfig p = plan(t);
        p.data = d;
        p.global_batch *= d;
        const Graph g = build_graph(model(kv));
        const LoweredPlan l = lower(g, p, machine());
        const std::int64_t per_column =
            g.blocks[0].find(OpRole::qkv).parameters / ((kHeads + 2 * kv) * kHeadDim);
        const std::int64_t copy = kLayers * 2 * kHeadDim * per_column * 2;  // bytes of a rank
        const std::int64_t shared = t / kv;
        // Summed over both axes as over one: with two replicas each rank has half to sum.
        EXPECT_EQ(sent(l, "key/value copies"), kv * d * 2 * (shared - 1) * copy / d);
        EXPECT_EQ(sent(l, "tensor"),
                  kLayers * kMicroBatches * d * 4 * 2 * (t - 1) * kTokens * kHidden * 2);
      }
    }
  }
}

TEST(KeyValueCopies, AreMadeOnRequestWhereWholeHeadsMakeEqualParts) {
  PlanConfig p = plan(4);
  EXPECT_EQ(refused(model(2), p), "");
  EXPECT_EQ(refused(model(4), p), "");
  p.uneven = Uneven::refuse;
  EXPECT_THAT(
      refused(model(2), p),
      AllOf(HasSubstr("4 does not divide the 2 key/value heads"), HasSubstr("allowed: 1, 2"),
            HasSubstr("with 'uneven: pad' every rank gets copies of key/value heads where "
                      "the degree is a multiple of 2 that divides the 8 attention heads")));
  EXPECT_EQ(refused(model(4), p), "");
  // Sixteen ranks have half a query head each; a cut of three has no whole groups.
  EXPECT_THAT(refused(model(2), plan(16)), HasSubstr("the 2 key/value heads"));
  DecoderConfig c = model(2);
  c.heads = 12;
  EXPECT_EQ(refused(c, plan(6)), "");
  EXPECT_THAT(refused(c, plan(3)), HasSubstr("3 does not divide the 2 key/value heads"));
  // A second axis that cuts heads.
  p = plan(8);
  p.tensor_shape = {4, 2};
  EXPECT_THAT(refused(model(2), p), HasSubstr("the 2 key/value heads"));
}

}  // namespace
}  // namespace tilewright
