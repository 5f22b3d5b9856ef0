// What a plan does not keep of the forward pass but makes again before the backward pass.
#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/plan/block_rule.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

/// A set of operators, by role.
using RoleSet = std::bitset<kOpRoles>;

/// What a block drops of what its backward pass reads.
struct Dropped {
  /// Everything but a layer's input; its whole forward pass runs again, as in frameworks, although
  /// the last operators would not be needed. Outside the layers only dropout masks, which are drawn
  /// again.
  bool all = false;
  /// The results of these operators; the fewest operators that rebuild them run again.
  RoleSet roles;

  bool operator==(const Dropped& o) const { return all == o.all && roles == o.roles; }
};

struct RecomputationRule {
  Dropped dropped;
  BlockRule where;

  bool operator==(const RecomputationRule& o) const {
    return dropped == o.dropped && where == o.where;
  }
};

/// A plan's choice. Where several rules apply to a block, it drops what any of them says.
struct Recomputation {
  std::vector<RecomputationRule> rules;

  static const Recomputation none;
  static const Recomputation full;
  /// The attention core: scores, softmax and dropout; its result is kept (arXiv 2205.05198).
  static const Recomputation selective;

  /// What a block of `stage` drops; `layer` counts the model's layers from 0 and is negative
  /// outside them. With a negative stage, the rules that name no stages.
  Dropped of(int stage, std::int64_t layer) const;

  bool operator==(const Recomputation& o) const { return rules == o.rules; }
  bool operator!=(const Recomputation& o) const { return !(*this == o); }
};

/// "none", "selective", "full of every 2nd layer, stages 0, 1; norm, activation".
std::string to_string(const Recomputation& recomputation);

/// Reads `recomputation` of a plan with `pipeline` stages (docs/plan.md). Throws InputError.
Recomputation read_recomputation(const Section& plan, int pipeline);

}  // namespace tilewright
