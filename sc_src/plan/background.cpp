#include <algorithm>
#include <map>

#include <tilewright/plan/background.h>

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

/// Starts so many calls ahead of the one it is for.
std::uint32_t ahead(std::size_t call, int prefetch) {
  const auto number = static_cast<std::uint32_t>(call);
  return number - std::min(number, static_cast<std::uint32_t>(prefetch));
}

/// Lets calls that some moves follow (`behind`: as many moves as have then been made, 0 for none)
/// wait for all but the newest of these, so that what they leave in memory is of `blocks` calls.
void hold_back(std::vector<std::uint32_t>& after, const std::vector<std::uint32_t>& behind,
               std::size_t blocks) {
  std::vector<std::uint32_t> so_far;
  for (std::size_t i = 0; i < after.size(); ++i) {
    if (behind[i] == 0) continue;
    if (so_far.size() >= blocks) after[i] = std::max(after[i], so_far[so_far.size() - blocks]);
    so_far.push_back(behind[i]);
  }
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
                               const BackgroundChoice& choice,
                               const std::function<ParametersByAxes(std::size_t)>& parameters,
                               const std::function<ParametersByAxes(std::size_t)>& gathered) {
  BackgroundPlan plan;
  plan.after.assign(calls.size(), 0);
  const bool scatters = sharding.active() && sharding.zero() >= 2;
  if (choice.sums && !scatters) {
    plan.moves = buckets(calls, sharding.active() ? Kind::scatter : Kind::all_reduce, choice.bucket,
                         choice.gradient_bytes, parameters);
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const StateUse& use = calls[i];
    const auto next = static_cast<std::uint32_t>(i + 1);
    if (choice.gathers && use.reads_weights) {
      ParametersByAxes p = gathered(use.position);
      if (!p.empty()) {
        plan.moves.push_back({Kind::gather, std::move(p), 0, i, ahead(i, choice.prefetch)});
      }
    }
    if (use.leaves > 0) plan.moves.push_back({Kind::stash_out, {}, use.leaves, i, next});
    if (use.returns > 0) {
      const auto left = static_cast<std::uint32_t>(use.left_by + 1);
      plan.moves.push_back(
          {Kind::stash_in, {}, use.returns, i, std::max(left, ahead(i, choice.prefetch))});
    }
    if (choice.sums && scatters && use.makes_gradients) {
      ParametersByAxes p = sharding.cut(parameters(use.position));
      if (!p.empty()) plan.moves.push_back({Kind::scatter, std::move(p), 0, i, next});
    }
  }
  std::stable_sort(plan.moves.begin(), plan.moves.end(),
                   [](const StateMove& a, const StateMove& b) {
                     return std::pair(a.after, a.kind) < std::pair(b.after, b.kind);
                   });
  std::vector<std::uint32_t> scattered(calls.size(), 0), left(calls.size(), 0);
  for (std::size_t m = 0; m < plan.moves.size(); ++m) {
    const auto done = static_cast<std::uint32_t>(m + 1);
    const StateMove& move = plan.moves[m];
    switch (move.kind) {
      case Kind::gather:
      case Kind::stash_in:
        plan.after[move.call] = done;
        break;
      case Kind::stash_out:
        left[move.call] = done;
        break;
      case Kind::scatter:
        if (scatters) scattered[move.call] = done;
        break;
      case Kind::all_reduce:
        break;
    }
  }
  hold_back(plan.after, scattered, kScatteredBlocks);
  hold_back(plan.after, left, kLeavingBlocks);
  return plan;
}

KeptPeak peak_kept_beside(const std::vector<CallMemory>& memory,
                          const std::vector<std::int64_t>& waiting,
                          const BackgroundPlan& background) {
  constexpr auto kStash = static_cast<std::size_t>(Kept::stash);
  const std::vector<StateMove>& moves = background.moves;
  const auto moved_in = [](const StateMove& m) { return m.kind == Kind::stash_in ? m.bytes : 0; };
  const auto moved_out = [](const StateMove& m) { return m.kind == Kind::stash_out ? m.bytes : 0; };
  KeptPeak peak;
  std::int64_t parked = 0, in_host = 0;
  for (const StateMove& m : moves) {
    peak.host = std::max(peak.host, in_host += moved_out(m));
    in_host -= moved_in(m);
  }
  // While a call runs the moves it waits for are complete; of the others that may have started any
  // number is, and the next one under way.
  KeptBytes kept{};
  std::size_t complete = 0;
  for (std::size_t c = 0; c < memory.size(); ++c) {
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] += memory[c].taken[i];
    for (; complete < background.after[c]; ++complete) {
      kept[kStash] += moved_in(moves[complete]) - moved_out(moves[complete]);
    }
    KeptBytes now = kept;
    for (std::size_t m = complete;; ++m) {
      const bool under_way = m < moves.size() && moves[m].after <= c;
      if (under_way) now[kStash] += moved_in(moves[m]);
      if (saved_bytes(now) > saved_bytes(peak.near)) peak.near = now;
      peak.with_messages = std::max(peak.with_messages, saved_bytes(now) + waiting[c]);
      if (!under_way) break;
      now[kStash] -= moved_out(moves[m]);
    }
    parked = std::max(parked, parked_bytes(kept));
    for (std::size_t i = 0; i < kept.size(); ++i) kept[i] -= memory[c].given[i];
  }
  peak.near[static_cast<std::size_t>(Kept::parked)] = parked;
  return peak;
}

}  // namespace tilewright
