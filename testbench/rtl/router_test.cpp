// The RTL router against the flit model: the same flits leave every router by the same port in the
// same cycle, and every packet arrives when it would without RTL.
#include <memory>
#include <ostream>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <support/flit_mesh.h>
#include <support/script.h>

#include "rtl_router.h"

namespace tilewright::rtl {
namespace {

constexpr unsigned kPorts = FlitNetwork::kPorts;

struct Scene {
  int width, height;
  bool large;  // 4 channels of 4 flits, else 2 of 3
  std::vector<std::uint32_t> rtl;
  double load;  // flits per cycle and tile
  unsigned longest;
  const char* name;
};
void PrintTo(const Scene& s, std::ostream* out) { *out << s.name; }

FlitConfig config_of(const Scene& s) {
  FlitConfig c = test::flit_mesh(s.width, s.height);
  c.virtual_channels = s.large ? 4 : 2;
  c.buffer_flits = s.large ? 4 : 3;
  c.link_delay = s.large ? 1 : 2;
  c.credit_delay = s.large ? 1 : 0;
  return c;
}

class Arrivals : public EventHandler {
 public:
  explicit Arrivals(FlitNetwork& network) : network_(network) {}
  void handle(Picoseconds now, EventClass, std::uint32_t tile, const Event* events,
              std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) {
      Packet& p = network_.packet(static_cast<std::uint32_t>(events[i].slot()));
      list.emplace(p.sequence, tile, now);
      network_.free(p);
    }
  }
  std::set<std::tuple<std::uint32_t, std::uint32_t, Picoseconds>> list;

 private:
  FlitNetwork& network_;
};

/// What happened, as text: departures (cycle, router, port) and arrivals (packet, tile, time).
std::string run(const Scene& s, bool with_rtl) {
  constexpr std::uint64_t kCycles = 1500;
  EventQueue queue("events");
  FlitMesh mesh("mesh", config_of(s), queue, 0);
  FlitNetwork& network = mesh.network;
  Arrivals arrivals(network);
  queue.attach(EventClass::delivery, arrivals);
  std::vector<std::unique_ptr<RtlRouter>> routers;
  std::vector<bool> is_rtl(network.tiles(), false);
  for (const std::uint32_t t : s.rtl) {
    if (!with_rtl) break;
    const std::string name = "rtl" + std::to_string(t);
    routers.push_back(s.large ? make_rtl_router_4x4(name.c_str(), network, t)
                              : make_rtl_router_2x3(name.c_str(), network, t));
    is_rtl[t] = true;
  }
  std::mt19937 random(3);
  std::vector<std::uint64_t> seen(network.tiles() * kPorts, 0);
  std::set<std::tuple<std::uint64_t, std::uint32_t, unsigned>> departures;
  const Picoseconds period = network.config().period;
  std::uint32_t packets = 0;
  sc_core::sc_start(sc_core::sc_time::from_value(period / 2));
  // Cycle number `cycle` lies in the middle of what each step simulates.
  for (std::uint64_t cycle = 1; cycle < kCycles || !network.at_rest(); ++cycle) {
    for (std::uint32_t t = 0; cycle < kCycles && t < network.tiles(); ++t) {
      const double draw = static_cast<double>(random()) / 4294967296.0;
      if (draw >= 2 * s.load / (1 + s.longest)) continue;
      Packet& p = network.allocate();
      p.source = t;
      p.destination = random() % network.tiles();
      p.bytes = std::uint64_t{32} * (1 + random() % s.longest);
      p.sequence = packets++;
      network.inject(p, sc_core::sc_time_stamp().value());
    }
    sc_core::sc_start(sc_core::sc_time::from_value(period));
    queue.rethrow();
    if (cycle > 20 * kCycles) return "does not come to rest";
    for (std::uint32_t t = 0; t < network.tiles(); ++t) {
      for (unsigned port = 0; port < kPorts; ++port) {
        const std::uint64_t now = network.flits(t, port);
        if (now == seen[t * kPorts + port]) continue;
        EXPECT_EQ(now, ++seen[t * kPorts + port]) << "two flits in one cycle";
        // What the RTL's registers hold won the switch two cycles earlier.
        departures.emplace(is_rtl[t] ? cycle - 2 : cycle, t, port);
      }
    }
  }
  std::uint64_t passed = 0;
  for (const auto& r : routers) passed += r->flits();
  if (with_rtl && passed < 500) return "hardly anything has passed the RTL";
  std::ostringstream text;
  text << packets << " packets, " << network.flits_left() << " flits\n";
  for (const auto& [cycle, router, port] : departures) {
    text << cycle << ' ' << router << ' ' << port << '\n';
  }
  for (const auto& [packet, tile, time] : arrivals.list) {
    text << 'p' << packet << ' ' << tile << ' ' << time << '\n';
  }
  return text.str();
}

class RtlRouterTest : public testing::TestWithParam<Scene> {};
TEST_P(RtlRouterTest, AgreesFlitForFlit) {
  const Scene& s = GetParam();
  const std::string model = test::in_child([&] { return run(s, false); });
  const std::string rtl = test::in_child([&] { return run(s, true); });
  EXPECT_GT(model.size(), 20000u) << model;
  if (model == rtl) return;
  std::istringstream a(model), b(rtl);
  std::string x, y;
  while (std::getline(a, x) && std::getline(b, y) && x == y) {
  }
  FAIL() << "the model says '" << x << "', the RTL '" << y << "'";
}
INSTANTIATE_TEST_SUITE_P(Rtl, RtlRouterTest,
                         testing::Values(Scene{4, 4, true, {5}, 0.1, 8, "InnerLightLoad"},
                                         Scene{4, 4, true, {5}, 0.9, 8, "InnerSaturated"},
                                         Scene{4, 4, true, {5}, 0.6, 1, "InnerSingleFlits"},
                                         Scene{4, 4, true, {0}, 0.9, 20, "CornerLongPackets"},
                                         Scene{4, 4, true, {7}, 0.5, 4, "Edge"},
                                         Scene{3, 3, true, {4, 5, 1}, 0.9, 5, "Neighbours"},
                                         Scene{2, 2, true, {0, 1, 2, 3}, 0.9, 6, "EveryRouter"},
                                         Scene{5, 3, false, {7}, 0.9, 8, "SmallSaturated"},
                                         Scene{3, 3, false, {3, 4}, 0.3, 3, "SmallNeighbours"}),
                         testing::PrintToStringParamName());

TEST(RtlRouterTest, RefusesANetworkOfAnotherKind) {
  EventQueue queue("events");
  FlitConfig config = test::flit_mesh(2, 2);
  config.virtual_channels = config.buffer_flits = 4;
  config.speculative = true;
  FlitMesh mesh("mesh", config, queue, 0);
  const auto error = [&](const auto& make) -> std::string {
    try {
      make();
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_EQ(error([&] { make_rtl_router_4x4("router", mesh.network, 0); }),
            "router: the network's speculative is true; the RTL router needs false");
  EXPECT_EQ(error([&] { make_rtl_router_2x3("small", mesh.network, 0); }),
            "small: the network's virtual_channels is 4; the RTL router needs 2");
}

}  // namespace
}  // namespace tilewright::rtl
