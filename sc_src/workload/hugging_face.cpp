#include "hugging_face.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "hugging_face_values.h"

namespace tilewright {

namespace {

/// hidden / heads, the usual size of a head when the file does not give one.
std::int64_t head_share(const Section& s, const std::string& heads_key, std::int64_t hidden,
                        std::int64_t heads) {
  if (hidden % heads != 0) {
    s.fail(heads_key, fmt::format("{} heads do not divide the hidden width {}", heads, hidden));
  }
  return hidden / heads;
}

bool drops(const Section& s, const std::string& key, double fallback) {
  return (given(s, key) ? s.number(key, 0, 1) : fallback) > 0;
}

// ---- the Llama family: RMS norm, rotary positions, gated SiLU
// ------------------------------------

std::string llama_key(ShapeField field) {
  switch (field) {
    case ShapeField::layers:
      return "num_hidden_layers";
    case ShapeField::hidden:
      return "hidden_size";
    case ShapeField::heads:
      return "num_attention_heads";
    case ShapeField::kv_heads:
      return "num_key_value_heads";
    case ShapeField::head_dim:
      return "head_dim";
    case ShapeField::ffn:
      return "intermediate_size";
    case ShapeField::vocab:
      return "vocab_size";
    case ShapeField::sequence:
    case ShapeField::max_positions:
      return "max_position_embeddings";
    case ShapeField::sliding_window:
      return "sliding_window";
    case ShapeField::experts:
      return "num_experts_per_tok";
  }
  return "";
}

/// What all members share; `positions` is the family's own default.
DecoderConfig llama_shape(const Section& s, std::int64_t positions) {
  DecoderConfig c;
  c.layers = width(s, "num_hidden_layers", kMostLayers);
  c.hidden = width(s, "hidden_size");
  c.heads = width(s, "num_attention_heads");
  c.kv_heads = width_or(s, "num_key_value_heads", c.heads);
  c.ffn = width(s, "intermediate_size");
  c.vocab = width(s, "vocab_size");
  c.max_positions = width_or(s, "max_position_embeddings", positions);
  c.norm = NormKind::rms_norm;
  c.activation = activation(s, "hidden_act", "silu");
  c.gated_mlp = true;
  c.position = PositionKind::rotary;
  c.tied_embeddings = flag_or(s, "tie_word_embeddings", false);
  c.qkv_bias = false;
  c.projection_bias = false;
  c.mlp_bias = false;
  c.dropout = drops(s, "attention_dropout", 0);
  return c;
}

void set_head_dim(const Section& s, DecoderConfig& c) {
  c.head_dim = given(s, "head_dim") ? width(s, "head_dim")
                                    : head_share(s, "num_attention_heads", c.hidden, c.heads);
}

DecoderConfig read_llama(const Section& s) {
  DecoderConfig c = llama_shape(s, 2048);
  set_head_dim(s, c);
  c.qkv_bias = c.projection_bias = flag_or(s, "attention_bias", false);
  c.mlp_bias = flag_or(s, "mlp_bias", false);
  return c;
}

DecoderConfig read_mistral(const Section& s) {
  DecoderConfig c = llama_shape(s, 131072);
  set_head_dim(s, c);
  // null switches the window off; a file from before the key existed has the window of v0.1.
  if (!s.has("sliding_window")) {
    c.sliding_window = 4096;
  } else if (given(s, "sliding_window")) {
    c.sliding_window = width(s, "sliding_window");
  }
  return c;
}

/// In Qwen models the first `max_window_layers` layers see everything, the others the window.
std::int64_t qwen_window(const Section& s, std::int64_t layers) {
  if (!flag_or(s, "use_sliding_window", false)) return 0;
  const std::int64_t window = width_or(s, "sliding_window", 4096);
  const std::int64_t full_layers =
      given(s, "max_window_layers") ? s.integer("max_window_layers", 0, kMostLayers) : 28;
  if (full_layers >= layers) return 0;
  if (full_layers > 0) {
    s.fail("max_window_layers",
           fmt::format("{} layers with full attention and {} with a sliding window: a model whose "
                       "layers differ is not supported; 0 or at least {} is",
                       full_layers, layers - full_layers, layers));
  }
  return window;
}

DecoderConfig read_qwen2(const Section& s) {
  DecoderConfig c = llama_shape(s, 32768);
  set_head_dim(s, c);
  c.qkv_bias = true;
  c.sliding_window = qwen_window(s, c.layers);
  return c;
}

DecoderConfig read_qwen3(const Section& s) {
  DecoderConfig c = llama_shape(s, 32768);
  c.head_dim = width_or(s, "head_dim", 128);
  c.qkv_bias = c.projection_bias = flag_or(s, "attention_bias", false);
  c.qk_norm = true;
  c.sliding_window = qwen_window(s, c.layers);
  return c;
}

// ---- the same with experts
// ------------------------------------------------------------------------

/// `count`, `top_k` and `ffn` are the family's own defaults. `capacity_factor` is no published key.
ExpertConfig read_experts(const Section& s, std::int64_t layers, std::int64_t count,
                          std::int64_t top_k, std::int64_t ffn) {
  ExpertConfig e;
  // Either name, whatever the family.
  const char* key = given(s, "num_local_experts") ? "num_local_experts" : "num_experts";
  e.count = given(s, key) ? s.integer(key, 0, kMostExperts) : count;
  e.top_k = width_or(s, "num_experts_per_tok", top_k);
  e.ffn = ffn;
  if (given(s, "capacity_factor")) e.capacity_factor = s.number("capacity_factor", 1, kMostExperts);
  const std::int64_t step = width_or(s, "decoder_sparse_step", 1);
  e.dense_layers = dense_layers(
      layers, 0, step,
      given(s, "mlp_only_layers") ? s.integers("mlp_only_layers") : std::vector<std::int64_t>{});
  return e;
}

DecoderConfig read_mixtral(const Section& s) {
  DecoderConfig c = llama_shape(s, 131072);
  set_head_dim(s, c);
  c.sliding_window = width_or(s, "sliding_window", 0);
  c.experts = read_experts(s, c.layers, 8, 2, c.ffn);
  return c;
}

DecoderConfig read_qwen2_moe(const Section& s) {
  DecoderConfig c = llama_shape(s, 32768);
  set_head_dim(s, c);
  c.qkv_bias = flag_or(s, "qkv_bias", true);
  if (flag_or(s, "use_sliding_window", false)) {
    s.fail("use_sliding_window",
           "this architecture gives every other layer a window: a model whose layers differ in "
           "attention is not supported; false is");
  }
  c.experts = read_experts(s, c.layers, 60, 4, width_or(s, "moe_intermediate_size", 1408));
  c.experts.shared_ffn = width_or(s, "shared_expert_intermediate_size", 5632);
  c.experts.shared_gate = true;
  return c;
}

DecoderConfig read_qwen3_moe(const Section& s) {
  DecoderConfig c = llama_shape(s, 32768);
  set_head_dim(s, c);
  c.qkv_bias = c.projection_bias = flag_or(s, "attention_bias", false);
  c.qk_norm = true;
  // One window for all layers, unlike the dense family.
  if (flag_or(s, "use_sliding_window", false)) {
    c.sliding_window = s.is_null("sliding_window") ? 0 : width_or(s, "sliding_window", 4096);
  }
  c.experts = read_experts(s, c.layers, 128, 8, width_or(s, "moe_intermediate_size", 768));
  return c;
}

// ---- GPT-2: layer norm, learned positions, biases
// -------------------------------------------------

std::string gpt2_key(ShapeField field) {
  switch (field) {
    case ShapeField::layers:
      return "n_layer";
    case ShapeField::hidden:
      return "n_embd";
    case ShapeField::heads:
    case ShapeField::kv_heads:
    case ShapeField::head_dim:
      return "n_head";
    case ShapeField::ffn:
      return "n_inner";
    case ShapeField::vocab:
      return "vocab_size";
    case ShapeField::sequence:
    case ShapeField::max_positions:
      return "n_positions";
    case ShapeField::sliding_window:
    case ShapeField::experts:
      return "";
  }
  return "";
}

DecoderConfig read_gpt2(const Section& s) {
  DecoderConfig c;
  c.layers = width(s, "n_layer", kMostLayers);
  c.hidden = width(s, "n_embd");
  c.heads = c.kv_heads = width(s, "n_head");
  c.head_dim = head_share(s, "n_head", c.hidden, c.heads);
  c.ffn = width_or(s, "n_inner", 4 * c.hidden);
  c.vocab = width(s, "vocab_size");
  c.max_positions = width_or(s, "n_positions", 1024);
  c.activation = activation(s, "activation_function", "gelu_new");
  c.tied_embeddings = flag_or(s, "tie_word_embeddings", true);
  // All three always asked for, so that each is on record with its origin.
  const bool embedding = drops(s, "embd_pdrop", 0.1);
  const bool attention = drops(s, "attn_pdrop", 0.1);
  const bool residual = drops(s, "resid_pdrop", 0.1);
  c.dropout = embedding || attention || residual;
  if (flag_or(s, "add_cross_attention", false)) {
    s.fail("add_cross_attention", "a decoder that reads an encoder is not supported");
  }
  return c;
}

// ---- which is it?
// ---------------------------------------------------------------------------------

struct Architecture {
  const char* name;
  const char* model_type;
  DecoderConfig (*read)(const Section&);
  std::string (*key_of)(ShapeField);
};

constexpr Architecture kArchitectures[] = {
    {"LlamaForCausalLM", "llama", read_llama, llama_key},
    {"MistralForCausalLM", "mistral", read_mistral, llama_key},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2, llama_key},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3, llama_key},
    {"MixtralForCausalLM", "mixtral", read_mixtral, llama_key},
    {"Qwen2MoeForCausalLM", "qwen2_moe", read_qwen2_moe, llama_key},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe, llama_key},
    {"GPT2LMHeadModel", "gpt2", read_gpt2, gpt2_key},
};

const Architecture& find_architecture(const Section& root) {
  const auto name = first_architecture(root);
  const char* key = name ? "architectures" : "model_type";
  const std::string wanted = name ? *name : root.text("model_type");
  std::vector<std::string> supported;
  for (const Architecture& a : kArchitectures) {
    if (wanted == (name ? a.name : a.model_type)) return a;
    supported.emplace_back(name ? a.name : a.model_type);
  }
  supported.emplace_back(name ? kResNetArchitecture : kResNetModelType);
  root.fail(
      key, fmt::format("'{}' is not supported; supported: {}", wanted, fmt::join(supported, ", ")));
}

}  // namespace

bool is_hugging_face(const Section& root) {
  return root.has("architectures") || root.has("model_type");
}

HuggingFaceModel read_hugging_face(const Section& root) {
  const Architecture& architecture = find_architecture(root);
  root.ignore_unknown();
  return {architecture.read(root), architecture.name, architecture.key_of};
}

}  // namespace tilewright
