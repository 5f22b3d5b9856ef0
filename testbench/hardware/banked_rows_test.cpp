// The open rows that observers see of a banked DRAM channel.
#include "../../sc_src/hardware/banked_rows.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include <tilewright/machine/machine.h>

#include "../../sc_src/hardware/banked_model.h"

namespace tilewright {
namespace {

MemoryPart part(const std::string& name) {
  return read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/" + name + ".yaml", "memory"));
}

std::size_t open_rows(const RowReplay& rows) {
  std::size_t open = 0;
  for (std::size_t b = 0; b < rows.banks(); ++b) open += rows.row(b) != RowReplay::kClosed;
  return open;
}

// A lone read: its row opens in the first whole cycle after its arrival, the data comes the read
// latency of the row's opening later, and the refresh closes the row.
TEST(BankedRows, ALoneReadOpensItsRowUntilTheRefresh) {
  const MemoryPart p = part("ddr4-3200");
  const auto model = make_banked_model(p);
  const auto rows = model->rows();
  ASSERT_EQ(rows.size(), static_cast<std::size_t>(p.channels));
  RowReplay& channel = *rows.front();
  EXPECT_EQ(channel.banks(), static_cast<std::size_t>(p.pseudo * p.groups * p.banks));
  EXPECT_EQ(channel.next(), ~Picoseconds{0});
  const double period = 1e12 / p.clock.value();
  const Picoseconds arrival = 1'000'000;
  model->add(arrival, 0, 0, 64, false, 0);
  channel.update();
  const Picoseconds opened = channel.next();
  EXPECT_GE(opened, arrival);
  EXPECT_LT(static_cast<double>(opened - arrival), period);
  EXPECT_EQ(open_rows(channel), 0u);
  channel.advance();
  EXPECT_EQ(open_rows(channel), 1u);
  DramModel::Completion done;
  Picoseconds now = arrival;
  while (!model->pop(now, done)) now = model->next();
  EXPECT_NEAR(static_cast<double>(done.first_byte - opened),
              static_cast<double>(p.timing.rcd_read + p.timing.cl) * period, 1);
  const Picoseconds closed = channel.next();
  EXPECT_NEAR(static_cast<double>(closed), static_cast<double>(p.timing.refi) * period, 1);
  channel.advance();
  EXPECT_EQ(open_rows(channel), 0u);
  EXPECT_EQ(channel.next(), ~Picoseconds{0});
}

// Requests at random times, near each other and far apart: whenever one comes, the rows are those
// of the channel, which has got there by its own way.
TEST(BankedRows, FollowTheChannel) {
  for (const char* name : {"ddr4-3200", "hbm2-2.0"}) {
    const MemoryPart p = part(name);
    StretchMemory stretches;
    BankedChannel channel(p, getenv("NOS") ? nullptr : &stretches);
    ChannelRows rows(channel, 1e12 / p.clock.value());
    std::mt19937_64 random(3);
    BankedChannel::Cycle now = 0;
    int compared = 0, changes = 0;
    for (std::uint32_t i = 0; i < 300; ++i) {
      now += static_cast<BankedChannel::Cycle>(random() % (i % 7 == 0 ? 30000 : 200));
      do {
        channel.finished().clear();
        channel.run(now);
      } while (!channel.finished().empty());
      Picoseconds last = 0;
      while (rows.next() < cycle_time(now, 1e12 / p.clock.value())) {
        EXPECT_GE(rows.next(), last);
        last = rows.next();
        rows.advance();
        ++changes;
      }
      if (channel.row_changed() < now) {  // not in the middle of a refresh, which closes them all
        ++compared;
        for (std::size_t b = 0; b < rows.banks(); ++b) {
          EXPECT_EQ(rows.row(b), channel.row(b)) << name << ", request " << i << ", bank " << b;
        }
      }
      const auto first = static_cast<std::int64_t>(random() % 1000000);
      const auto bursts = static_cast<std::int64_t>(1 + random() % (i % 5 == 0 ? 3000 : 20));
      channel.add(now, {first, first + bursts, i % 3, i, random() % 4 == 0});
      rows.update();
    }
    EXPECT_GT(compared, 250) << name;
    EXPECT_GT(changes, 1000) << name;
  }
}

}  // namespace
}  // namespace tilewright
