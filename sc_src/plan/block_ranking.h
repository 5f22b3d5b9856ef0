// What the searches for blocks have in common: what a blocking takes, of time and of SRAM.
#pragma once

#include <cstdint>
#include <tuple>

#include <tilewright/plan/blocking.h>

namespace tilewright {

/// SRAM bytes of an element of a block of results: of its sum, and of the result, which leaves
/// beside the next block or, in place, before it.
std::int64_t result_bytes(const GemmOperands& operands, bool in_place);

/// Compares blockings of one kernel by streamed_seconds(), then DRAM bytes, then SRAM bytes.
class BlockRanking {
 public:
  BlockRanking(const GemmOperands& operands, const Pipelining& pipelining, double engine_seconds,
               const StreamRates& rates);

  /// Whether this one is better than all before it.
  bool improves(const Blocking& blocking);

 private:
  GemmOperands o_;
  StreamRates rates_;
  Stream stream_;
  bool any_ = false;
  std::tuple<double, std::int64_t, std::int64_t> best_;
};

}  // namespace tilewright
