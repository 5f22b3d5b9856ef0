// The flit network under each routing algorithm.
#include <algorithm>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/flit_mesh.h>
#include <support/script.h>

#include <tilewright/hardware/routing.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

class FlitRouting : public testing::TestWithParam<std::string> {};

// All ways are shortest, so all have the closed form of the idle network.
TEST_P(FlitRouting, ZeroLoadFollowsTheClosedForm) {
  FlitConfig c = flit_mesh(5, 4);
  c.routing = GetParam();
  FlitBench& b = flit_bench(c);
  for (std::uint32_t to = 0; to < 20; ++to) {
    const std::uint32_t routers = to % 5 + to / 5 + 1;
    EXPECT_EQ(b.alone(0, to, 8), 4 * routers + 2 + 7);
    EXPECT_EQ(b.alone(to, 0, 8), 4 * routers + 2 + 7);
    EXPECT_EQ(b.alone(12, to, 8), b.alone(to, 12, 8));
  }
  EXPECT_TRUE(b.network().at_rest());
}

// Far beyond saturation, with grants withheld at random and the fewest, shallowest channels:
// everything arrives all the same.
TEST_P(FlitRouting, NothingIsLostAndNothingBlocksUnderOverload) {
  FlitConfig c = flit_mesh(5, 5);
  c.routing = GetParam();
  const MachineConfig m = mesh(5, 5);
  const Topology topology(m);
  c.virtual_channels = static_cast<int>(make_routing(c.routing, topology)->classes());
  c.buffer_flits = 2;
  c.stall_probability = 0.2;
  FlitBench& b = flit_bench(c);
  LoadOptions o;
  o.offered = 1;
  o.packet_flits = 5;
  o.warmup = 0;
  o.measure = 2000;
  o.drain = 200000;
  for (const char* traffic : {"uniform", "transpose", "tornado"}) {
    const LoadResult r = b.run(traffic, o);
    EXPECT_GT(r.packets, 1000u) << traffic;
    EXPECT_EQ(r.unfinished, 0u) << traffic;
  }
}

TEST_P(FlitRouting, OrderOfConstructionDoesNotMatter) {
  const auto work = [](bool reverse) {
    return in_child([reverse] {
      FlitConfig c = flit_mesh(4, 4);
      c.routing = GetParam();
      FlitBench& b = flit_bench(c, reverse);
      LoadOptions o;
      o.offered = 0.6;
      o.measure = 1000;
      const LoadResult r = b.run("uniform", o);
      std::string text = std::to_string(r.latency_mean) + ' ' + std::to_string(r.packets);
      for (std::uint32_t t = 0; t < 16; ++t) {
        for (unsigned p = 0; p < FlitNetwork::kPorts; ++p) {
          text += ' ' + std::to_string(b.network().flits(t, p));
        }
      }
      return text;
    });
  };
  EXPECT_EQ(work(false), work(true));
}

// On a torus of 5 × 4 the farthest tile is two hops away in x and in y.
TEST(FlitRouting, ATorusGoesTheShorterWayRound) {
  for (const char* name : {"xy", "yx", "o1turn"}) {
    EXPECT_EQ(in_child([name] {
                FlitConfig c = flit_mesh(5, 4);
                c.torus = true;
                c.routing = name;
                FlitBench& b = flit_bench(c);
                for (std::uint32_t to = 0; to < 20; ++to) {
                  const std::uint32_t x = to % 5, y = to / 5;
                  const std::uint32_t routers = std::min(x, 5 - x) + std::min(y, 4 - y) + 1;
                  if (b.alone(0, to, 8) != 4 * routers + 2 + 7) return "to " + std::to_string(to);
                }
                return std::string(b.network().at_rest() ? "right" : "not at rest");
              }),
              "right")
        << name;
  }
}

// Rings full of packets, with the fewest channels that the dateline needs.
TEST(FlitRouting, ATorusUnderOverloadDoesNotBlock) {
  for (const char* name : {"xy", "o1turn"}) {
    EXPECT_EQ(in_child([name] {
                FlitConfig c = flit_mesh(5, 4);
                c.torus = true;
                c.routing = name;
                c.virtual_channels =
                    static_cast<int>(make_routing(name, topology_of(c))->classes());
                c.buffer_flits = 1;
                c.stall_probability = 0.1;
                FlitBench& b = flit_bench(c);
                LoadOptions o;
                o.offered = 1;
                o.packet_flits = 4;
                o.warmup = 0;
                o.measure = 2000;
                o.drain = 400000;
                std::string text;
                for (const char* traffic : {"uniform", "tornado", "bit-complement"}) {
                  text += std::to_string(b.run(traffic, o).unfinished) + " ";
                }
                return text;
              }),
              "0 0 0 ")
        << name;
  }
}

// Uniform traffic crosses the middle of a torus by twice as many links as that of a mesh: a load
// between the saturations of both.
TEST(FlitRouting, ATorusCarriesMoreThanAMesh) {
  const auto accepted = [](bool torus) {
    return std::stod(in_child([torus] {
      FlitConfig c = flit_mesh(8, 8);
      c.torus = torus;
      LoadOptions o;
      o.offered = 0.55;
      o.packet_flits = 1;
      o.warmup = 1000;
      o.measure = 1000;
      o.drain = 0;
      return std::to_string(flit_bench(c).run("uniform", o).accepted);
    }));
  };
  EXPECT_NEAR(accepted(true), 0.55, 0.01);
  EXPECT_LT(accepted(false), 0.45);
}

double accepted(const std::string& routing, const std::string& traffic) {
  return std::stod(in_child([&] {
    FlitConfig c = flit_mesh(8, 8);
    c.routing = routing;
    LoadOptions o;
    o.offered = 1;
    o.packet_flits = 1;
    o.warmup = 1000;
    o.measure = 1000;
    o.drain = 0;
    return std::to_string(flit_bench(c).run(traffic, o).accepted);
  }));
}

// Under transposed traffic dimension order fills the links at the diagonal; a choice of ways
// spreads the load, and uniform traffic, which xy spreads best, gains nothing (Chiu 2000; Seo et
// al. 2005).
TEST(FlitRouting, AChoiceOfWaysPaysForTransposedTraffic) {
  const double xy = accepted("xy", "transpose");
  EXPECT_GT(accepted("odd-even", "transpose"), 1.1 * xy);
  EXPECT_GT(accepted("adaptive", "transpose"), 1.3 * xy);
  EXPECT_GT(accepted("o1turn", "transpose"), 1.3 * xy);
  EXPECT_LT(accepted("west-first", "uniform"), 1.02 * accepted("xy", "uniform"));
}

TEST(FlitRouting, ClassesNeedChannels) {
  const std::string text = in_child([] {
    FlitConfig c = flit_mesh(4, 4);
    c.routing = "o1turn";
    c.virtual_channels = 1;
    flit_bench(c);
    return std::string();
  });
  EXPECT_THAT(text, HasSubstr("routing 'o1turn' needs 2 virtual channels; there are 1"));
}

INSTANTIATE_TEST_SUITE_P(Names, FlitRouting, testing::ValuesIn(routing_names()), [](const auto& n) {
  std::string name = n.param;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace tilewright::test
