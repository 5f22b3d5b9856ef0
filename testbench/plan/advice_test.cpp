// What is proposed where a plan does not fit: it fits, and nothing that was tried and fits is
// faster.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/advice.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

using ::testing::HasSubstr;

Graph graph() {
  DecoderConfig c;
  c.name = "gpt";
  c.layers = 8;
  c.hidden = 256;
  c.heads = c.kv_heads = 8;
  c.head_dim = 32;
  c.ffn = 1024;
  c.vocab = 512;
  c.sequence = c.max_positions = 256;
  c.dropout = true;
  return build_graph(c);
}

MachineConfig machine() {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = m.tiles_y = 4;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.vector.throughput = Frequency(512e9);
  m.sram.capacity = Bytes(1 << 20);
  m.sram.bandwidth = Bandwidth(2e12);
  m.noc.link = m.noc.die_link = {Bandwidth(64e9), Seconds(2e-9)};
  m.dram.bandwidth = Bandwidth(100e9);
  m.dram.capacity = Bytes(1e12);
  m.dram.latency = Seconds(1e-7);
  m.dram.sites = {{0, 0}};
  return m;
}

void add_host(MachineConfig& m) {
  m.host.bandwidth = Bandwidth(20e9);
  m.host.capacity = Bytes(1e12);
  m.host.latency = Seconds(1e-6);
  m.host.sites = {{0, 3}};
}

PlanConfig plan() {
  PlanConfig p;
  p.name = "test";
  p.pipeline = 2;
  p.micro_batch = 4;
  p.global_batch = 32;
  return p;
}

std::string error_of(const Graph& g, const PlanConfig& p, const MachineConfig& m) {
  try {
    lower(g, p, m);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

/// Proposals where there is this part of the memory that the plan needs; checked.
std::vector<Proposal> proposals(const PlanConfig& p, MachineConfig m, double part) {
  const Graph g = graph();
  const LoweredPlan fitting = lower(g, p, m);
  double need = 0;
  for (const StagePlan& s : fitting.stages) {
    need += static_cast<double>(s.dram_bytes()) * p.group_ranks() * p.replicas();
  }
  m.dram.capacity = Bytes(need * part);
  const std::string error = error_of(g, p, m);
  EXPECT_THAT(error, HasSubstr("out of memory"));
  const std::vector<Proposal> all = propose(g, p, m);
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(all[i].change.what);
    EXPECT_EQ(error_of(g, all[i].change.plan, m), "");
    EXPECT_EQ(estimate_iteration(g, all[i].change.plan, m), all[i].seconds);
    if (i > 0) {
      EXPECT_GE(all[i].seconds, all[i - 1].seconds);
    }
  }
  for (const PlanChange& change : possible_changes(p, m)) {
    const auto seconds = estimate_iteration(g, change.plan, m);
    EXPECT_EQ(seconds.has_value(), error_of(g, change.plan, m).empty()) << change.what;
    if (seconds && !all.empty()) {
      EXPECT_GE(*seconds, all.front().seconds) << change.what;
    }
  }
  if (!all.empty()) {
    EXPECT_THAT(error, HasSubstr("would fit, by the estimated time of an iteration: " +
                                 all.front().change.what + " ("));
  }
  return all;
}

TEST(Advice, TheFastestChangeThatFitsComesFirst) {
  int proposed = 0;
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::zb_h2}) {
    for (const double part : {0.95, 0.7, 0.4}) {
      PlanConfig p = plan();
      p.schedule = kind;
      SCOPED_TRACE(std::string(to_string(kind)) + " " + std::to_string(part));
      proposed += static_cast<int>(proposals(p, machine(), part).size());
    }
  }
  EXPECT_GT(proposed, 20);
}

TEST(Advice, WithReplicasAndHostMemory) {
  MachineConfig m = machine();
  add_host(m);
  PlanConfig p = plan();
  p.data = 2;
  p.tensor = 2;
  for (const double part : {0.9, 0.5}) {
    const std::vector<Proposal> all = proposals(p, m, part);
    std::string kinds;
    for (const Proposal& proposal : all) kinds += proposal.change.kind + " ";
    EXPECT_THAT(kinds, HasSubstr("offload "));
    if (part > 0.6) {
      EXPECT_THAT(kinds, HasSubstr("zero "));
    }
  }
}

TEST(Advice, OfInference) {
  PlanConfig p = plan();
  p.mode = Mode::inference;
  p.optimizer = OptimizerKind::none;
  p.micro_batch = 16;
  const std::vector<Proposal> all = proposals(p, machine(), 0.95);
  ASSERT_FALSE(all.empty());
  for (const Proposal& proposal : all) EXPECT_NE(proposal.change.kind, "recomputation");
}

TEST(Advice, TwoChangesWhereNoneAloneIsEnough) {
  const Graph g = graph();
  MachineConfig m = machine();
  m.tiles_x = 2;  // no room for more ranks
  m.tiles_y = 1;
  m.dram.sites = {{0, 0}};
  PlanConfig p = plan();
  p.micro_batch = 32;
  bool together = false;
  for (double capacity = 2e9; capacity > 1e7 && !together; capacity *= 0.9) {
    m.dram.capacity = Bytes(capacity);
    for (const Proposal& proposal : propose(g, p, m)) {
      if (proposal.change.what.rfind("recomputation: full with ", 0) != 0) continue;
      together = true;
      EXPECT_EQ(error_of(g, proposal.change.plan, m), "");
      EXPECT_EQ(proposal.change.plan.recomputation, Recomputation::full);
    }
  }
  EXPECT_TRUE(together);
}

TEST(Advice, ThreeChangesWhereNoTwoAreEnough) {
  const Graph g = graph();
  MachineConfig m = machine();
  add_host(m);
  m.tiles_x = 2;
  m.tiles_y = 1;
  m.host.sites = {{1, 0}};
  PlanConfig p = plan();
  p.micro_batch = 32;
  const std::string with = "recomputation: full with batch.micro: 1 with ";
  bool together = false;
  for (double capacity = 2e9; capacity > 1e6 && !together; capacity *= 0.9) {
    m.dram.capacity = Bytes(capacity);
    for (const Proposal& proposal : propose(g, p, m)) {
      if (proposal.change.what.rfind(with, 0) != 0) continue;
      together = true;
      EXPECT_EQ(proposal.change.plan.micro_batch, 1);
      EXPECT_EQ(error_of(g, proposal.change.plan, m), "");
    }
  }
  EXPECT_TRUE(together);
}

TEST(Advice, TheLargestMicroBatchThatFitsIsTried) {
  const Graph g = graph();
  PlanConfig p = plan();
  p.micro_batch = 7;
  const auto need = [&](std::int64_t micro_batch) {
    PlanConfig fitting = p;
    fitting.micro_batch = micro_batch;
    double bytes = 0;
    for (const StagePlan& s : lower(g, fitting, machine()).stages) {
      bytes += static_cast<double>(s.dram_bytes());
    }
    return bytes;
  };
  MachineConfig m = machine();
  m.dram.capacity = Bytes((need(5) + need(6)) / 2);
  // 3 fits, which is half of 7; so does 5, and fewer micro-batches have the shorter bubble.
  PlanConfig five = p, three = p;
  five.micro_batch = 5;
  three.micro_batch = 3;
  const double fastest =
      std::min(*estimate_iteration(g, five, m), *estimate_iteration(g, three, m));
  for (const Proposal& proposal : propose(g, p, m)) {
    if (proposal.change.kind != "micro-batch") continue;
    EXPECT_LE(proposal.seconds, fastest);
    return;
  }
  FAIL() << "no micro-batch is proposed";
}

}  // namespace
}  // namespace tilewright
