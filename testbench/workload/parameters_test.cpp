// Parameter counts against the published ones, and against the shapes of the weights.
#include <gtest/gtest.h>

#include "shapes.h"

namespace tilewright {
namespace {

using test::from_file;
using test::from_text;

std::int64_t parameters(const DecoderConfig& config) { return build_graph(config).parameters(); }

TEST(Parameters, PublishedModels) {
  EXPECT_EQ(parameters(from_file("llama-2-7b/config.json")), 6'738'415'616);
  EXPECT_EQ(parameters(from_file("llama-3-8b/config.json")), 8'030'261'248);
  EXPECT_EQ(parameters(from_file("qwen3-8b/config.json")), 8'190'735'360);
  EXPECT_EQ(parameters(from_file("mistral-7b/config.json")), 7'241'732'096);
  EXPECT_EQ(parameters(from_file("qwen2-7b/config.json")), 7'615'616'512);
  EXPECT_EQ(parameters(from_file("gpt2/config.json")), 124'439'808);
}

TEST(Parameters, PublishedMixtures) {
  EXPECT_EQ(parameters(from_file("mixtral-8x7b/config.json")), 46'702'792'704);
  EXPECT_EQ(parameters(from_file("mixtral-8x22b/config.json")), 140'620'634'112);
  EXPECT_EQ(parameters(from_file("qwen1.5-moe-a2.7b/config.json")), 14'315'784'192);
  EXPECT_EQ(parameters(from_file("qwen3-30b-a3b/config.json")), 30'532'122'624);
}

TEST(Parameters, TiedQwen3WithHeadsWiderThanHidden) {
  EXPECT_EQ(parameters(from_text(R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
      "hidden_size": 1024, "head_dim": 128, "num_hidden_layers": 28, "num_attention_heads": 16,
      "num_key_value_heads": 8, "intermediate_size": 3072, "vocab_size": 151936,
      "max_position_embeddings": 40960, "sliding_window": null, "tie_word_embeddings": true})")),
            596'049'920);
}

TEST(Parameters, TiedLlama32) {
  EXPECT_EQ(
      parameters(from_text(
          R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 2048,
      "head_dim": 64, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
      "intermediate_size": 8192, "vocab_size": 128256, "max_position_embeddings": 131072,
      "rope_scaling": {"factor": 32.0, "rope_type": "llama3"}, "tie_word_embeddings": true})")),
      1'235'814'400);
}

TEST(Parameters, Gpt2Xl) {
  EXPECT_EQ(parameters(from_text(
                R"({"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_ctx": 1024,
      "n_embd": 1600, "n_head": 25, "n_layer": 48, "n_positions": 1024, "vocab_size": 50257})")),
            1'557'611'200);
}

TEST(Parameters, TiedQwen2WithBiases) {
  // Qwen2-0.5B: 151936·896 + 24·(896·1152 + 1152 + 896·896 + 3·896·4864 + 2·896) + 896
  EXPECT_EQ(parameters(from_text(R"({"model_type": "qwen2", "hidden_size": 896,
      "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
      "intermediate_size": 4864, "vocab_size": 151936, "max_position_embeddings": 131072,
      "max_window_layers": 24, "sliding_window": 131072, "use_sliding_window": false,
      "tie_word_embeddings": true})")),
            494'032'768);
}

/// 12Lh²(1 + 13/(12h) + (V+s)/(12Lh)) and the final norm, 2h, that the formula leaves out.
std::int64_t gpt_parameters(std::int64_t layers, std::int64_t h) {
  return layers * (12 * h * h + 13 * h) + (51200 + 2048) * h + 2 * h;
}

TEST(Parameters, MegatronModels) {
  const struct {
    const char* file;
    std::int64_t layers, hidden, heads;
    double billions;
  } rows[] = {
      {"megatron-1.7b.yaml", 24, 2304, 24, 1.7},    {"megatron-3.6b.yaml", 30, 3072, 32, 3.6},
      {"megatron-7.5b.yaml", 36, 4096, 32, 7.5},    {"megatron-18b.yaml", 40, 6144, 48, 18.4},
      {"megatron-39b.yaml", 48, 8192, 64, 39.1},    {"megatron-76b.yaml", 60, 10240, 80, 76.1},
      {"megatron-145b.yaml", 80, 12288, 96, 145.6}, {"megatron-22b.yaml", 48, 6144, 64, 22},
      {"megatron-175b.yaml", 96, 12288, 96, 175},   {"megatron-530b.yaml", 105, 20480, 128, 529.6},
      {"megatron-1t.yaml", 128, 25600, 160, 1008}};
  for (const auto& row : rows) {
    const DecoderConfig c = from_file(row.file);
    EXPECT_EQ(c.name + ".yaml", row.file);
    EXPECT_EQ(c.layers, row.layers);
    EXPECT_EQ(c.hidden, row.hidden);
    EXPECT_EQ(c.heads, row.heads);
    EXPECT_EQ(c.ffn, 4 * row.hidden);
    EXPECT_TRUE(c.dropout);
    EXPECT_EQ(parameters(c), gpt_parameters(row.layers, row.hidden)) << row.file;
    EXPECT_NEAR(static_cast<double>(parameters(c)) * 1e-9, row.billions, 0.4) << row.file;
  }
  EXPECT_EQ(parameters(from_file("megatron-18b.yaml")), 18'449'756'160);
}

TEST(Parameters, EachOperatorHasWhatItsWeightsHold) {
  DecoderConfig qwen = test::small_llama();
  qwen.qk_norm = qwen.qkv_bias = true;
  DecoderConfig biased = test::small_moe();
  biased.mlp_bias = true;
  for (const DecoderConfig& c :
       {test::gpt(2, 64, 4), test::small_llama(), qwen, biased, test::small_shared_moe()}) {
    for (const Block& block : build_graph(c).blocks) {
      for (const Operator& op : block.operators) {
        double elements = 0;
        for (const Operand& w : op.weights) elements += w.elements(op.extents);
        const bool tied = op.role == OpRole::head && c.tied_embeddings;
        EXPECT_EQ(static_cast<double>(op.parameters), tied ? 0 : elements) << op.name;
      }
    }
  }
}

TEST(Parameters, TiedHeadReadsTheEmbedding) {
  DecoderConfig c = test::gpt(2, 64, 4, 32, 100);
  const Graph tied = build_graph(c);
  const Operator& head = tied.blocks.back().find(OpRole::head);
  ASSERT_EQ(head.weights.size(), 1u);
  EXPECT_EQ(head.weights[0].tensor, "embedding.weight");
  EXPECT_EQ(head.weights[0].elements(head.extents), 6400);
  EXPECT_EQ(head.parameters, 0);
  EXPECT_EQ(head.weight_gradient_flop(), Flop(2.0 * 32 * 6400));

  c.tied_embeddings = false;
  const Graph untied = build_graph(c);
  EXPECT_EQ(untied.blocks.back().find(OpRole::head).weights[0].tensor, "head.weight");
  EXPECT_EQ(untied.parameters() - tied.parameters(), 6400);
}

TEST(Parameters, PositionTableHasTheRowsOfTheModelNotOfTheRun) {
  DecoderConfig c = test::gpt(2, 64, 4, 32, 100);
  c.max_positions = 128;
  EXPECT_EQ(build_graph(c).blocks[0].parameters(), 100 * 64 + 128 * 64);
  c.position = PositionKind::none;
  EXPECT_EQ(build_graph(c).blocks[0].parameters(), 100 * 64);
}

}  // namespace
}  // namespace tilewright
