// Counts over operators, blocks and the graph: elements, FLOP, parameters, saved bytes.
#include <algorithm>
#include <set>

#include <tilewright/base/error.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

namespace {

constexpr Dim kAllDims[kDims] = {Dim::batch, Dim::head, Dim::row, Dim::col, Dim::red, Dim::expert};

}  // namespace

std::string to_string(DType t) {
  switch (t) {
    case DType::fp32:
      return "fp32";
    case DType::fp16:
      return "fp16";
    case DType::bf16:
      return "bf16";
    case DType::fp8:
      return "fp8";
    case DType::int8:
      return "int8";
  }
  throw InternalError("to_string: not a DType");
}

const char* to_string(Dim dim) {
  switch (dim) {
    case Dim::batch:
      return "batch";
    case Dim::head:
      return "head";
    case Dim::row:
      return "row";
    case Dim::col:
      return "col";
    case Dim::red:
      return "red";
    case Dim::expert:
      return "expert";
  }
  return "?";
}

std::string to_string(OpRole role) {
  switch (role) {
    case OpRole::embedding:
      return "embedding";
    case OpRole::attention_norm:
      return "attention_norm";
    case OpRole::qkv:
      return "qkv";
    case OpRole::rotary:
      return "rotary";
    case OpRole::scores:
      return "scores";
    case OpRole::softmax:
      return "softmax";
    case OpRole::context:
      return "context";
    case OpRole::projection:
      return "projection";
    case OpRole::attention_residual:
      return "attention_residual";
    case OpRole::mlp_norm:
      return "mlp_norm";
    case OpRole::mlp_up:
      return "mlp_up";
    case OpRole::activation:
      return "activation";
    case OpRole::mlp_down:
      return "mlp_down";
    case OpRole::mlp_residual:
      return "mlp_residual";
    case OpRole::final_norm:
      return "final_norm";
    case OpRole::head:
      return "head";
    case OpRole::loss:
      return "loss";
    case OpRole::router:
      return "router";
    case OpRole::gate:
      return "gate";
    case OpRole::dispatch:
      return "dispatch";
    case OpRole::expert_up:
      return "expert_up";
    case OpRole::expert_activation:
      return "expert_activation";
    case OpRole::expert_down:
      return "expert_down";
    case OpRole::combine:
      return "combine";
    case OpRole::shared_sum:
      return "shared_sum";
    case OpRole::stem:
      return "stem";
    case OpRole::stem_norm:
      return "stem_norm";
    case OpRole::stem_act:
      return "stem_act";
    case OpRole::stem_pool:
      return "stem_pool";
    case OpRole::conv1:
      return "conv1";
    case OpRole::norm1:
      return "norm1";
    case OpRole::act1:
      return "act1";
    case OpRole::conv2:
      return "conv2";
    case OpRole::norm2:
      return "norm2";
    case OpRole::act2:
      return "act2";
    case OpRole::conv3:
      return "conv3";
    case OpRole::norm3:
      return "norm3";
    case OpRole::shortcut:
      return "shortcut";
    case OpRole::shortcut_norm:
      return "shortcut_norm";
    case OpRole::residual:
      return "residual";
    case OpRole::residual_act:
      return "residual_act";
    case OpRole::global_pool:
      return "global_pool";
  }
  throw InternalError("to_string: not an OpRole");
}

int bytes_of(Storage storage, DType compute) {
  switch (storage) {
    case Storage::compute:
    case Storage::pixel:
      return bytes_of(compute);
    case Storage::mask:
    case Storage::choice:
      return 1;
    case Storage::fp32:
    case Storage::index:
      return 4;
  }
  throw InternalError("bytes_of: not a Storage");
}

double Operand::elements(const Extents& extents) const {
  // In doubles: a product of extents may exceed 64 bits long before it is too large to be useful,
  // and integers stay exact up to 2^53.
  double points = 1;
  for (Dim d : kAllDims) {
    if (dims.has(d)) points *= static_cast<double>(extents[d]);
  }
  return points * static_cast<double>(numerator) / static_cast<double>(denominator);
}

Flop Operator::forward_flop() const {
  if (!on_matrix_engine()) return Flop(0);
  double macs = 1;
  for (Dim d : kAllDims) macs *= static_cast<double>(extents[d]);
  return Flop(2 * macs * flop_scale * occupancy);
}

Flop Operator::input_gradient_flop() const {
  if (!inputs.empty() && !differentiable(inputs.front().storage)) return Flop(0);
  // A batched GEMM has no weights: both its operands are inputs, each with a gradient of full cost.
  return kind == OpKind::batched_gemm ? forward_flop() * 2 : forward_flop();
}

Flop Operator::weight_gradient_flop() const {
  return multiplies_weights() ? forward_flop() : Flop(0);
}

double Operator::vector_elements(const Extents& local) {
  double points = 1;
  for (Dim d : kAllDims) {
    if (d != Dim::red) points *= static_cast<double>(local[d]);
  }
  return points;
}

std::int64_t Block::parameters() const {
  std::int64_t sum = 0;
  for (const Operator& op : operators) sum += op.parameters;
  return sum;
}

Flop Block::forward_flop() const {
  Flop sum;
  for (const Operator& op : operators) sum += op.forward_flop();
  return sum;
}

Flop Block::backward_flop() const {
  Flop sum;
  for (const Operator& op : operators) sum += op.input_gradient_flop() + op.weight_gradient_flop();
  return sum;
}

Bytes Block::saved_bytes(DType compute) const {
  Bytes sum;
  std::set<std::string> counted;
  for (const Operator& op : operators) {
    for (const Operand& operand : op.saved) {
      if (!counted.insert(operand.tensor).second) continue;
      sum += Bytes(operand.elements(op.extents) * bytes_of(operand.storage, compute));
    }
  }
  return sum;
}

const Operator& Block::find(OpRole role) const {
  const auto found = std::find_if(operators.begin(), operators.end(),
                                  [role](const Operator& op) { return op.role == role; });
  if (found == operators.end()) {
    throw InternalError("block '" + name + "' has no operator '" + to_string(role) + "'");
  }
  return *found;
}

std::int64_t Graph::layers() const {
  return std::count_if(chain.begin(), chain.end(),
                       [this](std::uint32_t i) { return blocks[i].is_layer(); });
}

std::int64_t Graph::parameters() const {
  std::int64_t sum = 0;
  for (std::uint32_t i : chain) sum += blocks[i].parameters();
  return sum;
}

Flop Graph::forward_flop() const {
  Flop sum;
  for (std::uint32_t i : chain) sum += blocks[i].forward_flop();
  return sum;
}

Flop Graph::training_flop() const {
  Flop sum;
  for (std::uint32_t i : chain) sum += blocks[i].forward_flop() + blocks[i].backward_flop();
  return sum;
}

}  // namespace tilewright
