#include "chunks.h"

#include <utility>

namespace tilewright {
namespace {

/// What of `total` belongs to rows [begin, end) of `rows`.
std::int64_t part(std::int64_t total, std::int64_t begin, std::int64_t end, std::int64_t rows) {
  const auto upto = [&](std::int64_t row) {
    return static_cast<std::int64_t>(static_cast<double>(total) * static_cast<double>(row) /
                                     static_cast<double>(rows));
  };
  return upto(end) - upto(begin);
}

bool sums(const Kernel& made, const Kernel& sum, AxisSet axes) {
  if (!made.matrix || made.accumulate || made.writes.size() != 1 || !sum.collective) return false;
  const Collective& c = *sum.collective;
  return (c.axes & axes) == c.axes &&
         (c.kind == CollectiveKind::all_reduce || c.kind == CollectiveKind::reduce_scatter) &&
         sum.reads.front().tensor == made.writes.front().tensor;
}

void chunk(std::vector<Kernel>& kernels, AxisSet axes, int chunks, const std::string& handed_over) {
  std::vector<Kernel> result;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const std::int64_t rows = kernels[i].gemm.m;
    if (i + 1 == kernels.size() || !sums(kernels[i], kernels[i + 1], axes) || rows < chunks ||
        kernels[i + 1].writes.front().tensor == handed_over) {
      result.push_back(std::move(kernels[i]));
      continue;
    }
    for (int c = 0; c < chunks; ++c) {
      const std::int64_t begin = rows * c / chunks, end = rows * (c + 1) / chunks;
      const auto cut = [&](Access& a) { a.bytes = part(a.bytes, begin, end, rows); };
      Kernel made = kernels[i], sum = kernels[i + 1];
      made.gemm.m = end - begin;
      made.vector_elements *= static_cast<double>(end - begin) / static_cast<double>(rows);
      cut(made.a);
      for (Access& a : made.reads) cut(a);
      cut(made.writes.front());
      cut(sum.reads.front());
      cut(sum.writes.front());
      sum.collective->bytes = part(sum.collective->bytes, begin, end, rows);
      // Engines complete in order: the last chunk of the sum stands for all of it.
      made.writes.front().tensor += "#" + std::to_string(c);
      sum.reads.front().tensor = made.writes.front().tensor;
      result.push_back(std::move(made));
      result.push_back(std::move(sum));
    }
    ++i;
  }
  kernels = std::move(result);
}

}  // namespace

void chunk_sums(BlockKernels& block, AxisSet axes, int chunks) {
  chunk(block.forward, axes, chunks, block.output);
  chunk(block.recompute, axes, chunks, "");
  chunk(block.backward, axes, chunks, block.input_gradient);
}

}  // namespace tilewright
