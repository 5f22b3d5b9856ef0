// How an operator is split over the ranks of its group: a degree for each of its dimensions.
#pragma once

#include <array>
#include <cstdint>

#include <tilewright/workload/dtype.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

/// Ways each dimension is cut. Operands without a cut dimension are replicated; a cut reduced
/// dimension leaves partial sums that an all-reduce completes.
struct Partition {
  std::array<int, kDims> degree{1, 1, 1, 1, 1};
  int& operator[](Dim d) { return degree[static_cast<int>(d)]; }
  int operator[](Dim d) const { return degree[static_cast<int>(d)]; }
};

/// Megatron's tensor parallelism (arXiv 1909.08053) in this vocabulary: QKV, up projection, head and
/// loss are cut by output feature, attention by head, output and down projection and the
/// vocabulary-parallel embedding by the reduced dimension, everything else is replicated.
Partition megatron_partition(const Operator& op, int tensor);

/// The extents one rank works on for `samples` samples; a dimension that does not divide is rounded
/// up (only the vocabulary may be uneven: check_plan()).
Extents local_extents(const Operator& op, const Partition& partition, std::int64_t samples);

/// Elements and bytes of an operand on one rank. Weights have no batch, so `samples` does not count.
std::int64_t local_elements(const Operand& operand, const Extents& local);
std::int64_t local_bytes(const Operand& operand, const Extents& local, DType precision);

/// Parameters one rank holds of an operator, biases included.
std::int64_t local_parameters(const Operator& op, const Partition& partition);

}  // namespace tilewright
