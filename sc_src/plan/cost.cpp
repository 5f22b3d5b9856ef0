#include <tilewright/plan/cost.h>

#include <algorithm>

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// A stream is cut into this many blocks when SRAM does not ask for more: the fill is then small
// against the whole, and a tiny stream is not cut at all.
constexpr std::int64_t kStreamBlocks = 16;
constexpr std::int64_t kSmallestBlock = 4096;  // bytes

/// Blocking counts an operand as if every batch element had its own; grouped-query heads share.
std::int64_t scale(std::int64_t traffic, std::int64_t actual, std::int64_t nominal) {
  if (nominal == 0 || actual == nominal) return traffic;
  return static_cast<std::int64_t>(static_cast<double>(traffic) * static_cast<double>(actual) /
                                   static_cast<double>(nominal));
}

}  // namespace

KernelCost kernel_cost(const Kernel& kernel, const Residency& residency, std::int64_t sram_free,
                       DType precision, const StateBytes& state) {
  KernelCost cost;
  std::int64_t stream_in = 0, stream_out = 0, through_sram = 0;
  for (const Access& r : kernel.reads) {
    through_sram += r.bytes;
    if (!residency[r.cls]) stream_in += r.bytes;
  }
  for (const Access& w : kernel.writes) {
    through_sram += w.bytes;
    if (!residency[w.cls]) stream_out += w.bytes;
  }

  if (kernel.collective) {
    cost.load = stream_in;
    cost.store = stream_out;
    return cost;
  }
  if (!kernel.matrix) {
    cost.load = stream_in;
    cost.store = stream_out;
    const std::int64_t moved = stream_in + stream_out;
    const std::int64_t by_size = std::min(kStreamBlocks, std::max<std::int64_t>(1, moved / kSmallestBlock));
    const std::int64_t by_sram = ceil_div(2 * moved, std::max<std::int64_t>(1, sram_free));
    cost.blocks = std::max(by_size, by_sram);
    cost.footprint = std::min(ceil_div(2 * moved, cost.blocks), sram_free);
    cost.fill = ceil_div(stream_in, cost.blocks);
    cost.sram_stream = through_sram;
    cost.feasible = sram_free >= 2 || moved == 0;
    return cost;
  }

  const Gemm& g = kernel.gemm;
  GemmOperands o;
  const int element = bytes_of(precision);
  o.a_bytes = o.b_bytes = element;
  o.a_resident = residency[kernel.a.cls];
  o.b_resident = residency[kernel.b.cls];
  o.accumulate = kernel.accumulate && !kernel.writes.empty() && !residency[kernel.writes.front().cls];
  const std::int64_t results = g.batch * g.m * g.n;
  o.c_resident = stream_out == 0;
  o.c_bytes = kernel.accumulate ? state.gradient : static_cast<int>(ceil_div(stream_out, results));
  const Blocking b = block_gemm(g, o, sram_free);
  cost.feasible = b.feasible;
  if (!b.feasible) return cost;

  // Partial sums beyond the result itself; the result's own bytes are those of the writes.
  const std::int64_t own = o.c_resident ? 0 : results * o.c_bytes;
  const std::int64_t spilled = b.c_write - own;
  const std::int64_t a = scale(b.a_traffic, kernel.a.bytes, g.batch * g.m * g.k * element);
  const std::int64_t bb = scale(b.b_traffic, kernel.b.bytes, g.batch * g.k * g.n * element);
  cost.load = a + bb + b.c_read + stream_in;
  cost.store = stream_out + spilled;
  cost.blocks = b.blocks;
  cost.fill = std::min(cost.load, b.fill + ceil_div(stream_in, b.blocks));
  cost.sram_stream = b.sram_stream + through_sram;
  cost.footprint = b.footprint;
  return cost;
}

TileRates tile_rates(const MachineConfig& machine, DType precision, int clients_per_controller,
                     int controllers_per_tile) {
  TileRates rates;
  rates.engines = make_compute_model(machine);
  rates.format = to_string(precision);
  rates.dram_bytes_per_s = machine.dram.bandwidth.value() * controllers_per_tile /
                           std::max(1, clients_per_controller);
  return rates;
}

double matrix_seconds(const Kernel& kernel, const TileRates& rates) {
  if (!kernel.matrix) return 0;
  const Gemm& g = kernel.gemm;
  return rates.engines->matrix_seconds({g.batch, g.m, g.n, g.k, g.flop()}, rates.format);
}

double kernel_seconds(const Kernel& kernel, const KernelCost& cost, const TileRates& rates) {
  double t = matrix_seconds(kernel, rates);
  if (kernel.vector_elements > 0) {
    t = std::max(t, rates.engines->vector_seconds(kernel.vector_elements, rates.format));
  }
  const std::int64_t moved = cost.load + cost.store;
  if (moved > 0) t = std::max(t, static_cast<double>(moved) / rates.dram_bytes_per_s);
  return t;
}

}  // namespace tilewright
