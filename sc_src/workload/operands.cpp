#include "operands.h"

#include <numeric>
#include <utility>

namespace tilewright {

Operand tensor(std::string name, DimSet dims, Storage storage) {
  return Operand{std::move(name), dims, storage, 1, 1};
}

Operand share(std::string name, DimSet dims, std::int64_t numerator, std::int64_t denominator,
              Storage storage) {
  const std::int64_t divisor = std::gcd(numerator, denominator);
  return Operand{std::move(name), dims, storage, numerator / divisor, denominator / divisor};
}

Operator make_operator(OpKind kind, OpRole role, std::int64_t rows, std::int64_t columns,
                       Passes passes) {
  Operator op;
  op.name = to_string(role);
  op.kind = kind;
  op.role = role;
  op.extents[Dim::row] = rows;
  op.extents[Dim::col] = columns;
  op.forward_passes = passes.forward;
  op.backward_passes = passes.backward;
  op.forward_special = passes.forward_special;
  op.backward_special = passes.backward_special;
  return op;
}

Operator loss_operator(std::int64_t rows, std::int64_t classes) {
  Operator loss = make_operator(OpKind::loss, OpRole::loss, rows, classes, kLossPasses);
  loss.inputs = {tensor("logits", kFeatures), tensor("targets", kTokens, Storage::index)};
  loss.outputs = {tensor("loss", kTokens, Storage::fp32),
                  tensor("logits.fp32", kFeatures, Storage::fp32)};
  loss.saved = {tensor("logits.fp32", kFeatures, Storage::fp32)};
  return loss;
}

void add_weight(Operator& op, const std::string& name, DimSet dims, std::int64_t repeat) {
  Operand weight = tensor(name, dims);
  weight.numerator = repeat;
  std::int64_t elements = repeat;
  for (Dim d : {Dim::expert, Dim::head, Dim::col, Dim::red}) {
    if (dims.has(d)) elements *= op.extents[d];
  }
  op.parameters += elements;
  op.weights.push_back(std::move(weight));
}

void add_for_backward(Operator& op, const std::string& name, DimSet dims, Storage storage) {
  op.outputs.push_back(tensor(name, dims, storage));
  op.saved.push_back(op.outputs.back());
}

}  // namespace tilewright
