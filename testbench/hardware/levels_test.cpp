// Message against flit fidelity under the same synthetic traffic: how far they part is measured
// here, and docs/network.md states it.
#include <cmath>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/flit_mesh.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

/// A mesh at either fidelity, with packets of a length.
class Level {
 public:
  Level(Fidelity fidelity, int side, std::uint32_t flits)
      : config_(flit_mesh(side, side)), flits_(flits), queue_("events") {
    if (fidelity == Fidelity::flit) {
      network_ = std::make_unique<FlitTraffic>(config_, queue_, 0);
    } else {
      network_ = std::make_unique<MessageTraffic>(config_, queue_, 0);
    }
    driver_ = std::make_unique<TrafficDriver>(queue_, 1, *network_, side, side, config_.period, 32);
  }

  LoadResult at(const TrafficPattern& pattern, double load) {
    LoadOptions o;
    o.offered = load;
    o.packet_flits = flits_;
    o.warmup = 1000;
    o.measure = 4000;
    o.drain = 4000;
    return driver_->run(pattern, o);
  }
  double latency(const TrafficPattern& pattern, double load) {
    const LoadResult r = at(pattern, load);
    return r.unfinished > 0 ? HUGE_VAL : r.latency_mean;
  }
  /// The load at which latency is three times that of an idle network, to 2 %.
  double knee(const TrafficPattern& pattern) {
    const double limit = 3 * latency(pattern, 0.01);
    double below = 0.01, above = 1;
    while (above > 1.02 * below) {
      const double middle = std::sqrt(below * above);
      (latency(pattern, middle) < limit ? below : above) = middle;
    }
    return std::sqrt(below * above);
  }

 private:
  FlitConfig config_;
  std::uint32_t flits_;
  EventQueue queue_;
  std::unique_ptr<TrafficNetwork> network_;
  std::unique_ptr<TrafficDriver> driver_;
};

struct Case {
  const char* traffic;
  int side;
  std::uint32_t flits;
  double most;  // knee of the message network over that of the flit network
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << c.traffic << ' ' << c.side << "x" << c.side << ' ' << c.flits;
}

class Levels : public testing::TestWithParam<Case> {};

TEST_P(Levels, PartByWhatIsStated) {
  const Case& c = GetParam();
  const auto pattern = make_traffic(c.traffic, {c.side, c.side, {}, 1});
  const auto measure = [&](Fidelity fidelity, double load) {
    const std::string text = in_child([&] {
      auto& level = *new Level(fidelity, c.side, c.flits);
      std::ostringstream out;
      const double knee = load > 0 ? load : level.knee(*pattern);
      out.precision(17);
      out << knee << ' ' << level.latency(*pattern, 0.01) << ' '
          << level.latency(*pattern, knee / 2);
      return out.str();
    });
    std::istringstream in(text);
    std::vector<double> figures;
    for (double f = 0; in >> f;) figures.push_back(f);
    EXPECT_EQ(figures.size(), 3u) << text;
    figures.resize(3);
    return figures;
  };
  const auto flit = measure(Fidelity::flit, 0);
  const auto same_load = measure(Fidelity::message, flit[0]);
  const double ratio = measure(Fidelity::message, 0)[0] / flit[0];
  RecordProperty("knee", std::to_string(ratio));
  RecordProperty("half", std::to_string(same_load[2] / flit[2]));
  EXPECT_NEAR(same_load[1], flit[1], 0.01 * flit[1]);
  EXPECT_LE(same_load[2], 1.01 * flit[2]);
  EXPECT_GE(same_load[2], 0.85 * flit[2]);
  EXPECT_LE(ratio, c.most);
  EXPECT_GE(ratio, 0.95);
}

INSTANTIATE_TEST_SUITE_P(Traffic, Levels,
                         testing::Values(Case{"neighbour", 4, 1, 1.05},
                                         Case{"neighbour", 4, 8, 1.05}, Case{"tornado", 4, 8, 1.05},
                                         Case{"transpose", 4, 1, 1.05},
                                         Case{"transpose", 4, 8, 1.05},
                                         Case{"bit-complement", 4, 8, 1.10},
                                         Case{"uniform", 4, 1, 1.36}, Case{"uniform", 4, 8, 1.36},
                                         Case{"uniform", 8, 8, 1.25}, Case{"tornado", 8, 8, 1.20}));

// Eight odd tiles of 4 × 4 each send one message to an even tile: the neighbour, or the point
// mirror on the other side of the middle. There every link in the middle is shared by two: of two
// equal messages one is there after n, the other after 2n, so contention costs half of the time on
// average.
TEST(CentreCrossing, ContentionIsSeenAtBothLevels) {
  const std::uint32_t flits = 500;
  const auto mean = [&](Fidelity fidelity, bool crossing) {
    return std::stod(in_child([&] {
      FlitConfig c = flit_mesh(4, 4);
      c.packet_flits = 8;
      EventQueue queue("events");
      std::unique_ptr<TrafficNetwork> network;
      if (fidelity == Fidelity::flit) {
        network = std::make_unique<FlitTraffic>(c, queue, 0);
      } else {
        network = std::make_unique<MessageTraffic>(c, queue, 0);
      }
      auto& driver = *new TrafficDriver(queue, 1, *network.release(), 4, 4, c.period, 32);
      std::vector<TraceRecord> trace;
      for (std::uint32_t t = 1; t < 16; t += 2) {
        trace.push_back({0, t, crossing ? 15 - t : t - 1, flits});
      }
      const LoadResult r = driver.run(trace, 100000);
      return std::to_string(r.latency_mean) + " " + std::to_string(r.latency_max);
    }));
  };
  const double message = mean(Fidelity::message, true) / mean(Fidelity::message, false);
  const double flit = mean(Fidelity::flit, true) / mean(Fidelity::flit, false);
  EXPECT_NEAR(message, 1.5, 0.08);
  // Flits take turns, so both of two messages are there after 2n.
  EXPECT_NEAR(flit, 2, 0.1);
}

}  // namespace
}  // namespace tilewright::test
