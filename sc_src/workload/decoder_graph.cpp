// Builds the operator graph of a decoder-only transformer.
//
// Tensor names and saved lists follow Korthikanti et al. (2205.05198): summed over distinct names
// they give its activation formula. Norm statistics and token ids, small against the rest, are left
// out there and here.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/workload/decoder.h>

#include "operands.h"
#include "passes.h"

namespace tilewright {

namespace {

// Projections beyond those of operands.h.
constexpr DimSet kHeadRowCol(Dim::batch, Dim::head, Dim::row, Dim::col);
constexpr DimSet kHeadRowRed(Dim::batch, Dim::head, Dim::row, Dim::red);
constexpr DimSet kHeadColRed(Dim::batch, Dim::head, Dim::col, Dim::red);
constexpr DimSet kRoutedFeatures(Dim::batch, Dim::expert, Dim::row, Dim::col);

/// The operands of a GEMM, and those of one GEMM per expert.
struct GemmDims {
  DimSet input, output, weight, bias;
};
constexpr GemmDims kPlain{kReduced, kFeatures, kWeight, kColumn};
constexpr GemmDims kPerExpert{DimSet(Dim::batch, Dim::expert, Dim::row, Dim::red), kRoutedFeatures,
                              DimSet(Dim::expert, Dim::col, Dim::red),
                              DimSet(Dim::expert, Dim::col)};

/// The operators of an MLP, or of all the experts side by side.
struct MlpRoles {
  OpRole up, activation, down;
};
constexpr MlpRoles kMlp{OpRole::mlp_up, OpRole::activation, OpRole::mlp_down};
constexpr MlpRoles kExperts{OpRole::expert_up, OpRole::expert_activation, OpRole::expert_down};

class Builder {
 public:
  explicit Builder(const DecoderConfig& config)
      : c_(config),
        keys_(config.sliding_window > 0 ? std::min(config.sequence, config.sliding_window)
                                        : config.sequence),
        qkv_heads_(config.heads + 2 * config.kv_heads),
        capacity_(config.experts.capacity(config.sequence)),
        routes_(config.sequence * config.experts.top_k) {}

  Block embedding() const;
  Block layer() const;
  Block moe_layer() const;
  Block head() const;

 private:
  Operator features(OpKind kind, OpRole role, std::int64_t width, Passes passes) const;
  Operator gemm(OpRole role, std::int64_t reduced, std::int64_t width, const std::string& input,
                bool bias, bool per_expert = false) const;
  Operator norm(OpRole role, const std::string& input) const;
  Operator residual(OpRole role, const std::string& branch, const std::string& trunk,
                    const std::string& result) const;
  void add_attention(Block& block) const;
  void add_mlp(Block& block) const;
  void add_experts(Block& block) const;
  void add_projections(Block& block, const MlpRoles& roles, std::int64_t width,
                       const std::string& input, bool per_expert) const;
  Operator rotary() const;
  Operator scores() const;
  Operator softmax() const;
  Operator context() const;
  Operator gate() const;
  Operator dispatch() const;
  Operator combine() const;
  Operator shared_sum() const;

  Passes dropout() const { return c_.dropout ? kDropoutPasses : Passes{0, 0}; }
  bool turns_heads() const { return c_.position == PositionKind::rotary || c_.qk_norm; }
  const char* kept_probabilities() const { return c_.dropout ? "p.dropped" : "p"; }
  /// K or V as attention reads it: every key of the sequence once per key-value head, whatever the
  /// number of query heads that share it and of keys that one query sees.
  Operand key_value(const std::string& name, DimSet dims) const {
    return share(name, dims, c_.kv_heads * c_.sequence, c_.heads * keys_);
  }
  double attention_flop_scale() const;

  /// Gives an operator the rows of every expert in place of the tokens.
  void route(Operator& op) const {
    op.extents[Dim::expert] = c_.experts.count;
    op.extents[Dim::row] = capacity_;
    op.occupancy = static_cast<double>(routes_) / static_cast<double>(c_.experts.count * capacity_);
  }
  /// Something of every token, or of every route of a token, in an operator whose rows are routed.
  Operand of_tokens(const std::string& name, DimSet dims) const {
    return share(name, dims, c_.sequence, capacity_);
  }
  Operand of_routes(const std::string& name, Storage storage) const {
    return share(name, kTokens, routes_, capacity_, storage);
  }
  /// The columns of the router: one per expert, and one for the gate of the shared experts.
  std::int64_t router_width() const { return c_.experts.count + (c_.experts.shared_gate ? 1 : 0); }

  const DecoderConfig& c_;
  std::int64_t keys_;       // keys that one query sees
  std::int64_t qkv_heads_;  // heads that the fused projection writes
  std::int64_t capacity_;   // rows of an expert
  std::int64_t routes_;     // pairs of a token and one of its experts
};

Operator Builder::features(OpKind kind, OpRole role, std::int64_t width, Passes passes) const {
  return make_operator(kind, role, c_.sequence, width, passes);
}

Operator Builder::gemm(OpRole role, std::int64_t reduced, std::int64_t width,
                       const std::string& input, bool bias, bool per_expert) const {
  const GemmDims& dims = per_expert ? kPerExpert : kPlain;
  Operator op = features(OpKind::gemm, role, width, bias ? kBiasPasses : Passes{0, 0});
  op.extents[Dim::red] = reduced;
  if (per_expert) route(op);
  op.inputs = {tensor(input, dims.input)};
  op.saved = op.inputs;  // for the weight gradient
  add_weight(op, op.name + ".weight", dims.weight);
  if (bias) add_weight(op, op.name + ".bias", dims.bias);
  op.outputs = {tensor(op.name + ".out", dims.output)};
  return op;
}

Operator Builder::norm(OpRole role, const std::string& input) const {
  Operator op = features(OpKind::norm, role, c_.hidden, norm_passes(c_.norm));
  op.inputs = {tensor(input, kFeatures)};
  op.saved = op.inputs;
  add_weight(op, op.name + ".weight", kColumn);
  if (c_.norm == NormKind::layer_norm) add_weight(op, op.name + ".bias", kColumn);
  op.outputs = {tensor(op.name + ".out", kFeatures)};
  return op;
}

Operator Builder::residual(OpRole role, const std::string& branch, const std::string& trunk,
                           const std::string& result) const {
  Operator op = features(OpKind::elementwise, role, c_.hidden, kAddPasses + dropout());
  op.inputs = {tensor(branch, kFeatures), tensor(trunk, kFeatures)};
  op.summands = c_.dropout ? 1 : 2;
  op.outputs = {tensor(result, kFeatures)};
  if (c_.dropout) add_mask(op, op.name + ".mask", kFeatures);
  return op;
}

double Builder::attention_flop_scale() const {
  if (c_.attention_flops == AttentionFlops::full) return 1;
  // Of the sequence × keys rectangle the causal mask takes a triangle of keys × keys / 2: half of
  // everything without a window.
  return 1 - static_cast<double>(keys_) / (2 * static_cast<double>(c_.sequence));
}

Operator Builder::rotary() const {
  Passes passes{0, 0};
  if (c_.position == PositionKind::rotary) passes = passes + kRotaryPasses;
  if (c_.qk_norm) passes = passes + norm_passes(NormKind::rms_norm);
  const std::int64_t heads = c_.heads + c_.kv_heads;
  Operator op = features(OpKind::elementwise, OpRole::rotary, heads * c_.head_dim, passes);
  op.inputs = {share("q.raw", kFeatures, c_.heads, heads),
               share("k.raw", kFeatures, c_.kv_heads, heads)};
  op.outputs = {share("q", kFeatures, c_.heads, heads), share("k", kFeatures, c_.kv_heads, heads)};
  if (c_.qk_norm) {
    // One gain per element of a head, shared by the heads, hence held whole by every part.
    add_weight(op, "q_norm.weight", DimSet(), c_.head_dim);
    add_weight(op, "k_norm.weight", DimSet(), c_.head_dim);
    op.saved = op.inputs;  // a rotation needs nothing saved, a norm its input
  }
  return op;
}

Operator Builder::scores() const {
  Operator op = features(OpKind::batched_gemm, OpRole::scores, keys_, {0, 0});
  op.extents[Dim::head] = c_.heads;
  op.extents[Dim::red] = c_.head_dim;
  op.flop_scale = attention_flop_scale();
  op.inputs = {tensor("q", kHeadRowRed), key_value("k", kHeadColRed)};
  op.saved = op.inputs;
  op.outputs = {tensor("scores.out", kHeadRowCol)};
  return op;
}

Operator Builder::softmax() const {
  Operator op = features(OpKind::softmax, OpRole::softmax, keys_, kSoftmaxPasses + dropout());
  op.extents[Dim::head] = c_.heads;
  op.inputs = {tensor("scores.out", kHeadRowCol)};
  op.outputs = {tensor(kept_probabilities(), kHeadRowCol)};
  op.saved = {tensor("p", kHeadRowCol)};
  if (c_.dropout) {
    op.outputs.push_back(tensor("p", kHeadRowCol));
    add_mask(op, "p.mask", kHeadRowCol);
  }
  return op;
}

Operator Builder::context() const {
  Operator op = features(OpKind::batched_gemm, OpRole::context, c_.head_dim, {0, 0});
  op.extents[Dim::head] = c_.heads;
  op.extents[Dim::red] = keys_;
  op.flop_scale = attention_flop_scale();
  op.inputs = {tensor(kept_probabilities(), kHeadRowRed), key_value("v", kHeadColRed)};
  op.saved = op.inputs;
  op.outputs = {tensor("context.out", kHeadRowCol)};
  return op;
}

void Builder::add_attention(Block& block) const {
  block.operators.push_back(norm(OpRole::attention_norm, "x"));

  Operator qkv =
      gemm(OpRole::qkv, c_.hidden, qkv_heads_ * c_.head_dim, "attention_norm.out", c_.qkv_bias);
  const char* raw = turns_heads() ? ".raw" : "";
  qkv.outputs = {share(std::string("q") + raw, kFeatures, c_.heads, qkv_heads_),
                 share(std::string("k") + raw, kFeatures, c_.kv_heads, qkv_heads_),
                 share("v", kFeatures, c_.kv_heads, qkv_heads_)};
  block.operators.push_back(std::move(qkv));
  if (turns_heads()) block.operators.push_back(rotary());

  block.operators.push_back(scores());
  block.operators.push_back(softmax());
  block.operators.push_back(context());
  block.operators.push_back(gemm(OpRole::projection, c_.heads * c_.head_dim, c_.hidden,
                                 "context.out", c_.projection_bias));
  block.operators.push_back(residual(OpRole::attention_residual, "projection.out", "x", "x2"));
}

void Builder::add_projections(Block& block, const MlpRoles& roles, std::int64_t width,
                              const std::string& input, bool per_expert) const {
  const DimSet dims = per_expert ? kRoutedFeatures : kFeatures;
  const std::int64_t copies = c_.gated_mlp ? 2 : 1;
  Operator up = gemm(roles.up, c_.hidden, copies * width, input, c_.mlp_bias, per_expert);

  Operator activation = features(OpKind::elementwise, roles.activation, width,
                                 activation_passes(c_.activation, c_.gated_mlp));
  if (per_expert) route(activation);
  activation.inputs = {share(up.outputs.front().tensor, dims, copies, 1)};
  activation.outputs = {tensor(activation.name + ".out", dims)};
  // The sign of its result is all that the gradient of an ungated ReLU needs.
  const bool from_result = c_.activation == ActivationKind::relu && !c_.gated_mlp;
  activation.saved = from_result ? activation.outputs : activation.inputs;

  Operator down = gemm(roles.down, width, c_.hidden, activation.outputs.front().tensor, c_.mlp_bias,
                       per_expert);
  block.operators.push_back(std::move(up));
  block.operators.push_back(std::move(activation));
  block.operators.push_back(std::move(down));
}

void Builder::add_mlp(Block& block) const {
  block.operators.push_back(norm(OpRole::mlp_norm, "x2"));
  add_projections(block, kMlp, c_.ffn, "mlp_norm.out", false);
  block.operators.push_back(residual(OpRole::mlp_residual, "mlp_down.out", "x2", "y"));
}

Operator Builder::gate() const {
  const std::int64_t width = router_width(), top_k = c_.experts.top_k;
  Operator op =
      features(OpKind::softmax, OpRole::gate, width, gate_passes(static_cast<int>(top_k)));
  op.inputs = {tensor("router.out", kFeatures)};
  op.outputs = {share("gates", kFeatures, top_k, width),
                share("routes", kFeatures, top_k, width, Storage::index),
                tensor("gate.p", kFeatures, Storage::fp32)};
  if (c_.experts.shared_gate) op.outputs.push_back(share("shared_gate", kFeatures, 1, width));
  op.saved = {tensor("gate.p", kFeatures, Storage::fp32)};
  return op;
}

Operator Builder::dispatch() const {
  Operator op = features(OpKind::permutation, OpRole::dispatch, c_.hidden, kDispatchPasses);
  route(op);
  op.inputs = {of_tokens("mlp_norm.out", kFeatures), of_routes("routes", Storage::index)};
  op.outputs = {tensor("xd", kRoutedFeatures)};
  op.saved = {of_routes("routes", Storage::index)};
  return op;
}

Operator Builder::combine() const {
  Operator op = features(OpKind::permutation, OpRole::combine, c_.hidden, kCombinePasses);
  route(op);
  op.inputs = {tensor("expert_down.out", kRoutedFeatures), of_routes("gates", Storage::compute),
               of_routes("routes", Storage::index)};
  op.outputs = {of_tokens("combine.out", kFeatures)};
  op.saved = op.inputs;
  return op;
}

Operator Builder::shared_sum() const {
  const bool gated = c_.experts.shared_gate;
  Operator op = features(OpKind::elementwise, OpRole::shared_sum, c_.hidden,
                         gated ? kAddPasses + kSharedGatePasses : kAddPasses);
  op.inputs = {tensor("mlp_down.out", kFeatures)};
  if (gated) op.inputs.push_back(tensor("shared_gate", kTokens));
  if (gated) op.saved = op.inputs;
  op.inputs.push_back(tensor("combine.out", kFeatures));
  op.summands = gated ? 1 : 2;
  op.outputs = {tensor("moe.out", kFeatures)};
  return op;
}

void Builder::add_experts(Block& block) const {
  const ExpertConfig& e = c_.experts;
  block.operators.push_back(norm(OpRole::mlp_norm, "x2"));
  block.operators.push_back(gemm(OpRole::router, c_.hidden, router_width(), "mlp_norm.out", false));
  block.operators.push_back(gate());
  block.operators.push_back(dispatch());
  add_projections(block, kExperts, e.ffn, "xd", true);
  block.operators.push_back(combine());
  if (e.shared_ffn > 0) {
    // After the router and the dispatch, which read the same tensor: of its gradients the shared
    // experts' may be a partial sum, and backward meets that one first.
    add_projections(block, kMlp, e.shared_ffn, "mlp_norm.out", false);
    block.operators.push_back(shared_sum());
  }
  block.operators.push_back(
      residual(OpRole::mlp_residual, e.shared_ffn > 0 ? "moe.out" : "combine.out", "x2", "y"));
}

Block Builder::embedding() const {
  Passes passes = kLookUpPasses + dropout();
  if (c_.position == PositionKind::learned) passes = passes + kAddPasses;
  Operator op = features(OpKind::embedding, OpRole::embedding, c_.hidden, passes);
  op.extents[Dim::red] = c_.vocab;
  op.inputs = {tensor("tokens", kTokens, Storage::index)};
  add_weight(op, "embedding.weight", kWeight);
  if (c_.position == PositionKind::learned) {
    add_weight(op, "position.weight", kColumn, c_.max_positions);
  }
  op.outputs = {tensor("y", kFeatures)};
  if (c_.dropout) add_mask(op, "embedding.mask", kFeatures);
  return Block{"embedding", {std::move(op)}};
}

Block Builder::layer() const {
  Block block{"layer", {}};
  add_attention(block);
  add_mlp(block);
  return block;
}

Block Builder::moe_layer() const {
  Block block{"moe_layer", {}};
  add_attention(block);
  add_experts(block);
  return block;
}

Block Builder::head() const {
  Operator head = gemm(OpRole::head, c_.hidden, c_.vocab, "final_norm.out", false);
  head.outputs = {tensor("logits", kFeatures)};
  if (c_.tied_embeddings) {
    // Read here, owned by the embedding: Graph::parameters() counts it once.
    head.weights.front().tensor = "embedding.weight";
    head.parameters = 0;
  }

  return Block{
      "head",
      {norm(OpRole::final_norm, "x"), std::move(head), loss_operator(c_.sequence, c_.vocab)}};
}

std::vector<std::string> routing_notes(const DecoderConfig& c) {
  const ExpertConfig& e = c.experts;
  std::vector<std::string> notes = {fmt::format(
      "assumed: balanced routing, every expert gets {}/{} of a sample's tokens", e.top_k, e.count)};
  const std::int64_t routes = c.sequence * e.top_k, rows = e.capacity(c.sequence) * e.count;
  if (rows > routes) {
    notes.push_back(fmt::format(
        "{} tokens of a sample to {} of {} experts each fill {} of {} rows: {} rows per expert{}; "
        "hardware FLOPs count the padding, model FLOPs do not",
        c.sequence, e.top_k, e.count, routes, rows, rows / e.count,
        e.capacity_factor > 1 ? fmt::format(" at capacity factor {}", e.capacity_factor) : ""));
  }
  return notes;
}

}  // namespace

bool ExpertConfig::in_layer(std::int64_t layer) const {
  return count > 0 && !std::binary_search(dense_layers.begin(), dense_layers.end(), layer);
}

std::int64_t ExpertConfig::capacity(std::int64_t tokens) const {
  if (count == 0) return 0;
  const std::int64_t share = (tokens * top_k + count - 1) / count;
  if (capacity_factor == 1) return share;
  // The factor is a decimal; its last binary digit must not add a row.
  const double rows = static_cast<double>(tokens * top_k) * capacity_factor /
                      static_cast<double>(count) * (1 - 1e-12);
  return std::max(share, static_cast<std::int64_t>(std::ceil(rows)));
}

Graph build_graph(const DecoderConfig& config) {
  check_shape(config);
  const Builder builder(config);
  Graph graph;
  graph.model = config.name;
  graph.sequence = config.sequence;
  graph.hidden = config.hidden;

  const auto store = [&graph](Block block) {
    graph.blocks.push_back(std::move(block));
    return static_cast<std::uint32_t>(graph.blocks.size() - 1);
  };
  if (config.vocab > 0) graph.chain.push_back(store(builder.embedding()));
  std::optional<std::uint32_t> dense, sparse;
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const bool experts = config.experts.in_layer(i);
    std::optional<std::uint32_t>& stored = experts ? sparse : dense;
    if (!stored) stored = store(experts ? builder.moe_layer() : builder.layer());
    graph.chain.push_back(*stored);
  }
  if (config.vocab > 0) graph.chain.push_back(store(builder.head()));
  if (sparse) graph.notes = routing_notes(config);
  return graph;
}

}  // namespace tilewright
