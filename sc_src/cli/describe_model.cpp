#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

constexpr std::pair<Dim, const char*> kDimNames[] = {{Dim::batch, "batch"}, {Dim::expert, "expert"},
                                                     {Dim::head, "head"},   {Dim::row, "row"},
                                                     {Dim::col, "col"},     {Dim::red, "red"}};

const char* kind_name(OpKind kind) {
  switch (kind) {
    case OpKind::gemm:
      return "gemm";
    case OpKind::batched_gemm:
      return "batched_gemm";
    case OpKind::convolution:
      return "convolution";
    case OpKind::norm:
      return "norm";
    case OpKind::batch_norm:
      return "batch_norm";
    case OpKind::pool:
      return "pool";
    case OpKind::softmax:
      return "softmax";
    case OpKind::elementwise:
      return "elementwise";
    case OpKind::permutation:
      return "permutation";
    case OpKind::embedding:
      return "embedding";
    case OpKind::loss:
      return "loss";
  }
  return "";
}

/// The extents an operator has: "head 48, row 2048, col 2048, red 128", and its windows: "3x3/2".
std::string extents_text(const Operator& op) {
  std::string text;
  for (const auto& [dim, name] : kDimNames) {
    if (op.extents[dim] == 1) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, op.extents[dim]);
  }
  if (!op.window) return text;
  const auto& [height, width] = *op.window;
  text += fmt::format(", {}x{}", height.kernel, width.kernel);
  if (height.stride > 1) text += fmt::format("/{}", height.stride);
  return text;
}

Json window_json(const Window& window) {
  const auto side = [](const Window::Side& s) {
    return Json{{"in", s.in},
                {"out", s.out},
                {"kernel", s.kernel},
                {"stride", s.stride},
                {"padding", s.padding}};
  };
  return Json{{"height", side(window.height)}, {"width", side(window.width)}};
}

std::string flop_text(Flop f) { return f > Flop(0) ? to_string(f) : "-"; }

Flop backward(const Operator& op) { return op.input_gradient_flop() + op.weight_gradient_flop(); }

Json operator_json(const Operator& op) {
  Json extents = Json::object();
  for (const auto& [dim, name] : kDimNames) extents[name] = op.extents[dim];
  Json j{{"name", op.name},
         {"role", to_string(op.role)},
         {"kind", kind_name(op.kind)},
         {"extents", extents},
         {"parameters", op.parameters},
         {"forward_flops", op.forward_flop().value()},
         {"input_gradient_flops", op.input_gradient_flop().value()},
         {"weight_gradient_flops", op.weight_gradient_flop().value()},
         {"forward_passes", op.forward_passes},
         {"backward_passes", op.backward_passes}};
  if (op.window) j["window"] = window_json(*op.window);
  return j;
}

void describe_block(Description& out, Json& list, const Block& block, std::int64_t count) {
  out.text += fmt::format("\n  Block \"{}\" x {}: {} parameters, {} forward, {} backward\n",
                          block.name, count, grouped(block.parameters()),
                          to_string(block.forward_flop()), to_string(block.backward_flop()));
  out.text += fmt::format("    {:<20} {:<38} {:>13} {:>12} {:>12} {:>7}\n", "operator", "extents",
                          "parameters", "forward", "backward", "passes");
  Json operators = Json::array();
  for (const Operator& op : block.operators) {
    out.text +=
        fmt::format("    {:<20} {:<38} {:>13} {:>12} {:>12} {:>7}\n", op.name, extents_text(op),
                    grouped(op.parameters), flop_text(op.forward_flop()), flop_text(backward(op)),
                    fmt::format("{}/{}", op.forward_passes, op.backward_passes));
    operators.push_back(operator_json(op));
  }
  list.push_back(Json{{"name", block.name},
                      {"count", count},
                      {"parameters", block.parameters()},
                      {"forward_flops", block.forward_flop().value()},
                      {"backward_flops", block.backward_flop().value()},
                      {"operators", operators}});
}

/// "8 of width 14,336, 2 for each token; 2 of 48 layers have none".
std::string experts_text(const DecoderConfig& c) {
  const ExpertConfig& e = c.experts;
  std::string text =
      fmt::format("{} of width {}, {} for each token", e.count, grouped(e.ffn), e.top_k);
  if (e.shared_ffn > 0) {
    text += fmt::format(", and shared ones of {}{}", grouped(e.shared_ffn),
                        e.shared_gate ? " behind a gate" : "");
  }
  if (!e.dense_layers.empty()) {
    text += fmt::format("; {} of {} layers have none", e.dense_layers.size(), c.layers);
  }
  return text;
}

/// Parameters that a token meets: of the experts those it goes to.
std::int64_t active_parameters(const Graph& graph, const ExpertConfig& experts) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < graph.chain.size(); ++i) {
    for (const Operator& op : graph.block(i).operators) {
      const bool routed = op.extents[Dim::expert] > 1;
      sum += routed ? op.parameters / experts.count * experts.top_k : op.parameters;
    }
  }
  return sum;
}

void describe_decoder(Description& out, const DecoderConfig& c, const Graph& g) {
  const double tokens = static_cast<double>(g.sequence);
  const double forward = g.forward_flop().value() / tokens;
  const double training = g.training_flop().value() / tokens;

  out.line("hidden width", grouped(g.hidden));
  out.line("heads", c.kv_heads == c.heads ? fmt::format("{} of {}", c.heads, c.head_dim)
                                          : fmt::format("{} of {}, sharing {} key/value heads",
                                                        c.heads, c.head_dim, c.kv_heads));
  out.line("feed-forward width", grouped(c.ffn) + (c.gated_mlp ? ", gated" : ""));
  if (c.experts.count > 0) out.line("experts", experts_text(c));
  out.line("vocabulary", grouped(c.vocab));
  out.line("sequence", grouped(g.sequence) + " tokens per sample");
  const std::int64_t active = active_parameters(g, c.experts);
  out.line("parameters",
           grouped(g.parameters()) +
               (c.experts.count > 0 ? fmt::format(", {} of them active per token", grouped(active))
                                    : std::string()));
  const std::string scores = c.attention_flops == AttentionFlops::full
                                 ? "all attention scores counted"
                                 : "causal part of the attention scores counted";
  out.line("FLOPs per token",
           fmt::format("{} training (forward and backward, {}), {} forward",
                       to_string(Flop(training)), scores, to_string(Flop(forward))));

  Json& j = out.json["model"];
  j["active_parameters"] = active;
  j["flops_per_token"] = training;
  j["forward_flops_per_token"] = forward;
  j["flops_convention"] = scores;
  j["hidden"] = g.hidden;
  j["heads"] = c.heads;
  j["kv_heads"] = c.kv_heads;
  j["head_dim"] = c.head_dim;
  j["ffn"] = c.ffn;
  if (c.experts.count > 0) {
    j["experts"] = Json{{"count", c.experts.count},
                        {"top_k", c.experts.top_k},
                        {"ffn", c.experts.ffn},
                        {"shared_ffn", c.experts.shared_ffn},
                        {"capacity_factor", c.experts.capacity_factor},
                        {"dense_layers", c.experts.dense_layers}};
  }
  j["vocab"] = c.vocab;
  j["sequence"] = g.sequence;
}

void describe_convnet(Description& out, const ConvnetConfig& c, const Graph& g) {
  out.line("image", fmt::format("{} x {}, {} channels", c.height, c.width, c.channels));
  std::vector<std::string> stages;
  for (const ConvStage& s : c.stages) {
    stages.push_back(fmt::format("{} of {} channels", s.blocks, s.channels));
  }
  out.line("blocks", fmt::format("{}: {}", c.block == ConvBlock::basic ? "basic" : "bottlenecks",
                                 fmt::join(stages, ", ")));
  out.line("classes", grouped(c.classes));
  out.line("parameters", grouped(g.parameters()));
  out.line("FLOPs per sample",
           fmt::format("{} training (forward and backward), {} forward",
                       to_string(g.training_flop()), to_string(g.forward_flop())));
  Json& j = out.json["model"];
  j["image"] = Json{{"height", c.height}, {"width", c.width}, {"channels", c.channels}};
  j["classes"] = c.classes;
  j["forward_flops_per_sample"] = g.forward_flop().value();
}

}  // namespace

void describe_model(Description& out, const Inputs::Model& model) {
  const Graph& g = model.graph;
  out.heading(fmt::format("Model {}", g.model));
  out.line("layers", grouped(g.layers()));
  Json& j = out.json["model"];
  j["name"] = g.model;
  j["parameters"] = g.parameters();
  j["notes"] = g.notes;
  j["flops_per_sample"] = g.training_flop().value();
  j["layers"] = g.layers();
  if (const auto* decoder = std::get_if<DecoderConfig>(&model.config)) {
    describe_decoder(out, *decoder, g);
  } else {
    describe_convnet(out, std::get<ConvnetConfig>(model.config), g);
  }
  for (const std::string& note : g.notes) out.line("note", note);
  Json blocks = Json::array();
  for (std::size_t b = 0; b < g.blocks.size(); ++b) {
    const auto count = std::count(g.chain.begin(), g.chain.end(), static_cast<std::uint32_t>(b));
    describe_block(out, blocks, g.blocks[b], count);
  }
  j["blocks"] = std::move(blocks);
  out.text +=
      "    Extents and FLOPs are of one sample; passes are of the vector engine, forward/"
      "backward.\n";
  describe_settings(out, "model", model.document);
}

}  // namespace tilewright::cli
