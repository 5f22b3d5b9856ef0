// Reads a decoder from our YAML, or hands the document to the Hugging Face reader.
#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/workload/decoder.h>

#include "decoder_shape.h"
#include "hugging_face.h"
#include "hugging_face_values.h"

namespace tilewright {

namespace {

std::int64_t width_or(const Section& s, const char* key, std::int64_t fallback) {
  return s.integer(key, 1, kWidest, fallback);
}

std::int64_t read_head_dim(const Section& s, std::int64_t hidden, std::int64_t heads) {
  if (!s.has("head_dim") && hidden % heads != 0) {
    s.fail("heads", fmt::format("{} heads do not divide the hidden width {}; give head_dim if the "
                                "heads have a width of their own",
                                heads, hidden));
  }
  return width_or(s, "head_dim", std::max<std::int64_t>(1, hidden / heads));
}

void read_positions(const Section& s, DecoderConfig& c, std::int64_t sequence) {
  // The plan may choose the sequence, so the file may leave it out.
  const std::int64_t own =
      sequence > 0 ? width_or(s, "sequence", sequence) : s.integer("sequence", 1, kWidest);
  c.sequence = sequence > 0 ? sequence : own;
  // A position table has the rows it was trained with; without a table, nothing bounds the
  // sequence but what the file says.
  const bool has_table = c.position == PositionKind::learned;
  c.max_positions = width_or(s, "max_positions", has_table ? own : std::max(own, c.sequence));
}

ExpertConfig read_experts(const Section& s, const DecoderConfig& c) {
  ExpertConfig e;
  e.count = s.integer("count", 1, kMostExperts);
  e.top_k = s.integer("top_k", 1, e.count);
  e.ffn = width_or(s, "ffn", c.ffn);
  e.shared_ffn = s.integer("shared_ffn", 0, kWidest, 0);
  e.shared_gate = s.flag("shared_gate", e.shared_gate);
  e.capacity_factor = s.number("capacity_factor", 1, kMostExperts, 1);
  const std::vector<std::int64_t> listed = s.integers("dense_layers");
  for (const std::int64_t layer : listed) {
    if (layer >= 0 && layer < c.layers) continue;
    s.fail("dense_layers",
           fmt::format("there is no layer {}; allowed: 0 to {}", layer, c.layers - 1));
  }
  e.dense_layers = dense_layers(c.layers, s.integer("first_dense", 0, c.layers, 0),
                                s.integer("every", 1, c.layers, 1), listed);
  return e;
}

DecoderConfig read_yaml(const Section& root, std::int64_t sequence) {
  DecoderConfig c;
  c.name = root.text("model");
  const Section s = root.section("decoder");
  c.layers = s.integer("layers", 1, kMostLayers);
  c.hidden = s.integer("hidden", 1, kWidest);
  c.heads = s.integer("heads", 1, kWidest);
  c.kv_heads = width_or(s, "kv_heads", c.heads);
  c.head_dim = read_head_dim(s, c.hidden, c.heads);
  c.ffn = width_or(s, "ffn", std::min(4 * c.hidden, kWidest));
  c.vocab = s.integer("vocab", 0, kWidest);
  c.norm = s.choice<NormKind>(
      "norm", {{"layer_norm", NormKind::layer_norm}, {"rms_norm", NormKind::rms_norm}},
      "layer_norm");
  c.activation = s.choice<ActivationKind>("activation",
                                          {{"gelu", ActivationKind::gelu},
                                           {"silu", ActivationKind::silu},
                                           {"relu", ActivationKind::relu}},
                                          "gelu");
  c.gated_mlp = s.flag("gated_mlp", c.gated_mlp);
  c.position = s.choice<PositionKind>("position",
                                      {{"none", PositionKind::none},
                                       {"learned", PositionKind::learned},
                                       {"rotary", PositionKind::rotary}},
                                      "learned");
  c.tied_embeddings = s.flag("tied_embeddings", c.tied_embeddings);
  c.qkv_bias = s.flag("qkv_bias", c.qkv_bias);
  c.projection_bias = s.flag("projection_bias", c.projection_bias);
  c.mlp_bias = s.flag("mlp_bias", c.mlp_bias);
  c.qk_norm = s.flag("qk_norm", c.qk_norm);
  c.dropout = s.flag("dropout", c.dropout);
  c.sliding_window = s.integer("sliding_window", 0, kWidest, 0);
  c.attention_flops = s.choice<AttentionFlops>(
      "attention_flops",
      {{"full", AttentionFlops::full}, {"causal_half", AttentionFlops::causal_half}}, "full");
  read_positions(s, c, sequence);
  if (s.has("experts")) c.experts = read_experts(s.section("experts"), c);
  root.finish();
  return c;
}

}  // namespace

DecoderConfig read_decoder(const Document& document, std::int64_t sequence) {
  const Section root = document.root();
  if (root.has("decoder")) {
    DecoderConfig config = read_yaml(root, sequence);
    if (const auto fault = find_fault(config)) {
      root.section("decoder").fail(to_string(fault->field), fault->message);
    }
    return config;
  }
  if (!is_hugging_face(root)) {
    throw InputError(fmt::format(
        "{}: this is not a model: expected the keys 'model' and 'decoder' or 'convnet', or a "
        "Hugging Face config.json with 'architectures' or 'model_type'",
        document.path()));
  }
  HuggingFaceModel model = read_hugging_face(root);
  model.config.name = model_name(document.path(), model.architecture);
  model.config.sequence = sequence > 0 ? sequence : model.config.max_positions;
  if (const auto fault = find_fault(model.config)) {
    root.fail(model.key_of(fault->field), fault->message);
  }
  return model.config;
}

}  // namespace tilewright
