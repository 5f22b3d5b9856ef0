// Plans whose tensor ranks keep together what all of them hold: bytes, memory and time.
#include <cstdint>
#include <functional>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/work.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

#include "support/forked.h"

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using testing_support::forked;

constexpr int kHidden = 128, kSequence = 64, kLayers = 4;

Graph graph() {
  DecoderConfig c;
  c.name = "small";
  c.layers = kLayers;
  c.hidden = kHidden;
  c.heads = c.kv_heads = 4;
  c.head_dim = 32;
  c.ffn = 512;
  c.vocab = 0;
  c.sequence = c.max_positions = kSequence;
  c.dropout = false;
  return build_graph(c);
}

/// A controller for each column of two tiles. A stage has two columns: its ranks share by two.
MachineConfig machine(double sram = 48 << 10) {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = 4;
  m.tiles_y = 2;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(sram);
  m.noc.link = m.noc.die_link = {Bandwidth(1e12), Seconds(1e-9)};
  m.noc.multicast = true;
  m.dram.bandwidth = Bandwidth(20e9);
  m.dram.capacity = Bytes(1e9);
  m.dram.latency = Seconds(1e-7);
  m.dram.sites = {{0, 0}, {1, 0}, {2, 0}, {3, 0}};
  return m;
}

PlanConfig plan(bool multicast) {
  PlanConfig p;
  p.name = "test";
  p.tensor = 4;
  p.pipeline = 2;
  p.micro_batch = 2;
  p.global_batch = 8;
  p.multicast = multicast;
  return p;
}

struct Moved {
  std::uint64_t read = 0, written = 0;
  Picoseconds end = 0;
};

/// What the controllers move when the program runs.
Moved run(const MachineConfig& machine, const Program& program) {
  const std::string text = forked([&] {
    auto* platform = new Platform("platform", machine, program);
    platform->run();
    std::uint64_t read = 0, written = 0;
    for (const DramStatistics& d : platform->statistics().dram) {
      read += d.bytes_read;
      written += d.bytes_written;
    }
    return fmt::format("{} {} {}", read, written, platform->statistics().end);
  });
  Moved moved;
  EXPECT_EQ(std::sscanf(text.c_str(), "%lu %lu %lu", &moved.read, &moved.written, &moved.end), 3)
      << text;
  return moved;
}

/// By the costs of the plan's kernels: what each rank loads and stores in a whole iteration, and of
/// the shared loads its part.
Moved planned(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine) {
  const Placement placement = place(plan, machine);
  StagePlanner planner(graph, plan, machine, placement);
  Moved all;
  for (const StagePlan& stage : planner.plan_stages()) {
    const auto ranks = static_cast<std::uint64_t>(plan.group_ranks());
    const auto add = [&](const KernelCost& c) {
      all.read += ranks * static_cast<std::uint64_t>(c.load - c.spared);
      all.written += ranks * static_cast<std::uint64_t>(c.store);
    };
    for (const StageCall& call : planner.calls(stage, 0)) {
      const BlockCosts& c = planner.costs(planner.variant(stage.stage, call.position), call.samples,
                                          stage.residency, stage.sram_resident);
      for (const KernelCost& k : costs_of(c, call.slot.phase)) add(k);
      if (call.slot.phase != SlotPhase::backward) continue;
      for (const KernelCost& k : c.recompute) add(k);
    }
    add(planner.optimizer_cost(stage));
  }
  // What stages hand each other is stored when it arrives, not by the kernel that makes it.
  return all;
}

TEST(Multicast, ControllersMoveWhatThePlanCounts) {
  for (const bool multicast : {false, true}) {
    for (const bool recompute : {false, true}) {
      PlanConfig p = plan(multicast);
      if (recompute) p.recomputation = Recomputation::full;
      const LoweredPlan lowered = lower(graph(), p, machine());
      const Moved moved = run(machine(), lowered.program), counted = planned(graph(), p, machine());
      EXPECT_EQ(moved.read, counted.read) << multicast << recompute;
      EXPECT_EQ(moved.written, counted.written) << multicast << recompute;
    }
  }
}

// Every load that ranks share is read once in place of twice, and nothing else changes.
TEST(Multicast, EverySharedLoadIsReadOnce) {
  const LoweredPlan lowered = lower(graph(), plan(true), machine());
  Program each = lowered.program;
  for (Segment& s : each.segments) {
    for (Instruction& i : s.code) i.shared = false;
  }
  std::uint64_t shared = 0, loads = 0;
  const ProgramWork work = count_work(lowered.program);
  for (const TileWork& t : work.tiles) {
    shared += t.dram_shared;
    loads += t.dram_read;
  }
  EXPECT_GT(shared, loads / 8);  // else this would say little
  const Moved once = run(machine(), lowered.program), alone = run(machine(), each);
  EXPECT_EQ(alone.read, loads);
  EXPECT_EQ(once.read, loads - shared);
  EXPECT_EQ(once.written, alone.written);
  EXPECT_LT(once.end, alone.end);
}

TEST(Multicast, IsFasterThanACopyForEachRank) {
  const auto end = [](bool multicast) {
    return run(machine(), lower(graph(), plan(multicast), machine()).program).end;
  };
  EXPECT_LT(end(true), end(false));
}

std::int64_t bytes_of(const StagePlan& stage, TensorClass cls) {
  std::int64_t sum = 0;
  for (const MemoryItem& m : stage.memory) sum += m.cls == cls ? m.bytes : 0;
  return sum;
}

// With full recomputation the stash is a layer's input, which every tensor rank holds: of each two
// that share a controller one half each.
TEST(Multicast, TheMemoryPlanCountsWhatIsKeptTogetherOnce) {
  PlanConfig p = plan(false);
  p.recomputation = Recomputation::full;
  const LoweredPlan each = lower(graph(), p, machine());
  p.multicast = true;
  const LoweredPlan together = lower(graph(), p, machine());
  const std::int64_t input = 2 * p.micro_batch * kSequence * kHidden;
  for (std::size_t s = 0; s < 2; ++s) {
    const StagePlan &a = each.stages[s], &b = together.stages[s];
    const auto stash = static_cast<std::int64_t>(a.in_flight) * (kLayers / 2) * input;
    const auto of = [](const StagePlan& stage) {
      for (const MemoryItem& m : stage.memory) {
        if (m.name.rfind("stashed", 0) == 0) return m.bytes;
      }
      return std::int64_t{0};
    };
    EXPECT_EQ(of(a), stash) << s;
    EXPECT_EQ(of(b), stash / 2) << s;
    EXPECT_LT(bytes_of(b, TensorClass::temporary), bytes_of(a, TensorClass::temporary)) << s;
    EXPECT_EQ(bytes_of(b, TensorClass::weight), bytes_of(a, TensorClass::weight)) << s;
  }
}

// Programs take what the plan counts, whatever the schedule.
TEST(Multicast, HighWaterMarksAreThoseOfTheMemoryPlan) {
  for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe,
                                  ScheduleKind::zb_h1, ScheduleKind::interleaved}) {
    for (const bool recompute : {false, true}) {
      PlanConfig p = plan(true);
      p.schedule = kind;
      if (recompute) p.recomputation = Recomputation::full;
      const std::string wrong = forked([&] {
        const LoweredPlan lowered = lower(graph(), p, machine());
        auto* platform = new Platform("platform", machine(), lowered.program);
        platform->run();
        std::string text;
        for (const StagePlan& stage : lowered.stages) {
          for (int r = 0; r < p.tensor; ++r) {
            const TileStatistics& tile =
                platform->statistics().tiles[lowered.placement.tile(stage.stage, 0, r)];
            if (static_cast<std::int64_t>(tile.dram_peak) == stage.dram_bytes()) continue;
            text += fmt::format("stage {} rank {}: {} of {}; ", stage.stage, r, tile.dram_peak,
                                stage.dram_bytes());
          }
        }
        return text;
      });
      EXPECT_EQ(wrong, "") << static_cast<int>(kind) << recompute;
    }
  }
}

// An SRAM that holds the activations: each rank has its own, and nothing is shared.
TEST(Multicast, WhatLivesInTheSramIsNotShared) {
  const MachineConfig large = machine(64 << 20);
  const LoweredPlan lowered = lower(graph(), plan(true), large);
  EXPECT_TRUE(sharing_sets(lowered.program).empty());
  const Moved with = run(large, lowered.program),
              without = run(large, lower(graph(), plan(false), large).program);
  EXPECT_EQ(with.end, without.end);
}

TEST(Multicast, RanksShareWithThoseThatUseTheirControllers) {
  const LoweredPlan lowered = lower(graph(), plan(true), machine());
  const auto controllers = assign_controllers(machine(), machine().dram);
  const std::vector<SharingSet> sets = sharing_sets(lowered.program);
  EXPECT_EQ(sets.size(), 4u);
  for (const SharingSet& set : sets) {
    ASSERT_EQ(set.tiles.size(), 2u);
    EXPECT_EQ(controllers[set.tiles[0]], controllers[set.tiles[1]]);
  }
}

// Energies of stages and parts sum to what was moved, and power integrates to them.
TEST(Multicast, EnergyCountsEveryReadOnce) {
  const auto joules = [](bool energy_of_reads) {
    return std::stod(forked([&] {
      MachineConfig m = machine();
      EnergyConfig e;
      e.links.resize(m.link_kinds().size());
      e.dram.read = EnergyPerByte(energy_of_reads ? 1.0 : 0.0);
      m.energy = e;
      const Result r = simulate(m, graph(), plan(true), test::checked());
      return fmt::format("{}", energy_of_reads ? r.energy->total.value() : r.dram_read.value());
    }));
  };
  EXPECT_DOUBLE_EQ(joules(true), joules(false));
}

std::string refusal(const std::function<void(PlanConfig&, MachineConfig&)>& change) {
  PlanConfig p = plan(true);
  MachineConfig m = machine();
  change(p, m);
  try {
    lower(graph(), p, m);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Multicast, IsRefusedWhereItCannotBe) {
  EXPECT_THAT(refusal([](PlanConfig&, MachineConfig& m) { m.noc.multicast = false; }),
              HasSubstr("multicast: the network of machine 'test' copies no data; with "
                        "noc.multicast: true it does; wanted: false"));
  EXPECT_THAT(refusal([](PlanConfig& p, MachineConfig&) { p.tensor = 1; }),
              HasSubstr("parallelism.tensor is 1"));
  EXPECT_THAT(refusal([](PlanConfig& p, MachineConfig&) {
                p.tensor_shape = {2, 2};
              }),
              HasSubstr("with several axes"));
  EXPECT_THAT(refusal([](PlanConfig&, MachineConfig& m) {
                m.dram.sites = {{0, 0}, {3, 0}, {0, 1}};
              }),
              HasSubstr("in sets of equal size"));
  EXPECT_THAT(refusal([](PlanConfig& p, MachineConfig&) {
                p.cuts.push_back({OpRole::mlp_norm, "tensor", Dim::row, "partition.operators"});
              }),
              HasSubstr("multicast: block"));
}

}  // namespace
}  // namespace tilewright
