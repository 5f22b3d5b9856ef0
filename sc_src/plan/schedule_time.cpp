// When the slots of a schedule run, and whether they can.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

#include "schedule_check.h"

namespace tilewright {
namespace {

std::size_t phases(const Schedule& s) { return s.backward ? (s.split_backward ? 3 : 2) : 1; }

/// Runs complete orders in dependence order. Every slot is started once, and a stage is looked at
/// again only when one that it may wait for has moved, so the work is proportional to the slots.
class Runner {
 public:
  /// `times`, if given, is told when each slot runs, by stage in their order.
  Runner(const Schedule& schedule, const SlotDuration& duration,
         std::vector<std::vector<SlotTime>>* times = nullptr)
      : s_(schedule),
        duration_(duration),
        times_(times),
        next_(schedule.orders.size(), 0),
        free_(schedule.orders.size(), 0) {
    if (times_ != nullptr) times_->resize(s_.orders.size());
    for (std::size_t phase = 0; phase < phases(s_); ++phase) {
      end_[phase].assign(static_cast<std::size_t>(s_.virtual_stages()) * s_.micro_batches, kNotYet);
    }
  }

  void run() {
    std::vector<int> look;
    for (int stage = s_.stages(); stage > 0; --stage) look.push_back(stage - 1);
    while (!look.empty()) {
      const int stage = look.back();
      look.pop_back();
      if (!advance(stage)) continue;
      for (int chunk = 0; chunk < s_.chunks; ++chunk) {
        const int v = s_.virtual_stage(stage, chunk);
        if (v > 0) look.push_back(s_.stage_of(v - 1));
        if (v + 1 < s_.virtual_stages()) look.push_back(s_.stage_of(v + 1));
      }
    }
  }

  /// "" when all slots have run.
  std::string waits() {
    constexpr int kNamed = 8;
    std::string text;
    int named = 0;
    for (int stage = 0; stage < s_.stages(); ++stage) {
      const std::size_t at = next_[static_cast<std::size_t>(stage)];
      const StageOrder& order = s_.orders[static_cast<std::size_t>(stage)];
      if (at == order.size()) continue;
      for_each_need(s_, stage, order[at], [&](const Slot& need, int v) {
        if (end(need.phase, v, need.micro_batch) != kNotYet || ++named > kNamed) return;
        text +=
            fmt::format("; stage {} waits in slot {} ({}) for {} of stage {}", stage, at,
                        to_text(order[at], s_.chunks), to_text(need, s_.chunks), s_.stage_of(v));
      });
    }
    if (named > kNamed) text += fmt::format("; and {} more", named - kNamed);
    return text.empty() ? "" : "the orders of the stages deadlock" + text;
  }

  double length() const { return *std::max_element(free_.begin(), free_.end()); }

 private:
  static constexpr double kNotYet = -1;

  double& end(SlotPhase phase, int v, std::uint32_t micro_batch) {
    return end_[static_cast<std::size_t>(phase)]
               [static_cast<std::size_t>(v) * s_.micro_batches + micro_batch];
  }

  /// Starts what the stage can; true when that is anything.
  bool advance(int stage) {
    const auto i = static_cast<std::size_t>(stage);
    const std::size_t before = next_[i];
    while (next_[i] < s_.orders[i].size() && start(stage, s_.orders[i][next_[i]])) ++next_[i];
    return next_[i] > before;
  }

  bool start(int stage, const Slot& slot) {
    double& free = free_[static_cast<std::size_t>(stage)];
    double from = free;
    bool possible = true;
    for_each_need(s_, stage, slot, [&](const Slot& need, int v) {
      const double t = end(need.phase, v, need.micro_batch);
      if (t == kNotYet) possible = false;
      from = std::max(from, t);
    });
    if (!possible) return false;
    const double takes = duration_(stage, slot);
    if (!(takes >= 0)) {
      throw InternalError(fmt::format("time_schedule: {} of stage {} takes {} s",
                                      to_text(slot, s_.chunks), stage, takes));
    }
    if (times_ != nullptr) {
      (*times_)[static_cast<std::size_t>(stage)].push_back({from, from + takes});
    }
    free = end(slot.phase, s_.virtual_stage(stage, slot.chunk), slot.micro_batch) = from + takes;
    return true;
  }

  const Schedule& s_;
  const SlotDuration& duration_;
  std::vector<std::vector<SlotTime>>* times_;
  std::vector<std::size_t> next_;                       ///< by stage: the slot to start next
  std::vector<double> free_;                            ///< by stage: when its last slot ended
  std::array<std::vector<double>, kSlotPhases> end_{};  ///< by phase, virtual stage, micro-batch
};

/// Checks a schedule, runs it, and returns its length.
double run(const Schedule& schedule, const SlotDuration& duration,
           std::vector<std::vector<SlotTime>>* times) {
  for (int stage = 0; stage < schedule.stages(); ++stage) {
    const std::string fault = order_fault(schedule, stage);
    if (!fault.empty()) throw InputError(fmt::format("schedule: stage {}: {}", stage, fault));
  }
  Runner runner(schedule, duration, times);
  runner.run();
  const std::string waits = runner.waits();
  if (!waits.empty()) throw InputError("schedule: " + waits);
  return runner.length();
}

}  // namespace

std::string order_fault(const Schedule& s, int stage) {
  const std::size_t phases = tilewright::phases(s);
  std::vector<bool> seen(phases * static_cast<std::size_t>(s.chunks) * s.micro_batches, false);
  const auto index = [&](const Slot& slot) {
    return (static_cast<std::size_t>(slot.phase) * static_cast<std::size_t>(s.chunks) +
            slot.chunk) *
               s.micro_batches +
           slot.micro_batch;
  };
  for (const Slot& slot : s.orders[static_cast<std::size_t>(stage)]) {
    const std::string text = to_text(slot, s.chunks);
    if (static_cast<std::size_t>(slot.phase) >= phases) {
      return fmt::format("{}: the schedule has no {} slots", text,
                         slot.phase == SlotPhase::weight ? "weight" : "backward");
    }
    if (slot.micro_batch >= s.micro_batches) {
      return fmt::format("{}: there is no micro-batch {}; allowed: 0 to {}", text, slot.micro_batch,
                         s.micro_batches - 1);
    }
    if (slot.chunk >= s.chunks) {
      return fmt::format("{}: there is no chunk {}; allowed: 0 to {}", text, slot.chunk,
                         s.chunks - 1);
    }
    if (seen[index(slot)]) return fmt::format("{} is listed twice", text);
    seen[index(slot)] = true;
  }
  const auto missing = std::count(seen.begin(), seen.end(), false);
  if (missing == 0) return "";
  for (std::size_t phase = 0; phase < phases; ++phase) {
    for (std::uint32_t m = 0; m < s.micro_batches; ++m) {
      for (int chunk = 0; chunk < s.chunks; ++chunk) {
        const Slot slot{m, static_cast<std::uint16_t>(chunk), static_cast<SlotPhase>(phase)};
        if (seen[index(slot)]) continue;
        return fmt::format("{} is missing{}", to_text(slot, s.chunks),
                           missing > 1 ? fmt::format(", and {} more slots", missing - 1) : "");
      }
    }
  }
  return "";
}

std::string deadlock_text(const Schedule& schedule) {
  const SlotDuration unit = [](int, const Slot&) { return 1.0; };
  Runner runner(schedule, unit);
  runner.run();
  return runner.waits();
}

std::vector<std::vector<SlotTime>> time_schedule(const Schedule& schedule,
                                                 const SlotDuration& duration) {
  std::vector<std::vector<SlotTime>> times;
  run(schedule, duration, &times);
  return times;
}

double schedule_length(const Schedule& schedule, const SlotDuration& duration) {
  return run(schedule, duration, nullptr);
}

SlotDuration unit_durations(const Schedule& schedule) {
  const double backward = schedule.split_backward ? 1 : 2;
  return [backward](int, const Slot& slot) {
    return slot.phase == SlotPhase::backward ? backward : 1.0;
  };
}

}  // namespace tilewright
