#include <algorithm>

#include <tilewright/plan/cost.h>

namespace tilewright {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Blocks of a vector kernel's stream: large against a DRAM page, small against any stream worth
// pipelining.
constexpr std::int64_t kStreamBlock = 128 << 10;
/// Blocking counts an operand as if every batch element had its own; grouped-query heads share.
std::int64_t scale(std::int64_t traffic, std::int64_t actual, std::int64_t nominal) {
  if (nominal == 0 || actual == nominal) return traffic;
  return static_cast<std::int64_t>(static_cast<double>(traffic) * static_cast<double>(actual) /
                                   static_cast<double>(nominal));
}

/// The slower of the engines, which work on a kernel's blocks side by side.
double engine_seconds(const Kernel& kernel, const TileRates& rates) {
  double t = matrix_seconds(kernel, rates);
  if (kernel.vector_elements > 0) {
    t = std::max(t, rates.engines->vector_seconds(kernel.vector_elements, rates.format));
  }
  return t;
}

KernelCost stream_cost(std::int64_t in, std::int64_t out, std::int64_t sram_free) {
  KernelCost cost;
  cost.load = in;
  cost.store = out;
  const std::int64_t moved = in + out;
  const std::int64_t block = std::max<std::int64_t>(1, std::min(kStreamBlock, sram_free / 2));
  cost.blocks = std::max<std::int64_t>(1, ceil_div(moved, block));
  cost.footprint = std::min(2 * block, moved);
  cost.fill = ceil_div(in, cost.blocks);
  cost.feasible = sram_free >= 2 || moved == 0;
  return cost;
}

}  // namespace

KernelCost kernel_cost(const Kernel& kernel, const Residency& residency, std::int64_t sram_free,
                       DType precision, const StateBytes& state, const TileRates& rates) {
  std::int64_t stream_in = 0, stream_out = 0, through_sram = 0, results_written = 0;
  for (const Access& r : kernel.reads) {
    through_sram += r.bytes;
    if (!residency[r.cls]) stream_in += r.bytes;
  }
  for (const Access& w : kernel.writes) {
    through_sram += w.bytes;
    results_written += w.bytes;
    if (!residency[w.cls]) stream_out += w.bytes;
  }
  if (kernel.collective) {
    KernelCost cost;
    cost.load = stream_in;
    cost.store = stream_out;
    return cost;
  }
  if (!kernel.matrix) {
    KernelCost cost = stream_cost(stream_in, stream_out, sram_free);
    cost.sram_stream = through_sram;
    cost.sram_written = results_written;
    return cost;
  }

  const Gemm& g = kernel.gemm;
  GemmOperands o;
  const int element = bytes_of(precision);
  o.a_bytes = o.b_bytes = element;
  o.a_made = kernel.a.tensor.empty();
  o.a_resident = !o.a_made && residency[kernel.a.cls];
  o.b_resident = residency[kernel.b.cls];
  o.accumulate =
      kernel.accumulate && !kernel.writes.empty() && !residency[kernel.writes.front().cls];
  const std::int64_t results = g.batch * g.m * g.n;
  o.c_resident = stream_out == 0;
  o.c_bytes = kernel.accumulate ? state.gradient : static_cast<int>(ceil_div(stream_out, results));

  BlockingRates blocking_rates;
  blocking_rates.engine_seconds = engine_seconds(kernel, rates);
  blocking_rates.dram_bytes_per_s = rates.dram_bytes_per_s;
  blocking_rates.sram_bytes_per_s = rates.sram_bytes_per_s;
  const Blocking b = block_gemm(g, o, sram_free, blocking_rates);
  KernelCost cost;
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
  cost.sram_written = b.sram_written + results_written;
  cost.footprint = b.footprint;
  return cost;
}

TileRates tile_rates(const MachineConfig& machine, DType precision, int clients_per_controller,
                     int controllers_per_tile) {
  TileRates rates;
  rates.engines = make_compute_model(machine);
  rates.format = to_string(precision);
  rates.sram_bytes_per_s = machine.sram.bandwidth.value();
  rates.dram_bytes_per_s =
      machine.dram.bandwidth.value() * controllers_per_tile / std::max(1, clients_per_controller);
  return rates;
}

double matrix_seconds(const Kernel& kernel, const TileRates& rates) {
  if (!kernel.matrix) return 0;
  const Gemm& g = kernel.gemm;
  return rates.engines->matrix_seconds({g.batch, g.m, g.n, g.k, g.flop()}, rates.format);
}

double kernel_seconds(const Kernel& kernel, const KernelCost& cost, const TileRates& rates) {
  BlockingRates r;
  r.dram_bytes_per_s = rates.dram_bytes_per_s;
  r.sram_bytes_per_s = rates.sram_bytes_per_s;
  return streamed_seconds(engine_seconds(kernel, rates), static_cast<double>(cost.load),
                          static_cast<double>(cost.store), static_cast<double>(cost.fill),
                          static_cast<double>(cost.sram_stream), static_cast<double>(cost.blocks),
                          r);
}

}  // namespace tilewright
