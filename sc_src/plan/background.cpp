#include "background.h"

#include <algorithm>
#include <map>

namespace tilewright {
namespace {

using Kind = StateMove::Kind;

/// Gradients summed over nothing need no move.
bool anything(const ParametersByAxes& parameters) {
  return std::any_of(parameters.begin(), parameters.end(),
                     [](const auto& entry) { return entry.first != 0; });
}

void add(ParametersByAxes& sum, const ParametersByAxes& parameters) {
  for (const auto& [axes, n] : parameters) sum[axes] += n;
}

std::vector<StateMove> buckets(const std::vector<StateUse>& calls, Kind kind, std::int64_t bucket,
                               int gradient_bytes,
                               const std::function<ParametersByAxes(std::size_t)>& parameters) {
  std::map<std::size_t, std::size_t> last;  // call by position
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].makes_gradients) last[calls[i].position] = i;
  }
  std::vector<std::pair<std::size_t, std::size_t>> order;  // (call, position)
  for (const auto& [position, call] : last) order.emplace_back(call, position);
  std::sort(order.begin(), order.end());
  std::vector<StateMove> moves;
  StateMove open;
  const auto close = [&] {
    if (anything(open.parameters)) moves.push_back(open);
    open.parameters.clear();
  };
  for (const auto& [call, position] : order) {
    open.kind = kind;
    open.call = call;
    open.after = static_cast<std::uint32_t>(call + 1);
    add(open.parameters, parameters(position));
    if (total(open.parameters) * gradient_bytes >= bucket) close();
  }
  close();
  return moves;
}

}  // namespace

BackgroundPlan plan_background(const std::vector<StateUse>& calls, const Sharding& sharding,
                               std::int64_t bucket, int prefetch, int gradient_bytes,
                               const std::function<ParametersByAxes(std::size_t)>& parameters) {
  BackgroundPlan plan;
  plan.after.assign(calls.size(), 0);
  if (!sharding.active() || sharding.zero() < 2) {
    plan.moves =
        buckets(calls, sharding.active() && sharding.zero() == 1 ? Kind::scatter : Kind::all_reduce,
                bucket, gradient_bytes, parameters);
    return plan;
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const ParametersByAxes p = sharding.cut(parameters(calls[i].position));
    if (p.empty()) continue;
    const auto number = static_cast<std::uint32_t>(i);
    const std::uint32_t ahead = std::min(number, static_cast<std::uint32_t>(prefetch));
    if (sharding.zero() >= 3 && calls[i].reads_weights)
      plan.moves.push_back({Kind::gather, p, i, number - ahead});
    if (calls[i].makes_gradients) plan.moves.push_back({Kind::scatter, p, i, number + 1});
  }
  // At one time what is needed next comes first.
  std::stable_sort(plan.moves.begin(), plan.moves.end(),
                   [](const StateMove& a, const StateMove& b) {
                     return std::pair(a.after, a.kind == Kind::scatter) <
                            std::pair(b.after, b.kind == Kind::scatter);
                   });
  std::vector<std::uint32_t> scattered(calls.size(), 0);  // moves up to a call's scatter
  for (std::size_t m = 0; m < plan.moves.size(); ++m) {
    const auto done = static_cast<std::uint32_t>(m + 1);
    const StateMove& move = plan.moves[m];
    if (move.kind == Kind::gather) plan.after[move.call] = done;
    if (move.kind == Kind::scatter) scattered[move.call] = done;
  }
  std::vector<std::uint32_t> behind;  // scatters of the calls so far, in order
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (scattered[i] == 0) continue;
    if (behind.size() >= kScatteredBlocks) {
      plan.after[i] = std::max(plan.after[i], behind[behind.size() - kScatteredBlocks]);
    }
    behind.push_back(scattered[i]);
  }
  return plan;
}

}  // namespace tilewright
