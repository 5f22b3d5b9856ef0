#include <tilewright/plan/blocking.h>

#include <algorithm>
#include <tuple>

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t kAccumulatorBytes = 4;
// Depth of a block where traffic does not depend on it: rows of at least a DRAM burst, and no deeper,
// so that the SRAM is left to the other two dimensions.
constexpr std::int64_t kShallow = 64;
// Steps after which finer blocks no longer hide anything worth having: the fill is 1/16 of a load.
constexpr std::int64_t kOverlapSteps = 16;

/// Evaluates one choice of blocks and keeps it when it moves fewer bytes.
class Search {
 public:
  Search(const Gemm& g, const GemmOperands& o, std::int64_t sram) : g_(g), o_(o), sram_(sram) {}

  const Blocking& best() const { return best_; }

  /// SRAM bytes of the operand blocks and one C block with its accumulators. A block that changes
  /// from step to step is double-buffered; an operand that is resident already needs no buffer.
  std::int64_t footprint(std::int64_t mb, std::int64_t nb, std::int64_t kb) const {
    const bool one_k = kb == g_.k && g_.batch == 1;
    std::int64_t bytes = mb * nb * kAccumulatorBytes;
    if (!o_.a_resident) bytes += buffers(one_k && mb == g_.m) * mb * kb * o_.a_bytes;
    if (!o_.b_resident) bytes += buffers(one_k && nb == g_.n) * kb * nb * o_.b_bytes;
    if (!o_.c_resident) bytes += mb * nb * o_.c_bytes;
    return bytes;
  }

  /// The largest row count of a block that fits beside `nb` columns of depth `kb`; 0 if none.
  std::int64_t largest_m(std::int64_t nb, std::int64_t kb) const {
    if (footprint(g_.m, nb, kb) <= sram_) return g_.m;
    const bool b_stays = kb == g_.k && g_.batch == 1 && nb == g_.n;
    const std::int64_t fixed = o_.b_resident ? 0 : buffers(b_stays) * kb * nb * o_.b_bytes;
    const std::int64_t per_row = nb * kAccumulatorBytes +
                                 (o_.a_resident ? 0 : 2 * kb * o_.a_bytes) +
                                 (o_.c_resident ? 0 : nb * o_.c_bytes);
    return std::max<std::int64_t>(0, std::min(g_.m, (sram_ - fixed) / per_row));
  }

  void consider(LoopOrder order, std::int64_t mb, std::int64_t nb, std::int64_t kb) {
    if (mb < 1 || nb < 1 || kb < 1) return;
    // Even blocks: the same count with less SRAM.
    const std::int64_t mc = ceil_div(g_.m, mb), nc = ceil_div(g_.n, nb), kc = ceil_div(g_.k, kb);
    mb = ceil_div(g_.m, mc);
    nb = ceil_div(g_.n, nc);
    kb = ceil_div(g_.k, kc);
    const std::int64_t need = footprint(mb, nb, kb);
    if (need > sram_) return;

    const std::int64_t a = g_.m * g_.k * o_.a_bytes, b = g_.k * g_.n * o_.b_bytes,
                       c = g_.m * g_.n * o_.c_bytes, partial = g_.m * g_.n * kAccumulatorBytes;
    std::int64_t a_times = nc, b_times = mc, spills = 0;
    switch (order) {
      case LoopOrder::all_resident: a_times = b_times = 1; break;
      case LoopOrder::output_stationary: break;
      case LoopOrder::a_panel: a_times = 1; break;
      case LoopOrder::b_panel: b_times = 1; break;
      case LoopOrder::weight_stationary: b_times = 1; spills = kc - 1; break;
      case LoopOrder::input_stationary: a_times = 1; spills = kc - 1; break;
    }
    // A panel that spans the whole other dimension keeps that operand too.
    if (kc == 1 && nc == 1) b_times = order == LoopOrder::a_panel ? 1 : b_times;
    if (kc == 1 && mc == 1) a_times = order == LoopOrder::b_panel ? 1 : a_times;

    Blocking r;
    r.feasible = true;
    r.order = order;
    r.block_m = mb;
    r.block_n = nb;
    r.block_k = kb;
    r.blocks = g_.batch * mc * nc * kc;
    r.a_traffic = o_.a_resident ? 0 : g_.batch * a * a_times;
    r.b_traffic = o_.b_resident ? 0 : g_.batch * b * b_times;
    if (!o_.c_resident) {
      r.c_read = g_.batch * (spills * partial + (o_.accumulate ? c : 0));
      r.c_write = g_.batch * (spills * partial + c);
    }
    r.fill = (o_.a_resident ? 0 : mb * kb * o_.a_bytes) + (o_.b_resident ? 0 : kb * nb * o_.b_bytes);
    r.sram_stream = g_.batch * (a * nc + b * mc + c + (2 * spills + (o_.accumulate ? 1 : 0)) * partial);
    r.footprint = need;
    if (!best_.feasible || rank(r) < rank(best_)) best_ = r;
  }

 private:
  static std::int64_t buffers(bool stays) { return stays ? 1 : 2; }

  /// Least DRAM traffic first; at equal traffic enough steps to overlap loads with computation, so
  /// that a larger SRAM does not trade overlap for nothing; then least SRAM traffic.
  static std::tuple<std::int64_t, std::int64_t, std::int64_t> rank(const Blocking& b) {
    return {b.dram_bytes(), std::max<std::int64_t>(0, kOverlapSteps - b.blocks), b.sram_stream};
  }

  Gemm g_;
  GemmOperands o_;
  std::int64_t sram_;
  Blocking best_;
};

/// Calls f(block) for every distinct ⌈extent / count⌉, largest block first: O(√extent) values.
template <class F>
void for_each_block(std::int64_t extent, F&& f) {
  std::int64_t count = 1;
  while (true) {
    const std::int64_t block = ceil_div(extent, count);
    f(block);
    if (block == 1) return;
    // The smallest count that makes the block smaller.
    count = ceil_div(extent, block - 1);
  }
}

}  // namespace

Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free) {
  Search search(gemm, operands, sram_free);
  search.consider(LoopOrder::all_resident, gemm.m, gemm.n, gemm.k);
  const std::int64_t shallow = std::min(gemm.k, kShallow);
  for_each_block(gemm.n, [&](std::int64_t nb) {
    search.consider(LoopOrder::output_stationary, search.largest_m(nb, shallow), nb, shallow);
    const std::int64_t mb = search.largest_m(nb, gemm.k);
    for (const std::int64_t rows : {mb, std::min(mb, ceil_div(gemm.m, kOverlapSteps))}) {
      search.consider(LoopOrder::a_panel, rows, nb, gemm.k);
      search.consider(LoopOrder::b_panel, rows, nb, gemm.k);
    }
  });
  // Spilled partial sums pay only when one operand is far larger than C: blocks of the stationary
  // operand as deep as fits, the streamed dimension shallow.
  const std::int64_t mb = std::min(gemm.m, kShallow), nb = std::min(gemm.n, kShallow);
  for_each_block(gemm.k, [&](std::int64_t kb) {
    search.consider(LoopOrder::weight_stationary, mb, gemm.n, kb);
    search.consider(LoopOrder::weight_stationary, mb, nb, kb);
    search.consider(LoopOrder::input_stationary, gemm.m, nb, kb);
    search.consider(LoopOrder::input_stationary, mb, nb, kb);
  });
  return search.best();
}

}  // namespace tilewright
