// One schedule file for all replicas of a plan.
#pragma once

#include <string>

#include <tilewright/plan/plan.h>

namespace tilewright {

/// Why no one file can list the slots of every replica: they have unequal numbers of micro-batches.
/// "" when one can.
std::string why_no_schedule_file(const PlanConfig& plan);

}  // namespace tilewright
