// Mixtures of experts: what their operators count, against hand-computed figures.
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>

#include "shapes.h"

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Block& layer_of(const Graph& graph) { return graph.block(1); }

std::vector<std::string> mlp_operators(const Block& block) {
  std::vector<std::string> names;
  for (const Operator& op : block.operators) names.push_back(op.name);
  return {names.begin() + 8, names.end()};  // after attention and its residual
}

TEST(Experts, OperatorsOfALayer) {
  const Graph g = build_graph(test::small_moe());
  EXPECT_EQ(layer_of(g).name, "moe_layer");
  EXPECT_EQ(g.layers(), 3);
  EXPECT_EQ(g.blocks.size(), 3u);
  EXPECT_THAT(mlp_operators(layer_of(g)),
              ElementsAre("mlp_norm", "router", "gate", "dispatch", "expert_up",
                          "expert_activation", "expert_down", "combine", "mlp_residual"));
  EXPECT_THAT(mlp_operators(layer_of(build_graph(test::small_shared_moe()))),
              ElementsAre("mlp_norm", "router", "gate", "dispatch", "expert_up",
                          "expert_activation", "expert_down", "combine", "mlp_up", "activation",
                          "mlp_down", "shared_sum", "mlp_residual"));
}

TEST(Experts, EveryExpertHasItsShareOfTheTokensAndItsOwnWeights) {
  const Graph g = build_graph(test::small_moe());
  const Operator& up = layer_of(g).find(OpRole::expert_up);
  EXPECT_EQ(up.extents[Dim::expert], 4);
  EXPECT_EQ(up.extents[Dim::row], 64 * 2 / 4);
  EXPECT_EQ(up.extents[Dim::col], 2 * 96);
  EXPECT_EQ(up.extents[Dim::red], 128);
  EXPECT_EQ(up.weights.front().elements(up.extents), 4 * 192 * 128);
  EXPECT_EQ(up.parameters, 4 * 192 * 128);
  EXPECT_EQ(layer_of(g).find(OpRole::expert_down).parameters, 4 * 96 * 128);
  EXPECT_EQ(layer_of(g).find(OpRole::router).parameters, 4 * 128);
  // The gate of the shared experts is a fifth column of the router.
  EXPECT_EQ(layer_of(build_graph(test::small_shared_moe())).find(OpRole::router).parameters,
            5 * 128);
}

TEST(Experts, FlopsAreThoseOfTheChosen) {
  const DecoderConfig dense = test::small_llama();
  const auto mlp = [](std::int64_t width) { return 2.0 * 64 * 3 * 128 * width; };
  const double attention = layer_of(build_graph(dense)).forward_flop().value() - mlp(320);
  const Block moe = layer_of(build_graph(test::small_moe()));
  EXPECT_EQ(moe.forward_flop(), Flop(attention + 2.0 * 64 * 128 * 4 + 2 * mlp(96)));
  const Block shared = layer_of(build_graph(test::small_shared_moe()));
  EXPECT_EQ(shared.forward_flop(), Flop(attention + 2.0 * 64 * 128 * 5 + 2 * mlp(96) + mlp(160)));
  for (const Block& b : {moe, shared}) EXPECT_EQ(b.backward_flop(), b.forward_flop() * 2);
}

TEST(Experts, AMixtureOfOneIsAnMlpBehindARouter) {
  DecoderConfig c = test::small_llama();
  const Block dense = layer_of(build_graph(c));
  c.experts.count = c.experts.top_k = 1;
  c.experts.ffn = c.ffn;
  const Block one = layer_of(build_graph(c));
  EXPECT_EQ(one.parameters() - dense.parameters(), 128);
  EXPECT_EQ(one.forward_flop() - dense.forward_flop(), Flop(2.0 * 64 * 128));
}

TEST(Experts, RowsAreRoundedUpAndPaddingIsNoModelFlop) {
  DecoderConfig c = test::small_moe();
  const Graph even = build_graph(c);
  EXPECT_THAT(even.notes, ElementsAre(HasSubstr("balanced routing, every expert gets 2/4")));
  c.experts.count = 5;  // 128 routes: 25.6 rows each
  const Graph odd = build_graph(c);
  const Operator& up = layer_of(odd).find(OpRole::expert_up);
  EXPECT_EQ(up.extents[Dim::row], 26);
  EXPECT_DOUBLE_EQ(up.forward_flop().value(),
                   layer_of(even).find(OpRole::expert_up).forward_flop().value());
  ASSERT_EQ(odd.notes.size(), 2u);
  EXPECT_THAT(odd.notes[1], HasSubstr("64 tokens of a sample to 2 of 5 experts each fill 128 of "
                                      "130 rows: 26 rows per expert;"));

  c = test::small_moe();
  c.experts.capacity_factor = 1.25;
  const Graph padded = build_graph(c);
  EXPECT_EQ(layer_of(padded).find(OpRole::expert_up).extents[Dim::row], 40);
  EXPECT_EQ(layer_of(padded).forward_flop(), layer_of(even).forward_flop());
  EXPECT_EQ(padded.parameters(), even.parameters());
  EXPECT_THAT(padded.notes[1], HasSubstr("40 rows per expert at capacity factor 1.25"));
}

TEST(Experts, CapacityOfADecimalFactor) {
  ExpertConfig e = test::small_moe().experts;
  e.capacity_factor = 1.1;
  EXPECT_EQ(e.capacity(100), 55);  // 100 · 2 / 4 · 1.1, which is above 55 in binary
  EXPECT_EQ(e.capacity(101), 56);
  e.capacity_factor = 1;
  EXPECT_EQ(e.capacity(1), 1);
}

TEST(Experts, SavedTensors) {
  // Per token: 2 routes of 128 in and out and 3 · 96 within, gates 2; probabilities 4 of fp32 and 2
  // route numbers of four bytes.
  const auto mlp_saved = [](const Block& b) {
    std::map<std::string, double> bytes;
    for (const Operator& op : b.operators) {
      for (const Operand& t : op.saved) {
        bytes[t.tensor] = t.elements(op.extents) * bytes_of(t.storage, DType::fp16) / 64;
      }
    }
    return bytes;
  };
  const auto saved = mlp_saved(layer_of(build_graph(test::small_moe())));
  EXPECT_EQ(saved.at("mlp_norm.out"), 2 * 128);
  EXPECT_EQ(saved.at("gate.p"), 4 * 4);
  EXPECT_EQ(saved.at("gates"), 2 * 2);
  EXPECT_EQ(saved.at("routes"), 4 * 2);
  EXPECT_EQ(saved.at("xd"), 2 * 2 * 128);
  EXPECT_EQ(saved.at("expert_up.out"), 2 * 2 * 192);
  EXPECT_EQ(saved.at("expert_activation.out"), 2 * 2 * 96);
  EXPECT_EQ(saved.at("expert_down.out"), 2 * 2 * 128);
  EXPECT_EQ(saved.count("mlp_down.out"), 0u);
  const auto shared = mlp_saved(layer_of(build_graph(test::small_shared_moe())));
  EXPECT_EQ(shared.at("mlp_down.out"), 2 * 128);
  EXPECT_EQ(shared.at("shared_gate"), 2);
  EXPECT_EQ(shared.at("gate.p"), 4 * 5);
}

/// forward/backward passes, as docs/workload.md states them.
TEST(Experts, Passes) {
  DecoderConfig c = test::small_shared_moe();
  const auto passes = [&c](OpRole role) {
    const Graph g = build_graph(c);
    const Operator& op = g.block(1).find(role);
    return std::make_pair(op.forward_passes, op.backward_passes);
  };
  using P = std::pair<int, int>;
  EXPECT_EQ(passes(OpRole::router), P(0, 0));
  EXPECT_EQ(passes(OpRole::gate), P(4 + 2, 3 + 1));
  EXPECT_EQ(passes(OpRole::dispatch), P(1, 1));
  EXPECT_EQ(passes(OpRole::expert_up), P(0, 0));
  EXPECT_EQ(passes(OpRole::expert_activation), P(5, 10));
  EXPECT_EQ(passes(OpRole::combine), P(1, 2));
  EXPECT_EQ(passes(OpRole::shared_sum), P(1, 3));
  c.experts.shared_gate = false;
  EXPECT_EQ(passes(OpRole::shared_sum), P(1, 1));
  const Operator& combine = build_graph(c).block(1).find(OpRole::combine);
  EXPECT_EQ(Operator::vector_elements(combine.extents), 2 * 64 * 128);
}

TEST(Experts, LayersOfTwoKindsAreTwoBlocks) {
  DecoderConfig c = test::small_moe();
  c.layers = 5;
  c.experts.dense_layers = {0, 3};
  const Graph g = build_graph(c);
  EXPECT_EQ(g.blocks.size(), 4u);
  EXPECT_EQ(g.chain, (std::vector<std::uint32_t>{0, 1, 2, 2, 1, 2, 3}));
  EXPECT_EQ(g.block(1).name, "layer");
  EXPECT_EQ(g.block(2).name, "moe_layer");
  EXPECT_EQ(g.layers(), 5);
  DecoderConfig dense = test::small_llama();
  const std::int64_t difference = build_graph(test::small_moe()).block(1).parameters() -
                                  build_graph(dense).block(1).parameters();
  dense.layers = 5;
  EXPECT_EQ(g.parameters(), build_graph(dense).parameters() + 3 * difference);

  c.experts.dense_layers = {0, 1, 2, 3, 4};
  EXPECT_EQ(build_graph(c).parameters(), build_graph(dense).parameters());
  EXPECT_TRUE(build_graph(c).notes.empty());
}

TEST(Experts, ImpossibleMixturesAreRefused) {
  const auto refused = [](auto&& change) {
    DecoderConfig c = test::small_shared_moe();
    change(c.experts);
    try {
      build_graph(c);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  using E = ExpertConfig;
  const std::string at = "model 'small-moe': experts: ";
  EXPECT_EQ(refused([](E& e) { e.count = -1; }),
            at + "must be 0 (no mixture) to 1048576, found -1");
  EXPECT_EQ(refused([](E& e) { e.top_k = 0; }),
            at + "a token goes to 0 of 4 experts; allowed: 1 to 4");
  EXPECT_EQ(refused([](E& e) { e.ffn = 0; }),
            at + "the width of an expert must lie in 1 to 4294967296, found 0");
  EXPECT_EQ(refused([](E& e) { e.shared_ffn = 0; }),
            at + "a gate for shared experts, but the model has none");
  EXPECT_THAT(refused([](E& e) { e.capacity_factor = 0.99; }), HasSubstr("found 0.99"));
  EXPECT_THAT(refused([](E& e) { e.capacity_factor = 2.01; }), HasSubstr("found 2.01"));
  EXPECT_EQ(refused([](E& e) { e.dense_layers = {3}; }),
            at + "layer 3 is to be dense; allowed: 0 to 2");
  EXPECT_EQ(refused([](E& e) {
              e.dense_layers = {1, 0};
            }),
            at + "the dense layers must ascend, 0 follows 1");
  EXPECT_THAT(refused([](E& e) {
                e.count = 1 << 20;
                e.ffn = std::int64_t{1} << 32;
              }),
              HasSubstr("more than the 2^53 that can be counted exactly"));
}

}  // namespace
}  // namespace tilewright
