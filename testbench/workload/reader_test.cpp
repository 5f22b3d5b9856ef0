// Model files: our YAML and Hugging Face's config.json, what they mean and how they are refused.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>

#include "shapes.h"

namespace tilewright {
namespace {

using test::from_file;
using test::from_text;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// The message with which a file is refused.
std::string refusal(const std::string& text, std::int64_t sequence = 0) {
  try {
    from_text(text, sequence);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

std::string yaml(const std::string& more) {
  return "model: m\ndecoder:\n  layers: 2\n  hidden: 64\n  heads: 4\n  vocab: 100\n" + more;
}

TEST(YamlModel, DefaultsAreThoseOfGpt) {
  const DecoderConfig c = from_text(yaml("  sequence: 32\n"));
  EXPECT_EQ(c.name, "m");
  EXPECT_EQ(c.layers, 2);
  EXPECT_EQ(c.hidden, 64);
  EXPECT_EQ(c.heads, 4);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.ffn, 256);
  EXPECT_EQ(c.vocab, 100);
  EXPECT_EQ(c.sequence, 32);
  EXPECT_EQ(c.max_positions, 32);
  EXPECT_EQ(c.norm, NormKind::layer_norm);
  EXPECT_EQ(c.activation, ActivationKind::gelu);
  EXPECT_EQ(c.position, PositionKind::learned);
  EXPECT_EQ(c.attention_flops, AttentionFlops::full);
  EXPECT_EQ(c.sliding_window, 0);
  EXPECT_TRUE(c.tied_embeddings && c.qkv_bias && c.projection_bias && c.mlp_bias);
  EXPECT_FALSE(c.gated_mlp || c.qk_norm || c.dropout);
}

TEST(YamlModel, EveryKeyIsRead) {
  const DecoderConfig c = from_text(
      yaml("  sequence: 32\n  kv_heads: 2\n  head_dim: 24\n  ffn: 96\n  max_positions: 128\n"
           "  norm: rms_norm\n  activation: silu\n  gated_mlp: true\n  position: rotary\n"
           "  tied_embeddings: false\n  qkv_bias: false\n  projection_bias: false\n"
           "  mlp_bias: false\n  qk_norm: true\n  dropout: true\n  sliding_window: 16\n"
           "  attention_flops: causal_half\n"));
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 24);
  EXPECT_EQ(c.ffn, 96);
  EXPECT_EQ(c.max_positions, 128);
  EXPECT_EQ(c.norm, NormKind::rms_norm);
  EXPECT_EQ(c.activation, ActivationKind::silu);
  EXPECT_EQ(c.position, PositionKind::rotary);
  EXPECT_EQ(c.attention_flops, AttentionFlops::causal_half);
  EXPECT_EQ(c.sliding_window, 16);
  EXPECT_FALSE(c.tied_embeddings || c.qkv_bias || c.projection_bias || c.mlp_bias);
  EXPECT_TRUE(c.gated_mlp && c.qk_norm && c.dropout);
}

TEST(YamlModel, SequenceOfThePlan) {
  const std::string table = yaml("  sequence: 32\n  max_positions: 128\n");
  EXPECT_EQ(from_text(table, 64).sequence, 64);
  EXPECT_EQ(from_text(table, 64).max_positions, 128);
  EXPECT_EQ(from_text(yaml(""), 64).sequence, 64);  // the file may leave it open
  // The table has as many rows as the file's own sequence, so a longer one has no positions...
  EXPECT_THAT(refusal(yaml("  sequence: 32\n"), 64),
              AllOf(HasSubstr(":7: decoder.sequence: "),
                    HasSubstr("64 tokens are more than the 32 positions of the model")));
  // ...but nothing stops rotary positions unless the file does.
  EXPECT_EQ(from_text(yaml("  sequence: 32\n  position: rotary\n"), 64).sequence, 64);
  EXPECT_THAT(refusal(table, 129), HasSubstr("129 tokens are more than the 128 positions"));
}

TEST(YamlModel, Refusals) {
  const std::string s = "  sequence: 32\n";
  EXPECT_THAT(refusal(yaml("")), HasSubstr("decoder.sequence"));
  EXPECT_THAT(refusal("decoder: {layers: 2}"), HasSubstr("model"));
  EXPECT_THAT(refusal("model: m\ndecoder: {layers: 0, hidden: 64, heads: 4}"),
              AllOf(HasSubstr(":2: decoder.layers"), HasSubstr("0")));
  EXPECT_THAT(refusal(yaml(s + "  kv_heads: 3\n")),
              AllOf(HasSubstr(":8: decoder.kv_heads: "), HasSubstr("do not divide 4 heads")));
  EXPECT_THAT(refusal("model: m\ndecoder:\n  layers: 16\n  hidden: 2048\n  heads: 24\n"),
              AllOf(HasSubstr(":5: decoder.heads: "),
                    HasSubstr("24 heads do not divide the hidden width 2048; give head_dim")));
  EXPECT_THAT(refusal(yaml(s + "  head_dim: 15\n  position: rotary\n")),
              HasSubstr(":8: decoder.head_dim: rotary"));
  EXPECT_THAT(refusal(yaml(s + "  norm: batch_norm\n")),
              AllOf(HasSubstr("decoder.norm"), HasSubstr("layer_norm"), HasSubstr("rms_norm")));
  EXPECT_THAT(refusal(yaml(s + "  activation: tanh\n")), HasSubstr("decoder.activation"));
  EXPECT_THAT(refusal(yaml(s + "  position: alibi\n")), HasSubstr("decoder.position"));
  EXPECT_THAT(refusal(yaml(s + "  attention_flops: half\n")), HasSubstr("decoder.attention_flops"));
  EXPECT_THAT(refusal(yaml(s + "  kv_head: 2\n")),
              AllOf(HasSubstr("kv_head"), HasSubstr("kv_heads")));
  EXPECT_THAT(refusal("extra: 1\n" + yaml(s)), HasSubstr("extra"));
  EXPECT_THAT(refusal(yaml(s + "  sliding_window: -1\n")), HasSubstr("decoder.sliding_window"));
  EXPECT_THAT(refusal(yaml(s + "  ffn: 99999999999\n")), HasSubstr("decoder.ffn"));
}

TEST(YamlModel, HeadsOfTheirOwnWidth) {
  const DecoderConfig c = from_text(
      "model: m\ndecoder: {layers: 1, hidden: 2048, heads: 24, head_dim: 128, vocab: 0, "
      "sequence: 8}");
  EXPECT_EQ(c.head_dim, 128);
}

TEST(YamlModel, Experts) {
  const std::string s = yaml("  sequence: 32\n");
  EXPECT_EQ(from_text(s).experts.count, 0);
  const ExpertConfig few = from_text(s + "  experts: {count: 4, top_k: 2}\n").experts;
  EXPECT_EQ(few.count, 4);
  EXPECT_EQ(few.top_k, 2);
  EXPECT_EQ(few.ffn, 256);
  EXPECT_EQ(few.shared_ffn, 0);
  EXPECT_EQ(few.capacity_factor, 1);
  EXPECT_TRUE(few.dense_layers.empty());

  const ExpertConfig all =
      from_text(
          "model: m\ndecoder:\n  layers: 8\n  hidden: 64\n  heads: 4\n  vocab: 100\n"
          "  sequence: 32\n  experts: {count: 4, top_k: 2, ffn: 24, shared_ffn: 48, "
          "shared_gate: true, capacity_factor: 1.5, first_dense: 2, every: 2, "
          "dense_layers: [5]}\n")
          .experts;
  EXPECT_EQ(all.ffn, 24);
  EXPECT_EQ(all.shared_ffn, 48);
  EXPECT_TRUE(all.shared_gate);
  EXPECT_EQ(all.capacity_factor, 1.5);
  EXPECT_EQ(all.dense_layers, (std::vector<std::int64_t>{0, 1, 2, 4, 5, 6}));

  const auto refused = [&](const std::string& keys) {
    return refusal(s + "  experts: {count: 4, " + keys + "}\n");
  };
  EXPECT_THAT(refused("topk: 2"), HasSubstr("decoder.experts.top_k"));
  EXPECT_THAT(refused("top_k: 5"), HasSubstr("decoder.experts.top_k"));
  EXPECT_THAT(refused("top_k: 2, chosen: 1"), HasSubstr("chosen"));
  EXPECT_THAT(refused("top_k: 2, capacity_factor: 0.5"),
              HasSubstr("decoder.experts.capacity_factor"));
  EXPECT_THAT(refused("top_k: 2, capacity_factor: 2.5"),
              AllOf(HasSubstr("<text>:8: decoder.experts"),
                    HasSubstr("must lie in 1 to 2 (room for every token in every expert)")));
  EXPECT_THAT(refused("top_k: 2, shared_gate: true"), HasSubstr("the model has none"));
  EXPECT_THAT(refused("top_k: 2, dense_layers: [2]"),
              AllOf(HasSubstr("decoder.experts.dense_layers"), HasSubstr("allowed: 0 to 1")));
  EXPECT_THAT(refused("top_k: 2, every: 3"), HasSubstr("decoder.experts.every"));
}

TEST(YamlModel, Overrides) {
  const Overrides overrides({"decoder.layers=5", "model.decoder.hidden=128"});
  const DecoderConfig c =
      read_decoder(Document::parse(yaml("  sequence: 32\n"), "model", overrides));
  overrides.finish();
  EXPECT_EQ(c.layers, 5);
  EXPECT_EQ(c.hidden, 128);
  EXPECT_EQ(c.ffn, 512);
}

TEST(AnyModel, NotAModel) {
  for (const char* text : {R"({"tensors": []})", "model: m\n", "plan: {tensor: 2}\n"}) {
    EXPECT_THAT(refusal(text),
                AllOf(HasSubstr("<text>: this is not a model"), HasSubstr("'decoder'"),
                      HasSubstr("'architectures'"), HasSubstr("'model_type'")));
  }
}

// ---- Hugging Face
// ---------------------------------------------------------------------------------

std::string llama(const std::string& more) {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100)" +
         (more.empty() ? "" : ",\n" + more) + "}";
}

std::string of_type(const std::string& type, const std::string& more = "") {
  return R"({"model_type": ")" + type + R"(", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100)" +
         (more.empty() ? "" : ",\n" + more) + "}";
}

TEST(HuggingFace, LlamaDefaults) {
  const DecoderConfig c = from_text(llama(""));
  EXPECT_EQ(c.name, "LlamaForCausalLM");
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.sequence, 2048);
  EXPECT_EQ(c.max_positions, 2048);
  EXPECT_EQ(c.norm, NormKind::rms_norm);
  EXPECT_EQ(c.activation, ActivationKind::silu);
  EXPECT_EQ(c.position, PositionKind::rotary);
  EXPECT_TRUE(c.gated_mlp);
  EXPECT_FALSE(c.tied_embeddings || c.qkv_bias || c.projection_bias || c.mlp_bias);
  EXPECT_FALSE(c.qk_norm || c.dropout);
}

TEST(HuggingFace, LlamaOptions) {
  const DecoderConfig c = from_text(llama(
      R"("num_key_value_heads": 2, "head_dim": 32, "attention_bias": true, "mlp_bias": true,
         "tie_word_embeddings": true, "max_position_embeddings": 512, "hidden_act": "gelu",
         "sliding_window": 16, "rope_scaling": null, "torch_dtype": "bfloat16",
         "eos_token_id": [1, 2])"));
  EXPECT_EQ(c.kv_heads, 2);
  EXPECT_EQ(c.head_dim, 32);
  EXPECT_TRUE(c.qkv_bias && c.projection_bias && c.mlp_bias && c.tied_embeddings);
  EXPECT_EQ(c.sequence, 512);
  EXPECT_EQ(c.activation, ActivationKind::gelu);
  EXPECT_EQ(c.sliding_window, 0);  // Llama has no window
}

TEST(HuggingFace, NullMeansAbsent) {
  const DecoderConfig c =
      from_text(llama(R"("num_key_value_heads": null, "head_dim": null, "attention_bias": null)"));
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_FALSE(c.qkv_bias);
}

TEST(HuggingFace, SequenceIsTheModelsLongestUnlessThePlanSaysSo) {
  EXPECT_EQ(from_file("qwen3-8b/config.json").sequence, 40960);
  EXPECT_EQ(from_file("qwen3-8b/config.json", 4096).sequence, 4096);
  EXPECT_EQ(from_file("qwen3-8b/config.json", 4096).max_positions, 40960);
  EXPECT_THAT(refusal(llama(""), 4096),
              AllOf(HasSubstr("max_position_embeddings"), HasSubstr("4096 tokens")));
}

TEST(HuggingFace, NamedAfterDirectory) {
  EXPECT_EQ(from_file("llama-2-7b/config.json").name, "llama-2-7b");
  EXPECT_EQ(read_decoder(Document::parse(llama(""), "model", {}, "my-llama.json")).name,
            "my-llama");
  EXPECT_EQ(read_decoder(Document::parse(llama(""), "model", {}, "config.json")).name,
            "LlamaForCausalLM");
}

TEST(HuggingFace, MistralWindow) {
  EXPECT_EQ(from_file("mistral-7b/config.json").sliding_window, 4096);
  EXPECT_EQ(from_text(of_type("mistral", R"("sliding_window": null)")).sliding_window, 0);
  EXPECT_EQ(from_text(of_type("mistral", R"("sliding_window": 512)")).sliding_window, 512);
  EXPECT_EQ(from_text(of_type("mistral")).sliding_window, 4096);
  EXPECT_EQ(from_text(of_type("mistral", R"("head_dim": 32)")).head_dim, 32);
}

TEST(HuggingFace, QwenWindowOnlyWhenUsed) {
  const std::string window = R"("sliding_window": 512, "max_window_layers": )";
  EXPECT_EQ(from_text(of_type("qwen2", window + "0")).sliding_window, 0);
  const std::string used = R"("use_sliding_window": true, )" + window;
  EXPECT_EQ(from_text(of_type("qwen2", used + "0")).sliding_window, 512);
  EXPECT_EQ(from_text(of_type("qwen3", used + "2")).sliding_window, 0);
  EXPECT_THAT(refusal(of_type("qwen2", used + "1")),
              AllOf(HasSubstr("max_window_layers"), HasSubstr("1 layers with full attention and 1 "
                                                              "with a sliding window")));
}

TEST(HuggingFace, QwenBiases) {
  const DecoderConfig two = from_text(of_type("qwen2"));
  EXPECT_TRUE(two.qkv_bias);
  EXPECT_FALSE(two.projection_bias || two.mlp_bias || two.qk_norm || two.tied_embeddings);
  const DecoderConfig three = from_text(of_type("qwen3"));
  EXPECT_FALSE(three.qkv_bias || three.projection_bias);
  EXPECT_TRUE(three.qk_norm);
  EXPECT_EQ(three.head_dim, 128);
  EXPECT_TRUE(from_text(of_type("qwen3", R"("attention_bias": true)")).projection_bias);
}

TEST(HuggingFace, Mixtral) {
  const DecoderConfig c = from_text(of_type("mixtral"));
  EXPECT_EQ(c.experts.count, 8);
  EXPECT_EQ(c.experts.top_k, 2);
  EXPECT_EQ(c.experts.ffn, 96);
  EXPECT_EQ(c.experts.shared_ffn, 0);
  EXPECT_TRUE(c.experts.dense_layers.empty());
  EXPECT_EQ(c.sliding_window, 0);
  EXPECT_FALSE(c.mlp_bias || c.tied_embeddings);
  EXPECT_EQ(from_text(of_type("mixtral", R"("sliding_window": 512)")).sliding_window, 512);
  EXPECT_THAT(refusal(of_type("mixtral", R"("num_experts_per_tok": 9)")),
              AllOf(HasSubstr(":3: num_experts_per_tok: "), HasSubstr("9 of 8 experts")));
}

TEST(HuggingFace, QwenMixtures) {
  const DecoderConfig two = from_text(of_type("qwen2_moe"));
  EXPECT_EQ(two.experts.count, 60);
  EXPECT_EQ(two.experts.top_k, 4);
  EXPECT_EQ(two.experts.ffn, 1408);
  EXPECT_EQ(two.experts.shared_ffn, 5632);
  EXPECT_TRUE(two.experts.shared_gate && two.qkv_bias);
  EXPECT_FALSE(two.qk_norm || two.projection_bias);
  EXPECT_THAT(refusal(of_type("qwen2_moe", R"("use_sliding_window": true)")),
              HasSubstr("use_sliding_window"));

  const DecoderConfig three = from_text(of_type("qwen3_moe"));
  EXPECT_EQ(three.experts.count, 128);
  EXPECT_EQ(three.experts.top_k, 8);
  EXPECT_EQ(three.experts.ffn, 768);
  EXPECT_EQ(three.experts.shared_ffn, 0);
  EXPECT_EQ(three.head_dim, 16);
  EXPECT_TRUE(three.qk_norm);
  EXPECT_FALSE(three.qkv_bias);
  EXPECT_EQ(from_text(of_type("qwen3_moe", R"("num_local_experts": 16)")).experts.count, 16);
  const std::string window = R"("use_sliding_window": true, "sliding_window": )";
  EXPECT_EQ(from_text(of_type("qwen3_moe", window + "512")).sliding_window, 512);
  EXPECT_EQ(from_text(of_type("qwen3_moe", window + "null")).sliding_window, 0);
}

TEST(HuggingFace, LayersWithoutExperts) {
  const auto dense = [](const std::string& more) {
    return from_text(R"({"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 6,
        "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 100, )" +
                     more + "}")
        .experts.dense_layers;
  };
  using L = std::vector<std::int64_t>;
  EXPECT_EQ(dense(R"("decoder_sparse_step": 1, "mlp_only_layers": [])"), L{});
  EXPECT_EQ(dense(R"("decoder_sparse_step": 2)"), (L{0, 2, 4}));
  EXPECT_EQ(dense(R"("mlp_only_layers": [5, 1])"), (L{1, 5}));
  EXPECT_EQ(dense(R"("decoder_sparse_step": 3, "mlp_only_layers": [2])"), (L{0, 1, 2, 3, 4}));
  EXPECT_EQ(from_text(of_type("qwen3_moe", R"("num_experts": 0)")).experts.count, 0);
}

TEST(HuggingFace, CapacityFactorIsOurOwnKey) {
  EXPECT_EQ(from_text(of_type("mixtral", R"("capacity_factor": 1.25)")).experts.capacity_factor,
            1.25);
}

std::string gpt2(const std::string& more) {
  return R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 100)" +
         (more.empty() ? "" : ", " + more) + "}";
}

TEST(HuggingFace, Gpt2) {
  const DecoderConfig c = from_text(gpt2(R"("n_inner": null)"));
  EXPECT_EQ(c.ffn, 256);
  EXPECT_EQ(c.sequence, 1024);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.norm, NormKind::layer_norm);
  EXPECT_EQ(c.position, PositionKind::learned);
  EXPECT_TRUE(c.tied_embeddings && c.qkv_bias && c.projection_bias && c.mlp_bias && c.dropout);
  EXPECT_EQ(from_text(gpt2(R"("n_inner": 100)")).ffn, 100);
  EXPECT_FALSE(from_text(gpt2(R"("tie_word_embeddings": false)")).tied_embeddings);
  const std::string none = R"("attn_pdrop": 0.0, "resid_pdrop": 0, "embd_pdrop": )";
  EXPECT_FALSE(from_text(gpt2(none + "0.0")).dropout);
  EXPECT_TRUE(from_text(gpt2(none + "0.1")).dropout);
}

TEST(HuggingFace, ArchitectureWinsOverModelType) {
  EXPECT_THAT(refusal(R"({"architectures": ["MambaForCausalLM"], "model_type": "llama"})"),
              AllOf(HasSubstr("<text>:1: architectures: 'MambaForCausalLM' is not supported"),
                    HasSubstr("LlamaForCausalLM, MistralForCausalLM, Qwen2ForCausalLM, "
                              "Qwen3ForCausalLM, MixtralForCausalLM, Qwen2MoeForCausalLM, "
                              "Qwen3MoeForCausalLM, GPT2LMHeadModel")));
  // A configuration that was never attached to a model has a type but no architecture.
  EXPECT_EQ(from_text(of_type("qwen2", R"("architectures": null)")).name, "Qwen2ForCausalLM");
  EXPECT_EQ(from_text(of_type("qwen2", R"("architectures": [])")).name, "Qwen2ForCausalLM");
}

TEST(HuggingFace, ArchitectureAlone) {
  EXPECT_EQ(from_text(R"({"architectures": ["GPT2LMHeadModel"], "n_embd": 64, "n_layer": 2,
      "n_head": 4, "vocab_size": 100})")
                .ffn,
            256);
}

TEST(HuggingFace, Refusals) {
  EXPECT_THAT(
      refusal(R"({"model_type": "mamba"})"),
      AllOf(HasSubstr("<text>:1: model_type: 'mamba' is not supported"),
            HasSubstr("llama, mistral, qwen2, qwen3, mixtral, qwen2_moe, qwen3_moe, gpt2")));
  EXPECT_THAT(refusal(R"({"model_type": "llama", "hidden_size": 64})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refusal(R"({"model_type": "llama", "num_hidden_layers": 0})"),
              HasSubstr("num_hidden_layers"));
  EXPECT_THAT(refusal(llama(R"("num_key_value_heads": 3)")),
              AllOf(HasSubstr(":4: num_key_value_heads: "), HasSubstr("do not divide 4 heads")));
  EXPECT_THAT(refusal(R"({"model_type": "llama", "hidden_size": 2048,
      "num_hidden_layers": 16, "num_attention_heads": 24, "intermediate_size": 8192,
      "vocab_size": 32000})"),
              AllOf(HasSubstr(":2: num_attention_heads: "),
                    HasSubstr("24 heads do not divide the hidden width 2048")));
  EXPECT_THAT(refusal(R"({"model_type": "gpt2", "n_embd": 65, "n_layer": 1, "n_head": 4})"),
              HasSubstr("n_head: 4 heads do not divide"));
  EXPECT_THAT(refusal(llama(R"("hidden_act": "tanh")")), HasSubstr("hidden_act"));
  EXPECT_THAT(refusal(gpt2(R"("add_cross_attention": true)")), HasSubstr("add_cross_attention"));
}

}  // namespace
}  // namespace tilewright
