// From a plan to tile programs: the last step that knows models and plans.
#pragma once

#include <vector>

#include <tilewright/plan/stage_plan.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// A plan made concrete for one machine.
struct LoweredPlan {
  Program program;  ///< sealed
  Placement placement;
  std::vector<StagePlan> stages;
  Schedule schedule;  ///< of the largest replica
  /// Seconds: the busiest stage's matrix engines, by their timing model and the speed of its
  /// slowest tile.
  double compute_bound = 0;
  double pipeline_bound = 0;  ///< seconds: the schedule with matrix work alone
  double model_flop = 0;      ///< of the iteration, all replicas, no recomputation
};

/// Checks the plan, places it, plans every stage's memory and writes the programs. Programs hold
/// one segment per distinct (block, direction, micro-batch size, residency, boundary) and one call
/// per (stage, micro-batch, block): O(m·L) calls, instructions independent of m, L and the tensor
/// degree but for the rings (4·t per all-reduce). Throws InputError.
LoweredPlan lower(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine);

}  // namespace tilewright
