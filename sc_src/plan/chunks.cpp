#include "chunks.h"

#include <algorithm>
#include <initializer_list>
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

bool over(const Kernel& kernel, AxisSet axes, std::initializer_list<CollectiveKind> kinds) {
  if (!kernel.collective || (kernel.collective->axes & axes) != kernel.collective->axes) {
    return false;
  }
  return std::find(kinds.begin(), kinds.end(), kernel.collective->kind) != kinds.end();
}

bool sums(const Kernel& made, const Kernel& sum, AxisSet axes) {
  return made.matrix && !made.convolution && !made.accumulate && made.writes.size() == 1 &&
         over(sum, axes, {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) &&
         sum.reads.front().tensor == made.writes.front().tensor;
}

/// The reader runs over the rows of what is gathered: it is no weight gradient, which sums over
/// them.
bool gathers(const Kernel& gather, const Kernel& reader, AxisSet axes) {
  const auto gradient = [](const Access& w) { return w.cls == TensorClass::gradient; };
  return over(gather, axes, {CollectiveKind::all_gather}) && reader.matrix && !reader.convolution &&
         std::none_of(reader.writes.begin(), reader.writes.end(), gradient) &&
         reader.gemm.batch == 1 && reader.a.tensor == gather.writes.front().tensor &&
         reader.a.bytes == gather.writes.front().bytes && reader.b.tensor != reader.a.tensor;
}

bool writes(const Kernel& kernel, const std::string& tensor) {
  return std::any_of(kernel.writes.begin(), kernel.writes.end(),
                     [&](const Access& w) { return w.tensor == tensor; });
}

/// Rows [begin, end) of a GEMM of `all`, and what belongs to them.
struct Rows {
  std::int64_t begin = 0, end = 0, all = 0;
  void cut(Access& a) const { a.bytes = part(a.bytes, begin, end, all); }
  void cut_gemm(Kernel& k) const {
    k.gemm.m = end - begin;
    k.vector_elements *= static_cast<double>(end - begin) / static_cast<double>(all);
    cut(k.a);
    for (Access& a : k.reads) cut(a);
    for (Access& a : k.writes) cut(a);
  }
  void cut_collective(Kernel& k) const {
    cut(k.reads.front());
    cut(k.writes.front());
    k.collective->bytes = part(k.collective->bytes, begin, end, all);
  }
};

// Engines complete in order: the last chunk that makes a tensor stands for all of it.

void add_sum(std::vector<Kernel>& list, Kernel made, Kernel sum, const Rows& rows, int chunk) {
  rows.cut_gemm(made);
  rows.cut_collective(sum);
  made.writes.front().tensor += "#" + std::to_string(chunk);
  sum.reads.front().tensor = made.writes.front().tensor;
  list.push_back(std::move(made));
  list.push_back(std::move(sum));
}

/// The gather of a chunk stands before the GEMM of the one before it, so that it need not wait.
void add_gather(std::vector<Kernel>& list, Kernel gather, Kernel reader, const Rows& rows,
                int chunk, bool last) {
  rows.cut_collective(gather);
  rows.cut_gemm(reader);
  if (!last) gather.writes.front().tensor += "#" + std::to_string(chunk);
  reader.a.tensor = gather.writes.front().tensor;
  list.insert(chunk == 0 ? list.end() : list.end() - 1, std::move(gather));
  list.push_back(std::move(reader));
}

void chunk(std::vector<Kernel>& kernels, AxisSet axes, int chunks, const std::string& handed_over) {
  std::vector<Kernel> result;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const bool pair = i + 1 < kernels.size();
    const bool sum = pair && sums(kernels[i], kernels[i + 1], axes);
    const bool summed = i + 2 < kernels.size() && sums(kernels[i + 1], kernels[i + 2], axes);
    const bool gather = pair && !summed && gathers(kernels[i], kernels[i + 1], axes);
    const std::int64_t rows = kernels[gather ? i + 1 : i].gemm.m;
    if (!(sum || gather) || rows < chunks || writes(kernels[i + 1], handed_over)) {
      result.push_back(std::move(kernels[i]));
      continue;
    }
    for (int c = 0; c < chunks; ++c) {
      const Rows part{rows * c / chunks, rows * (c + 1) / chunks, rows};
      if (sum) {
        add_sum(result, kernels[i], kernels[i + 1], part, c);
      } else {
        add_gather(result, kernels[i], kernels[i + 1], part, c, c + 1 == chunks);
      }
    }
    ++i;
  }
  kernels = std::move(result);
}

}  // namespace

void chunk_transfers(BlockKernels& block, AxisSet axes, int chunks) {
  chunk(block.forward, axes, chunks, block.output);
  chunk(block.recompute, axes, chunks, "");
  chunk(block.backward, axes, chunks, block.input_gradient);
}

}  // namespace tilewright
