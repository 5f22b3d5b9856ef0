// What of a plan lives in the second memory tier, what moves to it and from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t kLayers = 4, kMicroBatches = 6;

DecoderConfig model(bool ends) {
  DecoderConfig c;
  c.name = "small";
  c.layers = kLayers;
  c.hidden = 128;
  c.heads = c.kv_heads = 8;
  c.head_dim = 16;
  c.ffn = 512;
  c.vocab = ends ? 256 : 0;
  c.sequence = c.max_positions = 64;
  c.dropout = true;
  return c;
}

MachineConfig machine(double sram) {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = m.tiles_y = 4;
  for (const char* format : {"fp16", "fp32"}) m.matrix.peak[format] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(sram);
  m.noc.link = m.noc.die_link = {Bandwidth(1e12), Seconds(1e-9)};
  m.dram.bandwidth = Bandwidth(1e11);
  m.dram.capacity = Bytes(1e12);
  m.dram.sites = {{0, 0}, {3, 3}};
  m.host.bandwidth = Bandwidth(1e10);
  m.host.capacity = Bytes(1e12);
  m.host.sites = {{0, 3}, {3, 0}};
  return m;
}

PlanConfig plan() {
  PlanConfig p;
  p.name = "test";
  p.pipeline = 2;
  p.tensor = 2;
  p.data = 2;
  p.micro_batch = 2;
  p.global_batch = 2 * p.data * kMicroBatches;
  return p;
}

/// Bytes that the groups of a stage, all ranks together, load from or store in a memory.
std::int64_t moved(const LoweredPlan& lowered, Opcode op, Space space, int stage) {
  std::int64_t bytes = 0;
  for (const TileGroup& g : lowered.program.groups) {
    if (static_cast<int>(g.stage) != stage) continue;
    for (const std::vector<Call>* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        for (const Instruction& i : lowered.program.segments[call.segment].code) {
          if (i.op != op || i.space != space) continue;
          for (std::uint32_t r = 0; r < g.tiles.size(); ++r) {
            bytes += static_cast<std::int64_t>(i.share.bytes(g.first_rank + r));
          }
        }
      }
    }
  }
  return bytes;
}
std::int64_t loaded(const LoweredPlan& l, int stage) {
  return moved(l, Opcode::load, Space::host, stage);
}
std::int64_t stored(const LoweredPlan& l, int stage) {
  return moved(l, Opcode::store, Space::host, stage);
}

/// Bytes of all items in one memory whose names start so.
std::int64_t held(const StagePlan& stage, Space space, const std::string& prefix) {
  std::int64_t bytes = 0;
  for (const MemoryItem& item : stage.memory) {
    if (item.space == space && item.name.rfind(prefix, 0) == 0) bytes += item.bytes;
  }
  return bytes;
}

/// What a rank of a stage keeps of one micro-batch.
std::int64_t stash(const Graph& graph, const PlanConfig& p, const MachineConfig& m,
                   const StagePlan& stage, const std::vector<std::int64_t>& layers) {
  const Placement placement = place(p, m);
  StagePlanner planner(graph, p, m, placement);
  std::int64_t bytes = 0;
  for (const std::size_t i : stage.positions()) {
    const bool ends = !graph.block(i).is_layer();
    const auto layer = static_cast<std::int64_t>(i) - (graph.block(0).is_layer() ? 0 : 1);
    if (!ends && std::find(layers.begin(), layers.end(), layer) == layers.end()) continue;
    bytes += planner.kernels(planner.variant(stage.stage, i), p.group_micro_batch()).stash_bytes();
  }
  return bytes;
}

TEST(Offload, ActivationsMoveOutAndInOncePerMicroBatch) {
  const std::vector<std::int64_t> all{0, 1, 2, 3};
  for (const double sram : {1e9, 64e3}) {
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe,
                                    ScheduleKind::interleaved, ScheduleKind::zb_v}) {
      for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
        const Graph g = build_graph(model(true));
        const MachineConfig m = machine(sram);
        PlanConfig p = plan();
        p.schedule = kind;
        p.recomputation = r;
        p.offload.activations = BlockRule{};
        const LoweredPlan l = lower(g, p, m);
        for (const StagePlan& s : l.stages) {
          const std::int64_t bytes = p.data * p.tensor * kMicroBatches * stash(g, p, m, s, all);
          EXPECT_EQ(stored(l, s.stage), bytes) << to_string(kind);
          EXPECT_EQ(loaded(l, s.stage), bytes) << to_string(kind);
        }
      }
    }
  }
}

TEST(Offload, ActivationsOfSomeBlocksMoveWhenAskedFor) {
  const Graph g = build_graph(model(false));
  const MachineConfig m = machine(1e9);
  PlanConfig p = plan();
  p.offload.activations = BlockRule{2, {}};
  const LoweredPlan every = lower(g, p, m);
  p.offload.activations = BlockRule{1, {1}};
  const LoweredPlan second = lower(g, p, m);
  for (const StagePlan& s : every.stages) {
    const auto bytes = [&](const std::vector<std::int64_t>& layers) {
      return p.data * p.tensor * kMicroBatches * stash(g, p, m, s, layers);
    };
    EXPECT_EQ(stored(every, s.stage), bytes({1, 3}));
    EXPECT_EQ(stored(second, s.stage), s.stage == 1 ? bytes({2, 3}) : 0);
  }
}

TEST(Offload, NearMemoryHoldsAFewBlocksWhateverTheDepth) {
  const Graph g = build_graph(model(false));
  const MachineConfig m = machine(64e3);
  PlanConfig p = plan();
  p.schedule = ScheduleKind::gpipe;
  const std::string kept = "stashed activations";
  const StagePlan before = lower(g, p, m).stages[0];
  p.offload.activations = BlockRule{};
  p.overlap.prefetch = 1;
  const StagePlan after = lower(g, p, m).stages[0];
  const std::int64_t layer = stash(g, p, m, before, {0});
  EXPECT_EQ(held(before, Space::dram, kept), 2 * kMicroBatches * layer);
  // The first comes back before the last is out.
  EXPECT_EQ(held(after, Space::host, kept), (2 * kMicroBatches - 1) * layer);
  // At the turn the last two are on their way out; ahead of backward calls it is two as well.
  EXPECT_EQ(held(after, Space::dram, kept), 2 * layer);
  p.overlap.prefetch = 3;
  EXPECT_EQ(held(lower(g, p, m).stages[0], Space::dram, kept), 4 * layer);
}

TEST(Offload, TheOptimizerStepReadsAndWritesItsStateOnce) {
  const Graph g = build_graph(model(true));
  for (const double sram : {1e9, 64e3}) {
    for (const int zero : {0, 1, 3}) {
      for (const DType precision : {DType::fp16, DType::fp32}) {
        PlanConfig p = plan();
        p.zero = zero;
        p.precision = precision;
        p.offload.optimizer = true;
        const LoweredPlan l = lower(g, p, machine(sram));
        for (const StagePlan& s : l.stages) {
          // Every replica's whole state, or a part with each.
          const std::int64_t ranks = p.tensor * (zero == 0 ? p.data : 1);
          const std::int64_t bytes =
              ranks * s.local_parameters * (precision == DType::fp16 ? 12 : 8);
          EXPECT_EQ(loaded(l, s.stage), bytes) << zero;
          EXPECT_EQ(stored(l, s.stage), bytes) << zero;
          EXPECT_EQ(s.host_bytes() * p.tensor * p.data, bytes);
        }
      }
    }
  }
}

TEST(Offload, WeightsAreReadOnceInEveryPassAndWrittenOnce) {
  const Graph g = build_graph(model(false));
  for (const double sram : {1e9, 64e3}) {
    for (const int zero : {0, 1, 2, 3}) {
      PlanConfig p = plan();
      p.zero = zero;
      p.offload.weights = true;
      const LoweredPlan l = lower(g, p, machine(sram));
      for (const StagePlan& s : l.stages) {
        const std::int64_t whole = p.tensor * p.data * s.local_parameters * 2;
        const std::int64_t part = whole / p.data;
        if (zero == 0) {
          EXPECT_EQ(loaded(l, s.stage), 2 * kMicroBatches * whole);
          EXPECT_EQ(stored(l, s.stage), whole);
        } else if (zero < 3) {
          // The updated parts are read for their gather, which writes the whole.
          EXPECT_EQ(loaded(l, s.stage), 2 * kMicroBatches * whole + part);
          EXPECT_EQ(stored(l, s.stage), part + whole);
        } else {
          EXPECT_EQ(loaded(l, s.stage), 2 * kMicroBatches * part);
          EXPECT_EQ(stored(l, s.stage), part);
        }
        EXPECT_EQ(s.host_bytes() * p.tensor * p.data, zero < 3 ? whole : part);
      }
    }
  }
}

TEST(Offload, InferenceReadsItsWeightsOncePerMicroBatch) {
  const Graph g = build_graph(model(true));
  PlanConfig p = plan();
  p.mode = Mode::inference;
  p.optimizer = OptimizerKind::none;
  p.offload.weights = true;
  const LoweredPlan l = lower(g, p, machine(1e9));
  for (const StagePlan& s : l.stages) {
    EXPECT_EQ(loaded(l, s.stage), kMicroBatches * p.tensor * p.data * s.local_parameters * 2);
    EXPECT_EQ(stored(l, s.stage), 0);
  }
}

TEST(Offload, FullHostMemoryNamesStageConsumersAndWhatFits) {
  const Graph g = build_graph(model(false));
  PlanConfig p = plan();
  p.offload.activations = BlockRule{};
  p.offload.optimizer = true;
  MachineConfig m = machine(64e3);
  m.host.capacity = Bytes(20e6);
  try {
    lower(g, p, m);
    FAIL() << "fits";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(),
                AllOf(HasSubstr("out of memory: stage 0"), HasSubstr("in the host memory"),
                      HasSubstr("at tile (3,0)"), HasSubstr("stashed activations (2"),
                      HasSubstr("optimiser state"), HasSubstr("would fit, by ")));
  }
}

TEST(Offload, IsProposedWhereTheDramIsFull) {
  const Graph g = build_graph(model(false));
  const PlanConfig p = plan();
  const auto error = [&](double capacity, bool host) -> std::string {
    MachineConfig m = machine(64e3);
    m.dram.capacity = Bytes(capacity);
    if (!host) m.host = {};
    try {
      lower(g, p, m);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  double capacity = 1e9;
  while (error(capacity, true).empty()) capacity *= 0.98;
  EXPECT_THAT(error(capacity, true),
              AllOf(HasSubstr("parallelism.zero: "), HasSubstr("offload.optimizer: true (")));
  EXPECT_THAT(error(capacity, false), Not(HasSubstr("offload")));
  // With less of it both the state and what is kept must go.
  std::string text;
  for (int i = 0; i < 12 && text.find("true with offload") == std::string::npos; ++i) {
    text = error(capacity *= 0.85, true);
  }
  EXPECT_THAT(text, HasSubstr("offload.optimizer: true with offload.activations: all"));
}

TEST(Offload, OnAMachineWithoutHostMemoryIsRefused) {
  const Graph g = build_graph(model(false));
  MachineConfig m = machine(1e9);
  m.host = {};
  const auto refused = [&](const PlanConfig& p) -> std::string {
    try {
      lower(g, p, m);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  PlanConfig p = plan();
  EXPECT_EQ(refused(p), "");
  p.offload.weights = true;
  EXPECT_THAT(refused(p), AllOf(HasSubstr("offload: weights would live in the host memory"),
                                HasSubstr("machine 'test' has none")));
}

TEST(Offload, WhatThereIsNothingOfIsRefused) {
  const Graph g = build_graph(model(false));
  const auto refused = [&](const PlanConfig& p) -> std::string {
    try {
      check_plan(p, g, machine(1e9));
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  PlanConfig p = plan();
  p.offload.optimizer = true;
  EXPECT_EQ(refused(p), "");
  p.optimizer = OptimizerKind::none;
  EXPECT_THAT(refused(p), HasSubstr("no state"));
  p.optimizer = OptimizerKind::sgd;
  EXPECT_EQ(refused(p), "");
  p.precision = DType::fp32;
  EXPECT_THAT(refused(p), HasSubstr("no state"));
  p = plan();
  p.offload.activations = BlockRule{kLayers + 1, {}};
  EXPECT_THAT(refused(p), HasSubstr("allowed: 1 to 4"));
  p.mode = Mode::inference;
  EXPECT_THAT(refused(p), HasSubstr("activations: inference keeps none"));
}

TEST(Offload, ReadsFromThePlan) {
  const auto read = [](const std::string& offload) {
    return read_plan(
        Document::parse("plan: x\nparallelism: { pipeline: 2 }\n"
                        "batch: { global: 4, micro: 1 }\noffload: " +
                            offload + "\n",
                        "plan"));
  };
  EXPECT_FALSE(read("{}").offload.any());
  const Offload all = read("{ activations: all, optimizer: true, weights: true }").offload;
  EXPECT_EQ(to_string(all), "activations; optimizer; weights");
  const Offload some = read("{ activations: { every: 2, stages: [1] } }").offload;
  EXPECT_EQ(to_string(some), "activations, one layer of 2, stages 1");
  const auto error = [&](const std::string& offload) -> std::string {
    try {
      read(offload);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(error("{ activation: all }"), HasSubstr("offload.activation"));
  EXPECT_THAT(error("{ activations: some }"), AllOf(HasSubstr("none"), HasSubstr("all")));
  EXPECT_THAT(error("{ activations: { stages: [2] } }"), HasSubstr("no stage 2; allowed: 0 to 1"));
  EXPECT_THAT(error("{ optimizer: 3 }"), HasSubstr("offload.optimizer"));
}

}  // namespace
}  // namespace tilewright
