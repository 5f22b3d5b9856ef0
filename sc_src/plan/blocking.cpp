#include <algorithm>
#include <tuple>

#include <tilewright/plan/blocking.h>

#include "block_grid.h"

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

constexpr std::int64_t kAccumulatorBytes = 4;
// Extents of the streamed dimensions where partial sums are spilled.
constexpr std::int64_t kThin = 64;

/// Sizes of the operands, in bytes.
struct Sizes {
  Sizes(const Gemm& g, const GemmOperands& o)
      : a(g.m * g.k * o.a_bytes),
        b(g.k * g.n * o.b_bytes),
        c(g.m * g.n * o.c_bytes),
        partial(g.m * g.n * kAccumulatorBytes),
        a_total(o.a_resident || o.a_made ? 0 : o.a_total.value_or(g.batch * a)),
        b_total(o.b_resident ? 0 : o.b_total.value_or(g.batch * b)),
        c_total(o.c_resident ? 0 : o.c_total.value_or(g.batch * c)) {}

  std::int64_t a, b, c, partial;           // of one batch element
  std::int64_t a_total, b_total, c_total;  // that DRAM moves at least
};

/// Evaluates one choice of blocks and keeps it when it is better.
class Search {
 public:
  Search(const Gemm& g, const GemmOperands& o, std::int64_t sram, double engine_seconds,
         const StreamRates& rates)
      : g_(g), o_(o), size_(g, o), sram_(sram), rates_(rates) {
    stream_.engine_seconds = engine_seconds;
    stream_.pipelining = pipelining(g, o);
  }

  const Blocking& best() const { return best_; }

  /// The tallest blocks that fit with these columns and this depth.
  void consider_tallest(LoopOrder order, std::int64_t nb, std::int64_t kb) {
    if (footprint(g_.m, nb, kb) <= sram_) return consider(order, g_.m, nb, kb);
    const std::int64_t row = footprint(2, nb, kb) - footprint(1, nb, kb);
    const std::int64_t mb = 1 + (sram_ - footprint(1, nb, kb)) / row;
    if (footprint(1, nb, kb) <= sram_) consider(order, std::min(mb, g_.m), nb, kb);
  }

  void consider(LoopOrder order, std::int64_t mb, std::int64_t nb, std::int64_t kb) {
    // Even blocks: the same count with less SRAM.
    const std::int64_t mc = ceil_div(g_.m, mb), nc = ceil_div(g_.n, nb), kc = ceil_div(g_.k, kb);
    mb = ceil_div(g_.m, mc);
    nb = ceil_div(g_.n, nc);
    kb = ceil_div(g_.k, kc);
    if (o_.a_made && nc > 1) return;
    const std::int64_t need = footprint(mb, nb, kb);
    if (need > sram_) return;

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
    r.a_buffers = a_buffers(mb, kb);
    r.b_buffers = b_buffers(nb, kb);
    r.blocks = g_.batch * mc * nc * kc;
    r.a_traffic = size_.a_total * a_times;
    r.b_traffic = size_.b_total * b_times;
    if (!o_.c_resident) {
      const std::int64_t spilled = g_.batch * spills * size_.partial;
      r.c_read = spilled + (o_.accumulate ? g_.batch * size_.c : 0);
      r.c_write = spilled + size_.c_total;
    }
    r.sram = o_.engine_sram.value_or(SramBytes{
        g_.batch *
            (size_.a * nc + size_.b * mc + (spills + (o_.accumulate ? 1 : 0)) * size_.partial),
        g_.batch * (size_.c + spills * size_.partial)});
    r.footprint = need;
    stream_.load = r.a_traffic + r.b_traffic + r.c_read + o_.other_loads;
    stream_.store = r.c_write;
    stream_.sram = r.sram + o_.other_sram;
    if (rates_.sram.contention)
      stream_.sram = stream_.sram + transfers(stream_.load, stream_.store);
    const auto rank =
        std::make_tuple(streamed_seconds(stream_, rates_), r.dram_bytes(), r.sram.total());
    if (best_.feasible && rank >= rank_) return;
    rank_ = rank;
    best_ = r;
  }

 private:
  /// SRAM bytes of the operand blocks and one C block with its accumulators.
  std::int64_t footprint(std::int64_t mb, std::int64_t nb, std::int64_t kb) const {
    return mb * nb * (kAccumulatorBytes + (o_.c_resident ? 0 : o_.c_bytes)) +
           a_buffers(mb, kb) * mb * kb * o_.a_bytes + b_buffers(nb, kb) * kb * nb * o_.b_bytes;
  }
  /// A block that changes from step to step is double-buffered; an operand that is resident already
  /// needs no buffer.
  int a_buffers(std::int64_t mb, std::int64_t kb) const {
    return o_.a_resident ? 0 : mb == g_.m && kb == g_.k && g_.batch == 1 ? 1 : 2;
  }
  int b_buffers(std::int64_t nb, std::int64_t kb) const {
    return o_.b_resident ? 0 : nb == g_.n && kb == g_.k && g_.batch == 1 ? 1 : 2;
  }

  Gemm g_;
  GemmOperands o_;
  Sizes size_;
  std::int64_t sram_;
  StreamRates rates_;
  Stream stream_;
  Blocking best_;
  std::tuple<double, std::int64_t, std::int64_t> rank_;
};

}  // namespace

std::string to_string(LoopOrder order) {
  switch (order) {
    case LoopOrder::all_resident:
      return "all resident";
    case LoopOrder::output_stationary:
      return "output-stationary";
    case LoopOrder::a_panel:
      return "panels of A";
    case LoopOrder::b_panel:
      return "panels of B";
    case LoopOrder::weight_stationary:
      return "B stationary, sums spilled";
    case LoopOrder::input_stationary:
      return "A stationary, sums spilled";
  }
  return "?";
}

Pipelining pipelining(const Gemm& gemm, const GemmOperands& operands) {
  const Sizes size(gemm, operands);
  const std::int64_t sums = operands.accumulate && !operands.c_resident ? gemm.batch * size.c : 0;
  const std::int64_t loads = size.a_total + size.b_total + sums + operands.other_loads;
  Pipelining p;
  const std::int64_t moved = loads + size.c_total;
  if (moved > 0) p.steps = std::max(kFewestSlices, ceil_div(moved, kSlice));
  p.fill = ceil_div(loads, p.steps);
  return p;
}

double streamed_seconds(const Stream& stream, const StreamRates& rates) {
  const auto load = static_cast<double>(stream.load), store = static_cast<double>(stream.store);
  const auto over = [](double bytes, double rate) { return bytes > 0 ? bytes / rate : 0.0; };
  const auto alone = [&](double bytes) { return over(bytes, std::min(rates.dram, rates.way)); };
  const auto steps = static_cast<double>(stream.pipelining.steps);
  const double engines =
      std::max(stream.engine_seconds, rates.sram.seconds(static_cast<double>(stream.sram.read),
                                                         static_cast<double>(stream.sram.written)));
  const double last = store / steps, early = store - last;
  // A controller takes what a tile stores ahead of what it loads at the same time.
  const double dram = std::max(over(early, rates.dram) + alone(load), over(early, rates.way));
  return std::max(alone(static_cast<double>(stream.pipelining.fill)) + engines,
                  dram + engines / steps) +
         alone(last);
}

Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                    double engine_seconds, const StreamRates& rates) {
  Search search(gemm, operands, sram_free, engine_seconds, rates);
  search.consider(LoopOrder::all_resident, gemm.m, gemm.n, gemm.k);
  const std::int64_t shallow =
      std::min(gemm.k, smallest_depth(std::max(operands.a_bytes, operands.b_bytes)));
  for (const std::int64_t nb : block_sizes(gemm.n)) {
    search.consider_tallest(LoopOrder::output_stationary, nb, shallow);
    search.consider_tallest(LoopOrder::a_panel, nb, gemm.k);
    search.consider_tallest(LoopOrder::b_panel, nb, gemm.k);
  }
  // Spilled partial sums pay only when one operand is far larger than C: blocks of the stationary
  // operand as deep as fits, the streamed dimension shallow.
  const std::int64_t mb = std::min(gemm.m, kThin), nb = std::min(gemm.n, kThin);
  for (const std::int64_t kb : block_sizes(gemm.k)) {
    search.consider(LoopOrder::weight_stationary, mb, gemm.n, kb);
    search.consider(LoopOrder::weight_stationary, mb, nb, kb);
    search.consider(LoopOrder::input_stationary, gemm.m, nb, kb);
    search.consider(LoopOrder::input_stationary, mb, nb, kb);
  }
  return search.best();
}

}  // namespace tilewright
