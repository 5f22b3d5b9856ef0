// Cutting a convolution whose operands do not fit the SRAM into the blocks that take the least
// time: block_gemm() for operands of which one is an image seen through windows.
#pragma once

#include <cstdint>

#include <tilewright/plan/blocking.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

enum class ConvolutionPass : std::uint8_t {
  forward,          ///< Y = X * W
  input_gradient,   ///< dX = dY * W, turned round
  weight_gradient,  ///< dW = X * dY
};

/// One pass of a convolution on one tile. As a product C = A · B: A is the image that windows
/// reach into (X, dY, X), B the other operand (W, W, dY), C the result (Y, dX, dW).
struct Convolution {
  ConvolutionPass pass = ConvolutionPass::forward;
  Window window;
  std::int64_t samples = 1;
  std::int64_t groups = 1;
  std::int64_t in_channels = 1, out_channels = 1;  ///< of a group

  /// Multiply-accumulates of every pass, taps in the padding included: the product that the
  /// matrix engine works on, M pixels × N channels × K (channels × taps) or, for the weight
  /// gradient, M (channels × taps) × N channels × K pixels. With a stride the input gradient is one
  /// product for each part of the taps that meets a pixel; they are counted as one.
  Gemm gemm() const;
  /// Elements of A that are read at least (a stride beyond the kernel skips some), of B and of C.
  std::int64_t a_elements() const;
  std::int64_t b_elements() const;
  std::int64_t c_elements() const;
};

/// Pixels of a block: of the result, of the summed image in a weight gradient.
struct PixelBlock {
  std::int64_t samples = 1, rows = 1, columns = 1;
};

struct ConvolutionBlocking {
  /// m, n and k are pixels, result channels and summed channels, or for a weight gradient input
  /// channels, output channels and pixels; the kernel's taps are always whole.
  Blocking blocks;
  PixelBlock pixels;
};

/// Pixels along one side of A that the blocks of `block` pixels of the result (or of B, for the
/// weight gradient) read, one block after the other: what neighbours share is read for each.
std::int64_t pixels_read(const Window::Side& side, ConvolutionPass pass, std::int64_t block);

/// The blocking that takes the least time by streamed_seconds(), of equal ones that which moves the
/// fewest DRAM bytes, then SRAM bytes. Loop orders and the grid of channel widths are those of
/// block_gemm(), without spilled sums; a strip of columns is one of 1, 2, 4, ... that divide the
/// image, and its rows and then samples are as many as fit. Blocks follow each other down a strip.
/// Where the summed channels are whole, the rows that two blocks share stay in SRAM; elsewhere, and
/// between strips, they are read again. Groups go in bundles of a DRAM burst. Results may be
/// made in the place of their sums. Nothing gets slower
/// with more SRAM or bandwidth.
ConvolutionBlocking block_convolution(const Convolution& convolution, const GemmOperands& operands,
                                      std::int64_t sram_free, double engine_seconds,
                                      const StreamRates& rates);

}  // namespace tilewright
