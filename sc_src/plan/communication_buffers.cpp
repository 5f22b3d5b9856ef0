#include <algorithm>
#include <array>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include <tilewright/plan/communication_buffers.h>

#include "schedule_check.h"

namespace tilewright {
namespace {

/// Whether another stage sends what the slot starts from.
bool takes_message(const Schedule& s, int stage, const Slot& slot) {
  if (slot.phase == SlotPhase::weight) return false;
  const int from = s.virtual_stage(stage, slot.chunk) + (slot.phase == SlotPhase::forward ? -1 : 1);
  return from >= 0 && from < s.virtual_stages() && s.stage_of(from) != stage;
}

/// How far the stages around one can run while it has started so many slots.
class Ahead {
 public:
  using Sent = std::function<void(const Slot&)>;
  /// `sent` is told of every slot of `stage` whose message another stage sends.
  Ahead(const Schedule& schedule, int stage, Sent sent)
      : s_(schedule),
        stage_(stage),
        sent_(std::move(sent)),
        next_(schedule.orders.size(), 0),
        around_(schedule.orders.size(), 0) {
    const bool round = s_.chunks > 1 && s_.layout == ChunkLayout::interleaved;
    for (int other = 0; other < s_.stages(); ++other) {
      // In a line whoever is beyond a neighbour waits for the stage through that neighbour alone.
      around_[static_cast<std::size_t>(other)] =
          other != stage && (round || std::abs(other - stage) == 1);
    }
    for (auto& ran : ran_) {
      ran.assign(static_cast<std::size_t>(s_.virtual_stages()) * s_.micro_batches, 0);
    }
    for (int other = 0; other < s_.stages(); ++other) look_.push_back(other);
    advance();
  }

  /// The stage has run one more slot.
  void run(const Slot& slot) {
    mark(s_.virtual_stage(stage_, slot.chunk), slot);
    look_around(stage_);
    advance();
  }

 private:
  char& ran(SlotPhase phase, int v, std::uint32_t micro_batch) {
    return ran_[static_cast<std::size_t>(phase)]
               [static_cast<std::size_t>(v) * s_.micro_batches + micro_batch];
  }
  void mark(int v, const Slot& slot) { ran(slot.phase, v, slot.micro_batch) = 1; }

  void look_around(int stage) {
    for (int chunk = 0; chunk < s_.chunks; ++chunk) {
      const int v = s_.virtual_stage(stage, chunk);
      if (v > 0) look_.push_back(s_.stage_of(v - 1));
      if (v + 1 < s_.virtual_stages()) look_.push_back(s_.stage_of(v + 1));
    }
  }

  bool possible(int stage, const Slot& slot) {
    bool result = true;
    for_each_need(s_, stage, slot, [&](const Slot& need, int v) {
      const int of = s_.stage_of(v);
      const bool known = of == stage_ || around_[static_cast<std::size_t>(of)] != 0;
      if (known && ran(need.phase, v, need.micro_batch) == 0) result = false;
    });
    return result;
  }

  void advance() {
    while (!look_.empty()) {
      const int stage = look_.back();
      look_.pop_back();
      advance(stage);
    }
  }

  void advance(int stage) {
    const auto i = static_cast<std::size_t>(stage);
    if (around_[i] == 0) return;
    const std::size_t before = next_[i];
    for (; next_[i] < s_.orders[i].size() && possible(stage, s_.orders[i][next_[i]]); ++next_[i]) {
      const Slot& slot = s_.orders[i][next_[i]];
      const int v = s_.virtual_stage(stage, slot.chunk);
      mark(v, slot);
      if (slot.phase == SlotPhase::weight) continue;
      const int to = v + (slot.phase == SlotPhase::forward ? 1 : -1);
      if (to < 0 || to >= s_.virtual_stages() || s_.stage_of(to) != stage_) continue;
      sent_({slot.micro_batch, static_cast<std::uint16_t>(s_.chunk_of(to)), slot.phase});
    }
    if (next_[i] > before) look_around(stage);
  }

  const Schedule& s_;
  const int stage_;
  const Sent sent_;
  std::vector<std::size_t> next_;                   // by stage: the slot that has not run
  std::vector<char> around_;                        // by stage: whether it is one of those around
  std::vector<int> look_;                           // stages that may have become able to run
  std::array<std::vector<char>, kSlotPhases> ran_;  // by phase, virtual stage, micro-batch
};

}  // namespace

WaitingMessages waiting_messages(const Schedule& schedule, int stage,
                                 const std::function<std::int64_t(const Slot&)>& bytes) {
  const StageOrder& order = schedule.orders[static_cast<std::size_t>(stage)];
  std::set<std::tuple<SlotPhase, int, std::uint32_t>> waiting;
  const auto key = [](const Slot& s) {
    return std::make_tuple(s.phase, int{s.chunk}, s.micro_batch);
  };
  // What is taken in, by direction and chunk, in the order of its slots.
  std::map<std::pair<SlotPhase, int>, std::deque<Slot>> to_come;
  for (const Slot& slot : order) {
    if (takes_message(schedule, stage, slot)) to_come[{slot.phase, slot.chunk}].push_back(slot);
  }
  WaitingMessages most;
  std::int64_t all = 0;
  const auto note = [&] {
    std::int64_t next = 0;
    for (const auto& entry : to_come) {
      const std::deque<Slot>& slots = entry.second;
      if (!slots.empty() && waiting.count(key(slots.front())) > 0) next += bytes(slots.front());
    }
    most.all.push_back(all);
    most.next.push_back(next);
  };
  Ahead ahead(schedule, stage, [&](const Slot& slot) {
    waiting.insert(key(slot));
    all += bytes(slot);
  });
  note();
  for (const Slot& slot : order) {
    if (takes_message(schedule, stage, slot)) {
      waiting.erase(key(slot));
      all -= bytes(slot);
      to_come.at({slot.phase, slot.chunk}).pop_front();
    }
    ahead.run(slot);
    note();
  }
  return most;
}

std::int64_t summand_bytes(const CollectiveSchedule& schedule) {
  // A receive stands for the send of the same place among those of its table, on another member.
  std::vector<std::vector<std::uint32_t>> sends(schedule.tables.size());
  for (std::uint32_t i = 0; i < schedule.ops.size(); ++i) {
    if (schedule.ops[i].send) sends[schedule.ops[i].table].push_back(i);
  }
  std::vector<std::size_t> received(schedule.tables.size(), 0);
  std::vector<std::int64_t> change(schedule.ops.size() + 1, 0);
  for (std::uint32_t i = 0; i < schedule.ops.size(); ++i) {
    const CollectiveOp& op = schedule.ops[i];
    if (op.send) continue;
    const std::uint32_t sent = sends[op.table].at(received[op.table]++);
    if (!op.adds) continue;
    const std::uint32_t after = schedule.ops[sent].after;
    change[after == kNoOp ? 0 : after + 1] += op.bytes;
    change[i + 1] -= op.bytes;
  }
  std::int64_t held = 0, most = 0;
  for (const std::int64_t c : change) most = std::max(most, held += c);
  return most;
}

}  // namespace tilewright
