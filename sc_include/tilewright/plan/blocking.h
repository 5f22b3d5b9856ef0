// Cutting a GEMM whose operands do not fit the SRAM into the blocks that take the least time.
#pragma once

#include <cstdint>

namespace tilewright {

/// C[m,n] (+)= A[m,k] · B[k,n], `batch` times, on one tile.
struct Gemm {
  std::int64_t batch = 1, m = 1, n = 1, k = 1;
  double flop_scale = 1;  ///< part of the products that count (causal attention skips some)
  double flop() const {
    return 2.0 * flop_scale * static_cast<double>(batch) * static_cast<double>(m) *
           static_cast<double>(n) * static_cast<double>(k);
  }
};

/// Where the operands live, and their element sizes in bytes.
struct GemmOperands {
  int a_bytes = 2, b_bytes = 2, c_bytes = 2;
  bool a_resident = false, b_resident = false, c_resident = false;  ///< already in SRAM
  bool accumulate = false;  ///< C is read before it is written (gradient accumulation)
  /// A is made block by block in the kernel, from whole rows of B: it takes buffers but no traffic.
  bool a_made = false;
};

enum class LoopOrder : std::uint8_t {
  all_resident,       ///< one batch element's operands fit: each is moved once
  output_stationary,  ///< a C block stays until its sum is complete
  a_panel,            ///< a full-depth panel of A stays while B streams past
  b_panel,            ///< a full-depth panel of B stays while A streams past
  weight_stationary,  ///< a block of B stays, partial sums of C are spilled
  input_stationary,   ///< a block of A stays, partial sums of C are spilled
};

struct Blocking {
  bool feasible = false;
  LoopOrder order = LoopOrder::all_resident;
  std::int64_t block_m = 0, block_n = 0, block_k = 0;
  std::int64_t blocks = 1;     ///< steps of the loop nest, batch included
  std::int64_t a_traffic = 0;  ///< DRAM bytes read of A, all batches; 0 when resident
  std::int64_t b_traffic = 0;
  std::int64_t c_read = 0;  ///< partial sums and accumulation
  std::int64_t c_write = 0;
  std::int64_t fill = 0;          ///< bytes that must arrive before the first step
  std::int64_t sram_stream = 0;   ///< bytes the engine moves through the SRAM
  std::int64_t sram_written = 0;  ///< part of them: results and partial sums
  std::int64_t footprint = 0;     ///< SRAM bytes of the double-buffered blocks
  std::int64_t dram_bytes() const { return a_traffic + b_traffic + c_read + c_write; }
};

/// Depth of a block at least (or k): rows of no less than a DRAM burst.
constexpr std::int64_t kSmallestDepth = 64;
/// SRAM bytes of a 1 × 1 block of that depth with double buffers, accumulator and result.
constexpr std::int64_t smallest_footprint(int element_bytes) {
  return 4 * kSmallestDepth * element_bytes + 4 + element_bytes;
}

/// What a blocking costs in time: seconds of the matrix engine for the whole GEMM, and the rates at
/// which the tile's DRAM share and its SRAM move bytes.
struct BlockingRates {
  double engine_seconds = 0;
  double dram_bytes_per_s = 1;
  double sram_bytes_per_s = 1;
};

/// Seconds of a pipelined stream: the fill, then the slower of the engines (or the SRAM that feeds
/// them) and DRAM with the last block's computation behind it, then the last block's store.
double streamed_seconds(double engine_seconds, double load, double store, double fill,
                        double sram_stream, double blocks, const BlockingRates& rates);

/// The blocking that takes the least time (streamed_seconds(), with a little added for every DRAM
/// and SRAM byte so that of equal times the one that moves less wins) among the loop orders above
/// and block sizes of a fixed grid, four per octave in every dimension, whose double-buffered
/// blocks fit `sram_free` bytes. The grid does not depend on the SRAM, so more SRAM only adds
/// choices. Accumulators are four bytes; a block is at least 64 deep (or k). Infeasible only if not
/// even 1 × 1 × 64 blocks fit. Complexity O(log m · log n + log k).
Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                    const BlockingRates& rates);

}  // namespace tilewright
