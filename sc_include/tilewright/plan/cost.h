// What a kernel moves and how it is cut into blocks, given what is resident in SRAM; and how long
// it takes in closed form.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/machine/compute_model.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/kernels.h>

namespace tilewright {

/// Which tensor classes live in SRAM for the whole iteration, and which in the host memory; the
/// others live in DRAM.
struct Residency {
  std::array<bool, kTensorClasses> in_sram{}, in_host{};
  bool operator[](TensorClass c) const { return in_sram[static_cast<int>(c)]; }
  bool& operator[](TensorClass c) { return in_sram[static_cast<int>(c)]; }
  Space space(TensorClass c) const {
    if (in_host[static_cast<int>(c)]) return Space::host;
    return (*this)[c] ? Space::sram : Space::dram;
  }
};

/// A kernel's work on one tile.
struct KernelCost {
  bool feasible = true;
  std::int64_t load = 0, store = 0;            ///< DRAM bytes
  std::int64_t host_load = 0, host_store = 0;  ///< bytes of the host memory, in as many steps
  Pipelining pipelining;
  SramBytes sram;                    ///< that the engines move
  SramBytes beside;                  ///< that loads and stores move, where they contend with them
  std::int64_t footprint = 0;        ///< SRAM bytes of the working buffers
  std::optional<Blocking> blocking;  ///< of a matrix kernel
  std::optional<PixelBlock> pixels;  ///< of a convolution
};

/// What one tile can do, for the closed form.
struct TileRates {
  std::shared_ptr<const ComputeModel> engines;  ///< the timing that the hardware uses
  std::string format;                           ///< the plan's precision
  /// With the DRAM, and with the host memory in its place: the tile's share of its controllers when
  /// all their clients load.
  StreamRates dram, host;
};
/// Of a job on these tiles: those of the tile that shares its controllers with most others.
TileRates tile_rates(const MachineConfig& machine, DType precision,
                     const std::vector<TileId>& tiles);

/// Seconds of the matrix engine for the kernel's GEMM, 0 for a vector kernel. The simulated time is
/// never less.
double matrix_seconds(const Kernel& kernel, const TileRates& rates);

/// Seconds of the kernel in closed form, streamed_seconds().
double kernel_seconds(const Kernel& kernel, const KernelCost& cost, const TileRates& rates);

/// `sram_free` is what residents leave. Vector kernels are streams of slices; matrix kernels are
/// blocked by block_gemm() or block_convolution().
KernelCost kernel_cost(const Kernel& kernel, const Residency& residency, std::int64_t sram_free,
                       DType precision, const StateBytes& state, const TileRates& rates);

}  // namespace tilewright
