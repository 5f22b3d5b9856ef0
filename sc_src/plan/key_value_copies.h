// Key and value heads fewer than the ranks that share the attention: every rank gets a copy of the
// one that its query heads use.
#pragma once

#include <cstdint>
#include <optional>

#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

struct AttentionHeads {
  std::int64_t query = 0, key_value = 0;  ///< 0 in a model without attention
};
AttentionHeads attention_heads(const Graph& graph);

struct KeyValueCopies {
  std::size_t axis = 0;
  int ranks = 1;   ///< of the axis, each with one key and one value head
  int copies = 1;  ///< of each head, with consecutive ranks
};

/// What `uneven: pad` does about key/value heads: nothing where they divide over the ranks, or
/// where whole heads do not make equal parts: the ranks must be a multiple of the key/value heads
/// and divide the query heads, along one axis that cuts QKV by column and the attention by head.
std::optional<KeyValueCopies> key_value_copies(const PlanConfig& plan, const Graph& graph,
                                               const Splits& splits);

/// The graph with as many key and value heads as there are ranks: what the ranks together hold and
/// work on.
Graph with_copies(const Graph& graph, const KeyValueCopies& copies);

}  // namespace tilewright
