#include <algorithm>
#include <tuple>

#include <tilewright/base/integer.h>
#include <tilewright/plan/blocking.h>

#include "block_grid.h"
#include "block_ranking.h"

namespace tilewright {
namespace {

// Extents of the streamed dimensions where partial sums are spilled.
constexpr std::int64_t kThin = 64;

/// Sizes of the operands, in bytes.
struct Sizes {
  Sizes(const Gemm& g, const GemmOperands& o)
      : a(g.m * g.k * o.a_bytes),
        b(g.k * g.n * o.b_bytes),
        c(g.m * g.n * o.c_bytes),
        partial(g.m * g.n * o.sum_bytes),
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
      : g_(g),
        o_(o),
        size_(g, o),
        sram_(sram),
        ranking_(o, pipelining(g, o), engine_seconds, rates) {}

  const Blocking& best() const { return best_; }

  /// The tallest blocks that fit with these columns and this depth.
  void consider_tallest(LoopOrder order, std::int64_t nb, std::int64_t kb) {
    for (const bool in_place : {false, true}) {
      const auto need = [&](std::int64_t mb) { return footprint(mb, nb, kb, in_place); };
      if (need(g_.m) <= sram_) {
        consider(order, g_.m, nb, kb, in_place);
        return;  // in place it takes longer
      }
      if (need(1) > sram_) continue;
      const std::int64_t mb = 1 + (sram_ - need(1)) / (need(2) - need(1));
      consider(order, std::min(mb, g_.m), nb, kb, in_place);
    }
  }

  void consider(LoopOrder order, std::int64_t mb, std::int64_t nb, std::int64_t kb,
                bool in_place = false) {
    // Even blocks: the same count with less SRAM.
    const std::int64_t mc = ceil_div(g_.m, mb), nc = ceil_div(g_.n, nb), kc = ceil_div(g_.k, kb);
    mb = ceil_div(g_.m, mc);
    nb = ceil_div(g_.n, nc);
    kb = ceil_div(g_.k, kc);
    if (o_.a_made && nc > 1) return;
    const std::int64_t need = footprint(mb, nb, kb, in_place);
    if (need > sram_ || (in_place && o_.c_resident)) return;

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
    r.in_place = in_place;
    if (ranking_.improves(r)) best_ = r;
  }

 private:
  /// SRAM bytes of the operand blocks and one C block, sums and results.
  std::int64_t footprint(std::int64_t mb, std::int64_t nb, std::int64_t kb, bool in_place) const {
    return mb * nb * result_bytes(o_, in_place) + a_buffers(mb, kb) * mb * kb * o_.a_bytes +
           b_buffers(nb, kb) * kb * nb * o_.b_bytes;
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
  BlockRanking ranking_;
  Blocking best_;
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

std::int64_t spared_loads(const GemmOperands& operands, const Blocking& blocking) {
  return operands.other_spared +
         static_cast<std::int64_t>(operands.a_spared * static_cast<double>(blocking.a_traffic) +
                                   operands.b_spared * static_cast<double>(blocking.b_traffic));
}

Pipelining pipelining(const Gemm& gemm, const GemmOperands& operands) {
  const Sizes size(gemm, operands);
  const std::int64_t sums = operands.accumulate && !operands.c_resident ? gemm.batch * size.c : 0;
  const std::int64_t loads = size.a_total + size.b_total + sums + operands.other_loads;
  Pipelining p;
  const std::int64_t moved = loads + size.c_total + operands.other_stores;
  if (moved > 0) p.steps = std::max(kFewestSlices, ceil_div(moved, kSlice));
  p.fill = ceil_div(loads, p.steps);
  return p;
}

double streamed_seconds(const Stream& stream, const StreamRates& rates) {
  const auto load = static_cast<double>(stream.load), store = static_cast<double>(stream.store);
  const auto over = [](double bytes, double rate) { return bytes > 0 ? bytes / rate : 0.0; };
  const auto alone = [&](double bytes) { return over(bytes, std::min(rates.dram, rates.way)); };
  // What several tiles load together the DRAM moves once, and each one's way all of it.
  const double moved = load > 0 ? 1 - static_cast<double>(stream.spared) / load : 1;
  const auto loading = [&](double bytes) {
    return std::max(over(bytes * moved, rates.dram), over(bytes, rates.way));
  };
  const auto steps = static_cast<double>(stream.pipelining.steps);
  const double engines =
      std::max(stream.engine_seconds, rates.sram.seconds(static_cast<double>(stream.sram.read),
                                                         static_cast<double>(stream.sram.written)));
  const double behind =
      stream.alone > 0 ? alone(static_cast<double>(stream.alone)) + rates.latency : 0;
  if (!rates.overlapped) return loading(load) + engines + alone(store) + behind;
  const double last = store / steps, early = store - last;
  // A controller takes what a tile stores ahead of what it loads at the same time.
  const double dram = std::max(over(early, rates.dram) + loading(load), over(early, rates.way));
  return std::max(loading(static_cast<double>(stream.pipelining.fill)) + engines,
                  dram + engines / steps) +
         alone(last) + behind;
}

Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                    double engine_seconds, const StreamRates& rates) {
  Search search(gemm, operands, sram_free, engine_seconds, rates);
  for (const bool in_place : {false, true}) {
    search.consider(LoopOrder::all_resident, gemm.m, gemm.n, gemm.k, in_place);
  }
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

bool BlockingCache::Key::operator<(const Key& o) const {
  const auto values = [](const Key& k) {
    const Gemm& g = k.gemm;
    const GemmOperands& p = k.operands;
    const StreamRates& r = k.rates;
    const SramBytes engine = p.engine_sram.value_or(SramBytes{-1, -1});
    return std::make_tuple(
        std::make_tuple(g.batch, g.m, g.n, g.k, g.flop_scale),
        std::make_tuple(p.a_bytes, p.b_bytes, p.c_bytes, p.sum_bytes, p.a_resident, p.b_resident,
                        p.c_resident, p.accumulate, p.a_made),
        std::make_tuple(p.a_total, p.b_total, p.c_total, p.other_loads, p.other_stores,
                        p.other_sram.read, p.other_sram.written, engine.read, engine.written),
        std::make_tuple(p.a_spared, p.b_spared, p.other_spared, r.overlapped),
        std::make_tuple(k.sram_free, k.engine_seconds, r.dram, r.way, r.latency,
                        r.sram.bandwidth.value(), r.sram.read.value(), r.sram.write.value(),
                        r.sram.contention));
  };
  return values(*this) < values(o);
}

const Blocking& BlockingCache::find(const Gemm& gemm, const GemmOperands& operands,
                                    std::int64_t sram_free, double engine_seconds,
                                    const StreamRates& rates) {
  Key key{gemm, operands, sram_free, engine_seconds, rates};
  const auto known = found_.find(key);
  if (known != found_.end()) return known->second;
  const Blocking found = block_gemm(gemm, operands, sram_free, engine_seconds, rates);
  return found_.emplace(std::move(key), found).first->second;
}

}  // namespace tilewright
