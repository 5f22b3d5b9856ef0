#include <algorithm>

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
    PlanConfig v = plan;
    v.micro_batch = micro;
    changes.push_back({fmt::format("batch.micro: {}", micro), "micro-batch", v});
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
  const auto attempt = [&](const PlanChange& change) {
    const auto seconds = estimate_iteration(graph, change.plan, machine);
    if (!seconds) return;
    const auto known = std::find_if(
        best.begin(), best.end(), [&](const Proposal& p) { return p.change.kind == change.kind; });
    if (known == best.end()) {
      best.push_back({change, *seconds});
    } else if (*seconds < known->seconds) {
      *known = {change, *seconds};
    }
  };
  const Changes alone = possible_changes(plan, machine);
  for (const PlanChange& change : alone) attempt(change);
  if (best.empty() && plan.mode == Mode::training && plan.recomputation != Recomputation::full) {
    for (PlanChange change : alone) {
      if (change.kind == "recomputation") continue;
      change.plan.recomputation = Recomputation::full;
      change.what = "recomputation: full with " + change.what;
      attempt(change);
    }
  }
  std::stable_sort(best.begin(), best.end(),
                   [](const Proposal& a, const Proposal& b) { return a.seconds < b.seconds; });
  return best;
}

}  // namespace tilewright
