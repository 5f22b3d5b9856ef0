#include "block_grid.h"

#include <algorithm>
#include <cmath>

namespace tilewright {

std::vector<std::int64_t> block_sizes(std::int64_t extent) {
  constexpr double kPerOctave = 16;
  std::vector<std::int64_t> blocks;
  double at = 1;
  for (;;) {
    const auto count = std::min<std::int64_t>(std::llround(at), extent);
    const std::int64_t block = (extent + count - 1) / count;
    if (blocks.empty() || block < blocks.back()) blocks.push_back(block);
    if (block == 1) return blocks;
    at = at < kPerOctave ? at + 1 : at * std::exp2(1 / kPerOctave);
  }
}

}  // namespace tilewright
