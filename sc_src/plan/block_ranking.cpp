#include "block_ranking.h"

#include <algorithm>

namespace tilewright {

std::int64_t result_bytes(const GemmOperands& operands, bool in_place) {
  return operands.c_resident ? operands.sum_bytes
         : in_place          ? std::max(operands.sum_bytes, operands.c_bytes)
                             : operands.sum_bytes + operands.c_bytes;
}

BlockRanking::BlockRanking(const GemmOperands& operands, const Pipelining& pipelining,
                           double engine_seconds, const StreamRates& rates)
    : o_(operands), rates_(rates) {
  stream_.engine_seconds = engine_seconds;
  stream_.pipelining = pipelining;
}

bool BlockRanking::improves(const Blocking& b) {
  const std::int64_t load = b.a_traffic + b.b_traffic + b.c_read + o_.other_loads;
  const std::int64_t store = b.c_write + o_.other_stores;
  stream_.alone = b.in_place ? b.c_read + store : 0;
  stream_.load = b.in_place ? load - b.c_read : load;
  stream_.store = b.in_place ? 0 : store;
  stream_.spared = spared_loads(o_, b);
  stream_.sram = b.sram + o_.other_sram;
  if (rates_.sram.contention) stream_.sram = stream_.sram + transfers(load, store);
  const auto rank =
      std::make_tuple(streamed_seconds(stream_, rates_), b.dram_bytes(), b.sram.total());
  if (any_ && rank >= best_) return false;
  any_ = true;
  best_ = rank;
  return true;
}

}  // namespace tilewright
