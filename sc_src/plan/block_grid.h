// Sizes of blocks that the searches try.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright {

/// ⌈extent / count⌉ for every count up to 16 and 16 to the octave beyond, largest first.
std::vector<std::int64_t> block_sizes(std::int64_t extent);

}  // namespace tilewright
