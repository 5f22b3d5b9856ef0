// Computation and tensor-parallel communication side by side, chunk by chunk.
#pragma once

#include <tilewright/plan/kernels.h>

namespace tilewright {

/// Cuts into `chunks` by rows, with its GEMM, every all-reduce or reduce-scatter of a GEMM's result
/// and every all-gather of its first operand over the given axes: a chunk is moved while another is
/// computed. Work and bytes of communication stay what they are; operands that do not stay in SRAM
/// are read once for every chunk. What the block hands over is left whole, and so is what is
/// gathered for a weight gradient, which sums over the rows: it comes beside the input gradient.
void chunk_transfers(BlockKernels& block, AxisSet axes, int chunks);

}  // namespace tilewright
