#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/stages.h>

namespace tilewright {
namespace {

/// Costs this close are equal: sums of the same layers in another order differ in the last digits.
constexpr double kSame = 1e-12;

std::size_t count_layers(const std::vector<bool>& is_layer) {
  return static_cast<std::size_t>(std::count(is_layer.begin(), is_layer.end(), true));
}

/// The cost of blocks [a, b) from running sums.
class RangeCost {
 public:
  explicit RangeCost(const std::vector<double>& cost) : sum_(cost.size() + 1, 0) {
    for (std::size_t i = 0; i < cost.size(); ++i) {
      if (!(cost[i] >= 0) || std::isinf(cost[i])) {
        throw InternalError(fmt::format("balance_stages: cost {} of block {}", cost[i], i));
      }
      sum_[i + 1] = sum_[i] + cost[i];
    }
  }
  double operator()(std::size_t a, std::size_t b) const { return sum_[b] - sum_[a]; }

 private:
  std::vector<double> sum_;
};

/// Where a chain of blocks may be cut.
class Cuts {
 public:
  explicit Cuts(const std::vector<bool>& is_layer) : layers_(is_layer.size() + 1, 0) {
    for (std::size_t i = 0; i < is_layer.size(); ++i) layers_[i + 1] = layers_[i] + is_layer[i];
  }
  std::size_t blocks() const { return layers_.size() - 1; }
  bool holds_layer(std::size_t a, std::size_t b) const { return layers_[b] > layers_[a]; }
  std::size_t layers_from(std::size_t a) const { return layers_.back() - layers_[a]; }

 private:
  std::vector<std::size_t> layers_;
};

/// Fills best[k][a], the least total of `weigh` over cutting the blocks from a on into k ranges, by
/// `combine`; unreachable ones are infinite. Returns the end of the first range for each (k, a):
/// the smallest one among equals, so that what is left over goes to the later stages.
template <class Weigh, class Combine>
std::vector<std::vector<std::size_t>> solve(const Cuts& cuts, std::size_t stages,
                                            std::vector<std::vector<double>>& best, Weigh weigh,
                                            Combine combine) {
  constexpr double kNever = std::numeric_limits<double>::infinity();
  const std::size_t n = cuts.blocks();
  best.assign(stages + 1, std::vector<double>(n + 1, kNever));
  std::vector<std::vector<std::size_t>> first_end(stages + 1, std::vector<std::size_t>(n + 1, n));
  best[0][n] = 0;
  for (std::size_t k = 1; k <= stages; ++k) {
    for (std::size_t a = 0; a < n; ++a) {
      if (cuts.layers_from(a) < k) break;
      for (std::size_t b = a + 1; b <= n; ++b) {
        if (best[k - 1][b] == kNever || !cuts.holds_layer(a, b)) continue;
        const double total = combine(weigh(a, b), best[k - 1][b]);
        if (total < best[k][a] * (1 - kSame) || best[k][a] == kNever) {
          if (total == kNever) continue;
          best[k][a] = total;
          first_end[k][a] = b;
        }
      }
    }
  }
  return first_end;
}

}  // namespace

std::vector<StageRange> balance_stages(const std::vector<double>& cost,
                                       const std::vector<bool>& is_layer, int stages) {
  if (cost.size() != is_layer.size()) {
    throw InternalError("balance_stages: costs and marks differ in number");
  }
  const std::size_t layers = count_layers(is_layer);
  if (stages < 1 || static_cast<std::size_t>(stages) > layers) {
    throw InputError(
        fmt::format("{} pipeline stages for {} layers; allowed: 1 to {}", stages, layers, layers));
  }
  const RangeCost range(cost);
  const Cuts cuts(is_layer);
  const auto k = static_cast<std::size_t>(stages);
  std::vector<std::vector<double>> best;

  // First the least possible largest stage, then the evenest among the cuts that reach it.
  solve(cuts, k, best, range, [](double a, double b) { return std::max(a, b); });
  const double largest = best[k][0] * (1 + kSame);
  const auto first_end = solve(
      cuts, k, best,
      [&](std::size_t a, std::size_t b) {
        const double c = range(a, b);
        return c <= largest ? c * c : std::numeric_limits<double>::infinity();
      },
      [](double a, double b) { return a + b; });

  std::vector<StageRange> result;
  std::size_t a = 0;
  for (std::size_t left = k; left > 0; --left) {
    const std::size_t b = first_end[left][a];
    result.push_back({a, b});
    a = b;
  }
  return result;
}

std::vector<StageRange> explicit_stages(const std::vector<bool>& is_layer,
                                        const std::vector<std::int64_t>& layers_per_stage) {
  const auto layers = static_cast<std::int64_t>(count_layers(is_layer));
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < layers_per_stage.size(); ++i) {
    const std::int64_t n = layers_per_stage[i];
    if (n < 1 || n > layers) {
      throw InputError(
          fmt::format("stages: stage {} has {} layers; allowed: 1 to {}", i, n, layers));
    }
    sum += n;
  }
  if (sum != layers) {
    throw InputError(fmt::format("stages: [{}] hold {} layers, the model has {}",
                                 fmt::join(layers_per_stage, ", "), sum, layers));
  }
  std::vector<StageRange> result;
  std::size_t at = 0;
  for (std::size_t i = 0; i < layers_per_stage.size(); ++i) {
    StageRange range{at, at};
    std::int64_t held = 0;
    // Up to the next stage's first layer, or the end.
    while (range.last < is_layer.size() && !(held == layers_per_stage[i] && is_layer[range.last])) {
      held += is_layer[range.last];
      ++range.last;
    }
    at = range.last;
    result.push_back(range);
  }
  return result;
}

}  // namespace tilewright
