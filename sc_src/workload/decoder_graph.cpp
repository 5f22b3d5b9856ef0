// Builds the operator graph of a decoder-only transformer.
//
// Tensor names and saved lists follow Korthikanti et al. (2205.05198): summed over distinct names
// they give its activation formula. Norm statistics and token ids, small against the rest, are left
// out there and here.
#include <algorithm>
#include <numeric>
#include <utility>

#include <tilewright/base/error.h>
#include <tilewright/workload/decoder.h>

#include "passes.h"

namespace tilewright {

namespace {

// The projections an operand can have, by the name of the axes it keeps.
constexpr DimSet kTokens(Dim::batch, Dim::row);
constexpr DimSet kFeatures(Dim::batch, Dim::row, Dim::col);
constexpr DimSet kReduced(Dim::batch, Dim::row, Dim::red);
constexpr DimSet kWeight(Dim::col, Dim::red);
constexpr DimSet kColumn(Dim::col);
constexpr DimSet kHeadRowCol(Dim::batch, Dim::head, Dim::row, Dim::col);
constexpr DimSet kHeadRowRed(Dim::batch, Dim::head, Dim::row, Dim::red);
constexpr DimSet kHeadColRed(Dim::batch, Dim::head, Dim::col, Dim::red);

Operand tensor(std::string name, DimSet dims, Storage storage = Storage::compute) {
  return Operand{std::move(name), dims, storage, 1, 1};
}

Operand share(std::string name, DimSet dims, std::int64_t numerator, std::int64_t denominator) {
  const std::int64_t divisor = std::gcd(numerator, denominator);
  return Operand{std::move(name), dims, Storage::compute, numerator / divisor,
                 denominator / divisor};
}

class Builder {
 public:
  explicit Builder(const DecoderConfig& config)
      : c_(config),
        keys_(config.sliding_window > 0 ? std::min(config.sequence, config.sliding_window)
                                        : config.sequence),
        qkv_heads_(config.heads + 2 * config.kv_heads) {}

  Block embedding() const;
  Block layer() const;
  Block head() const;

 private:
  Operator start(OpKind kind, OpRole role, Passes passes) const;
  Operator features(OpKind kind, OpRole role, std::int64_t width, Passes passes) const;
  Operator gemm(OpRole role, std::int64_t reduced, std::int64_t width, const std::string& input,
                bool bias) const;
  Operator norm(OpRole role, const std::string& input) const;
  Operator residual(OpRole role, const std::string& branch, const std::string& trunk,
                    const std::string& result) const;
  void add_attention(Block& block) const;
  void add_mlp(Block& block) const;
  Operator rotary() const;
  Operator scores() const;
  Operator softmax() const;
  Operator context() const;

  Passes dropout() const { return c_.dropout ? kDropoutPasses : Passes{0, 0}; }
  bool turns_heads() const { return c_.position == PositionKind::rotary || c_.qk_norm; }
  const char* kept_probabilities() const { return c_.dropout ? "p.dropped" : "p"; }
  /// K or V as attention reads it: every key of the sequence once per key-value head, whatever the
  /// number of query heads that share it and of keys that one query sees.
  Operand key_value(const std::string& name, DimSet dims) const {
    return share(name, dims, c_.kv_heads * c_.sequence, c_.heads * keys_);
  }
  double attention_flop_scale() const;

  const DecoderConfig& c_;
  std::int64_t keys_;       // keys that one query sees
  std::int64_t qkv_heads_;  // heads that the fused projection writes
};

void add_weight(Operator& op, const std::string& name, DimSet dims, std::int64_t repeat = 1) {
  Operand weight = tensor(name, dims);
  weight.numerator = repeat;
  std::int64_t elements = repeat;
  for (Dim d : {Dim::col, Dim::red}) {
    if (dims.has(d)) elements *= op.extents[d];
  }
  op.parameters += elements;
  op.weights.push_back(std::move(weight));
}

/// A mask is written once and read again by the backward pass.
void add_mask(Operator& op, const std::string& name, DimSet dims) {
  op.outputs.push_back(tensor(name, dims, Storage::mask));
  op.saved.push_back(op.outputs.back());
}

Operator Builder::start(OpKind kind, OpRole role, Passes passes) const {
  Operator op;
  op.name = to_string(role);
  op.kind = kind;
  op.role = role;
  op.extents[Dim::row] = c_.sequence;
  op.forward_passes = passes.forward;
  op.backward_passes = passes.backward;
  return op;
}

Operator Builder::features(OpKind kind, OpRole role, std::int64_t width, Passes passes) const {
  Operator op = start(kind, role, passes);
  op.extents[Dim::col] = width;
  return op;
}

Operator Builder::gemm(OpRole role, std::int64_t reduced, std::int64_t width,
                       const std::string& input, bool bias) const {
  Operator op = features(OpKind::gemm, role, width, bias ? kBiasPasses : Passes{0, 0});
  op.extents[Dim::red] = reduced;
  op.inputs = {tensor(input, kReduced)};
  op.saved = op.inputs;  // for the weight gradient
  add_weight(op, op.name + ".weight", kWeight);
  if (bias) add_weight(op, op.name + ".bias", kColumn);
  op.outputs = {tensor(op.name + ".out", kFeatures)};
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

void Builder::add_mlp(Block& block) const {
  block.operators.push_back(norm(OpRole::mlp_norm, "x2"));
  const std::int64_t copies = c_.gated_mlp ? 2 : 1;
  block.operators.push_back(
      gemm(OpRole::mlp_up, c_.hidden, copies * c_.ffn, "mlp_norm.out", c_.mlp_bias));

  Operator activation = features(OpKind::elementwise, OpRole::activation, c_.ffn,
                                 activation_passes(c_.activation, c_.gated_mlp));
  activation.inputs = {share("mlp_up.out", kFeatures, copies, 1)};
  activation.outputs = {tensor("activation.out", kFeatures)};
  // The sign of its result is all that the gradient of an ungated ReLU needs.
  const bool from_result = c_.activation == ActivationKind::relu && !c_.gated_mlp;
  activation.saved = from_result ? activation.outputs : activation.inputs;
  block.operators.push_back(std::move(activation));

  block.operators.push_back(
      gemm(OpRole::mlp_down, c_.ffn, c_.hidden, "activation.out", c_.mlp_bias));
  block.operators.push_back(residual(OpRole::mlp_residual, "mlp_down.out", "x2", "y"));
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

Block Builder::head() const {
  Operator head = gemm(OpRole::head, c_.hidden, c_.vocab, "final_norm.out", false);
  head.outputs = {tensor("logits", kFeatures)};
  if (c_.tied_embeddings) {
    // Read here, owned by the embedding: Graph::parameters() counts it once.
    head.weights.front().tensor = "embedding.weight";
    head.parameters = 0;
  }

  Operator loss = features(OpKind::loss, OpRole::loss, c_.vocab, kLossPasses);
  loss.inputs = {tensor("logits", kFeatures), tensor("targets", kTokens, Storage::index)};
  loss.outputs = {tensor("loss", kTokens, Storage::fp32),
                  tensor("logits.fp32", kFeatures, Storage::fp32)};
  loss.saved = {tensor("logits.fp32", kFeatures, Storage::fp32)};
  return Block{"head", {norm(OpRole::final_norm, "x"), std::move(head), std::move(loss)}};
}

}  // namespace

Graph build_graph(const DecoderConfig& config) {
  check_shape(config);
  const Builder builder(config);
  Graph graph;
  graph.model = config.name;
  graph.sequence = config.sequence;
  graph.hidden = config.hidden;

  const auto append = [&graph](Block block, std::int64_t times) {
    graph.chain.insert(graph.chain.end(), static_cast<std::size_t>(times),
                       static_cast<std::uint32_t>(graph.blocks.size()));
    graph.blocks.push_back(std::move(block));
  };
  if (config.vocab > 0) append(builder.embedding(), 1);
  append(builder.layer(), config.layers);
  if (config.vocab > 0) append(builder.head(), 1);
  return graph;
}

}  // namespace tilewright
