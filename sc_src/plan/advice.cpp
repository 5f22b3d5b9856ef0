#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/advice.h>
#include <tilewright/plan/placement.h>
#include <tilewright/plan/stage_plan.h>

#include "iteration_estimate.h"

namespace tilewright {
namespace {

using Changes = std::vector<PlanChange>;

void change_offload(const PlanConfig& plan, const MachineConfig& machine, Changes& changes) {
  if (machine.host.sites.empty()) return;
  enum : unsigned { kOptimizer = 1, kActivations = 2, kWeights = 4, kAll = 7 };
  unsigned possible = 0;
  if (!plan.offload.optimizer && plan.state_bytes().optimizer > 0) possible |= kOptimizer;
  if (!plan.offload.activations && plan.mode == Mode::training) possible |= kActivations;
  if (!plan.offload.weights) possible |= kWeights;
  for (unsigned moved = 1; moved <= kAll; ++moved) {
    if ((moved & ~possible) != 0) continue;
    PlanConfig v = plan;
    std::vector<std::string> keys;
    if ((moved & kOptimizer) != 0) {
      v.offload.optimizer = true;
      keys.push_back("offload.optimizer: true");
    }
    if ((moved & kActivations) != 0) {
      v.offload.activations = BlockRule{};
      keys.push_back("offload.activations: all");
    }
    if ((moved & kWeights) != 0) {
      v.offload.weights = true;
      keys.push_back("offload.weights: true");
    }
    changes.push_back({fmt::format("{}", fmt::join(keys, " with ")), "offload", v});
  }
}

void change_recomputation(const PlanConfig& plan, Changes& changes) {
  if (plan.recomputation == Recomputation::full) return;
  const auto add = [&](const std::string& what, const Recomputation& r) {
    if (plan.recomputation == r) return;
    PlanConfig v = plan;
    v.recomputation = r;
    changes.push_back({"recomputation: " + what, "recomputation", v});
  };
  if (plan.recomputation == Recomputation::none) add("selective", Recomputation::selective);
  Recomputation every_second = Recomputation::full;
  every_second.rules[0].where.every = 2;
  if (plan.recomputation == Recomputation::none) add("{ kind: full, every: 2 }", every_second);
  add("full", Recomputation::full);
}

/// Schedules that hold no more than the plan's.
void change_schedule(const PlanConfig& plan, Changes& changes) {
  std::vector<ScheduleKind> others;
  switch (plan.schedule) {
    case ScheduleKind::zb_h2:
      others = {ScheduleKind::zb_h1, ScheduleKind::one_f_one_b};
      break;
    case ScheduleKind::gpipe:
    case ScheduleKind::interleaved:
    case ScheduleKind::zb_h1:
    case ScheduleKind::zb_v:
      others = {ScheduleKind::one_f_one_b};
      break;
    case ScheduleKind::one_f_one_b:
    case ScheduleKind::file:
      break;
  }
  for (const ScheduleKind kind : others) {
    PlanConfig v = plan;
    v.schedule = kind;
    v.stage_layers.clear();
    changes.push_back({std::string("schedule: ") + to_string(kind), "schedule", v});
  }
}

PlanChange change_micro_batch(const PlanConfig& plan, std::int64_t micro_batch) {
  PlanConfig v = plan;
  v.micro_batch = micro_batch;
  return {fmt::format("batch.micro: {}", micro_batch), "micro-batch", v};
}

/// Plans that other changes can be tried with, the plan itself first, and what to say of them.
std::vector<std::pair<std::string, PlanConfig>> starting_points(const PlanConfig& plan) {
  std::vector<std::pair<std::string, PlanConfig>> points{{"", plan}};
  auto [text, changed] = points.front();
  if (plan.mode == Mode::training && plan.recomputation != Recomputation::full) {
    changed.recomputation = Recomputation::full;
    points.emplace_back(text += "recomputation: full with ", changed);
  }
  if (plan.micro_batch > 1) {
    changed.micro_batch = 1;
    points.emplace_back(text += "batch.micro: 1 with ", changed);
  }
  return points;
}

}  // namespace

std::vector<PlanChange> possible_changes(const PlanConfig& plan, const MachineConfig& machine) {
  Changes changes;
  const bool training = plan.mode == Mode::training;
  for (int zero = plan.zero + 1; training && plan.data * plan.context > 1 && zero <= 3; ++zero) {
    PlanConfig v = plan;
    v.zero = zero;
    changes.push_back({fmt::format("parallelism.zero: {}", zero), "zero", v});
  }
  change_offload(plan, machine, changes);
  if (training && !plan.fuse_attention) {
    PlanConfig v = plan;
    v.fuse_pointwise = v.fuse_attention = true;
    changes.push_back({"fusion: attention", "fusion", v});
  }
  if (training) change_recomputation(plan, changes);
  if (plan.tensor > 1 && plan.tensor_shape.size() < 2 && !plan.sequence_parallel) {
    PlanConfig v = plan;
    v.sequence_parallel = true;
    changes.push_back({"parallelism.sequence_parallel: true", "sequence_parallel", v});
  }
  if (plan.overlap.prefetch > 0 && (plan.zero >= 3 || plan.offload.any())) {
    PlanConfig v = plan;
    v.overlap.prefetch = 0;
    changes.push_back({"overlap.prefetch: 0", "prefetch", v});
  }
  if (training) change_schedule(plan, changes);
  for (std::int64_t micro = plan.micro_batch / 2; micro > 0; micro /= 2) {
    changes.push_back(change_micro_batch(plan, micro));
  }
  for (const int factor : {2, 4, 8}) {
    PlanConfig v = plan;
    v.tensor *= factor;
    v.tensor_shape.clear();
    v.block_width = v.block_height = 0;
    changes.push_back({fmt::format("parallelism.tensor: {}", v.tensor), "tensor", v});
    v = plan;
    v.pipeline *= factor;
    v.stage_layers.clear();
    changes.push_back({fmt::format("parallelism.pipeline: {}", v.pipeline), "pipeline", v});
  }
  return changes;
}

std::optional<double> estimate_iteration(const Graph& graph, const PlanConfig& plan,
                                         const MachineConfig& machine) {
  try {
    check_plan(plan, graph, machine);
    const Placement placement = place(plan, machine);
    StagePlanner planner(graph, plan, machine, placement);
    planner.without_advice();
    const std::vector<StagePlan> stages = planner.plan_stages();
    return iteration_seconds(planner, plan, placement, stages);
  } catch (const InputError&) {
    return {};
  }
}

std::vector<Proposal> propose(const Graph& graph, const PlanConfig& plan,
                              const MachineConfig& machine) {
  std::vector<Proposal> best;  // of each kind
  const auto attempt = [&](const PlanChange& change, const std::string& with) {
    const auto seconds = estimate_iteration(graph, change.plan, machine);
    if (!seconds) return false;
    const Proposal proposal{{with + change.what, change.kind, change.plan}, *seconds};
    const auto known = std::find_if(
        best.begin(), best.end(), [&](const Proposal& p) { return p.change.kind == change.kind; });
    if (known == best.end()) {
      best.push_back(proposal);
    } else if (*seconds < known->seconds) {
      *known = proposal;
    }
    return true;
  };
  for (const auto& [with, point] : starting_points(plan)) {
    std::int64_t micro_batch = 0;  // the largest half of a half that fits
    for (const PlanChange& change : possible_changes(point, machine)) {
      if (attempt(change, with) && change.kind == "micro-batch") {
        micro_batch = std::max(micro_batch, change.plan.micro_batch);
      }
    }
    // Between it and its double: what is needed grows with the micro-batch.
    for (std::int64_t most = std::min(2 * micro_batch + 1, point.micro_batch);
         micro_batch > 0 && most - micro_batch > 1;) {
      const std::int64_t middle = micro_batch + (most - micro_batch) / 2;
      (attempt(change_micro_batch(point, middle), with) ? micro_batch : most) = middle;
    }
    if (!best.empty()) break;
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const Proposal& a, const Proposal& b) { return a.seconds < b.seconds; });
  return best;
}

}  // namespace tilewright
