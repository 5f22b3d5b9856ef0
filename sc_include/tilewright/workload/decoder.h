// Decoder-only transformers: their shape, and the operator graph built from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

enum class NormKind { layer_norm, rms_norm };
enum class ActivationKind { gelu, silu, relu };
enum class PositionKind { none, learned, rotary };

/// A mixture of experts in place of the MLP: every token goes to `top_k` of `count` experts.
/// Routing is taken to be balanced, each expert getting an equal share of every sample's tokens.
struct ExpertConfig {
  std::int64_t count = 0;  ///< 0: no mixture, all else here is unused
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;         ///< width of one expert
  std::int64_t shared_ffn = 0;  ///< width of the shared experts together; 0: none
  bool shared_gate = false;     ///< a sigmoid gate, one number per token, scales the shared experts
  double capacity_factor = 1;   ///< rows of an expert over its share of the tokens, at least 1
  std::vector<std::int64_t> dense_layers;  ///< layers that keep their MLP, from 0, ascending

  bool in_layer(std::int64_t layer) const;
  /// Rows of one expert for a sample: its share of the tokens times the factor, rounded up.
  std::int64_t capacity(std::int64_t tokens) const;
};

/// The published shape of a decoder. Widths in elements.
struct DecoderConfig {
  std::string name;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  ///< equal to heads without grouped-query attention
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  std::int64_t vocab = 0;          ///< 0: the trunk alone, with neither embedding nor head
  std::int64_t sequence = 0;       ///< tokens per sample
  std::int64_t max_positions = 0;  ///< rows of a learned position table; bound on `sequence`
  NormKind norm = NormKind::layer_norm;
  ActivationKind activation = ActivationKind::gelu;
  bool gated_mlp = false;  ///< two up projections (SwiGLU)
  PositionKind position = PositionKind::learned;
  bool tied_embeddings = true;
  bool qkv_bias = true;
  bool projection_bias = true;
  bool mlp_bias = true;
  bool qk_norm = false;  ///< RMS norm of q and k per head (Qwen3)
  bool dropout = false;  ///< attention and hidden dropout, one mask byte per element kept
  std::int64_t sliding_window = 0;  ///< keys seen by a query; 0: all
  AttentionFlops attention_flops = AttentionFlops::full;
  ExpertConfig experts;
};

/// Throws InputError for a shape that is not a decoder: a width of zero, heads that do not divide,
/// `sequence` above `max_positions`. Names the field.
void check_shape(const DecoderConfig& config);

/// Reads our YAML (`model:` + `decoder:`), or a Hugging Face config.json, told apart by the keys
/// ("architectures"/"model_type" against "decoder"). `sequence` of the model file may be overridden
/// by `sequence` > 0 here (the plan's choice). Throws InputError: unsupported architecture (lists
/// the supported), zero layers, heads that do not divide, sequence above max_positions, a JSON that
/// is not a model. docs/workload.md lists the keys and what an absent one means.
DecoderConfig read_decoder(const Document& document, std::int64_t sequence = 0);

/// The operator graph: "embedding", the layers, "head" (see Graph::chain). Parameter counts are
/// exact against the published ones. A layer is a "layer" or, with experts, a "moe_layer"; all of a
/// kind are one block, stored once. Throws InputError where check_shape() does.
Graph build_graph(const DecoderConfig& config);

}  // namespace tilewright
