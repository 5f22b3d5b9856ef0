#include <tilewright/plan/sharding.h>

namespace tilewright {

Sharding::Sharding(const Graph& graph, const Splits& splits, int zero)
    : group_axes_(splits.axes()), zero_(zero) {
  axes_ = ~AxisSet{0};
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      // Experts are cut over their axis, which all else is summed over.
      if (!op.multiplies_weights() || op.weights.front().dims.has(Dim::expert)) continue;
      axes_ &= splits.summed_gradients(op);
    }
  }
  for (std::size_t a = 0; a < kMaxAxes; ++a) {
    if (a >= group_axes_.size() || group_axes_[a].degree == 1) axes_ &= ~(AxisSet{1} << a);
  }
}

std::int64_t Sharding::ways(AxisSet axes) const {
  std::int64_t n = 1;
  for (std::size_t a = 0; a < group_axes_.size(); ++a) {
    if ((cut(axes) >> a & 1u) != 0) n *= group_axes_[a].degree;
  }
  return n;
}

ParametersByAxes Sharding::cut(const ParametersByAxes& parameters) const {
  ParametersByAxes result;
  for (const auto& entry : parameters) {
    if (ways(entry.first) > 1) result.insert(entry);
  }
  return result;
}

std::int64_t Sharding::part(const ParametersByAxes& parameters) const {
  std::int64_t sum = 0;
  for (const auto& [axes, n] : parameters) sum += (n + ways(axes) - 1) / ways(axes);
  return sum;
}

std::int64_t Sharding::weights(const ParametersByAxes& parameters) const {
  return zero_ >= 3 ? part(parameters) : total(parameters);
}
std::int64_t Sharding::gradients(const ParametersByAxes& parameters) const {
  return zero_ >= 2 ? part(parameters) : total(parameters);
}
std::int64_t Sharding::optimizer(const ParametersByAxes& parameters) const {
  return zero_ >= 1 ? part(parameters) : total(parameters);
}

std::int64_t total(const ParametersByAxes& parameters) {
  std::int64_t sum = 0;
  for (const auto& entry : parameters) sum += entry.second;
  return sum;
}

}  // namespace tilewright
