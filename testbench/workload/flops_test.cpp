// FLOPs of decoders against the formulas of the Megatron papers.
#include <gtest/gtest.h>

#include "shapes.h"

namespace tilewright {
namespace {

// The formulas in integers, so that "equal" can mean equal.
double layer_forward(std::int64_t s, std::int64_t h) {
  return static_cast<double>(24 * s * h * h + 4 * s * s * h);  // 24sh²(1 + s/6h)
}
double training(std::int64_t layers, std::int64_t s, std::int64_t h, std::int64_t vocab) {
  // 72Lsh²(1 + s/6h + V/12Lh)
  return static_cast<double>(layers) * 3 * layer_forward(s, h) +
         static_cast<double>(6 * s * h * vocab);
}

TEST(Flops, GptLayerForward) {
  for (std::int64_t h : {768, 2304, 6144, 12288}) {
    for (std::int64_t s : {512, 2048, 8192}) {
      const Graph g = build_graph(test::gpt(1, h, h / 64, s));
      EXPECT_EQ(g.block(1).forward_flop(), Flop(layer_forward(s, h)));
      EXPECT_EQ(g.block(1).backward_flop(), Flop(2 * layer_forward(s, h)));
    }
  }
}

TEST(Flops, TrainingIterationOfTheMegatronModels) {
  for (const char* file :
       {"megatron-1.7b.yaml", "megatron-3.6b.yaml", "megatron-7.5b.yaml", "megatron-18b.yaml",
        "megatron-39b.yaml", "megatron-76b.yaml", "megatron-145b.yaml", "megatron-22b.yaml",
        "megatron-175b.yaml", "megatron-530b.yaml", "megatron-1t.yaml"}) {
    const DecoderConfig c = test::from_file(file);
    EXPECT_EQ(build_graph(c).training_flop(), Flop(training(c.layers, 2048, c.hidden, 51200)))
        << file;
  }
  // 72·40·2048·6144² · (1 + 2048/(6·6144) + 51200/(12·40·6144))
  EXPECT_DOUBLE_EQ(
      build_graph(test::from_file("megatron-18b.yaml")).training_flop().value(),
      72.0 * 40 * 2048 * 6144 * 6144 * (1 + 2048.0 / (6 * 6144) + 51200.0 / (12 * 40 * 6144)));
}

TEST(Flops, EachOperatorOfASmallLlama) {
  // s 64, h 128, 8 heads of 16 on 2 key-value heads, ffn 320, V 1000
  const Graph g = build_graph(test::small_llama());
  const Block& layer = g.block(1);
  const auto flop = [&](OpRole role) { return layer.find(role).forward_flop().value(); };
  EXPECT_EQ(flop(OpRole::qkv), 2.0 * 64 * (8 + 2 * 2) * 16 * 128);
  EXPECT_EQ(flop(OpRole::scores), 2.0 * 8 * 64 * 64 * 16);
  EXPECT_EQ(flop(OpRole::context), 2.0 * 8 * 64 * 16 * 64);
  EXPECT_EQ(flop(OpRole::projection), 2.0 * 64 * 128 * 128);
  EXPECT_EQ(flop(OpRole::mlp_up), 2.0 * 64 * 640 * 128);
  EXPECT_EQ(flop(OpRole::mlp_down), 2.0 * 64 * 128 * 320);
  const double head = 2.0 * 64 * 128 * 1000;
  EXPECT_EQ(g.block(4).forward_flop(), Flop(head));
  EXPECT_EQ(g.block(0).forward_flop(), Flop(0));
  const double layer_sum =
      3'145'728.0 + 1'048'576.0 + 1'048'576.0 + 2'097'152.0 + 10'485'760.0 + 5'242'880.0;
  EXPECT_EQ(g.forward_flop(), Flop(3 * layer_sum + head));
  EXPECT_EQ(g.training_flop(), g.forward_flop() * 3);
}

TEST(Flops, HeadsWiderThanHidden) {
  DecoderConfig c = test::small_llama();
  c.head_dim = 32;  // 8 · 32 = 256 > 128
  const Graph g = build_graph(c);
  EXPECT_EQ(g.block(1).find(OpRole::projection).extents[Dim::red], 256);
  EXPECT_EQ(g.block(1).find(OpRole::projection).forward_flop(), Flop(2.0 * 64 * 128 * 256));
}

TEST(Flops, CausalHalfHalvesTheScoresAndNothingElse) {
  DecoderConfig c = test::gpt(1, 768, 12, 1024);
  const Graph full = build_graph(c);
  c.attention_flops = AttentionFlops::causal_half;
  const Graph half = build_graph(c);
  for (OpRole role : {OpRole::scores, OpRole::context}) {
    const Operator& op = half.block(1).find(role);
    EXPECT_EQ(op.forward_flop(), full.block(1).find(role).forward_flop() / 2);
    EXPECT_EQ(op.input_gradient_flop(), full.block(1).find(role).forward_flop());
    EXPECT_EQ(op.extents.size, full.block(1).find(role).extents.size);
  }
  EXPECT_EQ(full.block(1).forward_flop() - half.block(1).forward_flop(),
            Flop(2.0 * 1024 * 1024 * 768));
  EXPECT_EQ(full.block(1).saved_bytes(DType::fp16), half.block(1).saved_bytes(DType::fp16));
}

TEST(Flops, SlidingWindowBoundsTheKeys) {
  DecoderConfig c = test::small_llama();
  c.sliding_window = 16;
  const Graph g = build_graph(c);
  EXPECT_EQ(g.block(1).find(OpRole::scores).extents[Dim::col], 16);
  EXPECT_EQ(g.block(1).find(OpRole::softmax).extents[Dim::col], 16);
  EXPECT_EQ(g.block(1).find(OpRole::context).extents[Dim::red], 16);
  EXPECT_EQ(g.block(1).find(OpRole::scores).forward_flop(), Flop(2.0 * 8 * 64 * 16 * 16));

  c.sliding_window = 1000;  // wider than the sequence
  EXPECT_EQ(build_graph(c).block(1).find(OpRole::scores).extents[Dim::col], 64);

  // Causal within a window of 16: 64·16 pairs less the triangle 16·16/2 at the start.
  c.sliding_window = 16;
  c.attention_flops = AttentionFlops::causal_half;
  EXPECT_EQ(build_graph(c).block(1).find(OpRole::scores).forward_flop(),
            Flop(2.0 * 8 * 16 * (64 * 16 - 128)));
}

TEST(Flops, MistralUsesItsWindow) {
  const Graph g = build_graph(test::from_file("mistral-7b/config.json"));
  EXPECT_EQ(g.sequence, 32768);
  EXPECT_EQ(g.block(1).find(OpRole::scores).extents[Dim::col], 4096);
}

}  // namespace
}  // namespace tilewright
