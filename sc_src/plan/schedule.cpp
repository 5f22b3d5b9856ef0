#include <algorithm>

#include <fmt/format.h>

#include <tilewright/plan/schedule.h>

namespace tilewright {

const char* to_string(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::gpipe:
      return "gpipe";
    case ScheduleKind::one_f_one_b:
      return "1f1b";
    case ScheduleKind::interleaved:
      return "interleaved";
    case ScheduleKind::zb_h1:
      return "zb-h1";
    case ScheduleKind::zb_h2:
      return "zb-h2";
    case ScheduleKind::zb_v:
      return "zb-v";
    case ScheduleKind::file:
      return "file";
  }
  return "?";
}

int Schedule::virtual_stage(int stage, int chunk) const {
  if (layout == ChunkLayout::vee && chunk == 1) return 2 * stages() - 1 - stage;
  return chunk * stages() + stage;
}

int Schedule::stage_of(int virtual_stage) const {
  const int round = virtual_stage / stages(), at = virtual_stage % stages();
  return layout == ChunkLayout::vee && round == 1 ? stages() - 1 - at : at;
}

int Schedule::chunk_of(int virtual_stage) const { return virtual_stage / stages(); }

int peak_in_flight(const Schedule& schedule, int stage) {
  int held = 0, most = 0;
  for (const Slot& slot : schedule.orders[static_cast<std::size_t>(stage)]) {
    if (slot.phase == SlotPhase::forward) most = std::max(most, ++held);
    if (slot.phase == schedule.last_phase()) --held;
  }
  return most;
}

std::string to_text(const Slot& slot, int chunks) {
  const char letter = "FBW"[static_cast<int>(slot.phase)];
  return chunks == 1 ? fmt::format("{}{}", letter, slot.micro_batch)
                     : fmt::format("{}{}.{}", letter, slot.micro_batch, slot.chunk);
}

std::vector<std::uint16_t> message_lanes(const Schedule& schedule, int virtual_stage,
                                         SlotPhase phase) {
  const int from = virtual_stage + (phase == SlotPhase::forward ? -1 : 1);
  // Position of each micro-batch among those that the receiver takes.
  std::vector<std::uint32_t> taken(schedule.micro_batches, 0);
  const auto visit = [&](int v, auto visitor) {
    const auto& order = schedule.orders[static_cast<std::size_t>(schedule.stage_of(v))];
    for (const Slot& slot : order) {
      if (slot.phase == phase && slot.chunk == schedule.chunk_of(v)) visitor(slot.micro_batch);
    }
  };
  std::uint32_t position = 0;
  visit(virtual_stage, [&](std::uint32_t m) { taken[m] = position++; });
  // In the order of sending, the first lane whose last message is taken earlier: as few as
  // possible.
  std::vector<std::uint16_t> lanes(schedule.micro_batches, 0);
  std::vector<std::uint32_t> last;
  visit(from, [&](std::uint32_t m) {
    std::size_t lane = 0;
    while (lane < last.size() && last[lane] > taken[m]) ++lane;
    if (lane == last.size()) last.push_back(0);
    last[lane] = taken[m];
    lanes[m] = static_cast<std::uint16_t>(lane);
  });
  return lanes;
}

}  // namespace tilewright
