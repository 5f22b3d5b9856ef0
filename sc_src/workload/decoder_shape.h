// What makes a decoder's shape impossible, said by field so that the reader can point at the line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/workload/decoder.h>

namespace tilewright {

/// The widths of DecoderConfig that a fault can lie in.
enum class ShapeField {
  layers,
  hidden,
  heads,
  kv_heads,
  head_dim,
  ffn,
  vocab,
  sequence,
  max_positions,
  sliding_window,
  experts,
};

/// The field's name in DecoderConfig, which is also its key in our YAML.
std::string to_string(ShapeField field);

/// Bounds that keep every product of the builder inside 64 bits.
constexpr std::int64_t kMostLayers = 10'000;
constexpr std::int64_t kWidest = std::int64_t{1} << 32;
constexpr std::int64_t kMostExperts = std::int64_t{1} << 20;

struct ShapeFault {
  ShapeField field;
  std::string message;
};

/// The first thing wrong with the shape, if any.
std::optional<ShapeFault> find_fault(const DecoderConfig& config);

/// Layers without experts, ascending: the first `first_dense`, those that are `listed`, and of the
/// layers counted from 1 all but every `every`-th.
std::vector<std::int64_t> dense_layers(std::int64_t layers, std::int64_t first_dense,
                                       std::int64_t every, const std::vector<std::int64_t>& listed);

}  // namespace tilewright
