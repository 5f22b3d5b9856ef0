// The shape of the graph: blocks, operators, and tensors that agree from writer to reader.
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/base/error.h>

#include "shapes.h"

namespace tilewright {
namespace {

std::vector<std::string> names(const Block& block) {
  std::vector<std::string> result;
  for (const Operator& op : block.operators) {
    EXPECT_EQ(op.name, to_string(op.role));
    result.push_back(op.name);
  }
  return result;
}

TEST(Structure, ChainOfBlocks) {
  const Graph g = build_graph(test::gpt(3, 64, 4, 32, 100));
  EXPECT_EQ(g.model, "gpt");
  EXPECT_EQ(g.sequence, 32);
  EXPECT_EQ(g.hidden, 64);
  ASSERT_EQ(g.blocks.size(), 3u);
  EXPECT_EQ(g.chain, (std::vector<std::uint32_t>{0, 1, 1, 1, 2}));
  EXPECT_EQ(g.layers(), 3);
  EXPECT_EQ(names(g.blocks[0]), (std::vector<std::string>{"embedding"}));
  EXPECT_EQ(names(g.blocks[1]),
            (std::vector<std::string>{"attention_norm", "qkv", "scores", "softmax", "context",
                                      "projection", "attention_residual", "mlp_norm", "mlp_up",
                                      "activation", "mlp_down", "mlp_residual"}));
  EXPECT_EQ(names(g.blocks[2]), (std::vector<std::string>{"final_norm", "head", "loss"}));
}

TEST(Structure, TrunkAlone) {
  const Graph g = build_graph(test::gpt(3, 64, 4, 32, 0));
  ASSERT_EQ(g.blocks.size(), 1u);
  EXPECT_EQ(g.blocks[0].name, "layer");
  EXPECT_EQ(g.chain, (std::vector<std::uint32_t>{0, 0, 0}));
  EXPECT_EQ(g.parameters(), 3 * (12 * 64 * 64 + 13 * 64));
}

TEST(Structure, RotaryStandsBetweenQkvAndScores) {
  const Graph g = build_graph(test::small_llama());
  const Operator& rotary = g.block(1).operators[2];
  EXPECT_EQ(rotary.role, OpRole::rotary);
  EXPECT_EQ(Operator::vector_elements(rotary.extents), 64 * (8 + 2) * 16);
  EXPECT_EQ(rotary.parameters, 0);
  DecoderConfig c = test::small_llama();
  c.qk_norm = true;
  EXPECT_EQ(build_graph(c).block(1).operators[2].parameters, 2 * 16);
  c.position = PositionKind::none;  // the norms alone still need the operator
  EXPECT_EQ(build_graph(c).block(1).operators[2].forward_passes, 3);
  c.qk_norm = false;
  EXPECT_EQ(build_graph(c).block(1).operators[2].role, OpRole::scores);
}

std::vector<DecoderConfig> variety() {
  std::vector<DecoderConfig> all = {test::gpt(2, 64, 4, 32, 100), test::small_llama()};
  for (int bits = 0; bits < 16; ++bits) {
    DecoderConfig c = test::small_llama();
    c.dropout = bits & 1;
    c.qk_norm = bits & 2;
    c.sliding_window = bits & 4 ? 24 : 0;
    if (bits & 8) {
      c.activation = ActivationKind::relu;
      c.gated_mlp = false;
      c.heads = 7;  // fractions that do not reduce to 1
      c.kv_heads = 7;
      c.head_dim = 6;
      c.position = PositionKind::learned;
    }
    all.push_back(c);
    c.experts = test::small_shared_moe().experts;
    c.experts.shared_gate = bits & 1;
    c.experts.top_k = 3;  // 64 · 3 / 7 is not whole
    c.experts.count = 7;
    if (bits & 2) c.experts.capacity_factor = 1.25;
    all.push_back(c);
  }
  return all;
}

TEST(Structure, EveryTensorIsWrittenBeforeItIsReadAndHasOneSize) {
  for (const DecoderConfig& c : variety()) {
    for (const Block& block : build_graph(c).blocks) {
      std::set<std::string> written = {"x", "tokens", "targets"};
      std::map<std::string, double> size;
      const auto same_size = [&](const Operand& tensor, const Operator& op) {
        const double elements = tensor.elements(op.extents);
        EXPECT_DOUBLE_EQ(size.emplace(tensor.tensor, elements).first->second, elements)
            << block.name << ": " << tensor.tensor << " in " << op.name;
      };
      for (const Operator& op : block.operators) {
        for (const Operand& in : op.inputs) {
          EXPECT_TRUE(written.count(in.tensor)) << op.name << " reads " << in.tensor;
          same_size(in, op);
        }
        for (const Operand& out : op.outputs) {
          EXPECT_TRUE(written.insert(out.tensor).second) << out.tensor << " is written twice";
          same_size(out, op);
        }
        for (const Operand& kept : op.saved) {
          EXPECT_TRUE(written.count(kept.tensor)) << op.name << " saves " << kept.tensor;
          same_size(kept, op);
        }
        for (const Operand& w : op.weights) {
          EXPECT_FALSE(w.dims.has(Dim::batch) || w.dims.has(Dim::row)) << w.tensor;
        }
      }
      const bool last = block.name == "head";
      EXPECT_EQ(written.count("y"), last ? 0u : 1u);
    }
  }
}

TEST(Structure, QkvIsOneGemmWithThreeResults) {
  const Graph g = build_graph(test::small_llama());
  const Operator& qkv = g.block(1).find(OpRole::qkv);
  EXPECT_EQ(qkv.extents[Dim::col], (8 + 2 * 2) * 16);
  ASSERT_EQ(qkv.outputs.size(), 3u);
  EXPECT_EQ(qkv.outputs[0].elements(qkv.extents), 64 * 128);
  EXPECT_EQ(qkv.outputs[1].elements(qkv.extents), 64 * 32);
  EXPECT_EQ(qkv.outputs[2].elements(qkv.extents), 64 * 32);
  const Operand& k = g.block(1).find(OpRole::scores).inputs[1];
  EXPECT_EQ(k.tensor, "k");
  EXPECT_EQ(k.numerator, 1);  // 2 of 8 heads
  EXPECT_EQ(k.denominator, 4);
}

/// forward/backward passes of each operator, as docs/workload.md states them.
TEST(Structure, PassesOfAGptLayer) {
  const Graph g = build_graph(test::gpt(1, 64, 4, 32, 100));
  const std::map<OpRole, std::pair<int, int>> expected = {{OpRole::attention_norm, {5, 8}},
                                                          {OpRole::qkv, {1, 1}},
                                                          {OpRole::scores, {0, 0}},
                                                          {OpRole::softmax, {5, 4}},
                                                          {OpRole::context, {0, 0}},
                                                          {OpRole::projection, {1, 1}},
                                                          {OpRole::attention_residual, {2, 2}},
                                                          {OpRole::mlp_norm, {5, 8}},
                                                          {OpRole::mlp_up, {1, 1}},
                                                          {OpRole::activation, {6, 11}},
                                                          {OpRole::mlp_down, {1, 1}},
                                                          {OpRole::mlp_residual, {2, 2}},
                                                          {OpRole::embedding, {3, 3}},
                                                          {OpRole::final_norm, {5, 8}},
                                                          {OpRole::head, {0, 0}},
                                                          {OpRole::loss, {4, 2}}};
  std::size_t seen = 0;
  for (const Block& block : g.blocks) {
    for (const Operator& op : block.operators) {
      EXPECT_EQ(std::make_pair(op.forward_passes, op.backward_passes), expected.at(op.role))
          << op.name;
      ++seen;
    }
  }
  EXPECT_EQ(seen, expected.size());
}

TEST(Structure, PassesOfALlamaLayer) {
  DecoderConfig c = test::small_llama();
  const auto passes = [&c](OpRole role) {
    const Graph g = build_graph(c);
    for (const Block& block : g.blocks) {
      for (const Operator& op : block.operators) {
        if (op.role == role) return std::make_pair(op.forward_passes, op.backward_passes);
      }
    }
    return std::make_pair(-1, -1);
  };
  using P = std::pair<int, int>;
  EXPECT_EQ(passes(OpRole::attention_norm), P(3, 6));
  EXPECT_EQ(passes(OpRole::qkv), P(0, 0));
  EXPECT_EQ(passes(OpRole::rotary), P(2, 2));
  EXPECT_EQ(passes(OpRole::softmax), P(4, 3));
  EXPECT_EQ(passes(OpRole::attention_residual), P(1, 1));
  EXPECT_EQ(passes(OpRole::activation), P(5, 10));
  EXPECT_EQ(passes(OpRole::embedding), P(1, 1));
  c.qk_norm = true;
  EXPECT_EQ(passes(OpRole::rotary), P(5, 8));
  c.activation = ActivationKind::gelu;
  EXPECT_EQ(passes(OpRole::activation), P(7, 14));
  c.activation = ActivationKind::relu;
  c.gated_mlp = false;
  EXPECT_EQ(passes(OpRole::activation), P(1, 1));
}

TEST(Structure, LossPassesVisitTheLogits) {
  const Graph g = build_graph(test::gpt(1, 64, 4, 32, 100));
  EXPECT_EQ(Operator::vector_elements(g.block(2).find(OpRole::loss).extents), 32 * 100);
}

TEST(Structure, ImpossibleShapesAreRefused) {
  const auto refused = [](auto&& change) {
    DecoderConfig c = test::small_llama();
    change(c);
    try {
      build_graph(c);
    } catch (const InputError& e) {
      return std::string(e.what());
    }
    return std::string("accepted");
  };
  using C = DecoderConfig;
  EXPECT_EQ(refused([](C& c) { c.layers = 0; }),
            "model 'small-llama': layers: must lie in 1 to 10000, found 0");
  EXPECT_EQ(refused([](C& c) { c.head_dim = -1; }),
            "model 'small-llama': head_dim: must lie in 1 to 4294967296, found -1");
  EXPECT_EQ(refused([](C& c) { c.kv_heads = 3; }),
            "model 'small-llama': kv_heads: 3 key-value heads do not divide 8 heads: each must "
            "serve the same number of query heads");
  EXPECT_EQ(refused([](C& c) { c.head_dim = 15; }),
            "model 'small-llama': head_dim: rotary positions turn pairs of elements, but a head "
            "has 15");
  EXPECT_EQ(refused([](C& c) { c.sequence = 65; }),
            "model 'small-llama': sequence: 65 tokens are more than the 64 positions of the model");
  EXPECT_NE(refused([](C& c) { c.vocab = -1; }).find(": vocab: "), std::string::npos);
  EXPECT_NE(refused([](C& c) { c.sliding_window = -1; }).find(": sliding_window: "),
            std::string::npos);
  EXPECT_NE(refused([](C& c) {
              c.layers = 10'000;
              c.hidden = c.ffn = 1 << 20;
            }).find("more than the 2^53 that can be counted exactly"),
            std::string::npos);
  EXPECT_NE(refused([](C& c) { c.sequence = c.max_positions = 1 << 28; }).find(": sequence: "),
            std::string::npos);
}

}  // namespace
}  // namespace tilewright
