#include "decoder_shape.h"

#include <initializer_list>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>

namespace tilewright {

namespace {

// Beyond this, counts held in doubles are no longer exact, and no machine is near it.
constexpr double kMostElements = 9007199254740992.0;  // 2^53

double product(std::initializer_list<std::int64_t> factors) {
  double result = 1;
  for (std::int64_t f : factors) result *= static_cast<double>(f);
  return result;
}

/// Upper bound of the parameters, biases and norms left out.
double estimate_parameters(const DecoderConfig& c) {
  const double qkv = product({c.hidden, c.heads + 2 * c.kv_heads, c.head_dim});
  const double projection = product({c.hidden, c.heads, c.head_dim});
  const double mlp = product({c.hidden, c.ffn, c.gated_mlp ? 3 : 2});
  const double tables = product({c.hidden, 2 * c.vocab + c.max_positions});
  return static_cast<double>(c.layers) * (qkv + projection + mlp) + tables;
}

}  // namespace

std::string to_string(ShapeField field) {
  switch (field) {
    case ShapeField::layers:
      return "layers";
    case ShapeField::hidden:
      return "hidden";
    case ShapeField::heads:
      return "heads";
    case ShapeField::kv_heads:
      return "kv_heads";
    case ShapeField::head_dim:
      return "head_dim";
    case ShapeField::ffn:
      return "ffn";
    case ShapeField::vocab:
      return "vocab";
    case ShapeField::sequence:
      return "sequence";
    case ShapeField::max_positions:
      return "max_positions";
    case ShapeField::sliding_window:
      return "sliding_window";
  }
  throw InternalError("to_string: not a ShapeField");
}

std::optional<ShapeFault> find_fault(const DecoderConfig& c) {
  const std::pair<ShapeField, std::int64_t> widths[] = {
      {ShapeField::layers, c.layers},     {ShapeField::hidden, c.hidden},
      {ShapeField::heads, c.heads},       {ShapeField::kv_heads, c.kv_heads},
      {ShapeField::head_dim, c.head_dim}, {ShapeField::ffn, c.ffn},
      {ShapeField::sequence, c.sequence}, {ShapeField::max_positions, c.max_positions},
  };
  for (const auto& [field, width] : widths) {
    const std::int64_t most = field == ShapeField::layers ? kMostLayers : kWidest;
    if (width < 1 || width > most) {
      return ShapeFault{field, fmt::format("must lie in 1 to {}, found {}", most, width)};
    }
  }
  if (c.vocab < 0 || c.vocab > kWidest) {
    return ShapeFault{
        ShapeField::vocab,
        fmt::format("must lie in 0 (the trunk alone) to {}, found {}", kWidest, c.vocab)};
  }
  if (c.sliding_window < 0 || c.sliding_window > kWidest) {
    return ShapeFault{
        ShapeField::sliding_window,
        fmt::format("must lie in 0 (all keys) to {}, found {}", kWidest, c.sliding_window)};
  }
  if (c.heads % c.kv_heads != 0) {
    return ShapeFault{ShapeField::kv_heads,
                      fmt::format("{} key-value heads do not divide {} heads: each must serve the "
                                  "same number of query heads",
                                  c.kv_heads, c.heads)};
  }
  if (c.position == PositionKind::rotary && c.head_dim % 2 != 0) {
    return ShapeFault{
        ShapeField::head_dim,
        fmt::format("rotary positions turn pairs of elements, but a head has {}", c.head_dim)};
  }
  if (c.sequence > c.max_positions) {
    return ShapeFault{ShapeField::sequence,
                      fmt::format("{} tokens are more than the {} positions of the model",
                                  c.sequence, c.max_positions)};
  }
  if (estimate_parameters(c) > kMostElements) {
    return ShapeFault{ShapeField::layers,
                      fmt::format("the shape has about {:.3g} parameters, more than the 2^53 that "
                                  "can be counted exactly",
                                  estimate_parameters(c))};
  }
  if (product({c.heads, c.sequence, c.sequence}) > kMostElements) {
    return ShapeFault{ShapeField::sequence,
                      fmt::format("{} tokens make an attention matrix of more than the 2^53 "
                                  "elements that can be counted exactly",
                                  c.sequence)};
  }
  return std::nullopt;
}

void check_shape(const DecoderConfig& config) {
  if (const auto fault = find_fault(config)) {
    throw InputError(
        fmt::format("model '{}': {}: {}", config.name, to_string(fault->field), fault->message));
  }
}

}  // namespace tilewright
