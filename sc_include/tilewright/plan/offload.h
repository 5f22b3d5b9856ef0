// What of a plan's data lives in the second memory tier, the machine's host memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tilewright/base/config.h>
#include <tilewright/plan/block_rule.h>

namespace tilewright {

struct Offload {
  /// What these blocks keep for their backward pass moves to the host memory behind their forward
  /// call, and back ahead of the first call that reads it.
  std::optional<BlockRule> activations;
  /// The optimiser step reads its state from the host memory and writes it back there.
  bool optimizer = false;
  /// Weights are read from the host memory block by block, ahead of each pass.
  bool weights = false;

  bool any() const { return activations || optimizer || weights; }
};

/// "none", "activations, one layer of 2; optimizer".
std::string to_string(const Offload& offload);

/// Reads `offload` of a plan with `pipeline` stages (docs/plan.md). Throws InputError.
Offload read_offload(const Section& plan, int pipeline);

}  // namespace tilewright
