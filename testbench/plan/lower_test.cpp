#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

using ::testing::HasSubstr;

DecoderConfig model(std::int64_t layers) {
  DecoderConfig c;
  c.name = "small";
  c.layers = layers;
  c.hidden = 512;
  c.heads = c.kv_heads = 8;
  c.head_dim = 64;
  c.ffn = 2048;
  c.vocab = 1024;
  c.sequence = c.max_positions = 128;
  return c;
}

MachineConfig machine(int width, int height) {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = width;
  m.tiles_y = height;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.matrix.peak["fp32"] = FlopRate(4e12);
  m.vector.throughput = Frequency(512e9);
  m.sram.capacity = Bytes(3 << 20);
  m.noc.link = m.noc.die_link = {Bandwidth(1024e9), Seconds(1e-9)};
  m.dram.bandwidth = Bandwidth(256e9);
  m.dram.capacity = Bytes(256e9);
  m.dram.latency = Seconds(100e-9);
  m.dram.sites = {{0, 1}, {width - 1, 1}};
  return m;
}

PlanConfig plan(int p, int t, int d) {
  PlanConfig c;
  c.name = "test";
  c.pipeline = p;
  c.tensor = t;
  c.data = d;
  c.global_batch = 16 * d;
  c.micro_batch = 2;
  return c;
}

TEST(Lower, StagesHoldEveryParameterOnceAndTheTiedTableTwice) {
  const Graph g = build_graph(model(6));
  const LoweredPlan whole = lower(g, plan(1, 1, 1), machine(4, 4));
  EXPECT_EQ(whole.stages[0].parameters, g.parameters());
  const LoweredPlan cut = lower(g, plan(3, 2, 1), machine(4, 4));
  std::int64_t sum = 0;
  for (const StagePlan& s : cut.stages) sum += s.parameters;
  EXPECT_EQ(sum, g.parameters() + 1024 * 512);
}

TEST(Lower, LocalStateIsSixteenBytesPerParameter) {
  const Graph g = build_graph(model(4));
  const LoweredPlan l = lower(g, plan(2, 2, 1), machine(4, 4));
  for (const StagePlan& s : l.stages) {
    std::int64_t state = 0;
    for (const MemoryItem& i : s.memory) {
      if (i.name == "weights" || i.name == "gradients" || i.name == "optimiser state") {
        state += i.bytes;
      }
    }
    EXPECT_EQ(state, 16 * s.local_parameters);
  }
}

TEST(Lower, CallsFollowTheScheduleBlockByBlock) {
  const Graph g = build_graph(model(4));
  const LoweredPlan l = lower(g, plan(2, 2, 1), machine(4, 4));
  ASSERT_EQ(l.program.groups.size(), 2u);
  // Stage 0: 8 micro-batches, embedding and two layers, forward and backward, and the update.
  EXPECT_EQ(l.program.groups[0].calls.size(), 8u * 2 * (1 + l.stages[0].layers) + 1);
  EXPECT_EQ(l.stages[0].in_flight, 2);
  EXPECT_EQ(l.stages[1].in_flight, 1);
}

TEST(Lower, SegmentsDoNotGrowWithLayersMicroBatchesOrStages) {
  PlanConfig few = plan(2, 2, 1), many = plan(4, 2, 1);
  many.global_batch = 160;
  const LoweredPlan a = lower(build_graph(model(8)), few, machine(4, 4));
  const LoweredPlan b = lower(build_graph(model(32)), many, machine(4, 4));
  EXPECT_LE(b.program.segments.size(), a.program.segments.size() + 2);
}

TEST(Lower, AShortLastMicroBatchIsShort) {
  const Graph g = build_graph(model(4));
  PlanConfig p = plan(2, 2, 1);
  p.global_batch = 15;
  const LoweredPlan l = lower(g, p, machine(4, 4));
  PlanConfig even = p;
  even.global_batch = 16;
  const LoweredPlan full = lower(g, even, machine(4, 4));
  EXPECT_LT(l.pipeline_bound, full.pipeline_bound);
  EXPECT_DOUBLE_EQ(l.model_flop, g.training_flop().value() * 15);
}

TEST(Lower, PipelineBoundOfEqualStagesIsTheFormula) {
  DecoderConfig c = model(4);
  c.vocab = 0;
  const Graph g = build_graph(c);
  PlanConfig p = plan(4, 1, 1);
  p.micro_batch = 2;
  p.global_batch = 16;  // 8 micro-batches
  for (const ScheduleKind kind : {ScheduleKind::gpipe, ScheduleKind::one_f_one_b}) {
    p.schedule = kind;
    const LoweredPlan l = lower(g, p, machine(4, 4));
    EXPECT_NEAR(l.compute_bound / l.pipeline_bound, 8.0 / 11.0, 1e-12);
  }
}

TEST(Lower, OutOfDramNamesStageConsumersAndWhatFits) {
  const Graph g = build_graph(model(8));
  PlanConfig p = plan(2, 2, 1);
  p.micro_batch = 8;
  p.global_batch = 64;
  MachineConfig m = machine(4, 4);
  m.dram.capacity = Bytes(0.3e9);
  try {
    lower(g, p, m);
    FAIL() << "fits";
  } catch (const InputError& e) {
    const std::string text = e.what();
    EXPECT_THAT(text, HasSubstr("out of memory: stage 0"));
    EXPECT_THAT(text, HasSubstr("tile (0,0)"));
    EXPECT_THAT(text, HasSubstr("stashed activations (2 micro-batches in flight)"));
    EXPECT_THAT(text, HasSubstr("recomputation: full"));
    EXPECT_THAT(text, HasSubstr("batch.micro"));
  }
  p.recomputation = Recomputation::full;
  EXPECT_NO_THROW(lower(g, p, m));
}

TEST(Lower, OutOfDramAdvisesTheCheapestRecomputationThatFits) {
  DecoderConfig c = model(4);
  c.sequence = c.max_positions = 512;  // mostly scores
  const Graph g = build_graph(c);
  const auto error = [&](const Recomputation& r, double capacity) -> std::string {
    PlanConfig p = plan(1, 1, 1);
    p.recomputation = r;
    MachineConfig m = machine(4, 4);
    m.dram.capacity = Bytes(capacity);
    try {
      lower(g, p, m);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  double capacity = 4e9;
  while (error(Recomputation::none, capacity).empty()) capacity *= 0.95;
  EXPECT_EQ(error(Recomputation::selective, capacity), "");
  const std::string text = error(Recomputation::none, capacity);
  EXPECT_THAT(text, AllOf(HasSubstr("would fit, by the estimated time of an iteration: "),
                          HasSubstr("fusion: attention ("), HasSubstr("recomputation: selective ("),
                          Not(HasSubstr("recomputation: full"))));
}

std::int64_t stash(const StagePlan& s) {
  for (const MemoryItem& item : s.memory) {
    if (item.name.find("stashed") == 0) return item.bytes / s.in_flight;
  }
  return 0;
}

TEST(Lower, RecomputationByLayerAndByStage) {
  DecoderConfig c = model(8);
  c.vocab = 0;
  const Graph g = build_graph(c);
  PlanConfig p = plan(2, 2, 1);
  const auto stashes = [&](const Recomputation& r) {
    p.recomputation = r;
    const LoweredPlan l = lower(g, p, machine(4, 4));
    return std::make_pair(stash(l.stages[0]), stash(l.stages[1]));
  };
  const auto none = stashes(Recomputation::none), full = stashes(Recomputation::full);
  EXPECT_EQ(full.first, 4 * 2 * 2 * 128 * 512);  // the inputs of four layers
  Recomputation second = Recomputation::full;
  second.rules[0].where.every = 2;
  EXPECT_EQ(stashes(second).first, (none.first + full.first) / 2);
  Recomputation first_stage = Recomputation::full;
  first_stage.rules[0].where.stages = {0};
  EXPECT_EQ(stashes(first_stage), std::make_pair(full.first, none.second));
  // Layers 3 and 6, one in each stage.
  second.rules[0].where.every = 3;
  EXPECT_EQ(stashes(second).first, (3 * none.first + full.first) / 4);
  EXPECT_EQ(stashes(second).second, (3 * none.second + full.second) / 4);
}

TEST(Lower, FusedAttentionThatDoesNotFitSaysSo) {
  const Graph g = build_graph(model(2));
  PlanConfig p = plan(1, 2, 1);
  MachineConfig m = machine(4, 4);
  m.sram.capacity = Bytes(32 << 10);
  EXPECT_NO_THROW(lower(g, p, m));
  p.fuse_attention = true;
  try {
    lower(g, p, m);
    FAIL() << "fits";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("tile.sram.capacity: 32"));
    EXPECT_THAT(e.what(), HasSubstr("fusion: attention needs more"));
  }
  m.sram.capacity = Bytes(512 << 10);
  EXPECT_NO_THROW(lower(g, p, m));
}

TEST(Lower, AMachineWithoutDramKeepsEverythingInSram) {
  const Graph g = build_graph(model(2));
  MachineConfig m = machine(4, 4);
  m.dram = {};
  EXPECT_THROW(lower(g, plan(2, 2, 1), m), InputError);
  m.sram.capacity = Bytes(1e9);
  const LoweredPlan l = lower(g, plan(2, 2, 1), m);
  for (const StagePlan& s : l.stages) EXPECT_EQ(s.dram_bytes(), 0);
}

TEST(Lower, MoreSramNeverLeavesMoreInDram) {
  const Graph g = build_graph(model(4));
  std::int64_t before = -1;
  for (const double mib : {0.25, 1.0, 4.0, 16.0, 64.0, 256.0, 1024.0}) {
    MachineConfig m = machine(4, 4);
    m.sram.capacity = Bytes(mib * (1 << 20));
    const LoweredPlan l = lower(g, plan(2, 2, 1), m);
    std::int64_t dram = 0;
    for (const StagePlan& s : l.stages) {
      dram += s.dram_bytes();
      EXPECT_LE(s.sram_bytes(), static_cast<std::int64_t>(m.sram.capacity.value()));
    }
    if (before >= 0) {
      EXPECT_LE(dram, before);
    }
    before = dram;
  }
  EXPECT_EQ(before, 0);
}

TEST(Lower, DataParallelReplicasShareNothingButGradients) {
  const Graph g = build_graph(model(4));
  const LoweredPlan l = lower(g, plan(2, 2, 2), machine(4, 4));
  ASSERT_EQ(l.program.groups.size(), 4u);
  std::set<std::uint32_t> tiles;
  for (const TileGroup& group : l.program.groups) {
    for (const TileId t : group.tiles) EXPECT_TRUE(tiles.insert(index(t)).second);
  }
}

/// Layers 0 and 2 dense, experts in the others.
DecoderConfig mixed_model() {
  DecoderConfig c = model(5);
  c.experts.count = 4;
  c.experts.top_k = 2;
  c.experts.ffn = 512;
  c.experts.shared_ffn = 256;
  c.experts.dense_layers = {0, 2};
  return c;
}

TEST(Lower, LayersWithAndWithoutExpertsShareAPlan) {
  const Graph g = build_graph(mixed_model());
  for (const int p : {1, 2, 5}) {
    for (const int t : {1, 2}) {
      for (const bool sequence_parallel : {false, true}) {
        for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
          PlanConfig c = plan(p, t, 1);
          c.sequence_parallel = sequence_parallel;
          c.recomputation = r;
          const LoweredPlan l = lower(g, c, machine(4, 4));
          std::int64_t parameters = 0, layers = 0;
          for (const StagePlan& s : l.stages) {
            parameters += s.parameters;
            layers += s.layers;
          }
          EXPECT_EQ(layers, 5);
          EXPECT_EQ(parameters, g.parameters() + (p > 1 ? 1024 * 512 : 0));
        }
      }
    }
  }
  PlanConfig inference = plan(2, 2, 2);
  inference.mode = Mode::inference;
  inference.optimizer = OptimizerKind::none;
  EXPECT_NO_THROW(lower(g, inference, machine(4, 4)));
}

TEST(Lower, EveryWidthOfAMixtureMustDivide) {
  DecoderConfig c = mixed_model();
  c.experts.ffn = 513;
  try {
    lower(build_graph(c), plan(1, 2, 1), machine(4, 4));
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("does not divide the 513 expert width of model 'small'"));
    EXPECT_THAT(e.what(), HasSubstr("allowed: 1"));
  }
}

TEST(Lower, EveryValidCombinationOfDegreesLowers) {
  const Graph g = build_graph(model(4));
  for (const int p : {1, 2, 3, 4}) {
    for (const int t : {1, 2, 4}) {
      for (const int d : {1, 2, 3}) {
        for (const Mode mode : {Mode::training, Mode::inference}) {
          for (const Recomputation& r : {Recomputation::none, Recomputation::full}) {
            PlanConfig c = plan(p, t, d);
            if (p * t * d > 16) continue;
            c.mode = mode;
            c.placement = PlacementKind::serpentine;
            if (mode == Mode::inference) {
              c.optimizer = OptimizerKind::none;
              if (r == Recomputation::full) continue;
            }
            c.recomputation = r;
            EXPECT_NO_THROW(lower(g, c, machine(4, 4))) << p << " " << t << " " << d;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tilewright
