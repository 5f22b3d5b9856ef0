#include "key_value_copies.h"

#include <algorithm>
#include <vector>

namespace tilewright {
namespace {

const Operator* find(const Graph& graph, OpRole role) {
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (op.role == role) return &op;
    }
  }
  return nullptr;
}

/// Makes `heads` columns of heads `wider` of them; operands that are of `from` heads get `to`.
void widen(Operator& op, std::int64_t heads, std::int64_t wider, std::int64_t from,
           std::int64_t to) {
  for (auto* list : {&op.inputs, &op.outputs, &op.saved}) {
    for (Operand& o : *list) {
      if (o.numerator == o.denominator) continue;  // the input, which has no columns
      const std::int64_t of = o.numerator * heads / o.denominator;
      o.numerator = of == from ? to : of;
      o.denominator = wider;
    }
  }
  std::int64_t& columns = op.extents[Dim::col];
  const bool by_column = op.kind == OpKind::gemm;
  if (by_column) op.parameters = op.parameters / columns * (columns / heads * wider);
  columns = columns / heads * wider;
}

}  // namespace

AttentionHeads attention_heads(const Graph& graph) {
  const Operator* scores = find(graph, OpRole::scores);
  if (scores == nullptr) return {};
  AttentionHeads heads{scores->extents[Dim::head], scores->extents[Dim::head]};
  // The graph counts each key once, however many query heads share it: the keys' share of the
  // operator's (head, col) points, times the heads, is what there is per query token.
  for (const Operand& in : scores->inputs) {
    if (!in.dims.has(Dim::col) || in.denominator < 1 || scores->extents[Dim::row] < 1) continue;
    const std::int64_t keys =
        heads.query * scores->extents[Dim::col] * in.numerator / in.denominator;
    heads.key_value = std::min(heads.key_value, keys / scores->extents[Dim::row]);
  }
  return heads;
}

std::optional<KeyValueCopies> key_value_copies(const PlanConfig& plan, const Graph& graph,
                                               const Splits& splits) {
  const AttentionHeads heads = attention_heads(graph);
  if (plan.uneven != Uneven::pad || heads.key_value < 1 || heads.key_value == heads.query) {
    return {};
  }
  std::optional<std::size_t> axis;
  for (std::size_t a = 0; a < splits.axes().size(); ++a) {
    if (splits.axes()[a].degree == 1 || splits.cut(OpRole::scores, a) != Dim::head) continue;
    if (axis) return {};
    axis = a;
  }
  if (!axis) return {};
  for (const OpRole role : {OpRole::softmax, OpRole::context}) {
    if (splits.cut(role, *axis) != Dim::head) return {};
  }
  for (const OpRole role : {OpRole::qkv, OpRole::rotary}) {
    if (find(graph, role) != nullptr && splits.cut(role, *axis) != Dim::col) return {};
  }
  const std::int64_t ranks = splits.axes()[*axis].degree;
  if (ranks <= heads.key_value || ranks % heads.key_value != 0 || heads.query % ranks != 0) {
    return {};
  }
  return KeyValueCopies{*axis, static_cast<int>(ranks), static_cast<int>(ranks / heads.key_value)};
}

Graph with_copies(const Graph& graph, const KeyValueCopies& copies) {
  const auto [query, from] = attention_heads(graph);
  const std::int64_t to = copies.ranks;
  Graph result = graph;
  for (Block& block : result.blocks) {
    for (Operator& op : block.operators) {
      switch (op.role) {
        case OpRole::qkv:
          widen(op, query + 2 * from, query + 2 * to, from, to);
          break;
        case OpRole::rotary:
          widen(op, query + from, query + to, from, to);
          break;
        case OpRole::scores:
        case OpRole::context:
          for (auto* list : {&op.inputs, &op.saved}) {
            for (Operand& o : *list) {
              if (o.dims.has(Dim::row)) continue;  // of the queries
              o.numerator *= to;
              o.denominator *= from;
            }
          }
          break;
        default:
          break;
      }
    }
  }
  return result;
}

}  // namespace tilewright
