#include "decoder_shape.h"

#include <algorithm>
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
  const std::int64_t matrices = c.gated_mlp ? 3 : 2;
  const double mlp = product({c.hidden, c.ffn, matrices});
  const double experts = product({c.hidden, c.experts.ffn, matrices, c.experts.count}) +
                         product({c.hidden, c.experts.shared_ffn, matrices}) +
                         product({c.hidden, c.experts.count + 1});
  const double tables = product({c.hidden, 2 * c.vocab + c.max_positions});
  return static_cast<double>(c.layers) *
             (qkv + projection + (c.experts.count > 0 ? std::max(mlp, experts) : mlp)) +
         tables;
}

std::optional<std::string> expert_fault(const DecoderConfig& c) {
  const ExpertConfig& e = c.experts;
  if (e.count < 0 || e.count > kMostExperts) {
    return fmt::format("must be 0 (no mixture) to {}, found {}", kMostExperts, e.count);
  }
  if (e.count == 0) return std::nullopt;
  if (e.top_k < 1 || e.top_k > e.count) {
    return fmt::format("a token goes to {} of {} experts; allowed: 1 to {}", e.top_k, e.count,
                       e.count);
  }
  if (e.ffn < 1 || e.ffn > kWidest) {
    return fmt::format("the width of an expert must lie in 1 to {}, found {}", kWidest, e.ffn);
  }
  if (e.shared_ffn < 0 || e.shared_ffn > kWidest) {
    return fmt::format("the width of the shared experts must lie in 0 (none) to {}, found {}",
                       kWidest, e.shared_ffn);
  }
  if (e.shared_gate && e.shared_ffn == 0) {
    return "a gate for shared experts, but the model has none";
  }
  // With count/top_k every expert has room for all tokens.
  const double most = static_cast<double>(e.count) / static_cast<double>(e.top_k);
  if (!(e.capacity_factor >= 1 && e.capacity_factor <= most)) {
    return fmt::format(
        "the capacity factor must lie in 1 to {} (room for every token in every "
        "expert), found {}",
        most, e.capacity_factor);
  }
  for (std::size_t i = 0; i < e.dense_layers.size(); ++i) {
    const std::int64_t layer = e.dense_layers[i];
    if (layer < 0 || layer >= c.layers) {
      return fmt::format("layer {} is to be dense; allowed: 0 to {}", layer, c.layers - 1);
    }
    if (i > 0 && e.dense_layers[i - 1] >= layer) {
      return fmt::format("the dense layers must ascend, {} follows {}", layer,
                         e.dense_layers[i - 1]);
    }
  }
  return std::nullopt;
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
    case ShapeField::experts:
      return "experts";
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
  if (const auto fault = expert_fault(c)) return ShapeFault{ShapeField::experts, *fault};
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

std::vector<std::int64_t> dense_layers(std::int64_t layers, std::int64_t first_dense,
                                       std::int64_t every,
                                       const std::vector<std::int64_t>& listed) {
  std::vector<std::int64_t> dense;
  for (std::int64_t i = 0; i < layers; ++i) {
    const bool named = std::find(listed.begin(), listed.end(), i) != listed.end();
    if (i < first_dense || named || (i + 1) % every != 0) dense.push_back(i);
  }
  return dense;
}

void check_shape(const DecoderConfig& config) {
  if (const auto fault = find_fault(config)) {
    throw InputError(
        fmt::format("model '{}': {}: {}", config.name, to_string(fault->field), fault->message));
  }
}

}  // namespace tilewright
