// Computation and tensor-parallel communication side by side, chunk by chunk.
#pragma once

#include <tilewright/plan/kernels.h>

namespace tilewright {

/// Cuts every GEMM whose result goes into a sum over the given axes, together with that all-reduce
/// or reduce-scatter, into `chunks` by rows: a chunk is summed while the next is computed. Work and
/// bytes of communication stay what they are; operands that do not stay in SRAM are read once for
/// every chunk. What the block hands over is left whole.
void chunk_sums(BlockKernels& block, AxisSet axes, int chunks);

}  // namespace tilewright
