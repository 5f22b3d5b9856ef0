// Which data-parallel transfers run beside the computation, and what waits for what.
#include <gtest/gtest.h>

#include <tilewright/plan/background.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

using Kind = StateMove::Kind;

Graph graph() {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = 4;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 128;
  c.vocab = 0;
  c.sequence = c.max_positions = 16;
  return build_graph(c);
}

Sharding sharding(int zero) {
  PlanConfig p;
  p.data = 4;
  p.zero = zero;
  const Graph g = graph();
  return {g, make_splits(p, g), zero};
}

/// Two layers, two micro-batches: F0 F1 then B1 B0, twice.
std::vector<StateUse> calls() {
  return {{0, true, false}, {1, true, false}, {1, true, true}, {0, true, true},
          {0, true, false}, {1, true, false}, {1, true, true}, {0, true, true}};
}

BackgroundPlan plan(int zero, std::int64_t bucket, int prefetch) {
  const auto parameters = [](std::size_t) {
    return ParametersByAxes{{AxisSet{1} << 3, 1000}};  // summed over the data axis
  };
  const auto none = [](std::size_t) { return ParametersByAxes{}; };
  const BackgroundChoice choice{true, true, bucket, prefetch, 2};
  return zero == 3 ? plan_background(calls(), sharding(zero), choice, parameters, parameters)
                   : plan_background(calls(), sharding(zero), choice, parameters, none);
}

TEST(Background, BucketsCloseWhenTheirLastGradientIsThere) {
  // Gradients are complete after calls 6 (layer 1) and 7 (layer 0), counted from 0.
  const BackgroundPlan each = plan(0, 1, 1);
  ASSERT_EQ(each.moves.size(), 2u);
  EXPECT_EQ(each.moves[0].kind, Kind::all_reduce);
  EXPECT_EQ(each.moves[0].after, 7u);
  EXPECT_EQ(each.moves[1].after, 8u);
  EXPECT_EQ(total(each.moves[0].parameters), 1000);
  // 2001 bytes take both layers' 2000 bytes each.
  const BackgroundPlan both = plan(1, 2001, 1);
  ASSERT_EQ(both.moves.size(), 1u);
  EXPECT_EQ(both.moves[0].kind, Kind::scatter);
  EXPECT_EQ(both.moves[0].after, 8u);
  EXPECT_EQ(total(both.moves[0].parameters), 2000);
  EXPECT_EQ(both.after, std::vector<std::uint32_t>(8, 0)) << "no call waits for a bucket";
}

TEST(Background, EveryMicroBatchIsScatteredWhenGradientsAreCut) {
  const BackgroundPlan p = plan(2, 1, 1);
  ASSERT_EQ(p.moves.size(), 4u);
  const std::uint32_t after[] = {3, 4, 7, 8};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(p.moves[i].kind, Kind::scatter);
    EXPECT_EQ(p.moves[i].after, after[i]);
  }
  // Two blocks' gradients at most: the third call that makes some waits for the first scatter.
  EXPECT_EQ(p.after, (std::vector<std::uint32_t>{0, 0, 0, 0, 0, 0, 1, 2}));
}

TEST(Background, WeightsAreGatheredAheadOfEveryUse) {
  for (const int prefetch : {0, 1, 3}) {
    const BackgroundPlan p = plan(3, 1, prefetch);
    std::vector<std::uint32_t> gathered(8, 0);
    for (std::size_t m = 0; m < p.moves.size(); ++m) {
      const StateMove& move = p.moves[m];
      if (m > 0) EXPECT_GE(move.after, p.moves[m - 1].after);
      if (move.kind != Kind::gather) continue;
      gathered[move.call] = static_cast<std::uint32_t>(m + 1);
      const auto ahead = std::min<std::uint32_t>(static_cast<std::uint32_t>(prefetch),
                                                 static_cast<std::uint32_t>(move.call));
      EXPECT_EQ(move.after, move.call - ahead);
    }
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_GT(gathered[i], 0u);
      EXPECT_GE(p.after[i], gathered[i]) << "a call waits for its own weights";
      // No cycle: what a call waits for starts after earlier calls alone.
      EXPECT_LE(p.moves[p.after[i] - 1].after, i);
    }
  }
}

TEST(Background, NothingMovesWithoutReplicas) {
  const BackgroundPlan p = plan_background(
      calls(), sharding(0), {true, true, 1, 1, 2},
      [](std::size_t) {
        return ParametersByAxes{{0, 1000}};
      },
      [](std::size_t) { return ParametersByAxes{}; });
  EXPECT_TRUE(p.moves.empty());
}

}  // namespace
}  // namespace tilewright
