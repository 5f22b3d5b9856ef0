// Pipeline schedules: the order in which each stage runs (micro-batch, phase).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <tilewright/plan/plan.h>

namespace tilewright {

/// One unit of work of a stage.
struct Slot {
  std::uint32_t micro_batch = 0;
  bool backward = false;
};

/// What one stage runs, in order.
using StageOrder = std::vector<Slot>;

/// The orders of all stages for m micro-batches. GPipe: all forwards, then all backwards in the
/// same micro-batch order; 1F1B: stage i warms up with min(m, p-1-i) forwards, then alternates
/// (Megatron's PipeDream-flush); inference: forwards only. p, m ≥ 1.
std::vector<StageOrder> make_schedule(ScheduleKind kind, Mode mode, int stages,
                                      std::uint32_t micro_batches);

/// The largest number of micro-batches whose forward has run and whose backward has not.
int peak_in_flight(const StageOrder& order);

/// Length of the schedule when a slot of stage s takes duration(s, slot) seconds and transfers are
/// free: the longest path over the orders and the stage-to-stage dependences. This is the pipeline
/// bound of a report. Throws InputError when the orders deadlock (names the slots that wait).
double schedule_length(const std::vector<StageOrder>& orders,
                       const std::function<double(int stage, Slot slot)>& duration);

/// The schedule drawn as text, one line per stage: "F0 F1 B0 F2 ...".
std::string draw(const std::vector<StageOrder>& orders);

}  // namespace tilewright
