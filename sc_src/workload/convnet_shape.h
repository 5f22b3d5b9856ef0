// What makes a convolutional network's shape impossible, said by field so that the reader can point
// at the line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tilewright/workload/convnet.h>

namespace tilewright {

/// Bounds that keep every product of the builder inside 64 bits.
constexpr std::int64_t kLargestImage = 4096, kMostChannels = 1 << 16, kLargestKernel = 15;

struct ConvnetFault {
  std::string field;        ///< of ConvnetConfig, or of the stage
  std::int64_t stage = -1;  ///< none: of the network
  std::string message;
};

/// The first thing wrong with the shape, if any.
std::optional<ConvnetFault> find_fault(const ConvnetConfig& config);

/// Pixels along one side of an image behind a window of `kernel` pixels with padding of
/// ⌊(kernel − 1)/2⌋.
Window::Side window_side(std::int64_t in, std::int64_t kernel, std::int64_t stride);

}  // namespace tilewright
