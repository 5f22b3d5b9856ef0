// Whole iterations under every schedule: bubbles, memory, traffic and work against closed forms.
#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>
#include <support/random_schedule.h>

#include <tilewright/hardware/platform.h>
#include <tilewright/plan/lower.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

#include "support/forked.h"

namespace tilewright {
namespace {

using testing_support::forked;

/// Layers of one GEMM each: forward, input gradient and weight gradient take equally long.
Graph equal_slots(std::int64_t layers) {
  constexpr std::int64_t kTokens = 8, kWidth = 16;
  Operator op;
  op.name = "linear";
  op.kind = OpKind::gemm;
  op.extents[Dim::row] = kTokens;
  op.extents[Dim::col] = op.extents[Dim::red] = kWidth;
  op.inputs = {{"x", DimSet(Dim::batch, Dim::row, Dim::red)}};
  op.saved = op.inputs;
  op.weights = {{"linear.weight", DimSet(Dim::col, Dim::red)}};
  op.outputs = {{"y", DimSet(Dim::batch, Dim::row, Dim::col)}};
  op.parameters = kWidth * kWidth;
  Graph g;
  g.model = "equal slots";
  g.sequence = kTokens;
  g.hidden = kWidth;
  g.blocks = {{"layer", {op}}};
  g.chain.assign(static_cast<std::size_t>(layers), 0);
  return g;
}

/// Everything but the matrix engine is free: 1 TFLOP/s makes one FLOP one picosecond.
MachineConfig free_links(int tiles) {
  MachineConfig m;
  m.name = "free links";
  m.tiles_x = tiles;
  m.tiles_y = 1;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency::unlimited();
  m.sram.capacity = Bytes(1e12);
  m.noc.link = m.noc.die_link = {Bandwidth::unlimited(), Seconds(0)};
  return m;
}

PlanConfig pipeline(ScheduleKind kind, int stages, std::int64_t micro_batches, int chunks = 2) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = stages;
  p.global_batch = micro_batches;
  p.schedule = kind;
  p.interleaved_chunks = chunks;
  p.optimizer = OptimizerKind::none;
  return p;
}

/// What a simulation of equal slots shows, in slots of a chunk.
struct Measured {
  double bubble = 0;  ///< longest stage, from its first forward to its end, less its work
  double length = 0;  ///< of the iteration
  std::uint64_t messages = 0;
};

Measured measure(const PlanConfig& plan) {
  const Graph graph = equal_slots(plan.virtual_stages());
  const double slot = graph.forward_flop().value() / static_cast<double>(graph.layers());
  const MachineConfig machine = free_links(plan.pipeline);
  const std::string report = forked([&] {
    const LoweredPlan lowered = lower(graph, plan, machine);
    auto* platform = new Platform("platform", machine, lowered.program);
    platform->run();
    const RunStatistics& run = platform->statistics();
    Picoseconds longest = 0;
    for (int s = 0; s < plan.pipeline; ++s) {
      const TileStatistics& tile = run.tiles[lowered.placement.tile(s, 0, 0)];
      // The stage can start when the first micro-batch is through the stages before it.
      const auto start = static_cast<Picoseconds>(s * slot);
      longest = std::max(longest, tile.finish - start - tile.matrix_busy);
    }
    return fmt::format("{} {} {}", longest, run.end, run.messages);
  });
  Measured m;
  unsigned long long bubble = 0, end = 0, messages = 0;
  if (std::sscanf(report.c_str(), "%llu %llu %llu", &bubble, &end, &messages) != 3) {
    ADD_FAILURE() << report;
  }
  m.bubble = static_cast<double>(bubble) / slot;
  m.length = static_cast<double>(end) / slot;
  m.messages = messages;
  return m;
}

template <class F>
void for_each_set_up(F f) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {p, 2 * p, 8 * p}) f(p, m);
  }
}

TEST(Schedules, SimulatedBubbleOfGPipeAnd1F1B) {
  for_each_set_up([](int p, int m) {
    for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
      const Measured r = measure(pipeline(kind, p, m));
      const double ideal = 3.0 * m;
      EXPECT_DOUBLE_EQ((r.length - ideal) / ideal, (p - 1.0) / m) << p << " " << m;
    }
  });
}

TEST(Schedules, SimulatedBubbleOfInterleaved1F1B) {
  for_each_set_up([](int p, int m) {
    for (const int v : {2, 4}) {
      const Measured r = measure(pipeline(ScheduleKind::interleaved, p, m, v));
      const double ideal = 3.0 * m * v;
      EXPECT_DOUBLE_EQ((r.length - ideal) / ideal, (p - 1.0) / (v * m)) << p << " " << m;
    }
  });
}

TEST(Schedules, SimulatedBubbleOfZeroBubbleSchedules) {
  for_each_set_up([](int p, int m) {
    EXPECT_DOUBLE_EQ(measure(pipeline(ScheduleKind::zb_h1, p, m)).bubble / (3.0 * m),
                     (p - 1.0) / (3.0 * m));
    // Fewer micro-batches than 2p - 1 cannot fill the time until the first gradient is back.
    const double least = m < 2 * p - 1 ? 2 * p - 1 - m : 0;
    EXPECT_DOUBLE_EQ(measure(pipeline(ScheduleKind::zb_h2, p, m)).bubble, least) << p << " " << m;
    const Measured v = measure(pipeline(ScheduleKind::zb_v, p, m));
    EXPECT_DOUBLE_EQ(v.bubble, least) << p << " " << m;
    EXPECT_DOUBLE_EQ(v.length, schedule_length(make_schedule(ScheduleKind::zb_v, p,
                                                             static_cast<std::uint32_t>(m)),
                                               [](int, const Slot&) { return 1.0; }));
  });
}

TEST(Schedules, InferenceStreamsThroughChunks) {
  PlanConfig plan = pipeline(ScheduleKind::interleaved, 4, 8, 2);
  plan.mode = Mode::inference;
  EXPECT_DOUBLE_EQ(measure(plan).length, 2 * 8 + 3);
}

TEST(Schedules, MessagesCrossEveryBoundaryButTheTurnOfTheV) {
  const auto messages = [](ScheduleKind kind, int p) {
    return measure(pipeline(kind, p, 8)).messages;
  };
  const std::uint64_t both_ways = 2 * 8;
  EXPECT_EQ(messages(ScheduleKind::one_f_one_b, 4), both_ways * 3);
  EXPECT_EQ(messages(ScheduleKind::interleaved, 4), both_ways * 7);  // and round to the first stage
  EXPECT_EQ(messages(ScheduleKind::zb_v, 4), both_ways * 6);
  EXPECT_EQ(messages(ScheduleKind::zb_v, 1), 0u);
}

/// A user's schedule whose second stage takes micro-batches in an order of its own.
TEST(Schedules, AnOwnScheduleMayReorderMicroBatches) {
  PlanConfig plan = pipeline(ScheduleKind::file, 2, 3);
  const std::string text =
      "schedule: own\nstages:\n"
      "  0: F0 F1 F2 B2 W2 B0 W0 B1 W1\n"
      "  1: F2 F0 F1 B2 W2 B0 B1 W0 W1\n";
  plan.own_schedule = std::make_shared<const Schedule>(
      read_schedule(Document::parse(text, "schedule"), 2, 3, true));
  const Measured r = measure(plan);
  EXPECT_DOUBLE_EQ(r.length,
                   schedule_length(*plan.own_schedule, unit_durations(*plan.own_schedule)));
  EXPECT_EQ(r.messages, 6u);
}

// --- memory and work ---

DecoderConfig decoder(bool ends, bool dropout) {
  DecoderConfig c;
  c.name = "small";
  c.layers = 8;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = ends ? 96 : 0;
  c.tied_embeddings = ends;
  c.dropout = dropout;
  c.sequence = c.max_positions = 32;
  return c;
}

std::vector<PlanConfig> every_schedule(int p, std::int64_t m) {
  std::vector<PlanConfig> plans;
  for (const ScheduleKind kind :
       {ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
        ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_v}) {
    if (kind == ScheduleKind::interleaved && p == 1) continue;  // refused
    plans.push_back(pipeline(kind, p, m));
  }
  return plans;
}

/// "" when every stage's measured high-water marks are those of the memory plan. What is parked
/// between chunks is most at another time than the stash, so that much the plan may be above.
std::string compare_memory(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine,
                           bool sram_too) {
  return forked([&] {
    const LoweredPlan lowered = lower(graph, plan, machine);
    auto* platform = new Platform("platform", machine, lowered.program);
    platform->run();
    std::string wrong;
    for (const StagePlan& stage : lowered.stages) {
      const TileStatistics& tile =
          platform->statistics().tiles[lowered.placement.tile(stage.stage, 0, 0)];
      const auto sram = static_cast<std::int64_t>(tile.sram_peak);
      const auto dram = static_cast<std::int64_t>(tile.dram_peak);
      std::int64_t parked = 0;
      for (const MemoryItem& item : stage.memory) {
        if (item.name == "activations between chunks") parked = item.bytes;
      }
      const bool near = dram < stage.dram_bytes() && dram + parked >= stage.dram_bytes();
      if ((dram != stage.dram_bytes() && !near) || (sram_too && sram != stage.sram_bytes()) ||
          sram > stage.sram_bytes()) {
        wrong += fmt::format("stage {}: DRAM {} of {}, SRAM {} of {}; ", stage.stage, dram,
                             stage.dram_bytes(), sram, stage.sram_bytes());
      }
    }
    return wrong;
  });
}

/// Everything but working buffers is in DRAM.
MachineConfig with_dram() {
  MachineConfig m = free_links(4);
  m.sram.capacity = Bytes(16 << 10);
  m.dram.bandwidth = Bandwidth(1e12);
  m.dram.capacity = Bytes(1e12);
  m.dram.sites = {{0, 0}};
  return m;
}

TEST(Schedules, MeasuredMemoryIsTheMemoryPlan) {
  for (const int p : {1, 2, 4}) {
    for (const bool ends : {false, true}) {
      for (const bool dropout : {false, true}) {
        const Graph graph = build_graph(decoder(ends, dropout));
        for (PlanConfig plan : every_schedule(p, 7)) {
          for (const Recomputation& r :
               {Recomputation::none, Recomputation::full, Recomputation::selective}) {
            plan.recomputation = r;
            EXPECT_EQ(compare_memory(graph, plan, with_dram(), false), "")
                << to_string(plan.schedule) << ", " << p << " stages, ends " << ends << ", dropout "
                << dropout << ", recomputation " << to_string(r);
          }
        }
      }
    }
  }
}

/// Layers and micro-batches that the first stage keeps the input of, from its memory plan, which
/// the simulation must have used up.
double held_in_simulation(const PlanConfig& plan) {
  const std::string text = forked([&] {
    const Graph graph = equal_slots(plan.virtual_stages());
    const MachineConfig machine = free_links(plan.pipeline);
    const LoweredPlan lowered = lower(graph, plan, machine);
    auto* platform = new Platform("platform", machine, lowered.program);
    platform->run();
    std::int64_t stash = 0;
    for (const MemoryItem& item : lowered.stages[0].memory) {
      if (item.name.rfind("stashed activations", 0) == 0) stash += item.bytes;
    }
    const auto peak = static_cast<std::int64_t>(
        platform->statistics().tiles[lowered.placement.tile(0, 0, 0)].sram_peak);
    return fmt::format("{} of {} {}", peak, lowered.stages[0].sram_bytes(), stash);
  });
  long long peak = 0, planned = 0, stash = 0;
  EXPECT_EQ(std::sscanf(text.c_str(), "%lld of %lld %lld", &peak, &planned, &stash), 3) << text;
  EXPECT_EQ(peak, planned);
  return static_cast<double>(stash) / (8 * 16 * 2);  // tokens, width, bytes
}

TEST(Schedules, SimulatedPeaksOfActivations) {
  for_each_set_up([](int p, int m) {
    SCOPED_TRACE(fmt::format("{} stages, {} micro-batches", p, m));
    EXPECT_EQ(held_in_simulation(pipeline(ScheduleKind::gpipe, p, m)), m);
    EXPECT_EQ(held_in_simulation(pipeline(ScheduleKind::one_f_one_b, p, m)), p);
    for (const int v : {2, 4}) {
      EXPECT_EQ(held_in_simulation(pipeline(ScheduleKind::interleaved, p, m, v)),
                std::min(m * v, p * v + p - 1));
    }
    EXPECT_EQ(held_in_simulation(pipeline(ScheduleKind::zb_h1, p, m)), p);
    EXPECT_EQ(held_in_simulation(pipeline(ScheduleKind::zb_h2, p, m)), std::min(m, 2 * p - 1));
    // Of 2p chunks at most. Bytes may be most when one less is held, and a gradient for its weight
    // slot.
    const double vee = held_in_simulation(pipeline(ScheduleKind::zb_v, p, m));
    EXPECT_GE(vee, 2 * p - 1);
    EXPECT_LE(vee, 2 * p);
  });
}

/// Per stage the most that waited in messages and what the plan says can, "3/4 "; with one slow
/// tile.
std::string waiting_text(const PlanConfig& plan, int slow) {
  return forked([&] {
    MachineConfig machine = with_dram();
    if (slow >= 0) machine.defects.speed[static_cast<TileId>(slow)] = 1e-3;
    const Graph graph = build_graph(decoder(false, false));
    const LoweredPlan lowered = lower(graph, plan, machine);
    auto* platform = new Platform("platform", machine, lowered.program);
    platform->run();
    std::string text;
    for (const StagePlan& stage : lowered.stages) {
      const TileId tile = lowered.placement.tile(stage.stage, 0, 0);
      text += fmt::format("{}/{} ", platform->statistics().tiles[tile].waiting_peak, stage.waiting);
    }
    return text;
  });
}

TEST(Schedules, NoMoreMessagesWaitThanThePlanSays) {
  bool many_waited = false;
  for (PlanConfig plan : every_schedule(4, 7)) {
    for (const int slow : {-1, 0, 1, 3}) {
      const std::string text = waiting_text(plan, slow);
      long long waited = 0, most = 0;
      int length = 0, stages = 0;
      for (const char* at = text.c_str();
           std::sscanf(at, "%lld/%lld %n", &waited, &most, &length) == 2; at += length, ++stages) {
        EXPECT_LE(waited, most) << to_string(plan.schedule) << ", slow " << slow << ": " << text;
        many_waited |= most > 0 && 2 * waited > most;
      }
      EXPECT_EQ(stages, 4) << text;
    }
  }
  // Behind a slow tile; those of the calls in its window are received.
  EXPECT_TRUE(many_waited);
}

TEST(Schedules, MeasuredSramOfEqualLayersIsTheMemoryPlan) {
  const Graph graph = build_graph(decoder(false, true));
  for (PlanConfig plan : every_schedule(4, 7)) {
    plan.micro_batch = 2;  // a short last micro-batch
    EXPECT_EQ(compare_memory(graph, plan, free_links(4), true), "") << to_string(plan.schedule);
  }
  PlanConfig inference = pipeline(ScheduleKind::interleaved, 2, 7);
  inference.mode = Mode::inference;
  EXPECT_EQ(compare_memory(graph, inference, free_links(2), true), "");
}

TEST(Schedules, AnyOwnScheduleRunsInItsTimeAndMemory) {
  std::mt19937 random(7);
  const Graph graph = build_graph(decoder(true, true));
  for (int i = 0; i < 40; ++i) {
    const int p = static_cast<int>(random() % 2) + 1;
    const Schedule s = test::random_schedule(random, p, 5);
    PlanConfig plan = pipeline(ScheduleKind::file, p, 5);
    // Through the file, so that its reader checks it too.
    plan.own_schedule = std::make_shared<const Schedule>(read_schedule(
        Document::parse(schedule_text(s, "random"), "schedule"), p, s.micro_batches, true));
    EXPECT_DOUBLE_EQ(measure(plan).length, schedule_length(s, unit_durations(s)))
        << schedule_text(s, "random");
    EXPECT_EQ(compare_memory(graph, plan, with_dram(), false), "") << schedule_text(s, "random");
  }
}

TEST(Schedules, WorkAndParametersDoNotDependOnTheSchedule) {
  const Graph graph = build_graph(decoder(true, true));
  for (const int tensor : {1, 2}) {
    std::string first;
    for (PlanConfig plan : every_schedule(2, 6)) {
      plan.tensor = tensor;
      plan.sequence_parallel = tensor > 1;
      const std::string report = forked([&] {
        const Result r = simulate(free_links(4), graph, plan, test::checked());
        return fmt::format("{} FLOP, {} parameters, {} bytes", r.flops_hardware.value(),
                           r.parameters, r.traffic[static_cast<int>(Cause::tensor)].value());
      });
      if (first.empty()) first = report;
      EXPECT_EQ(report, first) << to_string(plan.schedule);
      EXPECT_EQ(report.find("exception"), std::string::npos);
    }
  }
}

TEST(Schedules, ATiedTableIsExchangedOnlyBetweenTwoStages) {
  const Graph graph = build_graph(decoder(true, false));
  const auto exchanges = [&](ScheduleKind kind) {
    const LoweredPlan lowered = lower(graph, pipeline(kind, 2, 4), free_links(2));
    for (const std::string& name : lowered.program.names) {
      if (name == "tied embedding exchange") return true;
    }
    return false;
  };
  EXPECT_TRUE(exchanges(ScheduleKind::interleaved));
  EXPECT_FALSE(exchanges(ScheduleKind::zb_v));
}

}  // namespace
}  // namespace tilewright
