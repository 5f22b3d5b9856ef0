// Cutting a GEMM whose operands do not fit the SRAM into the blocks that take the least time.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include <tilewright/machine/machine.h>

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

/// Bytes through the SRAM.
struct SramBytes {
  std::int64_t read = 0, written = 0;
  std::int64_t total() const { return read + written; }
};
constexpr SramBytes operator+(SramBytes a, SramBytes b) {
  return {a.read + b.read, a.written + b.written};
}
/// What loads and stores move through the SRAM: it is written by the ones and read by the others.
constexpr SramBytes transfers(std::int64_t load, std::int64_t store) { return {store, load}; }

/// Where the operands live, and their sizes in bytes.
struct GemmOperands {
  int a_bytes = 2, b_bytes = 2, c_bytes = 2;  ///< of an element
  int sum_bytes = 4;                          ///< of a sum of products in SRAM
  bool a_resident = false, b_resident = false, c_resident = false;  ///< already in SRAM
  bool accumulate = false;  ///< C is read before it is written (gradient accumulation)
  /// A is made block by block in the kernel, from whole rows of B: it takes buffers but no traffic.
  bool a_made = false;
  /// Of all batches together where they are not what the extents say: operands that elements of the
  /// batch share, results that leave with masks.
  std::optional<std::int64_t> a_total, b_total, c_total;
  /// What the kernel moves besides, once however it is blocked.
  std::int64_t other_loads = 0, other_stores = 0;
  /// The part of the loads of A and B, and bytes of the others, that the DRAM need not move for
  /// this tile: others load the same with it.
  double a_spared = 0, b_spared = 0;
  std::int64_t other_spared = 0;
  SramBytes other_sram;
  /// What the engine moves through the SRAM, where it does not depend on the blocks.
  std::optional<SramBytes> engine_sram;
};

enum class LoopOrder : std::uint8_t {
  all_resident,       ///< one batch element's operands fit: each is moved once
  output_stationary,  ///< a C block stays until its sum is complete
  a_panel,            ///< a full-depth panel of A stays while B streams past
  b_panel,            ///< a full-depth panel of B stays while A streams past
  weight_stationary,  ///< a block of B stays, partial sums of C are spilled
  input_stationary,   ///< a block of A stays, partial sums of C are spilled
};
std::string to_string(LoopOrder order);

struct Blocking {
  bool feasible = false;
  LoopOrder order = LoopOrder::all_resident;
  std::int64_t block_m = 0, block_n = 0, block_k = 0;
  int a_buffers = 0, b_buffers = 0;  ///< 2: double-buffered; 0: the operand is resident
  std::int64_t blocks = 1;           ///< steps of the loop nest, batch included
  std::int64_t a_traffic = 0;        ///< DRAM bytes read of A, all batches; 0 when resident
  std::int64_t b_traffic = 0;
  std::int64_t c_read = 0;  ///< partial sums and accumulation
  std::int64_t c_write = 0;
  /// Results are made in the place of their sums, and leave before sums of the next block can
  /// begin there. Otherwise they have a place of their own, and leave beside the next block's work.
  bool in_place = false;
  SramBytes sram;              ///< that the engine moves
  std::int64_t footprint = 0;  ///< SRAM bytes of the double-buffered blocks
  std::int64_t dram_bytes() const { return a_traffic + b_traffic + c_read + c_write; }
};

/// Bytes of all loads of a kernel blocked like this that the DRAM need not move for its tile.
std::int64_t spared_loads(const GemmOperands& operands, const Blocking& blocking);

/// What is streamed through a tile moves in slices of this size: large against a DRAM page, small
/// against any stream worth pipelining.
constexpr std::int64_t kSlice = 128 << 10;
/// Slices of a matrix kernel at least, if it moves anything.
constexpr std::int64_t kFewestSlices = 16;

/// How finely loads, engines and stores of a kernel follow each other. It depends on what must be
/// moved at least and not on the blocks, which say what is kept for reuse: the slices of a block
/// that make most work of the fewest bytes are loaded first. (With square ones of depth d growing
/// from nothing, an engine of F FLOP/s beside a DRAM of D bytes/s idles d·e²·F/(2D²) seconds, e
/// bytes an element, whatever the block's size: less than the slice on all shipped machines.) So
/// larger blocks, and with them more SRAM, never delay the start.
struct Pipelining {
  std::int64_t steps = 1;
  std::int64_t fill = 0;   ///< bytes that must arrive before the first step
  bool overlapped = true;  ///< with what the engines do; false: loads, steps, stores in turn
};
Pipelining pipelining(const Gemm& gemm, const GemmOperands& operands);

/// A row of a block is a DRAM burst at least.
constexpr std::int64_t kBurst = 64;
/// Depth of the shallowest block (or k).
constexpr std::int64_t smallest_depth(int element_bytes) { return kBurst / element_bytes; }
/// SRAM bytes of a 1 × 1 block of that depth with double buffers and a sum that becomes the result.
constexpr std::int64_t smallest_footprint(int element_bytes, int sum_bytes) {
  return 4 * kBurst + (sum_bytes > element_bytes ? sum_bytes : element_bytes);
}

/// Bytes per second that a tile moves.
struct StreamRates {
  double dram = 1;  ///< its share of the DRAM, loads and stores together
  double way = std::numeric_limits<double>::infinity();  ///< to or from the DRAM over the links
  double latency = 0;  ///< seconds of a load and a store that wait for each other, without bytes
  SramConfig sram;
  bool overlapped = true;  ///< moves beside the engines' work: DmaConfig::prefetch
};

/// A kernel's stream: what it moves, in bytes, how finely, and how long its engines work.
struct Stream {
  double engine_seconds = 0;
  std::int64_t load = 0, store = 0;
  SramBytes sram;
  Pipelining pipelining;
  /// Loaded or stored while the engines wait: results that leave the place of their sums, and what
  /// they are added to. Not counted in `load` and `store`.
  std::int64_t alone = 0;
  std::int64_t spared = 0;  ///< of `load`: what the DRAM need not move for this tile
};

/// Seconds of a pipelined stream: the fill, then the slower of the engines (or the SRAM that feeds
/// them) and DRAM with the last step's computation behind it, then the last step's store, then what
/// moves alone. Where nothing is overlapped: the sum of loads, engines and stores.
double streamed_seconds(const Stream& stream, const StreamRates& rates);

/// The blocking that takes the least time by streamed_seconds(), of equal ones that which moves the
/// fewest DRAM bytes, then SRAM bytes, among the loop orders above (`engine_seconds`: of the whole
/// GEMM and what runs beside it). Widths of blocks come from a
/// fixed grid (16 per octave, every count of blocks up to 16), and each is as tall as `sram_free`
/// bytes allow with double buffers, so more SRAM, or a faster DRAM, SRAM or engine, is never
/// slower. An element of a C block takes the bytes of its sum and of the result that leaves beside
/// the next block; or, in place, of the larger of them, and no block's work runs beside that.
/// Infeasible only if not even the smallest blocks fit.
/// With SramConfig::contention loads and stores take their time of the SRAM like the engines.
/// Complexity O(log n + log k).
Blocking block_gemm(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                    double engine_seconds, const StreamRates& rates);

/// Searches once for what is asked again: blocks of a model are alike, and the memory plan weighs
/// the same kernel several times.
class BlockingCache {
 public:
  /// block_gemm() of these values.
  const Blocking& find(const Gemm& gemm, const GemmOperands& operands, std::int64_t sram_free,
                       double engine_seconds, const StreamRates& rates);
  std::size_t searches() const { return found_.size(); }

 private:
  struct Key {
    Gemm gemm;
    GemmOperands operands;
    std::int64_t sram_free;
    double engine_seconds;
    StreamRates rates;
    bool operator<(const Key& o) const;
  };
  std::map<Key, Blocking> found_;
};

}  // namespace tilewright
