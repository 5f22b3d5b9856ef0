// The flit-level network: closed forms of its pipeline, conservation under stalls, determinism.
#include <algorithm>

#include <gtest/gtest.h>
#include <support/flit_mesh.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

// 4R + 2 + (L - 1).
TEST(FlitNetwork, ZeroLoadFollowsTheClosedForm) {
  FlitBench& b = flit_bench(flit_mesh(5, 4));
  for (const std::uint32_t flits : {1u, 2u, 8u, 100u}) {
    for (std::uint32_t to = 0; to < 20; ++to) {
      const std::uint32_t routers = to % 5 + to / 5 + 1;
      EXPECT_EQ(b.alone(0, to, flits), 4 * routers + 2 + flits - 1);
      EXPECT_EQ(b.alone(to, 0, flits), 4 * routers + 2 + flits - 1);
    }
  }
  EXPECT_TRUE(b.network().at_rest());
}

TEST(FlitNetwork, SpeculationSavesACyclePerRouter) {
  FlitConfig c = flit_mesh(4, 4);
  c.speculative = true;
  FlitBench& b = flit_bench(c);
  for (std::uint32_t to = 0; to < 16; ++to) {
    EXPECT_EQ(b.alone(0, to, 8), 3 * (to % 4 + to / 4 + 1) + 2 + 7);
  }
}

TEST(FlitNetwork, EveryStageCountsOnce) {
  FlitConfig c = flit_mesh(4, 1);
  c.routing_delay = 2;
  c.vc_allocation_delay = 3;
  c.switch_allocation_delay = 2;
  c.switch_traversal_delay = 4;
  c.link_delay = 5;
  c.terminal_delay = 3;
  FlitBench& b = flit_bench(c);
  for (std::uint32_t to = 0; to < 4; ++to) {
    // 4 to the first router; 2 + 3 + 2 + 4 in each; 5 between two; 3 to the tile
    EXPECT_EQ(b.alone(0, to, 1), 4 + 11 * (to + 1) + 5 * to + 3);
    EXPECT_EQ(b.alone(0, to, 1), zero_load_cycles(c, to + 1, 1));
  }
  EXPECT_TRUE(b.network().at_rest());
}

// A place is used again 6 cycles after its flit's switch allocation: 3 to the next router, 3 for
// the credit back. A buffer of D < 6 flits passes D flits in 6 cycles.
TEST(FlitNetwork, CreditTurnAroundLimitsAShallowBuffer) {
  for (const int depth : {1, 2, 3, 6, 8}) {
    const std::string text = in_child([depth] {
      FlitConfig c = flit_mesh(2, 1);
      c.virtual_channels = 1;
      c.buffer_flits = depth;
      return std::to_string(flit_bench(c).alone(0, 1, 601));
    });
    const std::uint64_t first = 4 * 2 + 2;
    const std::uint64_t rest = depth >= 6 ? 600 : 600 / static_cast<unsigned>(depth) * 6;
    EXPECT_NEAR(std::stod(text), static_cast<double>(first + rest), 6) << depth << " flits";
  }
}

TEST(FlitNetwork, ALinkCarriesOneFlitPerCycle) {
  FlitBench& b = flit_bench(flit_mesh(2, 1));
  // Eight packets of 50 flits over one link, then the last one's way out.
  std::vector<TraceRecord> trace;
  for (int i = 0; i < 8; ++i) trace.push_back({0, 0, 1, 50});
  EXPECT_EQ(b.driver.run(trace, 1000).latency_max, 4u * 2 + 2 + 400 - 1);
  EXPECT_EQ(b.network().flits(0, 0), 400u);
  EXPECT_EQ(b.network().flits(1, FlitNetwork::kLocal), 400u);
}

TEST(FlitNetwork, AHotSpotReceivesOneFlitPerCycle) {
  FlitBench& b = flit_bench(flit_mesh(4, 4));
  const auto pattern = make_traffic("hotspot", {4, 4, {{3, 0}}, 1});
  LoadOptions o;
  o.offered = 0.5;
  o.warmup = 1000;
  o.measure = 2000;
  o.drain = 0;
  EXPECT_NEAR(b.driver.run(*pattern, o).accepted * 16, 1, 0.01);
}

TEST(FlitNetwork, IdleCyclesAreNotSimulated) {
  FlitBench& b = flit_bench(flit_mesh(4, 4));
  b.driver.run({{0, 0, 15, 1}, {1000000, 0, 15, 1}}, 1000);
  EXPECT_LT(b.network().cycles(), 100u);
}

TEST(FlitNetwork, LongMessagesTravelAsPackets) {
  FlitConfig c = flit_mesh(4, 4);
  c.packet_flits = 8;
  FlitBench& b = flit_bench(c);
  EXPECT_EQ(b.alone(0, 15, 1000), 4u * 7 + 2 + 999);
  std::vector<TraceRecord> trace;
  for (std::uint32_t t = 0; t < 16; ++t) trace.push_back({0, t, 15 - t, 333});
  EXPECT_EQ(b.driver.run(trace, 100000).packets, 16u);
  EXPECT_TRUE(b.network().at_rest());
}

std::string numbers(const LoadResult& r, FlitNetwork& n) {
  std::string text = std::to_string(r.latency_mean) + ' ' + std::to_string(r.latency_p99) + ' ' +
                     std::to_string(r.accepted) + ' ' + std::to_string(r.packets);
  for (std::uint32_t t = 0; t < n.tiles(); ++t) {
    for (unsigned p = 0; p < FlitNetwork::kPorts; ++p) {
      text += ' ' + std::to_string(n.flits(t, p));
    }
  }
  return text;
}

TEST(FlitNetwork, OrderOfConstructionDoesNotMatter) {
  const auto work = [](bool reverse) {
    return in_child([reverse] {
      FlitBench& b = flit_bench(flit_mesh(4, 4), reverse);
      LoadOptions o;
      o.offered = 0.6;
      o.measure = 2000;
      return numbers(b.run("uniform", o), b.network());
    });
  };
  const std::string once = work(false);
  EXPECT_EQ(once, work(false));
  EXPECT_EQ(once, work(true));
}

TEST(FlitNetwork, AMeasurementDoesNotDependOnTheOneBefore) {
  FlitBench& b = flit_bench(flit_mesh(4, 4));
  LoadOptions o, heavy;
  o.offered = 0.4;
  o.measure = 2000;
  heavy.offered = 1;
  heavy.measure = 500;
  heavy.drain = 0;
  const LoadResult first = b.run("uniform", o);
  b.run("transpose", heavy);
  const LoadResult second = b.run("uniform", o);
  EXPECT_EQ(first.latency_mean, second.latency_mean);
  EXPECT_EQ(first.accepted, second.accepted);
  EXPECT_EQ(first.packets, second.packets);
}

struct Stalled {
  int vcs, buffer, packet;
  bool wait, speculative;
  int vc_delay, switch_delay;
};
void PrintTo(const Stalled& s, std::ostream* out) {
  *out << s.vcs << " VCs of " << s.buffer << ", packets up to " << s.packet;
}
class FlitStalls : public testing::TestWithParam<Stalled> {};

// Grants withheld at random: everything arrives, once and in order (the network checks that), and
// every credit comes home.
TEST_P(FlitStalls, NothingIsLost) {
  const Stalled& p = GetParam();
  FlitConfig c = flit_mesh(4, 3);
  c.virtual_channels = p.vcs;
  c.buffer_flits = p.buffer;
  c.wait_for_tail_credit = p.wait;
  c.speculative = p.speculative;
  c.vc_allocation_delay = p.vc_delay;
  c.switch_allocation_delay = p.switch_delay;
  c.stall_probability = 0.3;
  FlitBench& b = flit_bench(c);
  TrafficRandom random(7);
  for (int round = 0; round < 3; ++round) {
    std::vector<TraceRecord> trace;
    std::uint64_t flits = 0;
    for (std::uint64_t cycle = 0; cycle < 600; ++cycle) {
      for (std::uint32_t t = 0; t < 12; ++t) {
        if (random.below(20) != 0) continue;
        const std::uint32_t size = 1 + random.below(static_cast<std::uint32_t>(p.packet));
        trace.push_back({cycle, t, random.below(12), size});
        flits += size;
      }
    }
    const std::uint64_t entered = b.network().flits_entered();
    const LoadResult r = b.driver.run(trace, 1000000);
    EXPECT_EQ(r.packets, trace.size());
    EXPECT_EQ(r.unfinished, 0u);
    EXPECT_EQ(b.network().flits_entered() - entered, flits);
    EXPECT_EQ(b.network().flits_left(), b.network().flits_entered());
  }
  EXPECT_TRUE(b.network().at_rest());
}
INSTANTIATE_TEST_SUITE_P(
    Routers, FlitStalls,
    testing::Values(Stalled{1, 1, 5, false, false, 1, 1}, Stalled{1, 8, 12, true, false, 1, 1},
                    Stalled{2, 3, 9, false, true, 1, 1}, Stalled{4, 4, 8, true, true, 1, 1},
                    Stalled{8, 8, 20, false, false, 1, 1}, Stalled{3, 2, 7, false, false, 2, 3},
                    Stalled{32, 2, 3, true, false, 3, 1}));

// Eight tiles send one message each, to a neighbour or across the centre of the mesh.
TEST(FlitNetwork, CrossingTheCentreMeetsContention) {
  FlitBench& b = flit_bench(flit_mesh(4, 4));
  std::vector<TraceRecord> neighbours, across;
  for (std::uint32_t t = 1; t < 16; t += 2) {
    neighbours.push_back({0, t, t - 1, 64});
    across.push_back({0, t, 15 - t, 64});
  }
  const auto near = static_cast<double>(b.driver.run(neighbours, 10000).latency_max);
  const auto far = static_cast<double>(b.driver.run(across, 10000).latency_max);
  EXPECT_GT(far / near, 1.4);
  EXPECT_LT(far / near, 2.5);
}

TEST(FlitNetwork, WrongParametersAreNamed) {
  const auto message = [](const FlitConfig& c) -> std::string {
    try {
      check(c);
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_EQ(message(flit_mesh(3, 2)), "");
  FlitConfig c = flit_mesh(3, 2);
  c.virtual_channels = 33;
  EXPECT_EQ(message(c), "flit network: virtual_channels: 33 is not allowed; allowed: 1 to 32");
  c = flit_mesh(3, 2);
  c.speculative = true;
  c.vc_allocation_delay = 2;
  EXPECT_NE(message(c).find("speculative"), std::string::npos);
}

TEST(MessageTraffic, ZeroLoadIsThatOfTheFlitNetwork) {
  EventQueue queue("events");
  const FlitConfig c = flit_mesh(4, 4);
  auto* network = new MessageTraffic(c, queue, 0);
  auto* driver = new TrafficDriver(queue, 1, *network, 4, 4, c.period, 32);
  for (std::uint32_t to = 0; to < 16; ++to) {
    const std::uint64_t routers = to % 4 + to / 4 + 1;
    EXPECT_EQ(driver->run({{0, 0, to, 8}}, 1000).latency_max, 4 * routers + 2 + 7);
  }
}

// The message network has no buffers to fill and no allocators to disappoint: it agrees at low load
// and is optimistic near saturation (docs/network.md).
class MessageAgainstFlit : public testing::TestWithParam<const char*> {};

TEST_P(MessageAgainstFlit, WithinFifteenPercentUpToHalfOfSaturation) {
  const FlitConfig c = flit_mesh(8, 8);
  FlitBench& flit = flit_bench(c);
  EventQueue queue("message_events");
  auto* network = new MessageTraffic(c, queue, 0);
  auto* message = new TrafficDriver(queue, 1, *network, 8, 8, c.period, 32);
  const auto pattern = make_traffic(GetParam(), {8, 8, {}, 1});
  LoadOptions o;
  o.measure = 6000;
  // Saturation lies below the capacity of the busiest link.
  const double capacity =
      std::min(1.0, 1 / analyse(*pattern, topology_of(flit_mesh(8, 8))).busiest_link);
  for (const double share : {0.1, 0.25, 0.4, 0.5}) {
    o.offered = share * capacity;
    const double reference = flit.driver.run(*pattern, o).latency_mean;
    EXPECT_NEAR(message->run(*pattern, o).latency_mean, reference, 0.15 * reference) << share;
  }
}
INSTANTIATE_TEST_SUITE_P(Patterns, MessageAgainstFlit,
                         testing::Values("uniform", "transpose", "neighbour", "tornado",
                                         "bit-complement"));

TEST(Traffic, Patterns) {
  TrafficRandom random(1);
  const auto to = [&](const std::string& name, std::uint32_t source) {
    return make_traffic(name, {8, 8, {}, 1})->destination(source, random);
  };
  EXPECT_EQ(to("transpose", 8 * 2 + 5), 8u * 5 + 2);
  EXPECT_EQ(to("neighbour", 8 * 7 + 7), 0u);
  EXPECT_EQ(to("tornado", 0), 8u * 3 + 3);
  EXPECT_EQ(to("bit-complement", 0), 63u);
  EXPECT_EQ(to("bit-reverse", 1), 32u);
  EXPECT_EQ(to("shuffle", 33), 3u);
  EXPECT_EQ(to("neighbor", 0), 9u);
  EXPECT_THROW(make_traffic("transpose", {4, 2, {}, 1}), InputError);
  EXPECT_THROW(make_traffic("hotspot", {4, 2, {}, 1}), InputError);
  EXPECT_THROW(make_traffic("unifrom", {4, 2, {}, 1}), InputError);

  const TrafficLoad uniform =
      analyse(*make_traffic("uniform", {8, 8, {}, 1}), topology_of(flit_mesh(8, 8)));
  EXPECT_DOUBLE_EQ(uniform.mean_routers, 6.25);
  EXPECT_DOUBLE_EQ(uniform.busiest_link, 2);
}

}  // namespace
}  // namespace tilewright::test
