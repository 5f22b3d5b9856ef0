// Pipeline schedules: orders, bubbles, micro-batches in flight, deadlock.
#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr ScheduleKind kKinds[] = {ScheduleKind::gpipe, ScheduleKind::one_f_one_b};

double equal_stages(int, Slot slot) { return slot.backward ? 2 : 1; }

TEST(Schedule, DrawsTheTextbookOrders) {
  EXPECT_EQ(draw(make_schedule(ScheduleKind::gpipe, Mode::training, 2, 3)),
            "F0 F1 F2 B0 B1 B2\nF0 F1 F2 B0 B1 B2\n");
  EXPECT_EQ(draw(make_schedule(ScheduleKind::one_f_one_b, Mode::training, 4, 5)),
            "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4\n"
            "F0 F1 F2 B0 F3 B1 F4 B2 B3 B4\n"
            "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4\n"
            "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4\n");
  for (const ScheduleKind kind : kKinds) {
    EXPECT_EQ(draw(make_schedule(kind, Mode::inference, 2, 3)), "F0 F1 F2\nF0 F1 F2\n");
  }
}

TEST(Schedule, EveryMicroBatchRunsOnceEachWayOnEveryStage) {
  for (const ScheduleKind kind : kKinds) {
    for (int p = 1; p <= 9; ++p) {
      for (std::uint32_t m = 1; m <= 12; ++m) {
        const auto orders = make_schedule(kind, Mode::training, p, m);
        ASSERT_EQ(orders.size(), static_cast<std::size_t>(p));
        for (const auto& order : orders) {
          std::set<std::pair<std::uint32_t, bool>> seen;
          for (const Slot s : order) {
            EXPECT_LT(s.micro_batch, m);
            if (s.backward) {
              EXPECT_EQ(seen.count({s.micro_batch, false}), 1u);
            }
            seen.insert({s.micro_batch, s.backward});
          }
          EXPECT_EQ(order.size(), 2 * m);
          EXPECT_EQ(seen.size(), 2 * m);
        }
        EXPECT_NO_THROW(schedule_length(orders, equal_stages));
      }
    }
  }
}

TEST(Schedule, BubbleIsExactlyStagesLessOneOverMicroBatches) {
  for (const ScheduleKind kind : kKinds) {
    for (const int p : {2, 4, 8}) {
      for (const int m : {p, 2 * p, 8 * p}) {
        const auto orders = make_schedule(kind, Mode::training, p, static_cast<std::uint32_t>(m));
        const double ideal = 3.0 * m;
        // (length - ideal) / ideal = (p - 1) / m, in integers.
        EXPECT_EQ((schedule_length(orders, equal_stages) - ideal) * m, (p - 1) * ideal)
            << p << " stages, " << m << " micro-batches";
      }
    }
  }
}

TEST(Schedule, FewerMicroBatchesThanStages) {
  for (const ScheduleKind kind : kKinds) {
    for (const int p : {2, 5, 8}) {
      for (int m = 1; m < p; ++m) {
        const auto orders = make_schedule(kind, Mode::training, p, static_cast<std::uint32_t>(m));
        EXPECT_EQ(schedule_length(orders, equal_stages), 3.0 * (m + p - 1));
      }
    }
  }
}

TEST(Schedule, FourStagesEightMicroBatchesAreUsedEightElevenths) {
  for (const ScheduleKind kind : kKinds) {
    const auto orders = make_schedule(kind, Mode::training, 4, 8);
    EXPECT_EQ(8 * 3.0 * 11, schedule_length(orders, equal_stages) * 8);
  }
}

TEST(Schedule, InferenceStreams) {
  const auto orders = make_schedule(ScheduleKind::one_f_one_b, Mode::inference, 4, 8);
  EXPECT_EQ(schedule_length(orders, equal_stages), 11);
}

TEST(Schedule, PeakInFlight) {
  for (const int p : {1, 2, 4, 8}) {
    for (const int m : {1, 3, 4, 8, 20}) {
      const auto one = make_schedule(ScheduleKind::one_f_one_b, Mode::training, p,
                                     static_cast<std::uint32_t>(m));
      const auto all =
          make_schedule(ScheduleKind::gpipe, Mode::training, p, static_cast<std::uint32_t>(m));
      for (int i = 0; i < p; ++i) {
        EXPECT_EQ(peak_in_flight(one[static_cast<std::size_t>(i)]), std::min(m, p - i));
        EXPECT_EQ(peak_in_flight(all[static_cast<std::size_t>(i)]), m);
      }
    }
  }
}

TEST(Schedule, TheSlowestStageSetsThePace) {
  const auto orders = make_schedule(ScheduleKind::one_f_one_b, Mode::training, 3, 100);
  const double length = schedule_length(orders, [](int stage, Slot slot) {
    return (stage == 1 ? 2.0 : 1.0) * (slot.backward ? 2 : 1);
  });
  EXPECT_GE(length, 600);
  EXPECT_LE(length, 600 + 6);
}

TEST(Schedule, AShortLastMicroBatchIsShorter) {
  const auto orders = make_schedule(ScheduleKind::gpipe, Mode::training, 2, 4);
  const auto last_half = [](int, Slot slot) {
    return (slot.backward ? 2.0 : 1.0) * (slot.micro_batch == 3 ? 0.5 : 1.0);
  };
  EXPECT_LT(schedule_length(orders, last_half), schedule_length(orders, equal_stages));
}

std::string error_of(const std::vector<StageOrder>& orders) {
  try {
    schedule_length(orders, equal_stages);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Schedule, DeadlockNamesTheSlotsThatWait) {
  auto orders = make_schedule(ScheduleKind::gpipe, Mode::training, 2, 2);
  std::swap(orders[0][1], orders[0][2]);  // F0 B0 F1 B1 against F0 F1 B0 B1: stage 1 wants F1 first
  EXPECT_THAT(error_of(orders), AllOf(HasSubstr("stage 0 waits in slot 1 (B0) for B0 of stage 1"),
                                      HasSubstr("stage 1 waits in slot 1 (F1) for F1 of stage 0")));
  EXPECT_THAT(error_of({{{0, true}, {0, false}}}), HasSubstr("(B0) for F0 of stage 0"));
  EXPECT_THAT(error_of({{{0, false}, {0, false}}}), HasSubstr("runs F0 twice"));
  EXPECT_THAT(error_of({{{7, false}}}), HasSubstr("numbered from 0"));
  EXPECT_THAT(error_of({{{0, false}}, {{0, false}, {0, true}}, {}}),
              HasSubstr("for B0 of stage 2"));
  // Many waiting slots are summed up.
  std::vector<StageOrder> many(100, StageOrder{{0, true}, {0, false}});
  EXPECT_THAT(error_of(many), HasSubstr("and 191 more"));
  EXPECT_THAT(error_of(make_schedule(ScheduleKind::gpipe, Mode::training, 1, 1)),
              Not(HasSubstr("deadlock")));
}

TEST(Schedule, LengthIsLinearInTheSlots) {
  const auto orders = make_schedule(ScheduleKind::one_f_one_b, Mode::training, 64, 20'000);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(schedule_length(orders, equal_stages), 3.0 * (20'000 + 63));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 3.0);  // 2.5 M slots
}

}  // namespace
}  // namespace tilewright
