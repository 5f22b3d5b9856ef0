// The generated schedules; schedule.h says what each promises.
#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

/// Up to `warm_up` forwards ahead of the backwards, one of each in turn.
StageOrder alternate(std::uint32_t m, std::uint32_t warm_up) {
  StageOrder order;
  for (std::uint32_t f = 0; f < std::min(m, warm_up); ++f) order.push_back({f});
  for (std::uint32_t b = 0; b < m; ++b) {
    order.push_back({b, 0, SlotPhase::backward});
    if (warm_up + b < m) order.push_back({warm_up + b});
  }
  return order;
}

/// The same with split backward: a weight slot follows its backward slot `delay` micro-batches
/// later, so that up to warm_up + delay are held. The later stages, which have less to warm up
/// with, delay more and keep what they delayed for the end.
StageOrder alternate_split(std::uint32_t m, std::uint32_t warm_up, std::uint32_t delay) {
  StageOrder order;
  for (std::uint32_t f = 0; f < std::min(m, warm_up); ++f) order.push_back({f});
  for (std::uint32_t b = 0; b < m; ++b) {
    order.push_back({b, 0, SlotPhase::backward});
    if (b >= delay) order.push_back({b - delay, 0, SlotPhase::weight});
    if (warm_up + b < m) order.push_back({warm_up + b});
  }
  for (std::uint32_t w = m - std::min(m, delay); w < m; ++w) {
    order.push_back({w, 0, SlotPhase::weight});
  }
  return order;
}

/// Micro-batches that go through one chunk after the other together: groups of p, or, where p does
/// not divide m, as even as possible and larger ones first. A smaller group would deadlock: the
/// first stage would wait for the last one's forward, which waits for a backward behind it.
std::vector<std::uint32_t> groups(std::uint32_t stages, std::uint32_t m) {
  const std::uint32_t n = std::max<std::uint32_t>(1, m / stages);
  std::vector<std::uint32_t> sizes;
  for (std::uint32_t g = 0; g < n; ++g) sizes.push_back(m / n + (g < m % n ? 1 : 0));
  return sizes;
}

/// All slots of a phase in the order in which groups take the chunks.
StageOrder by_groups(const std::vector<std::uint32_t>& sizes, int chunks, SlotPhase phase) {
  StageOrder order;
  std::uint32_t first = 0;
  for (const std::uint32_t size : sizes) {
    for (int i = 0; i < chunks; ++i) {
      const int chunk = phase == SlotPhase::forward ? i : chunks - 1 - i;
      for (std::uint32_t m = first; m < first + size; ++m) {
        order.push_back({m, static_cast<std::uint16_t>(chunk), phase});
      }
    }
    first += size;
  }
  return order;
}

StageOrder interleaved(std::uint32_t stages, std::uint32_t stage, std::uint32_t m, int chunks) {
  const auto sizes = groups(stages, m);
  const StageOrder forwards = by_groups(sizes, chunks, SlotPhase::forward);
  const StageOrder backwards = by_groups(sizes, chunks, SlotPhase::backward);
  const std::size_t ahead =
      2 * (stages - stage - 1) + static_cast<std::size_t>(chunks - 1) * sizes.front();
  const std::size_t warm_up = std::min(forwards.size(), ahead);
  StageOrder order(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(warm_up));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (warm_up + i < forwards.size()) order.push_back(forwards[warm_up + i]);
    order.push_back(backwards[i]);
  }
  return order;
}

/// The V schedule by list scheduling in unit time: at each step a stage runs the first it can of
///   a weight slot, while its memory is full and forwards are to come,
///   a forward of chunk 1, a forward of chunk 0 (which leaves room for one of chunk 1),
///   a backward of chunk 0, a backward of chunk 1,
///   a weight slot.
/// Forwards come first because the last one's way, 3p slots from the last stage back to it and
/// on to the first, must begin no later than the memory makes it; weight slots ahead of them so
/// that no forward waits for room when it arrives. The tests show that no schedule is shorter.
class VeeSchedule {
 public:
  VeeSchedule(int stages, std::uint32_t m) : p_(stages), m_(m), stages_(stages) {
    for (auto& ends : end_) ends.assign(static_cast<std::size_t>(2 * stages) * m, kNotYet);
  }

  std::vector<StageOrder> run() {
    std::vector<StageOrder> orders(static_cast<std::size_t>(p_));
    std::uint64_t left = std::uint64_t{6} * m_ * static_cast<std::uint64_t>(p_);
    for (std::uint32_t now = 0; left > 0; ++now) {
      for (int s = 0; s < p_; ++s) {
        Slot slot;
        if (!choose(s, now, slot)) continue;
        perform(s, slot, now);
        orders[static_cast<std::size_t>(s)].push_back(slot);
        --left;
      }
    }
    return orders;
  }

 private:
  static constexpr std::uint32_t kNotYet = 0xffffffffu;

  struct Stage {
    std::array<std::array<std::uint32_t, 2>, kSlotPhases> next{};  ///< micro-batch, by phase, chunk
    std::uint32_t held = 0;
  };

  int virtual_stage(int s, int chunk) const { return chunk == 0 ? s : 2 * p_ - 1 - s; }
  std::uint32_t& end(SlotPhase phase, int v, std::uint32_t m) {
    return end_[static_cast<std::size_t>(phase)][static_cast<std::size_t>(v) * m_ + m];
  }
  std::uint32_t next(int s, SlotPhase phase, int chunk) const {
    return stages_[static_cast<std::size_t>(s)]
        .next[static_cast<std::size_t>(phase)][static_cast<std::size_t>(chunk)];
  }

  /// The next slot of this kind has what it needs.
  bool ready(int s, SlotPhase phase, int chunk, std::uint32_t now) {
    const std::uint32_t m = next(s, phase, chunk);
    if (m == m_) return false;
    const int v = virtual_stage(s, chunk);
    const auto ended = [&](SlotPhase of, int at) { return end(of, at, m) <= now; };
    switch (phase) {
      case SlotPhase::forward:
        return v == 0 || ended(SlotPhase::forward, v - 1);
      case SlotPhase::backward:
        return ended(SlotPhase::forward, v) &&
               (v + 1 == 2 * p_ || ended(SlotPhase::backward, v + 1));
      case SlotPhase::weight:
        return ended(SlotPhase::backward, v);
    }
    return false;
  }

  bool choose(int s, std::uint32_t now, Slot& slot) {
    const auto take = [&](SlotPhase phase, int chunk) {
      if (!ready(s, phase, chunk, now)) return false;
      slot = {next(s, phase, chunk), static_cast<std::uint16_t>(chunk), phase};
      return true;
    };
    const auto weight = [&] { return take(SlotPhase::weight, 1) || take(SlotPhase::weight, 0); };
    const auto capacity = static_cast<std::uint32_t>(2 * p_);
    const std::uint32_t held = stages_[static_cast<std::size_t>(s)].held;
    const bool to_come = next(s, SlotPhase::forward, 0) < m_ || next(s, SlotPhase::forward, 1) < m_;
    return (to_come && held + 1 >= capacity && weight()) ||
           (held < capacity && take(SlotPhase::forward, 1)) ||
           (held + 1 < capacity && take(SlotPhase::forward, 0)) || take(SlotPhase::backward, 0) ||
           take(SlotPhase::backward, 1) || weight();
  }

  void perform(int s, const Slot& slot, std::uint32_t now) {
    Stage& stage = stages_[static_cast<std::size_t>(s)];
    end(slot.phase, virtual_stage(s, slot.chunk), slot.micro_batch) = now + 1;
    ++stage.next[static_cast<std::size_t>(slot.phase)][slot.chunk];
    if (slot.phase == SlotPhase::forward) ++stage.held;
    if (slot.phase == SlotPhase::weight) --stage.held;
  }

  const int p_;
  const std::uint32_t m_;
  std::vector<Stage> stages_;
  std::array<std::vector<std::uint32_t>, kSlotPhases>
      end_;  ///< by phase, virtual stage, micro-batch
};

Schedule empty(int stages, std::uint32_t micro_batches, int chunks) {
  if (stages < 1 || micro_batches < 1 || chunks < 1) {
    throw InternalError(fmt::format("make_schedule: {} stages, {} micro-batches, {} chunks", stages,
                                    micro_batches, chunks));
  }
  Schedule s;
  s.orders.resize(static_cast<std::size_t>(stages));
  s.micro_batches = micro_batches;
  s.chunks = chunks;
  return s;
}

}  // namespace

Schedule make_schedule(ScheduleKind kind, int stages, std::uint32_t micro_batches, int chunks) {
  const bool vee = kind == ScheduleKind::zb_v;
  if (vee) chunks = 2;
  if ((chunks != 1 && kind != ScheduleKind::interleaved && !vee) || kind == ScheduleKind::file) {
    throw InternalError("make_schedule: no such schedule of " + std::to_string(chunks) + " chunks");
  }
  Schedule s = empty(stages, micro_batches, chunks);
  s.split_backward = vee || kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2;
  if (vee) {
    s.layout = ChunkLayout::vee;
    s.orders = VeeSchedule(stages, micro_batches).run();
    return s;
  }
  const auto p = static_cast<std::uint32_t>(stages);
  for (std::uint32_t i = 0; i < p; ++i) {
    StageOrder& order = s.orders[i];
    switch (kind) {
      case ScheduleKind::gpipe:
        order = alternate(micro_batches, micro_batches);
        break;
      case ScheduleKind::one_f_one_b:
        order = alternate(micro_batches, p - i);
        break;
      case ScheduleKind::interleaved:
        order = interleaved(p, i, micro_batches, chunks);
        break;
      case ScheduleKind::zb_h1:
        order = alternate_split(micro_batches, p - i, i);
        break;
      case ScheduleKind::zb_h2:
        order = alternate_split(micro_batches, 2 * (p - i) - 1, 2 * i);
        break;
      case ScheduleKind::zb_v:
      case ScheduleKind::file:
        break;
    }
  }
  return s;
}

Schedule make_streaming(int stages, std::uint32_t micro_batches, int chunks) {
  Schedule s = empty(stages, micro_batches, chunks);
  s.backward = false;
  const StageOrder order = by_groups(groups(static_cast<std::uint32_t>(stages), micro_batches),
                                     chunks, SlotPhase::forward);
  for (StageOrder& o : s.orders) o = order;
  return s;
}

}  // namespace tilewright
