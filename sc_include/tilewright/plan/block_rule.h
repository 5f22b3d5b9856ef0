// Which blocks of a model a rule of a plan is for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>

namespace tilewright {

struct BlockRule {
  std::int64_t every = 1;   ///< of the layers of the model, counted from 1, the multiples of this
  std::vector<int> stages;  ///< where it applies; empty: everywhere

  /// Whether a block of `stage` is meant; `layer` counts the model's layers from 0 and is negative
  /// outside them. With a negative stage, only rules that name no stages apply.
  bool applies(int stage, std::int64_t layer) const;
  bool operator==(const BlockRule& o) const { return every == o.every && stages == o.stages; }
};

/// ", one layer of 2, stages 0, 1"; "" for all blocks.
std::string to_string(const BlockRule& rule);

/// Reads the keys `every` and `stages` of a plan with `pipeline` stages (docs/plan.md). Throws
/// InputError.
BlockRule read_block_rule(const Section& section, int pipeline);

}  // namespace tilewright
