// Pipeline schedules: orders, bubbles, what is held, lanes, deadlock.
#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ScheduleKind kUnsplit[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b};
constexpr ScheduleKind kSplit[] = {ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_v};

Schedule make(ScheduleKind kind, int p, int m, int chunks = 1) {
  return make_schedule(kind, p, static_cast<std::uint32_t>(m), chunks);
}

double length(const Schedule& s) { return schedule_length(s, unit_durations(s)); }

/// The longest (end - start) over the stages, less the work of one, in slots of a chunk.
double bubble(const Schedule& s) {
  const SlotDuration unit = unit_durations(s);
  const auto times = time_schedule(s, unit);
  double most = 0;
  for (int i = 0; i < s.stages(); ++i) {
    const auto stage = static_cast<std::size_t>(i);
    double work = 0;
    for (const Slot& slot : s.orders[stage]) work += unit(i, slot);
    most = std::max(most, times[stage].back().end - times[stage].front().start - work);
  }
  return most;
}

int peak(const Schedule& s) {
  int most = 0;
  for (int i = 0; i < s.stages(); ++i) most = std::max(most, peak_in_flight(s, i));
  return most;
}

/// Orders of one stage per line, for tests by hand.
Schedule schedule(const std::vector<std::string>& lines, int m, int chunks = 1,
                  const std::string& layout = "") {
  std::string text =
      "schedule: test\nchunks: " + std::to_string(chunks) + "\n" + layout + "stages:\n";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    text += "  " + std::to_string(i) + ": " + lines[i] + "\n";
  }
  return read_schedule(Document::parse(text, "schedule", {}, "s.yaml"),
                       static_cast<int>(lines.size()), static_cast<std::uint32_t>(m), true);
}

std::string order(const Schedule& s, int stage) {
  std::string text;
  for (const Slot& slot : s.orders[static_cast<std::size_t>(stage)]) {
    text += (text.empty() ? "" : " ") + to_text(slot, s.chunks);
  }
  return text;
}

TEST(Schedule, TextbookOrders) {
  const Schedule gpipe = make(ScheduleKind::gpipe, 2, 3);
  EXPECT_EQ(order(gpipe, 0), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(order(gpipe, 1), order(gpipe, 0));
  const Schedule one = make(ScheduleKind::one_f_one_b, 4, 5);
  EXPECT_EQ(order(one, 0), "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  EXPECT_EQ(order(one, 1), "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4");
  EXPECT_EQ(order(one, 2), "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  EXPECT_EQ(order(one, 3), "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST(Schedule, InterleavedPassesGroupsOfStagesThroughEachChunk) {
  const Schedule s = make(ScheduleKind::interleaved, 2, 4, 2);
  // Stage 0 starts with 2 (p - 1) + (v - 1) p = 4 forwards, stage 1 with 2.
  EXPECT_EQ(order(s, 0),
            "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  EXPECT_EQ(order(s, 1),
            "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST(Schedule, ZeroBubbleOrdersSplitTheBackwardPass) {
  const Schedule h1 = make(ScheduleKind::zb_h1, 2, 3);
  EXPECT_EQ(order(h1, 0), "F0 F1 B0 W0 F2 B1 W1 B2 W2");
  EXPECT_EQ(order(h1, 1), "F0 B0 F1 B1 W0 F2 B2 W1 W2");
  const Schedule h2 = make(ScheduleKind::zb_h2, 2, 4);
  EXPECT_EQ(order(h2, 0), "F0 F1 F2 B0 W0 F3 B1 W1 B2 W2 B3 W3");
  EXPECT_EQ(order(h2, 1), "F0 B0 F1 B1 F2 B2 W0 F3 B3 W1 W2 W3");
}

TEST(Schedule, VirtualStages) {
  const Schedule round = make(ScheduleKind::interleaved, 3, 3, 2);
  const Schedule vee = make(ScheduleKind::zb_v, 3, 3);
  for (const Schedule& s : {round, vee}) {
    for (int v = 0; v < s.virtual_stages(); ++v) {
      EXPECT_EQ(s.virtual_stage(s.stage_of(v), s.chunk_of(v)), v);
    }
  }
  EXPECT_EQ(round.stage_of(3), 0);
  EXPECT_EQ(vee.stage_of(3), 2);
  EXPECT_EQ(vee.stage_of(5), 0);
}

TEST(Schedule, EverySlotRunsOnceInEverySchedule) {
  // time_schedule() throws when one is missing, listed twice, or cannot run.
  for (int p = 1; p <= 9; ++p) {
    for (int m = 1; m <= 20; ++m) {
      for (const ScheduleKind kind : kUnsplit) EXPECT_NO_THROW(length(make(kind, p, m)));
      for (const ScheduleKind kind : kSplit) EXPECT_NO_THROW(length(make(kind, p, m)));
      for (const int v : {1, 2, 3, 4}) {
        EXPECT_NO_THROW(length(make(ScheduleKind::interleaved, p, m, v)));
        EXPECT_NO_THROW(length(make_streaming(p, static_cast<std::uint32_t>(m), v)));
      }
    }
  }
}

/// The set-ups that the formulas are stated for.
template <class F>
void for_each_set_up(F f) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {p, 2 * p, 8 * p}) f(p, m);
  }
}

TEST(Schedule, BubbleIsStagesLessOneOverMicroBatches) {
  for_each_set_up([](int p, int m) {
    for (const ScheduleKind kind : kUnsplit) {
      const double ideal = 3.0 * m;
      const Schedule s = make(kind, p, m);
      // (length - ideal) / ideal = (p - 1) / m, in integers.
      EXPECT_EQ((length(s) - ideal) * m, (p - 1) * ideal) << p << " stages, " << m;
    }
  });
}

TEST(Schedule, InterleavingDividesTheBubbleByTheChunks) {
  for_each_set_up([](int p, int m) {
    for (const int v : {2, 4}) {
      const double ideal = 3.0 * m * v;  // in slots of a chunk
      const double bubble = length(make(ScheduleKind::interleaved, p, m, v)) - ideal;
      EXPECT_EQ(bubble * v * m, (p - 1) * ideal) << p << " stages, " << m << ", " << v << " chunks";
    }
  });
}

TEST(Schedule, InterleavingNeedsNoMultipleOfTheStages) {
  for (const int p : {2, 3, 4, 7}) {
    for (const int v : {2, 3, 4}) {
      for (int m = p; m <= 5 * p; ++m) {
        EXPECT_EQ(length(make(ScheduleKind::interleaved, p, m, v)), 3.0 * (m * v + p - 1))
            << p << " stages, " << m << ", " << v << " chunks";
      }
    }
  }
}

TEST(Schedule, ZeroBubbleSchedulesReachTheirFormulas) {
  for_each_set_up([](int p, int m) {
    EXPECT_EQ(bubble(make(ScheduleKind::zb_h1, p, m)), p - 1);  // of 3 m
    const int least = m >= 2 * p - 1 ? 0 : 2 * p - 1 - m;
    EXPECT_EQ(bubble(make(ScheduleKind::zb_h2, p, m)), least) << p << " stages, " << m;
    EXPECT_EQ(bubble(make(ScheduleKind::zb_v, p, m)), least) << p << " stages, " << m;
  });
}

/// Slots that the first stage of any schedule with split backward must idle, in slots of a chunk.
///
/// Down the stages, and in a V back up, the first gradient is back on the first stage after 2p - 1
/// slots (2p in a V, whose 2p-th is the stage's own forward of chunk 1). Until then it can run m
/// forwards (in a V one of chunk 1 besides), so it idles 2p - 1 - m slots unless m is larger.
/// In a V a backward of chunk 0 can run from slot 4p - 1 on, 2p - 1 slots after that; until then
/// there are, besides the m + 1 forwards, m - 1 forwards, m backwards and m weight slots left to
/// run: it idles another 2p - 3m.
int least_bubble(ScheduleKind kind, int p, int m) {
  const int first = std::max(0, 2 * p - 1 - m);
  return kind == ScheduleKind::zb_v ? first + std::max(0, 2 * p - 3 * m) : first;
}

TEST(Schedule, NoScheduleHasASmallerBubbleThanH2AndV) {
  for (const ScheduleKind kind : {ScheduleKind::zb_h2, ScheduleKind::zb_v}) {
    for (int p = 1; p <= 20; ++p) {
      for (int m = 1; m <= 4 * p; ++m) {
        EXPECT_EQ(bubble(make(kind, p, m)), least_bubble(kind, p, m)) << p << " stages, " << m;
      }
    }
    EXPECT_EQ(bubble(make(kind, 64, 127)), 0);
    EXPECT_EQ(bubble(make(kind, 100, 1000)), 0);
  }
  // H1 may hold p micro-batches only: that many forwards until the gradient is back.
  for (int p = 1; p <= 20; ++p) {
    for (int m = 1; m <= 4 * p; ++m) {
      EXPECT_EQ(bubble(make(ScheduleKind::zb_h1, p, m)), 2 * p - 1 - std::min(p, m));
    }
  }
}

/// All orders of the slots of a stage, with split backward, that keep to what the slots of one
/// micro-batch need of each other; in a V a micro-batch comes down before it goes up.
std::vector<StageOrder> all_orders(int m, bool vee) {
  const int chunks = vee ? 2 : 1;
  std::vector<StageOrder> orders;
  StageOrder order;
  std::set<std::tuple<std::uint32_t, int, SlotPhase>> ran;
  const auto possible = [&](std::uint32_t i, int c, SlotPhase phase) {
    const auto has = [&](int chunk, SlotPhase p) { return ran.count({i, chunk, p}) > 0; };
    if (has(c, phase)) return false;
    if (phase == SlotPhase::weight) return has(c, SlotPhase::backward);
    if (phase == SlotPhase::forward) return c == 0 || has(0, SlotPhase::forward);
    return c + 1 < chunks ? has(1, SlotPhase::backward) : has(c, SlotPhase::forward);
  };
  const std::function<void()> go_on = [&] {
    if (order.size() == static_cast<std::size_t>(3 * m * chunks)) orders.push_back(order);
    for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(m); ++i) {
      for (int c = 0; c < chunks; ++c) {
        for (const SlotPhase phase : {SlotPhase::forward, SlotPhase::backward, SlotPhase::weight}) {
          if (!possible(i, c, phase)) continue;
          order.push_back({i, static_cast<std::uint16_t>(c), phase});
          ran.insert({i, c, phase});
          go_on();
          ran.erase({i, c, phase});
          order.pop_back();
        }
      }
    }
  };
  go_on();
  return orders;
}

/// bubble() of these orders, or a very large number when they deadlock.
int quick_bubble(const Schedule& s, const std::vector<const StageOrder*>& orders) {
  constexpr int kNever = 1 << 20;
  const int stages = static_cast<int>(orders.size()), last = stages * s.chunks - 1;
  // The end of every slot by phase, virtual stage and micro-batch; 0: it has not run.
  int end[kSlotPhases][8][4] = {};
  std::size_t next[4] = {};
  int free[4] = {}, start[4] = {};
  for (bool moved = true; moved;) {
    moved = false;
    for (int stage = 0; stage < stages; ++stage) {
      for (; next[stage] < orders[static_cast<std::size_t>(stage)]->size(); moved = true) {
        const Slot& slot = (*orders[static_cast<std::size_t>(stage)])[next[stage]];
        const int v = s.virtual_stage(stage, slot.chunk);
        int from = free[stage];
        const auto needs = [&](SlotPhase phase, int of) {
          const int t = end[static_cast<int>(phase)][of][slot.micro_batch];
          from = t == 0 ? kNever : std::max(from, t);
        };
        if (slot.phase == SlotPhase::forward && v > 0) needs(SlotPhase::forward, v - 1);
        if (slot.phase == SlotPhase::backward && v < last) needs(SlotPhase::backward, v + 1);
        if (from >= kNever) break;
        if (next[stage]++ == 0) start[stage] = from;
        free[stage] = end[static_cast<int>(slot.phase)][v][slot.micro_batch] = from + 1;
      }
    }
  }
  int most = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const auto slots = orders[static_cast<std::size_t>(stage)]->size();
    if (next[stage] < slots) return kNever;
    most = std::max(most, free[stage] - start[stage] - static_cast<int>(slots));
  }
  return most;
}

TEST(Schedule, NoOrderOfFewSlotsHasASmallerBubble) {
  const auto least_of_all = [](ScheduleKind kind, int p, int m) {
    Schedule s = make(kind, p, m);
    const std::vector<StageOrder> all = all_orders(m, kind == ScheduleKind::zb_v);
    std::vector<const StageOrder*> orders(static_cast<std::size_t>(p));
    int least = 1 << 20;
    const std::function<void(std::size_t)> choose = [&](std::size_t stage) {
      if (stage == orders.size()) {
        least = std::min(least, quick_bubble(s, orders));
        return;
      }
      for (const StageOrder& order : all) {
        // Micro-batches are alike: the first stage may take them as they are numbered.
        std::uint32_t forwards = 0;
        const bool numbered = std::all_of(order.begin(), order.end(), [&](const Slot& slot) {
          return slot.phase != SlotPhase::forward || slot.chunk > 0 ||
                 slot.micro_batch == forwards++;
        });
        if (stage == 0 && !numbered) continue;
        orders[stage] = &order;
        choose(stage + 1);
      }
    };
    choose(0);
    return least;
  };
  for (const auto& [p, m] : {std::pair(1, 2), {2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}, {4, 1}}) {
    EXPECT_EQ(least_of_all(ScheduleKind::zb_h2, p, m), least_bubble(ScheduleKind::zb_h2, p, m))
        << p << " stages, " << m;
  }
  for (const int p : {1, 2, 3, 4}) {
    EXPECT_EQ(least_of_all(ScheduleKind::zb_v, p, 1), least_bubble(ScheduleKind::zb_v, p, 1)) << p;
  }
}

TEST(Schedule, FewerMicroBatchesThanStages) {
  for (const ScheduleKind kind : kUnsplit) {
    for (const int p : {2, 5, 8}) {
      for (int m = 1; m < p; ++m) EXPECT_EQ(length(make(kind, p, m)), 3.0 * (m + p - 1));
    }
  }
}

TEST(Schedule, InferenceStreams) {
  EXPECT_EQ(order(make_streaming(2, 3), 1), "F0 F1 F2");
  EXPECT_EQ(length(make_streaming(4, 8)), 11);
  // Two chunks: twice the slots of half the length, and the same p - 1 slots until the last stage
  // has work.
  EXPECT_EQ(order(make_streaming(2, 4, 2), 0), "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0 F2.1 F3.1");
  EXPECT_EQ(length(make_streaming(4, 8, 2)), 2 * 8 + 3);
}

TEST(Schedule, HeldMicroBatches) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 4, 8, 20}) {
      const Schedule one = make(ScheduleKind::one_f_one_b, p, m);
      const Schedule all = make(ScheduleKind::gpipe, p, m);
      for (int i = 0; i < p; ++i) {
        EXPECT_EQ(peak_in_flight(one, i), std::min(m, p - i));
        EXPECT_EQ(peak_in_flight(all, i), m);
      }
    }
  }
}

TEST(Schedule, HeldChunks) {
  for_each_set_up([](int p, int m) {
    for (const int v : {2, 4}) {
      const Schedule s = make(ScheduleKind::interleaved, p, m, v);
      // 1F1B's p on the first stage times 1 + (p - 1) / (p v), in chunks of 1/v; with few
      // micro-batches all there are.
      EXPECT_EQ(peak_in_flight(s, 0), std::min(m * v, p * v + p - 1));
      EXPECT_EQ(peak(s), peak_in_flight(s, 0));
    }
    EXPECT_EQ(peak(make(ScheduleKind::zb_h1, p, m)), p);
    EXPECT_EQ(peak(make(ScheduleKind::zb_h2, p, m)), std::min(m, 2 * p - 1));
    // In a V of two chunks no more than 1F1B's p whole stages.
    EXPECT_EQ(peak(make(ScheduleKind::zb_v, p, m)), 2 * p);
  });
  for (int p = 1; p <= 20; ++p) {
    for (int m = 1; m <= 4 * p; ++m) {
      EXPECT_LE(peak(make(ScheduleKind::zb_h1, p, m)), p);
      EXPECT_LE(peak(make(ScheduleKind::zb_h2, p, m)), 2 * p - 1);
      EXPECT_LE(peak(make(ScheduleKind::zb_v, p, m)), 2 * p);
    }
  }
}

TEST(Schedule, TheSlowestStageSetsThePace) {
  const Schedule s = make(ScheduleKind::one_f_one_b, 3, 100);
  const SlotDuration unit = unit_durations(s);
  const double length = schedule_length(
      s, [&](int stage, const Slot& slot) { return (stage == 1 ? 2.0 : 1.0) * unit(stage, slot); });
  EXPECT_GE(length, 600);
  EXPECT_LE(length, 600 + 6);
}

TEST(Schedule, AShortLastMicroBatchIsShorter) {
  const Schedule s = make(ScheduleKind::gpipe, 2, 4);
  const SlotDuration unit = unit_durations(s);
  const auto last_half = [&](int stage, const Slot& slot) {
    return unit(stage, slot) * (slot.micro_batch == 3 ? 0.5 : 1.0);
  };
  EXPECT_LT(schedule_length(s, last_half), length(s));
}

TEST(Schedule, TimesOfASlot) {
  const Schedule s = make(ScheduleKind::zb_v, 2, 2);
  const auto times = time_schedule(s, unit_durations(s));
  // Stage 0: F0.0 at 0; down to stage 1 and back up for F0.1 at 3, B0.1 at 4.
  EXPECT_EQ(to_text(s.orders[0][2], 2), "F0.1");
  EXPECT_EQ(times[0][2].start, 3);
  EXPECT_EQ(times[0][3].end, 5);
}

std::string error_of(const Schedule& s) {
  try {
    time_schedule(s, unit_durations(s));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Schedule, DeadlockNamesTheSlotsThatWait) {
  Schedule s = make(ScheduleKind::gpipe, 2, 2);
  std::swap(s.orders[0][1], s.orders[0][2]);  // F0 B0 F1 B1 against F0 F1 B0 B1
  EXPECT_THAT(error_of(s), AllOf(HasSubstr("stage 0 waits in slot 1 (B0) for B0 of stage 1"),
                                 HasSubstr("stage 1 waits in slot 1 (F1) for F1 of stage 0")));
  s.orders = {{{0, 0, SlotPhase::backward}, {0}, {1}, {1, 0, SlotPhase::backward}}};
  EXPECT_THAT(error_of(s), HasSubstr("(B0) for F0 of stage 0"));
  // Many waiting slots are summed up.
  s.micro_batches = 1;
  s.orders.assign(100, StageOrder{{0, 0, SlotPhase::backward}, {0}});
  EXPECT_THAT(error_of(s), HasSubstr("and 191 more"));
}

TEST(Schedule, MessagesOfOneLaneArriveInTheOrderTheyAreTaken) {
  for (const ScheduleKind kind : kSplit) {
    const Schedule s = make(kind, 3, 7);
    for (int v = 1; v < s.virtual_stages(); ++v) {
      EXPECT_THAT(message_lanes(s, v, SlotPhase::forward), Each(0));
      EXPECT_THAT(message_lanes(s, v - 1, SlotPhase::backward), Each(0));
    }
  }
  // Stage 1 takes 2, 0, 1 as stage 0 makes 0, 1, 2; the gradients come back in that order.
  const Schedule s = schedule({"F0 F1 F2 B2 B0 B1", "F2 F0 F1 B2 B0 B1"}, 3);
  EXPECT_THAT(message_lanes(s, 1, SlotPhase::forward), ElementsAre(0, 0, 1));
  EXPECT_THAT(message_lanes(s, 0, SlotPhase::backward), Each(0));
  const Schedule back = schedule({"F0 F1 F2 B0 B1 B2", "F2 F1 F0 B0 B1 B2"}, 3);
  EXPECT_THAT(message_lanes(back, 1, SlotPhase::forward), ElementsAre(0, 1, 2));
}

TEST(Schedule, MillionsOfSlots) {
  EXPECT_EQ(length(make(ScheduleKind::one_f_one_b, 64, 20'000)), 3.0 * (20'000 + 63));
  EXPECT_EQ(length(make(ScheduleKind::zb_v, 100, 4'000)), 6.0 * 4'000 + 99);
}

}  // namespace
}  // namespace tilewright
