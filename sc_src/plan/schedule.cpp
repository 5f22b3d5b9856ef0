#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

std::string to_text(Slot slot) {
  return fmt::format("{}{}", slot.backward ? 'B' : 'F', slot.micro_batch);
}

StageOrder forwards(std::uint32_t micro_batches) {
  StageOrder order;
  for (std::uint32_t i = 0; i < micro_batches; ++i) order.push_back({i, false});
  return order;
}

StageOrder gpipe(std::uint32_t micro_batches) {
  StageOrder order = forwards(micro_batches);
  for (std::uint32_t i = 0; i < micro_batches; ++i) order.push_back({i, true});
  return order;
}

StageOrder one_f_one_b(std::uint32_t micro_batches, std::uint32_t warm_up) {
  StageOrder order = forwards(warm_up);
  for (std::uint32_t i = 0; i < micro_batches; ++i) {
    if (warm_up + i < micro_batches) order.push_back({warm_up + i, false});
    order.push_back({i, true});
  }
  return order;
}

/// Runs the orders in dependence order; every slot is started once, and a stage is looked at again
/// only when a neighbour finishes a slot, so the work is proportional to the slots.
class Runner {
 public:
  Runner(const std::vector<StageOrder>& orders,
         const std::function<double(int stage, Slot slot)>& duration)
      : orders_(orders), duration_(duration), next_(orders.size(), 0), free_(orders.size(), 0) {
    std::size_t slots = 0;
    for (const StageOrder& order : orders) slots = std::max(slots, order.size());
    for (std::size_t s = 0; s < orders.size(); ++s) {
      for (const Slot slot : orders[s]) {
        if (slot.micro_batch >= slots) {
          throw InputError(
              fmt::format("schedule: stage {} runs {}, but no stage has more than {} "
                          "slots; micro-batches are numbered from 0",
                          s, to_text(slot), slots));
        }
        micro_batches_ = std::max(micro_batches_, std::size_t{slot.micro_batch} + 1);
      }
    }
    end_.assign(orders.size() * micro_batches_ * 2, kNotYet);
  }

  double run() {
    std::vector<std::size_t> ready;
    for (std::size_t s = orders_.size(); s > 0; --s) ready.push_back(s - 1);
    while (!ready.empty()) {
      const std::size_t s = ready.back();
      ready.pop_back();
      bool moved = false;
      while (next_[s] < orders_[s].size() && start(s, orders_[s][next_[s]])) {
        ++next_[s];
        moved = true;
      }
      if (!moved) continue;
      if (s > 0) ready.push_back(s - 1);
      if (s + 1 < orders_.size()) ready.push_back(s + 1);
    }
    check_finished();
    double last = 0;
    for (const double t : free_) last = std::max(last, t);
    return last;
  }

 private:
  static constexpr double kNotYet = -1;

  double& end(std::size_t stage, Slot slot) {
    return end_[(stage * micro_batches_ + slot.micro_batch) * 2 + (slot.backward ? 1 : 0)];
  }

  /// Calls f(stage, slot) for each slot that must have ended before this one starts.
  template <class F>
  void for_each_need(std::size_t s, Slot slot, F f) const {
    if (!slot.backward) {
      if (s > 0) f(s - 1, slot);
      return;
    }
    f(s, Slot{slot.micro_batch, false});
    if (s + 1 < orders_.size()) f(s + 1, slot);
  }

  bool start(std::size_t s, Slot slot) {
    double from = free_[s];
    bool possible = true;
    for_each_need(s, slot, [&](std::size_t stage, Slot need) {
      const double t = end(stage, need);
      if (t == kNotYet) possible = false;
      from = std::max(from, t);
    });
    if (!possible) return false;
    if (end(s, slot) != kNotYet) {
      throw InputError(fmt::format("schedule: stage {} runs {} twice", s, to_text(slot)));
    }
    const double takes = duration_(static_cast<int>(s), slot);
    if (!(takes >= 0)) {
      throw InternalError(
          fmt::format("schedule_length: {} of stage {} takes {} s", to_text(slot), s, takes));
    }
    free_[s] = end(s, slot) = from + takes;
    return true;
  }

  void check_finished() {
    std::string waits;
    constexpr int kNamed = 8;
    int named = 0;
    for (std::size_t s = 0; s < orders_.size(); ++s) {
      if (next_[s] == orders_[s].size()) continue;
      const Slot slot = orders_[s][next_[s]];
      for_each_need(s, slot, [&](std::size_t stage, Slot need) {
        if (end(stage, need) != kNotYet || ++named > kNamed) return;
        waits += fmt::format("; stage {} waits in slot {} ({}) for {} of stage {}", s, next_[s],
                             to_text(slot), to_text(need), stage);
      });
    }
    if (named > kNamed) waits += fmt::format("; and {} more", named - kNamed);
    if (named > 0) throw InputError("schedule: the orders of the stages deadlock" + waits);
  }

  const std::vector<StageOrder>& orders_;
  const std::function<double(int stage, Slot slot)>& duration_;
  std::size_t micro_batches_ = 0;
  std::vector<std::size_t> next_;  ///< by stage: the slot to start next
  std::vector<double> free_;       ///< by stage: when its last slot ended
  std::vector<double> end_;        ///< by (stage, micro-batch, direction)
};

}  // namespace

std::vector<StageOrder> make_schedule(ScheduleKind kind, Mode mode, int stages,
                                      std::uint32_t micro_batches) {
  if (stages < 1 || micro_batches < 1) {
    throw InternalError(
        fmt::format("make_schedule: {} stages, {} micro-batches", stages, micro_batches));
  }
  std::vector<StageOrder> orders;
  for (int i = 0; i < stages; ++i) {
    if (mode == Mode::inference) {
      orders.push_back(forwards(micro_batches));
    } else if (kind == ScheduleKind::gpipe) {
      orders.push_back(gpipe(micro_batches));
    } else {
      const auto behind = static_cast<std::uint32_t>(stages - 1 - i);
      orders.push_back(one_f_one_b(micro_batches, std::min(micro_batches, behind)));
    }
  }
  return orders;
}

int peak_in_flight(const StageOrder& order) {
  int held = 0, most = 0;
  for (const Slot slot : order) {
    held += slot.backward ? -1 : 1;
    most = std::max(most, held);
  }
  return most;
}

double schedule_length(const std::vector<StageOrder>& orders,
                       const std::function<double(int stage, Slot slot)>& duration) {
  return Runner(orders, duration).run();
}

std::string draw(const std::vector<StageOrder>& orders) {
  std::string text;
  for (const StageOrder& order : orders) {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0) text += ' ';
      text += to_text(order[i]);
    }
    text += '\n';
  }
  return text;
}

}  // namespace tilewright
