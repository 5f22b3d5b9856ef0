// The second memory tier in use: what is measured of it, and what it costs.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/hardware/platform.h>
#include <tilewright/plan/lower.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

#include "support/forked.h"

namespace tilewright {
namespace {

using testing_support::forked;

Graph graph(bool ends) {
  DecoderConfig c;
  c.name = "small";
  c.layers = 8;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = ends ? 128 : 0;
  c.sequence = c.max_positions = 32;
  c.dropout = true;
  return build_graph(c);
}

/// Matrix engines and the two memories alone take time. Every tile has controllers of its own.
MachineConfig machine(int tiles, double sram, double host_bandwidth) {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = tiles;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency::unlimited();
  m.sram.capacity = Bytes(sram);
  m.noc.link = m.noc.die_link = {Bandwidth::unlimited(), Seconds(0)};
  m.dram.bandwidth = Bandwidth(1e12);
  m.dram.capacity = Bytes(1e12);
  m.host.bandwidth = Bandwidth(host_bandwidth);
  m.host.capacity = Bytes(1e12);
  for (int x = 0; x < tiles; ++x) {
    m.dram.sites.emplace_back(x, 0);
    m.host.sites.emplace_back(x, 0);
  }
  return m;
}

PlanConfig plan(ScheduleKind kind, int stages) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = stages;
  p.micro_batch = 1;
  p.global_batch = 6;
  p.schedule = kind;
  return p;
}

constexpr double kAlone = 1e9, kShort = 64 << 10;  // SRAM bytes: for everything, for buffers

/// "" when every stage's high-water marks are those of the memory plan; of near memory, which
/// depends on how soon the background is done, at most those, and just those when it is slow.
std::string compare_memory(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine,
                           bool slow) {
  return forked([&] {
    const LoweredPlan lowered = lower(graph, plan, machine);
    auto* platform = new Platform("platform", machine, lowered.program);
    platform->run();
    std::string wrong;
    for (const StagePlan& stage : lowered.stages) {
      const TileStatistics& tile =
          platform->statistics().tiles[lowered.placement.tile(stage.stage, 0, 0)];
      const auto host = static_cast<std::int64_t>(tile.host_peak);
      const auto sram = static_cast<std::int64_t>(tile.sram_peak);
      const auto dram = static_cast<std::int64_t>(tile.dram_peak);
      const bool less = sram <= stage.sram_bytes() && dram <= stage.dram_bytes();
      const bool all = sram == stage.sram_bytes() && dram == stage.dram_bytes();
      if (host != stage.host_bytes() || !(slow ? all : less)) {
        wrong += fmt::format("stage {}: host {} of {}, SRAM {} of {}, DRAM {} of {}; ", stage.stage,
                             host, stage.host_bytes(), sram, stage.sram_bytes(), dram,
                             stage.dram_bytes());
      }
    }
    return wrong;
  });
}

TEST(Offload, MeasuredMemoryIsTheMemoryPlan) {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
        ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_v}) {
    for (const double bandwidth : {1e7, 1e10, 1e15}) {
      for (const int prefetch : {0, 1, 2}) {
        PlanConfig p = plan(kind, 2);
        p.offload.activations = BlockRule{};
        p.offload.optimizer = p.offload.weights = bandwidth == 1e10;
        p.overlap.prefetch = prefetch;
        EXPECT_EQ(compare_memory(graph(true), p, machine(2, kShort, bandwidth), false), "")
            << to_string(kind) << " " << bandwidth << " " << prefetch;
      }
    }
  }
}

TEST(Offload, NearMemoryIsFullyUsedWhereTheHostIsSlow) {
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    for (const int prefetch : {0, 1, 2}) {
      PlanConfig p = plan(kind, 2);
      p.offload.activations = BlockRule{};
      p.overlap.prefetch = prefetch;
      EXPECT_EQ(compare_memory(graph(false), p, machine(2, kAlone, 1e7), true), "")
          << to_string(kind) << " " << prefetch;
    }
  }
}

std::string text(const Result& r) {
  return fmt::format("{} FLOP, {} parameters, {} s", r.flops_hardware.value(), r.parameters,
                     r.iteration_time.value());
}

TEST(Offload, ToAnInfinitelyFastHostCostsNothing) {
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
        ScheduleKind::zb_h1, ScheduleKind::zb_v}) {
    PlanConfig p = plan(kind, 2);
    const auto run = [&] {
      return forked([&] {
        MachineConfig m = machine(2, kAlone, 1);
        m.host.bandwidth = Bandwidth::unlimited();
        return text(simulate(m, graph(true), p, test::checked()));
      });
    };
    const std::string near = run();
    EXPECT_EQ(near.find("exception"), std::string::npos) << near;
    p.offload.activations = BlockRule{};
    p.offload.optimizer = p.offload.weights = true;
    EXPECT_EQ(run(), near) << to_string(kind);
  }
}

TEST(Offload, AFasterHostIsNeverSlower) {
  const auto time = [](double bandwidth) {
    return std::stod(forked([&] {
      PlanConfig p = plan(ScheduleKind::one_f_one_b, 2);
      p.offload.activations = BlockRule{};
      p.offload.optimizer = p.offload.weights = true;
      return fmt::format("{}",
                         simulate(machine(2, kShort, bandwidth), graph(true), p, test::checked())
                             .iteration_time.value());
    }));
  };
  double before = time(1e8);
  for (const double bandwidth : {3e8, 1e9, 1e10, 1e11, 1e12}) {
    const double now = time(bandwidth);
    EXPECT_LE(now, before) << bandwidth;
    before = now;
  }
}

TEST(Offload, TheOptimizerStepTakesTheTimeOfItsTraffic) {
  const Graph g = graph(false);
  PlanConfig p = plan(ScheduleKind::one_f_one_b, 1);
  p.offload.optimizer = true;
  const double bandwidth = 1e9;
  const Result r = simulate(machine(1, kAlone, bandwidth), g, p, test::checked());
  // Twelve bytes for every parameter in and out; nothing else is in the way.
  const double bytes = 12.0 * static_cast<double>(g.parameters());
  EXPECT_DOUBLE_EQ(r.host_read.value(), bytes);
  EXPECT_DOUBLE_EQ(r.host_written.value(), bytes);
  const double compute = g.training_flop().value() * 6 / 1e12;
  EXPECT_NEAR(r.iteration_time.value(), compute + 2 * bytes / bandwidth,
              1e-3 * r.iteration_time.value());
  EXPECT_NEAR(r.breakdown[static_cast<std::size_t>(TileState::offload_wait)].value(),
              2 * bytes / bandwidth, 1e-2 * r.iteration_time.value());
}

TEST(Offload, WhatIsMovedBesideTheComputationIsHidden) {
  // A layer's weights and stash pass while a layer computes: only the first is waited for.
  const Graph g = graph(false);
  PlanConfig p = plan(ScheduleKind::one_f_one_b, 1);
  p.optimizer = OptimizerKind::none;
  p.offload.weights = true;
  const double compute = g.training_flop().value() * 6 / 1e12;
  const double layer = 2.0 * static_cast<double>(g.parameters()) / 8;
  const double bandwidth = 4 * layer / (compute / 6 / 3 / 8);
  const Result r = simulate(machine(1, kAlone, bandwidth), g, p, test::checked());
  EXPECT_DOUBLE_EQ(r.host_read.value(), 6 * 2 * 8 * layer);
  EXPECT_NEAR(r.iteration_time.value(), compute + layer / bandwidth, 1e-3 * compute);
}

TEST(Offload, ASlowHostIsBusyAllTheTime) {
  const Graph g = graph(false);
  PlanConfig p = plan(ScheduleKind::gpipe, 1);
  p.offload.activations = BlockRule{};
  const Result r = simulate(machine(1, kAlone, 1e8), g, p, test::checked());
  EXPECT_DOUBLE_EQ(r.host_read.value(), r.host_written.value());
  const double traffic = (r.host_read.value() + r.host_written.value()) / 1e8;
  EXPECT_DOUBLE_EQ(r.bounds.host.value(), traffic);
  EXPECT_GE(r.iteration_time.value(), traffic);
  // A forward and a backward call before and after it.
  EXPECT_LT(r.iteration_time.value(), 1.01 * traffic);
}

}  // namespace
}  // namespace tilewright
