// Cutting the chain of blocks into pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

namespace tilewright {

/// The blocks [first, last) of Graph::chain that a stage holds.
struct StageRange {
  std::size_t first = 0, last = 0;
  std::size_t size() const { return last - first; }
};

/// Cuts a chain with the given block costs into `stages` contiguous ranges that minimise the
/// largest cost, and among those the sum of squared costs. Every range holds at least one block
/// that `is_layer` marks; the blocks before the first layer stay with it, those after the last
/// likewise. Dynamic programming, O(stages · layers²). Throws InputError when stages exceeds the
/// layers.
std::vector<StageRange> balance_stages(const std::vector<double>& cost,
                                       const std::vector<bool>& is_layer, int stages);

/// The ranges for a user's own layer counts per stage.
std::vector<StageRange> explicit_stages(const std::vector<bool>& is_layer,
                                        const std::vector<std::int64_t>& layers_per_stage);

}  // namespace tilewright
