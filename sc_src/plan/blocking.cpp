#include <algorithm>
#include <cmath>
#include <vector>

#include <tilewright/plan/blocking.h>

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t kAccumulatorBytes = 4;
// Of two choices that take the same time the one that moves less wins, in DRAM and in SRAM: these
// shares of the time that moving the bytes takes are added.
constexpr double kTrafficWeight = 0.02;
constexpr double kSramWeight = 0.1;

/// Evaluates one choice of blocks and keeps it when it takes less time.
class Search {
 public:
  Search(const Gemm& g, const GemmOperands& o, std::int64_t sram, const BlockingRates& rates)
      : g_(g), o_(o), sram_(sram), rates_(rates) {}

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

  void consider(LoopOrder order, std::int64_t mb, std::int64_t nb, std::int64_t kb) {
    if (mb * nb * kAccumulatorBytes > sram_) return;
    // Even blocks: the same count with less SRAM.
    const std::int64_t mc = ceil_div(g_.m, mb), nc = ceil_div(g_.n, nb), kc = ceil_div(g_.k, kb);
    mb = ceil_div(g_.m, mc);
    nb = ceil_div(g_.n, nc);
    kb = ceil_div(g_.k, kc);
    if (o_.a_made && nc > 1) return;
    const std::int64_t need = footprint(mb, nb, kb);
    if (need > sram_) return;

    const std::int64_t a = g_.m * g_.k * o_.a_bytes, b = g_.k * g_.n * o_.b_bytes,
                       c = g_.m * g_.n * o_.c_bytes, partial = g_.m * g_.n * kAccumulatorBytes;
    std::int64_t a_times = nc, b_times = mc, spills = 0;
    switch (order) {
      case LoopOrder::all_resident:
        a_times = b_times = 1;
        break;
      case LoopOrder::output_stationary:
        break;
      case LoopOrder::a_panel:
        a_times = 1;
        break;
      case LoopOrder::b_panel:
        b_times = 1;
        break;
      case LoopOrder::weight_stationary:
        b_times = 1;
        spills = kc - 1;
        break;
      case LoopOrder::input_stationary:
        a_times = 1;
        spills = kc - 1;
        break;
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
    const bool a_arrives = !o_.a_resident && !o_.a_made;
    r.a_traffic = a_arrives ? g_.batch * a * a_times : 0;
    r.b_traffic = o_.b_resident ? 0 : g_.batch * b * b_times;
    if (!o_.c_resident) {
      r.c_read = g_.batch * (spills * partial + (o_.accumulate ? c : 0));
      r.c_write = g_.batch * (spills * partial + c);
    }
    r.fill = (a_arrives ? mb * kb * o_.a_bytes : 0) + (o_.b_resident ? 0 : kb * nb * o_.b_bytes);
    r.sram_stream =
        g_.batch * (a * nc + b * mc + c + (2 * spills + (o_.accumulate ? 1 : 0)) * partial);
    r.sram_written = g_.batch * (c + spills * partial);
    r.footprint = need;
    const double moved = static_cast<double>(r.dram_bytes());
    const double seconds =
        streamed_seconds(
            rates_.engine_seconds, static_cast<double>(r.a_traffic + r.b_traffic + r.c_read),
            static_cast<double>(r.c_write), static_cast<double>(r.fill),
            static_cast<double>(r.sram_stream), static_cast<double>(r.blocks), rates_) +
        kTrafficWeight * moved / rates_.dram_bytes_per_s +
        kSramWeight * static_cast<double>(r.sram_stream) / rates_.sram_bytes_per_s;
    if (!best_.feasible || seconds < least_) {
      least_ = seconds;
      best_ = r;
    }
  }

 private:
  static std::int64_t buffers(bool stays) { return stays ? 1 : 2; }

  Gemm g_;
  GemmOperands o_;
  std::int64_t sram_;
  BlockingRates rates_;
  Blocking best_;
  double least_ = 0;
};

/// Block sizes ⌈extent / count⌉ for counts four to the octave, largest first.
std::vector<std::int64_t> grid(std::int64_t extent) {
  std::vector<std::int64_t> blocks;
  for (int k = 0;; ++k) {
    const auto count = static_cast<std::int64_t>(std::llround(std::exp2(k / 4.0)));
    const std::int64_t block = ceil_div(extent, std::min(count, extent));
    if (blocks.empty() || block < blocks.back()) blocks.push_back(block);
    if (block == 1) return blocks;
  }
}

}  // namespace

double streamed_seconds(double engine_seconds, double load, double store, double fill,
                        double sram_stream, double blocks, const BlockingRates& rates) {
  const auto dram = [&](double bytes) { return bytes > 0 ? bytes / rates.dram_bytes_per_s : 0.0; };
  const double engines = std::max(engine_seconds, sram_stream / rates.sram_bytes_per_s);
  return std::max(dram(fill) + engines, dram(load + store) + engines / blocks) +
         dram(store) / blocks;
}

Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                    const BlockingRates& rates) {
  Search search(gemm, operands, sram_free, rates);
  search.consider(LoopOrder::all_resident, gemm.m, gemm.n, gemm.k);
  const std::int64_t shallow = std::min(gemm.k, kSmallestDepth);
  const std::vector<std::int64_t> rows = grid(gemm.m), columns = grid(gemm.n);
  for (const std::int64_t nb : columns) {
    for (const std::int64_t mb : rows) {
      search.consider(LoopOrder::output_stationary, mb, nb, shallow);
      search.consider(LoopOrder::a_panel, mb, nb, gemm.k);
      search.consider(LoopOrder::b_panel, mb, nb, gemm.k);
    }
  }
  // Spilled partial sums pay only when one operand is far larger than C: blocks of the stationary
  // operand as deep as fits, the streamed dimension shallow.
  const std::int64_t mb = std::min(gemm.m, kSmallestDepth), nb = std::min(gemm.n, kSmallestDepth);
  for (const std::int64_t kb : grid(gemm.k)) {
    search.consider(LoopOrder::weight_stationary, mb, gemm.n, kb);
    search.consider(LoopOrder::weight_stationary, mb, nb, kb);
    search.consider(LoopOrder::input_stationary, gemm.m, nb, kb);
    search.consider(LoopOrder::input_stationary, mb, nb, kb);
  }
  return search.best();
}

}  // namespace tilewright
