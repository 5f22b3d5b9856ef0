// How long an iteration takes in closed form. Private to layer plan.
#pragma once

#include <vector>

#include <tilewright/plan/stage_plan.h>

namespace tilewright {

/// estimate_iteration() of a plan whose stages are planned.
double iteration_seconds(StagePlanner& planner, const PlanConfig& plan, const Placement& placement,
                         const std::vector<StagePlan>& stages);

}  // namespace tilewright
