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
  int sharers = 1;  ///< ranks that keep together, in DRAM, what all of them hold
  bool operator[](TensorClass c) const { return in_sram[static_cast<int>(c)]; }
  bool& operator[](TensorClass c) { return in_sram[static_cast<int>(c)]; }
  Space space(TensorClass c) const {
    if (in_host[static_cast<int>(c)]) return Space::host;
    return (*this)[c] ? Space::sram : Space::dram;
  }
  /// Whether ranks keep together what is common of a class.
  bool keeps_together(TensorClass c) const { return sharers > 1 && space(c) == Space::dram; }
  /// Whether they keep this tensor together, and load it together.
  bool shares(const Access& a) const { return a.common && keeps_together(a.cls); }
  /// What a rank keeps of it.
  std::int64_t kept(const Access& a) const {
    return shares(a) ? kept_part(a.bytes, sharers) : a.bytes;
  }
};

/// A kernel's work on one tile.
struct KernelCost {
  bool feasible = true;
  std::int64_t load = 0, store = 0;  ///< DRAM bytes
  std::int64_t shared_load = 0;      ///< of `load`: what the DRAM reads once for several ranks
  std::int64_t spared = 0;           ///< of that: what it need not read for this one
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
  int sum_bytes = 4;                            ///< MatrixConfig::accumulator
  /// With the DRAM, and with the host memory in its place: the tile's share of its controllers when
  /// all their clients load.
  StreamRates dram, host;
  /// Of the kernels that were asked for; shared by copies.
  std::shared_ptr<BlockingCache> blockings = std::make_shared<BlockingCache>();
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
