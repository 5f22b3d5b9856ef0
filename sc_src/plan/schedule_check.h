// Whether the orders of a schedule can be run. Private to layer plan.
#pragma once

#include <string>

#include <tilewright/plan/schedule.h>

namespace tilewright {

/// What is wrong with the order of one stage: "F3 is listed twice"; "" when it has every slot once.
std::string order_fault(const Schedule& schedule, int stage);

/// Who waits for whom when complete orders cannot run to their end; "" when they can.
std::string deadlock_text(const Schedule& schedule);

}  // namespace tilewright
