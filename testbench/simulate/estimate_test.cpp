// The closed-form time by which proposals are ordered, against simulation.
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/plan/advice.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

#include "support/forked.h"

namespace tilewright {
namespace {

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
  return build_graph(c);
}

MachineConfig machine() {
  MachineConfig m;
  m.name = "test";
  m.tiles_x = m.tiles_y = 4;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(256e9);
  m.sram.capacity = Bytes(1 << 20);
  m.sram.bandwidth = Bandwidth(2e12);
  m.noc.link = m.noc.die_link = {Bandwidth(64e9), Seconds(2e-9)};
  m.dram.bandwidth = Bandwidth(100e9);
  m.dram.capacity = Bytes(1e12);
  m.dram.latency = Seconds(1e-7);
  m.host.bandwidth = Bandwidth(20e9);
  m.host.capacity = Bytes(1e12);
  m.host.latency = Seconds(1e-6);
  for (int x = 0; x < 4; ++x) {
    m.dram.sites.emplace_back(x, 0);
    m.dram.sites.emplace_back(x, 3);
    m.host.sites.emplace_back(x, 0);
  }
  return m;
}

/// Seconds as simulated.
double simulated(const PlanConfig& plan) {
  const std::string text = testing_support::forked([&] {
    return fmt::format("{}",
                       simulate(machine(), graph(), plan, test::checked()).iteration_time.value());
  });
  EXPECT_NE(text.find_first_of("0123456789"), std::string::npos) << text;
  return std::strtod(text.c_str(), nullptr);
}

TEST(Estimate, IsCloseToSimulationForEveryChangeThatIsProposed) {
  const Graph g = graph();
  const MachineConfig m = machine();
  PlanConfig p;
  p.name = "test";
  p.pipeline = 2;
  p.tensor = 2;
  p.data = 2;
  p.micro_batch = 4;
  p.global_batch = 32;
  int compared = 0;
  for (const PlanChange& change : possible_changes(p, m)) {
    const auto seconds = estimate_iteration(g, change.plan, m);
    if (!seconds) continue;
    const double real = simulated(change.plan);
    EXPECT_GT(*seconds / real, 0.9) << change.what;
    EXPECT_LT(*seconds / real, 1.15) << change.what;
    ++compared;
  }
  EXPECT_GT(compared, 15);
}

}  // namespace
}  // namespace tilewright
