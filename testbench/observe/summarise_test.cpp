// A machine small enough to work every figure out by hand.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/result.h>

namespace tilewright {
namespace {

constexpr std::size_t at(TileState s) { return static_cast<std::size_t>(s); }

/// 4 x 2 tiles in two dies of 2 x 2; 100 GB/s on the die, 25 GB/s between the dies.
MachineConfig machine() {
  MachineConfig m;
  m.name = "hand";
  m.dies_x = 2;
  m.tiles_x = m.tiles_y = 2;
  m.sram.capacity = Bytes(1000);
  m.noc.link.bandwidth = Bandwidth(100e9);
  m.noc.die_link.bandwidth = Bandwidth(25e9);
  m.dram.bandwidth = Bandwidth(50e9);
  m.dram.capacity = Bytes(5000);
  m.dram.sites = {{0, 0}, {3, 1}};
  return m;
}

/// Iteration of 1 µs; all links of the mesh, idle; all tiles idle.
RunStatistics idle_run(const MachineConfig& m) {
  RunStatistics run;
  run.end = 1'000'000;
  run.tiles.resize(static_cast<std::size_t>(m.tiles()));
  for (auto& t : run.tiles) t.time[at(TileState::idle)] = run.end;
  for (int y = 0; y < m.height(); ++y) {
    for (int x = 0; x < m.width(); ++x) {
      for (auto [dx, dy] : {std::pair{1, 0}, {-1, 0}, {0, 1}, {0, -1}}) {
        const int x1 = x + dx, y1 = y + dy;
        if (x1 < 0 || y1 < 0 || x1 >= m.width() || y1 >= m.height()) continue;
        LinkStatistics link;
        link.from = m.tile(x, y);
        link.to = m.tile(x1, y1);
        link.kind = m.crosses_die(link.from, link.to) ? LinkKind::die : LinkKind::tile;
        run.links.push_back(link);
      }
    }
  }
  run.dram.resize(2);
  run.dram[DramId(0)].site = m.tile(0, 0);
  run.dram[DramId(1)].site = m.tile(3, 1);
  return run;
}

LinkStatistics& link(RunStatistics& run, TileId from, TileId to) {
  for (auto& l : run.links) {
    if (l.from == from && l.to == to) return l;
  }
  throw InternalError("no such link");
}

void set(TileStatistics& t, Picoseconds matrix, Picoseconds bubble, Picoseconds idle) {
  t.time = {};
  t.time[at(TileState::matrix)] = matrix;
  t.time[at(TileState::bubble)] = bubble;
  t.time[at(TileState::idle)] = idle;
}

TEST(Summarise, TheHostMemoryIsCountedApart) {
  MachineConfig m = machine();
  m.host.bandwidth = Bandwidth(10e9);
  m.host.capacity = Bytes(20'000);
  m.host.sites = {{1, 1}};
  RunStatistics run = idle_run(m);
  run.host.resize(1);
  run.host[DramId(0)] = {m.tile(1, 1), 3000, 2000, 500'000, 15'000};
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.host.mean, 0.5);
  EXPECT_EQ(r.host.where, "host 0 at (1,1)");
  EXPECT_DOUBLE_EQ(r.bounds.host.value(), 5000 / 10e9);
  EXPECT_EQ(r.host_read.value(), 3000);
  EXPECT_EQ(r.host_written.value(), 2000);
  EXPECT_EQ(r.memory.host.value(), 15'000);
  EXPECT_EQ(r.memory.host_capacity.value(), 20'000);
  EXPECT_EQ(r.memory.host_where, "host 0 at (1,1)");
  EXPECT_EQ(r.dram.max, 0);
  EXPECT_EQ(r.dram_read.value(), 0);
  EXPECT_EQ(r.bounds.dram.value(), 0);
  const std::string text = text_report(r);
  EXPECT_THAT(text, testing::HasSubstr(
                        "  host          500.0 ns      2.00 x <-  bytes of the busiest host"));
  EXPECT_THAT(text,
              testing::HasSubstr("  host   busy  50.0 % on average,  50.0 % at most: host 0"));
  EXPECT_THAT(text, testing::HasSubstr("  host   peak 14.65 KiB of 19.53 KiB (75.0 %): host 0"));
  EXPECT_THAT(text, testing::HasSubstr("memory read 2.930 KiB, written 1.953 KiB"));
}

TEST(Summarise, CommunicationIsExposedOrHidden) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  set(run.tiles[TileId(0)], 900'000, 100'000, 0);
  set(run.tiles[TileId(1)], 500'000, 0, 0);
  run.tiles[TileId(1)].time[at(TileState::expert_wait)] = 500'000;
  const auto expert = static_cast<std::size_t>(Cause::expert);
  run.tiles[TileId(0)].active[expert] = 400'000;
  run.tiles[TileId(1)].active[expert] = 700'000;
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.communication[expert].active.value(), 0.55e-6);
  EXPECT_DOUBLE_EQ(r.communication[expert].exposed.value(), 0.25e-6);
  EXPECT_DOUBLE_EQ(r.communication[expert].hidden.value(), 0.3e-6);
  EXPECT_EQ(r.communication[static_cast<std::size_t>(Cause::tensor)].active.value(), 0);
}

TEST(Summarise, MeansAreOverTheTilesUsed) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  set(run.tiles[TileId(0)], 1'000'000, 0, 0);
  set(run.tiles[TileId(1)], 500'000, 500'000, 0);
  set(run.tiles[TileId(2)], 300'000, 100'000, 600'000);
  Result r;
  summarise(m, run, r);
  EXPECT_EQ(r.tiles_total, 8);
  EXPECT_EQ(r.tiles_used, 3);
  EXPECT_DOUBLE_EQ(r.iteration_time.value(), 1e-6);
  EXPECT_DOUBLE_EQ(r.breakdown[at(TileState::matrix)].value(), 0.6e-6);
  EXPECT_DOUBLE_EQ(r.breakdown[at(TileState::bubble)].value(), 0.2e-6);
  EXPECT_DOUBLE_EQ(r.bubble_fraction, 0.2);
  double sum = 0;
  for (Seconds s : r.breakdown) sum += s.value();
  EXPECT_NEAR(sum, 1e-6, 1e-20);
}

TEST(Summarise, MeanLosesNothingOnManyTilesAndLongRuns) {
  MachineConfig m = machine();
  m.dies_x = m.dies_y = 1;
  m.tiles_x = 1000;
  m.tiles_y = 100;
  RunStatistics run;
  run.end = 1'000'000'000'000'000;  // 1000 s: the sum over the tiles exceeds 64 bits
  run.tiles.resize(100'000);
  std::uint64_t odd = 0;
  for (auto& t : run.tiles) set(t, run.end - (odd++ % 2), 0, 0);
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.breakdown[at(TileState::matrix)].value(), 1000 - 0.5e-12);
}

TEST(Summarise, LinkUtilisationNamesTheBusiest) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  ASSERT_EQ(run.links.size(), 20u);  // 2 rows x 3 + 4 columns x 1, both directions
  link(run, TileId(1), TileId(2)).busy = 800'000;
  link(run, TileId(0), TileId(1)).busy = 200'000;
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.links.max, 0.8);
  EXPECT_DOUBLE_EQ(r.links.mean, 0.05);
  EXPECT_EQ(r.links.where, "link (1,0)->(2,0) die-to-die");
}

TEST(Summarise, DramBoundIsTheBusiestControllers) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  run.dram[DramId(0)].bytes_read = 1000;
  run.dram[DramId(1)].bytes_read = 2000;
  run.dram[DramId(1)].bytes_written = 3000;
  run.dram[DramId(1)].busy = 250'000;
  run.dram[DramId(1)].allocated_peak = 4000;
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.bounds.dram.value(), 5000 / 50e9);
  EXPECT_DOUBLE_EQ(r.dram.max, 0.25);
  EXPECT_DOUBLE_EQ(r.dram.mean, 0.125);
  EXPECT_EQ(r.dram.where, "dram 1 at (3,1)");
  EXPECT_EQ(r.dram_read, Bytes(3000));
  EXPECT_EQ(r.dram_written, Bytes(3000));
  EXPECT_EQ(r.memory.dram, Bytes(4000));
  EXPECT_EQ(r.memory.dram_capacity, Bytes(5000));
}

TEST(Summarise, BisectionBoundTakesEachDirectionOfEachCutByItself) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  // Die boundary between x = 1 and 2: rightwards 600 bytes over 2 x 25 GB/s; leftwards 500.
  link(run, m.tile(1, 0), m.tile(2, 0)).bytes = 400;
  link(run, m.tile(1, 1), m.tile(2, 1)).bytes = 200;
  link(run, m.tile(2, 0), m.tile(1, 0)).bytes = 500;
  // The only horizontal cut, downwards: 4000 bytes over 4 x 100 GB/s.
  link(run, m.tile(0, 0), m.tile(0, 1)).bytes = 4000;
  Result r;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.bounds.bisection.value(), 600 / 50e9);
  link(run, m.tile(0, 0), m.tile(0, 1)).bytes = 8000;
  summarise(m, run, r);
  EXPECT_DOUBLE_EQ(r.bounds.bisection.value(), 8000 / 400e9);
}

TEST(Summarise, UnlimitedBandwidthBoundsNothing) {
  MachineConfig m = machine();
  m.noc.link.bandwidth = m.noc.die_link.bandwidth = m.dram.bandwidth = Bandwidth::unlimited();
  RunStatistics run = idle_run(m);
  for (auto& l : run.links) l.bytes = 100;
  run.dram[DramId(0)].bytes_read = 100;
  Result r;
  summarise(m, run, r);
  EXPECT_EQ(r.bounds.bisection, Seconds(0));
  EXPECT_EQ(r.bounds.dram, Seconds(0));
}

TEST(Summarise, EmptyRunIsAllZeros) {
  const MachineConfig m = machine();
  Result r;
  summarise(m, RunStatistics{}, r);
  EXPECT_EQ(r.iteration_time, Seconds(0));
  EXPECT_EQ(r.bubble_fraction, 0);
  EXPECT_EQ(r.tiles_used, 0);
}

TEST(SummariseStage, MeansTimesAndTakesTheFullestTile) {
  const MachineConfig m = machine();
  RunStatistics run = idle_run(m);
  set(run.tiles[TileId(0)], 600'000, 400'000, 0);
  set(run.tiles[TileId(1)], 400'000, 600'000, 0);
  run.tiles[TileId(1)].time[at(TileState::bubble)] -= 200'000;
  run.tiles[TileId(1)].time[at(TileState::recomputation)] = 200'000;
  run.tiles[TileId(0)].sram_peak = 700;
  run.tiles[TileId(1)].dram_peak = 900;
  StageResult s;
  summarise_stage(run, {TileId(0), TileId(1)}, s);
  EXPECT_EQ(s.tiles, 2);
  EXPECT_DOUBLE_EQ(s.busy.value(), 0.6e-6);
  EXPECT_DOUBLE_EQ(s.time[at(TileState::bubble)].value(), 0.4e-6);
  EXPECT_EQ(s.peak_sram, Bytes(700));
  EXPECT_EQ(s.peak_dram, Bytes(900));
}

}  // namespace
}  // namespace tilewright
