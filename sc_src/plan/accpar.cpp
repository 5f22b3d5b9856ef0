#include "accpar.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tilewright {
namespace {

constexpr std::array<AccParType, kAccParTypes> kTypes{AccParType::output, AccParType::input,
                                                      AccParType::batch};
constexpr double kNever = std::numeric_limits<double>::infinity();

/// How an activation lies, as far as the recursion tells.
enum class Lies { whole, by_batch, by_feature };
Lies left_by(AccParType t) {
  return t == AccParType::batch    ? Lies::by_batch
         : t == AccParType::output ? Lies::by_feature
                                   : Lies::whole;
}
Lies needed_by(AccParType t) {
  return t == AccParType::batch   ? Lies::by_batch
         : t == AccParType::input ? Lies::by_feature
                                  : Lies::whole;
}

double conversion(double elements, Lies from, Lies to, int ranks) {
  if (from == to || from == Lies::whole) return 0;
  const double others = static_cast<double>(ranks - 1) / ranks;
  return to == Lies::whole ? elements * others : elements / ranks * others;
}

/// The recursion from a chain whose first layer has type `first` (any when there is none).
double solve(const std::vector<AccParLayer>& chain, int ranks, const AccParType* first, bool ring,
             std::vector<AccParType>& types) {
  const std::size_t n = chain.size();
  std::vector<std::array<double, kAccParTypes>> least(n);
  std::vector<std::array<std::size_t, kAccParTypes>> before(n);
  for (std::size_t l = 0; l < n; ++l) {
    for (std::size_t t = 0; t < kTypes.size(); ++t) {
      least[l][t] = kNever;
      const double own = accpar_within(chain[l], kTypes[t], ranks);
      if (l == 0) {
        if (first == nullptr || *first == kTypes[t]) least[l][t] = own;
        continue;
      }
      for (std::size_t u = 0; u < kTypes.size(); ++u) {
        const double total =
            least[l - 1][u] + own + accpar_between(chain[l].input, kTypes[u], kTypes[t], ranks);
        if (total < least[l][t]) {
          least[l][t] = total;
          before[l][t] = u;
        }
      }
    }
  }
  std::size_t best = 0;
  double total = kNever;
  for (std::size_t t = 0; t < kTypes.size(); ++t) {
    const double closing = ring ? accpar_between(chain[0].input, kTypes[t], *first, ranks) : 0;
    if (least[n - 1][t] + closing < total) {
      total = least[n - 1][t] + closing;
      best = t;
    }
  }
  types.assign(n, AccParType::output);
  for (std::size_t l = n; l-- > 0;) {
    types[l] = kTypes[best];
    if (l > 0) best = before[l][best];
  }
  return total;
}

std::optional<Dim> cut_of(const Operator& op, AccParType type) {
  if (type == AccParType::batch) return Dim::batch;
  const bool output = type == AccParType::output;
  if (op.kind == OpKind::gemm || op.kind == OpKind::embedding) {
    return output ? Dim::col : Dim::red;
  }
  // What follows a GEMM works on its results as they lie; partial sums are completed for it.
  if (!output) return {};
  return op.role == OpRole::scores || op.role == OpRole::softmax || op.role == OpRole::context
             ? Dim::head
             : Dim::col;
}

AccParLayer layer_of(const Operator& op, const PlanConfig& plan, double micro_batches,
                     bool by_batch) {
  AccParLayer layer;
  const auto samples = static_cast<double>(plan.group_micro_batch());
  layer.weights = static_cast<double>(op.parameters) / micro_batches;
  for (const Operand& in : op.inputs) layer.input += in.elements(op.extents) * samples;
  for (const Operand& out : op.outputs) layer.output += out.elements(op.extents) * samples;
  layer.by_batch = by_batch;
  return layer;
}

}  // namespace

double accpar_within(const AccParLayer& layer, AccParType type, int ranks) {
  const double ring = 2.0 * (ranks - 1) / ranks;
  switch (type) {
    case AccParType::batch:
      return layer.by_batch ? ring * layer.weights : kNever;
    case AccParType::input:
      return ring * layer.output;
    case AccParType::output:
      return ring * layer.input;
  }
  return kNever;
}

double accpar_between(double elements, AccParType from, AccParType to, int ranks) {
  // On the way back the roles are exchanged: a type leaves the gradient of its input as it needs
  // the input itself, but for type III, which completes partial sums.
  return conversion(elements, left_by(from), needed_by(to), ranks) +
         conversion(elements, needed_by(to), left_by(from), ranks);
}

std::vector<AccParType> accpar_types(const std::vector<AccParLayer>& chain, int ranks, bool ring) {
  std::vector<AccParType> best, types;
  if (chain.empty()) return best;
  if (!ring) {
    solve(chain, ranks, nullptr, false, best);
    return best;
  }
  double least = kNever;
  for (const AccParType first : kTypes) {
    const double total = solve(chain, ranks, &first, true, types);
    if (total < least) {
      least = total;
      best = types;
    }
  }
  return best;
}

void accpar(Splits& splits, std::size_t axis, const Graph& graph, const PlanConfig& plan) {
  const int ranks = splits.axes()[axis].degree;
  const double micro_batches = static_cast<double>(plan.micro_batches(0).size());
  // Samples that earlier axes left, in equal parts.
  std::int64_t parts = ranks;
  for (std::size_t a = 0; a < splits.axes().size(); ++a) {
    if (a != axis && !splits.axes()[a].outer && splits.cut(OpRole::qkv, a) == Dim::batch) {
      parts *= splits.axes()[a].degree;
    }
  }
  bool by_batch = plan.uneven == Uneven::pad;
  if (!by_batch) {
    by_batch = true;
    for (const std::int64_t samples : plan.micro_batches(0)) by_batch &= samples % parts == 0;
  }
  AccParType passed_on = AccParType::input;  // by the block before
  // The layers first: embedding and head follow what passes between them.
  std::vector<const Block*> order;
  for (const Block& block : graph.blocks) {
    if (block.is_layer()) order.push_back(&block);
  }
  for (const Block& block : graph.blocks) {
    if (!block.is_layer()) order.push_back(&block);
  }
  for (const Block* block : order) {
    std::vector<AccParLayer> chain;
    for (const Operator& op : block->operators) {
      if (op.kind == OpKind::gemm) chain.push_back(layer_of(op, plan, micro_batches, by_batch));
    }
    const bool repeated = block->is_layer();
    const std::vector<AccParType> types = accpar_types(chain, ranks, repeated);
    if (repeated && !types.empty()) passed_on = types.back();
    AccParType current = passed_on;
    std::size_t next = 0;
    for (const Operator& op : block->operators) {
      if (op.kind == OpKind::gemm) current = types[next++];
      splits.set(op.role, axis, cut_of(op, current));
    }
  }
}

}  // namespace tilewright
