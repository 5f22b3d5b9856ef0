// What messages take between their arrival and their use.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>
#include <support/random_schedule.h>

#include <tilewright/plan/communication_buffers.h>

namespace tilewright {
namespace {

using Counts = std::vector<std::int64_t>;

WaitingMessages count(const Schedule& s, int stage) {
  return waiting_messages(s, stage, [](const Slot&) { return std::int64_t{1}; });
}

TEST(WaitingMessages, ByHand) {
  // stage 0  F0 F1 B0 F2 B1 B2
  // stage 1  F0 B0 F1 B1 F2 B2
  const Schedule s = make_schedule(ScheduleKind::one_f_one_b, 2, 3);
  // Before F0 both F0 and F1 can have come; B0 lets F2 follow.
  EXPECT_EQ(count(s, 1).all, (Counts{2, 1, 2, 1, 1, 0, 0}));
  EXPECT_EQ(count(s, 1).next, (Counts{1, 1, 1, 1, 1, 0, 0}));
  // After F1 the gradients of both can be back.
  EXPECT_EQ(count(s, 0).all, (Counts{0, 1, 2, 1, 2, 1, 0}));
  EXPECT_EQ(count(s, 0).next, (Counts{0, 1, 1, 1, 1, 1, 0}));
}

TEST(WaitingMessages, AllOfGPipesCanWaitAndOneIsReceivedAhead) {
  const Schedule s = make_schedule(ScheduleKind::gpipe, 3, 5);
  EXPECT_EQ(count(s, 1).all.front(), 5);  // forwards
  EXPECT_EQ(count(s, 1).next.front(), 1);
  EXPECT_EQ(count(s, 0).all[5], 5);  // gradients
  EXPECT_EQ(count(s, 0).next[5], 1);
}

TEST(WaitingMessages, EachChunkReceivesOneAhead) {
  const Schedule s = make_schedule(ScheduleKind::interleaved, 2, 4, 2);
  const WaitingMessages w = count(s, 0);
  // Two chunks' gradients, and the second chunk's activations that have come round.
  EXPECT_LE(*std::max_element(w.next.begin(), w.next.end()), 3);
  EXPECT_GT(*std::max_element(w.next.begin(), w.next.end()), 1);
}

TEST(WaitingMessages, OneStageReceivesNothing) {
  for (const std::int64_t n : count(make_schedule(ScheduleKind::zb_v, 1, 4), 0).all) {
    EXPECT_EQ(n, 0);
  }
}

/// The messages that wait at a stage which keeps everybody waiting for its slot `held`.
std::int64_t waiting_in_time(const Schedule& s, int stage, std::size_t held) {
  constexpr double kLong = 1e6;  // all other slots together take less
  const StageOrder& order = s.orders[static_cast<std::size_t>(stage)];
  const auto same = [](const Slot& a, const Slot& b) {
    return a.micro_batch == b.micro_batch && a.chunk == b.chunk && a.phase == b.phase;
  };
  const auto times = time_schedule(s, [&](int of, const Slot& slot) {
    return of == stage && same(slot, order[held]) ? kLong : 1.0;
  });
  const double now = times[static_cast<std::size_t>(stage)][held].end - 1;
  std::int64_t waiting = 0;
  for (int other = 0; other < s.stages(); ++other) {
    if (other == stage) continue;
    const auto o = static_cast<std::size_t>(other);
    for (std::size_t i = 0; i < s.orders[o].size(); ++i) {
      const Slot& slot = s.orders[o][i];
      if (times[o][i].end > now || slot.phase == SlotPhase::weight) continue;
      const int to =
          s.virtual_stage(other, slot.chunk) + (slot.phase == SlotPhase::forward ? 1 : -1);
      if (to < 0 || to >= s.virtual_stages() || s.stage_of(to) != stage) continue;
      const Slot taker{slot.micro_batch, static_cast<std::uint16_t>(s.chunk_of(to)), slot.phase};
      for (std::size_t k = held; k < order.size(); ++k) waiting += same(order[k], taker);
    }
  }
  return waiting;
}

TEST(WaitingMessages, AreThoseOfAStageThatIsHeldUp) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const int stages = 1 + static_cast<int>(random() % 4);
    const Schedule s =
        test::random_schedule(random, stages, 1 + static_cast<std::uint32_t>(random() % 5));
    for (int stage = 0; stage < s.stages(); ++stage) {
      const Counts most = count(s, stage).all;
      ASSERT_EQ(most.size(), s.orders[static_cast<std::size_t>(stage)].size() + 1);
      EXPECT_EQ(most.back(), 0);
      for (std::size_t k = 0; k + 1 < most.size(); ++k) {
        ASSERT_EQ(most[k], waiting_in_time(s, stage, k))
            << "stage " << stage << ", slot " << k << "\n"
            << schedule_text(s, "drawn");
      }
    }
  }
}

/// Members in one row.
CollectiveGroup row(int members) {
  MachineConfig m;
  m.tiles_x = members;
  m.tiles_y = 1;
  std::vector<TileId> tiles;
  for (int i = 0; i < members; ++i) tiles.push_back(static_cast<TileId>(i));
  return make_group(m, tiles);
}

TEST(SummandBytes, ByAlgorithm) {
  const auto held = [](CollectiveKind kind, CollectiveAlgorithm algorithm) {
    return summand_bytes(make_schedule(kind, algorithm, row(8), 800));
  };
  using A = CollectiveAlgorithm;
  for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter}) {
    EXPECT_EQ(held(kind, A::ring), 100);              // a part at a time
    EXPECT_EQ(held(kind, A::two_rings), 2 * 50);      // half a part from each side
    EXPECT_EQ(held(kind, A::direct), 7 * 100);        // all others send at once
    EXPECT_EQ(held(kind, A::halving_doubling), 400);  // half of it first
  }
  EXPECT_EQ(held(CollectiveKind::all_gather, A::ring), 0);
  EXPECT_EQ(held(CollectiveKind::all_to_all, A::direct), 0);
  EXPECT_EQ(held(CollectiveKind::broadcast, A::tree), 0);
}

}  // namespace
}  // namespace tilewright
