// Schedules as text: drawn, written to a file, and read from one.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

Schedule read(const std::string& text, int stages, std::uint32_t m, bool training = true) {
  return read_schedule(Document::parse(text, "schedule", {}, "s.yaml"), stages, m, training);
}

std::string error_of(const std::string& text, int stages, std::uint32_t m, bool training = true) {
  try {
    read(text, stages, m, training);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(ScheduleFile, WhatIsWrittenReadsBack) {
  const Schedule schedules[] = {
      make_schedule(ScheduleKind::one_f_one_b, 3, 5),
      make_schedule(ScheduleKind::interleaved, 2, 4, 3),
      make_schedule(ScheduleKind::zb_h2, 3, 7),
      make_schedule(ScheduleKind::zb_v, 4, 8),
  };
  for (const Schedule& s : schedules) {
    const std::string text = schedule_text(s, "mine");
    const Schedule r = read(text, s.stages(), s.micro_batches);
    EXPECT_EQ(r.name, "mine");
    EXPECT_EQ(r.chunks, s.chunks);
    EXPECT_EQ(r.layout, s.layout);
    EXPECT_EQ(r.split_backward, s.split_backward);
    EXPECT_EQ(schedule_text(r, "mine"), text);
  }
  const Schedule streaming = make_streaming(2, 3);
  EXPECT_FALSE(read(schedule_text(streaming, "s"), 2, 3, false).backward);
}

TEST(ScheduleFile, LooksAsDocumented) {
  EXPECT_EQ(schedule_text(make_schedule(ScheduleKind::zb_v, 1, 1), "v"),
            "schedule: v\nchunks: 2\nlayout: v\nstages:\n"
            "  0: F0.0 F0.1 B0.1 B0.0 W0.1 W0.0\n");
  // Long lines may be folded.
  const Schedule s = read("schedule: x\nstages:\n  0: F0 F1\n    B0\n    B1\n", 1, 2);
  EXPECT_EQ(s.orders[0].size(), 4u);
}

TEST(ScheduleFile, RefusalsNameLineSlotAndWhatIsAllowed) {
  struct {
    const char* text;
    const char* expected;
  } const refusals[] = {
      {"stages: {0: F0 B0}", "schedule"},
      {"schedule: x\nstages: {0: F0 B0, 1: F0 B0}", "2 stages are listed, the plan has 1"},
      {"schedule: x\nstages: {1: F0 B0}", "stages.0: this key is missing"},
      {"schedule: x\nstages:\n  0: F0 G0", "s.yaml:3: stages.0: 'G0' is no slot"},
      {"schedule: x\nstages:\n  0: F0 B", "'B' is no slot"},
      {"schedule: x\nstages:\n  0: F0 B0.", "'B0.' is no slot"},
      {"schedule: x\nstages:\n  0: F-1 B0", "'F-1' is no slot"},
      {"schedule: x\nstages:\n  0: F0 B99999999999", "'B99999999999' is no slot"},
      {"schedule: x\nstages:\n  0: F0 F0 B0", "F0 is listed twice; wanted: every slot of 1 "},
      {"schedule: x\nstages:\n  0: F0 B0 B1", "there is no micro-batch 1; allowed: 0 to 0"},
      {"schedule: x\nstages:\n  0: F0 B0.1", "there is no chunk 1; allowed: 0 to 0"},
      {"schedule: x\nstages:\n  0: F0", "B0 is missing"},
      {"schedule: x\nstages:\n  0: ''", "F0 is missing, and 1 more slots"},
      {"schedule: x\nchunks: 2\nstages:\n  0: F0.0 B0.0 F0.1 W0.0", "B0.1 is missing"},
      {"schedule: x\nchunks: 0\nstages:\n  0: F0", "s.yaml:2: chunks"},
      {"schedule: x\nlayout: v\nstages:\n  0: F0", "a V has two chunks per stage, chunks is 1"},
      {"schedule: x\nlayout: w\nstages:\n  0: F0", "interleaved, v"},
      {"schedule: x\norders: 1\nstages:\n  0: F0 B0", "unknown key 'orders'"},
      {"schedule: x\nstages:\n  0: B0 F0", "deadlock; stage 0 waits in slot 0 (B0) for F0"},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(error_of(r.text, 1, 1), AllOf(HasSubstr("s.yaml:"), HasSubstr(r.expected)))
        << r.text;
  }
  EXPECT_THAT(error_of("schedule: x\nstages:\n  0: F0 B0\n  1: F0 B0 F1\n", 2, 1),
              HasSubstr("s.yaml:4: stages.1: F1: there is no micro-batch"));
  EXPECT_THAT(error_of("schedule: x\nstages:\n  0: F0 B0\n", 1, 1, false),
              HasSubstr("the schedule has no backward slots"));
}

TEST(ScheduleDrawing, OrdersAndTime) {
  const Schedule one = make_schedule(ScheduleKind::one_f_one_b, 4, 4);
  EXPECT_EQ(draw_orders(one),
            "stage 0  F0 F1 F2 F3 B0 B1 B2 B3\n"
            "stage 1  F0 F1 F2 B0 F3 B1 B2 B3\n"
            "stage 2  F0 F1 B0 F2 B1 F3 B2 B3\n"
            "stage 3  F0 B0 F1 B1 F2 B2 F3 B3\n");
  EXPECT_EQ(draw_timeline(one),
            "stage 0  F0 F1 F2 F3 .  .  .  .  .  .  B0 B0 .  B1 B1 .  B2 B2 .  B3 B3\n"
            "stage 1  .  F0 F1 F2 .  .  .  .  B0 B0 F3 B1 B1 .  B2 B2 .  B3 B3 .  .\n"
            "stage 2  .  .  F0 F1 .  .  B0 B0 F2 B1 B1 F3 B2 B2 .  B3 B3 .  .  .  .\n"
            "stage 3  .  .  .  F0 B0 B0 F1 B1 B1 F2 B2 B2 F3 B3 B3 .  .  .  .  .  .\n");
  EXPECT_EQ(draw_timeline(make_schedule(ScheduleKind::zb_v, 2, 3)),
            "stage 0  F0.0 F1.0 F2.0 F0.1 B0.1 W0.1 F1.1 B1.1 W1.1 B0.0 W0.0 F2.1 B2.1 B1.0 W2.1 "
            "B2.0 W1.0 W2.0 .\n"
            "stage 1  .    F0.0 F0.1 F1.0 F1.1 B0.1 W0.1 B0.0 W0.0 F2.0 F2.1 B1.1 B1.0 B2.1 B2.0 "
            "W1.1 W2.1 W1.0 W2.0\n");
}

TEST(ScheduleDrawing, LongOnesAreShortened) {
  const Schedule s = make_schedule(ScheduleKind::gpipe, 20, 1000);
  for (const std::string& drawing : {draw_orders(s, 80), draw_timeline(s, 80)}) {
    EXPECT_THAT(drawing, AllOf(StartsWith("stage  0  F0   F1 "), HasSubstr(" ...  "),
                               HasSubstr("stage  7 "), HasSubstr("\n  ...\nstage 12 "),
                               Not(HasSubstr("stage  8 ")), HasSubstr("stage 19 ")));
    std::size_t line = 0;
    for (const char c : drawing) {
      line = c == '\n' ? 0 : line + 1;
      EXPECT_LE(line, 80u);
    }
  }
  EXPECT_THAT(draw_orders(s, 80), EndsWith("B998 B999\n"));
}

}  // namespace
}  // namespace tilewright
