// What a kernel moves and how it is cut into blocks, given what is resident in SRAM; and how long
// it takes in closed form.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include <tilewright/machine/compute_model.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/kernels.h>

namespace tilewright {

/// Which tensor classes live in SRAM for the whole iteration; the others live in DRAM.
struct Residency {
  std::array<bool, kTensorClasses> in_sram{};
  bool operator[](TensorClass c) const { return in_sram[static_cast<int>(c)]; }
  bool& operator[](TensorClass c) { return in_sram[static_cast<int>(c)]; }
};

/// A kernel's work on one tile.
struct KernelCost {
  bool feasible = true;
  std::int64_t load = 0, store = 0;  ///< DRAM bytes
  std::int64_t fill = 0;             ///< part of `load` that must arrive before the first block
  std::int64_t blocks = 1;           ///< steps that loads, engines and stores are pipelined over
  std::int64_t sram_stream = 0;      ///< bytes the engines move through the SRAM
  std::int64_t sram_written = 0;     ///< part of them: results and partial sums
  std::int64_t footprint = 0;        ///< SRAM bytes of the working buffers
};

/// What one tile can do, for the closed form.
struct TileRates {
  std::shared_ptr<const ComputeModel> engines;  ///< the timing that the hardware uses
  std::string format;                           ///< the plan's precision
  double sram_bytes_per_s = 0;
  double dram_bytes_per_s = 0;  ///< the tile's share of its controllers when all their clients load
};
TileRates tile_rates(const MachineConfig& machine, DType precision, int clients_per_controller,
                     int controllers_per_tile);

/// Seconds of the matrix engine for the kernel's GEMM, 0 for a vector kernel. The simulated time is
/// never less.
double matrix_seconds(const Kernel& kernel, const TileRates& rates);

/// Seconds of the kernel in closed form, streamed_seconds().
double kernel_seconds(const Kernel& kernel, const KernelCost& cost, const TileRates& rates);

/// `sram_free` is what residents leave. Vector kernels are streams of blocks of a fixed size,
/// smaller only when two do not fit; matrix kernels are blocked by block_gemm().
KernelCost kernel_cost(const Kernel& kernel, const Residency& residency, std::int64_t sram_free,
                       DType precision, const StateBytes& state, const TileRates& rates);

}  // namespace tilewright
