// What the slots of a schedule wait for, and whether its orders can be run. Private to layer plan.
#pragma once

#include <string>

#include <tilewright/plan/schedule.h>

namespace tilewright {

/// Calls f(slot, virtual stage) for each slot that must have ended before this one of `stage`
/// starts.
template <class F>
void for_each_need(const Schedule& schedule, int stage, const Slot& slot, F f) {
  const int v = schedule.virtual_stage(stage, slot.chunk);
  const auto need = [&](SlotPhase phase, int of) {
    f(Slot{slot.micro_batch, static_cast<std::uint16_t>(schedule.chunk_of(of)), phase}, of);
  };
  switch (slot.phase) {
    case SlotPhase::forward:
      if (v > 0) need(SlotPhase::forward, v - 1);
      break;
    case SlotPhase::backward:
      need(SlotPhase::forward, v);
      if (v + 1 < schedule.virtual_stages()) need(SlotPhase::backward, v + 1);
      break;
    case SlotPhase::weight:
      need(SlotPhase::backward, v);
      break;
  }
}

/// What is wrong with the order of one stage: "F3 is listed twice"; "" when it has every slot once.
std::string order_fault(const Schedule& schedule, int stage);

/// Who waits for whom when complete orders cannot run to their end; "" when they can.
std::string deadlock_text(const Schedule& schedule);

}  // namespace tilewright
