// Decoder shapes that several tests share.
#pragma once

#include <cstdint>
#include <string>

#include <tilewright/base/config.h>
#include <tilewright/workload/decoder.h>

namespace tilewright::test {

/// GPT as in the Megatron papers: everything on, nothing grouped, gated or rotated.
inline DecoderConfig gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads,
                         std::int64_t sequence = 2048, std::int64_t vocab = 51200) {
  DecoderConfig c;
  c.name = "gpt";
  c.layers = layers;
  c.hidden = hidden;
  c.heads = c.kv_heads = heads;
  c.head_dim = hidden / heads;
  c.ffn = 4 * hidden;
  c.vocab = vocab;
  c.sequence = c.max_positions = sequence;
  c.dropout = true;
  return c;
}

/// Small, with every Llama feature: 8 heads of 16 on 2 key-value heads, hidden 128, ffn 320.
inline DecoderConfig small_llama() {
  DecoderConfig c;
  c.name = "small-llama";
  c.layers = 3;
  c.hidden = 128;
  c.heads = 8;
  c.kv_heads = 2;
  c.head_dim = 16;
  c.ffn = 320;
  c.vocab = 1000;
  c.sequence = c.max_positions = 64;
  c.norm = NormKind::rms_norm;
  c.activation = ActivationKind::silu;
  c.gated_mlp = true;
  c.position = PositionKind::rotary;
  c.tied_embeddings = c.qkv_bias = c.projection_bias = c.mlp_bias = false;
  return c;
}

/// The same with experts in every layer: 2 of 4 of width 96 for each of 64 tokens.
inline DecoderConfig small_moe() {
  DecoderConfig c = small_llama();
  c.name = "small-moe";
  c.experts.count = 4;
  c.experts.top_k = 2;
  c.experts.ffn = 96;
  return c;
}

/// Shared experts of width 160 beside them, behind a gate.
inline DecoderConfig small_shared_moe() {
  DecoderConfig c = small_moe();
  c.experts.shared_ffn = 160;
  c.experts.shared_gate = true;
  return c;
}

inline DecoderConfig from_text(const std::string& text, std::int64_t sequence = 0) {
  return read_decoder(Document::parse(text, "model"), sequence);
}

inline std::string model_path(const std::string& file) {
  return std::string(TILEWRIGHT_SOURCE_DIR) + "/workloads/models/" + file;
}

inline DecoderConfig from_file(const std::string& file, std::int64_t sequence = 0) {
  return read_decoder(Document::load(model_path(file), "model"), sequence);
}

}  // namespace tilewright::test
