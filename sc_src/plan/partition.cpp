#include <tilewright/plan/partition.h>

#include <algorithm>

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

int storage_bytes(Storage storage, DType precision) {
  switch (storage) {
    case Storage::compute: return bytes_of(precision);
    case Storage::mask: return 1;
    case Storage::fp32:
    case Storage::index: return 4;
  }
  return 4;
}

}  // namespace

Partition megatron_partition(const Operator& op, int tensor) {
  Partition p;
  switch (op.role) {
    case OpRole::qkv:
    case OpRole::mlp_up:
    case OpRole::activation:
    case OpRole::head:
    case OpRole::loss: p[Dim::col] = tensor; break;
    case OpRole::rotary:
    case OpRole::scores:
    case OpRole::softmax:
    case OpRole::context:
      p[op.extents[Dim::head] > 1 ? Dim::head : Dim::col] = tensor;
      break;
    case OpRole::projection:
    case OpRole::mlp_down:
    case OpRole::embedding: p[Dim::red] = tensor; break;
    case OpRole::attention_norm:
    case OpRole::attention_residual:
    case OpRole::mlp_norm:
    case OpRole::mlp_residual:
    case OpRole::final_norm: break;
  }
  return p;
}

Extents local_extents(const Operator& op, const Partition& partition, std::int64_t samples) {
  Extents local;
  for (int d = 0; d < kDims; ++d) {
    local.size[d] = ceil_div(op.extents.size[d], partition.degree[d]);
  }
  local[Dim::batch] = samples;
  return local;
}

std::int64_t local_elements(const Operand& operand, const Extents& local) {
  std::int64_t elements = 1;
  for (int d = 0; d < kDims; ++d) {
    if (operand.dims.has(static_cast<Dim>(d))) elements *= local.size[d];
  }
  return ceil_div(elements * operand.numerator, operand.denominator);
}

std::int64_t local_bytes(const Operand& operand, const Extents& local, DType precision) {
  return local_elements(operand, local) * storage_bytes(operand.storage, precision);
}

std::int64_t local_parameters(const Operator& op, const Partition& partition) {
  const Extents local = local_extents(op, partition, 1);
  Extents whole = op.extents;
  std::int64_t in_matrices = 0, of_rank = 0;
  for (const Operand& w : op.weights) {
    in_matrices += local_elements(w, whole);
    of_rank += local_elements(w, local);
  }
  // Biases and norm scales follow the output features.
  const std::int64_t rest = std::max<std::int64_t>(0, op.parameters - in_matrices);
  return of_rank + ceil_div(rest, partition[Dim::col]);
}

}  // namespace tilewright
