// Routing algorithms: shortest, complete, free of deadlocks; what the message network makes of
// them.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/hardware/routing.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

Packet packet(const Topology& topology, std::uint32_t from, std::uint32_t here, std::uint32_t to,
              bool y_first) {
  Packet p;
  p.source = from;
  p.destination = to;
  p.way = y_first;
  const auto [dx, dy] = topology.hops(here, to);
  p.dx = static_cast<std::int16_t>(dx);
  p.dy = static_cast<std::int16_t>(dy);
  return p;
}

/// A link and its class.
using Channel = std::pair<std::uint32_t, unsigned>;
using Waits = std::map<Channel, std::set<Channel>>;

/// Follows every way from `from` to `to`; notes which channel is waited for on which, and returns
/// how many ways there are.
std::uint64_t follow(const Topology& topology, const Routing& routing, std::uint32_t from,
                     std::uint32_t to, bool y_first, Waits& waits) {
  // Ways to each (tile, channel it was reached by).
  std::map<std::pair<std::uint32_t, Channel>, std::uint64_t> here{{{from, {~0u, 0}}, 1}};
  std::uint64_t arrived = 0;
  for (int hops = topology.width() + topology.height(); !here.empty(); --hops) {
    EXPECT_GE(hops, 0);
    std::map<std::pair<std::uint32_t, Channel>, std::uint64_t> next;
    for (const auto& [place, count] : here) {
      const auto& [at, before] = place;
      if (at == to) {
        arrived += count;
        continue;
      }
      const Packet p = packet(topology, from, at, to, y_first);
      const Directions ways = routing.ways(p, at);
      EXPECT_NE(ways, 0u);
      for (unsigned d = 0; d < kDirections; ++d) {
        if ((ways >> d & 1u) == 0) continue;
        const Channel channel{at * kDirections + d,
                              routing.channel_class(p, at, static_cast<Direction>(d))};
        const std::uint32_t there = topology.link(channel.first).to;
        EXPECT_NE(there, Topology::kNone);
        const Packet after = packet(topology, from, there, to, y_first);
        EXPECT_EQ(std::abs(after.dx) + std::abs(after.dy), std::abs(p.dx) + std::abs(p.dy) - 1);
        EXPECT_LT(channel.second, routing.classes());
        if (before.first != ~0u) {
          waits[before].insert(channel);
          const auto in = static_cast<Direction>(before.first % kDirections);
          EXPECT_TRUE(
              routing.turns({in, before.second}, {static_cast<Direction>(d), channel.second}, at))
              << from << " to " << to << " at " << at;
        }
        next[{there, channel}] += count;
      }
    }
    here.swap(next);
  }
  return arrived;
}

bool has_cycle(const Waits& graph) {
  std::map<Channel, int> open;
  for (const auto& [from, all] : graph) {
    open[from];
    for (const Channel& to : all) ++open[to];
  }
  std::vector<Channel> free;
  for (const auto& [channel, n] : open) {
    if (n == 0) free.push_back(channel);
  }
  std::size_t removed = 0;
  for (; !free.empty(); ++removed) {
    const Channel c = free.back();
    free.pop_back();
    const auto found = graph.find(c);
    if (found == graph.end()) continue;
    for (const Channel& to : found->second) {
      if (--open[to] == 0) free.push_back(to);
    }
  }
  return removed != open.size();
}

std::uint64_t choose(int n, int k) {
  std::uint64_t result = 1;
  for (int i = 1; i <= k; ++i)
    result = result * static_cast<std::uint64_t>(n - k + i) / static_cast<std::uint64_t>(i);
  return result;
}

class EveryRouting : public testing::TestWithParam<std::string> {};

TEST_P(EveryRouting, IsShortestCompleteAndFreeOfDeadlocks) {
  for (const auto& [width, height] : {std::pair{4, 4}, {5, 3}, {2, 6}, {1, 5}, {6, 1}}) {
    const MachineConfig m = mesh(width, height);
    const Topology topology(m);
    const auto routing = make_routing(GetParam(), topology);
    EXPECT_THAT(dependency_cycle(topology, *routing), IsEmpty());
    Waits waits;
    for (std::uint32_t from = 0; from < topology.tiles(); ++from) {
      for (std::uint32_t to = 0; to < topology.tiles(); ++to) {
        if (from == to) continue;
        for (const bool y_first : {false, true}) {
          const std::uint64_t ways = follow(topology, *routing, from, to, y_first, waits);
          const int dx = std::abs(topology.x(from) - topology.x(to));
          const int dy = std::abs(topology.y(from) - topology.y(to));
          const std::uint64_t all = choose(dx + dy, dx);
          EXPECT_GE(ways, 1u);
          EXPECT_LE(ways, all);
          if (GetParam() == "adaptive") {
            EXPECT_EQ(ways, all);
          }
          if (GetParam() == "xy" || GetParam() == "yx" || GetParam() == "o1turn") {
            EXPECT_EQ(ways, 1u);
          }
          // West-first: no choice to the west, every way else.
          if (GetParam() == "west-first") {
            EXPECT_EQ(ways, topology.x(to) < topology.x(from) ? 1u : all);
          }
        }
      }
    }
    EXPECT_FALSE(has_cycle(waits));
  }
}

// On a torus the dateline classes keep the rings open; every way is a shortest one.
TEST(Routing, TorusRoutingIsShortestAndFreeOfDeadlocks) {
  for (const auto& [width, height] : {std::pair{4, 4}, {5, 3}, {6, 1}, {1, 7}, {3, 8}}) {
    MachineConfig m = mesh(width, height);
    m.torus = true;
    const Topology topology(m);
    for (const char* name : {"xy", "yx", "o1turn"}) {
      const auto routing = make_routing(name, topology);
      EXPECT_THAT(dependency_cycle(topology, *routing), IsEmpty()) << name;
      Waits waits;
      for (std::uint32_t from = 0; from < topology.tiles(); ++from) {
        for (std::uint32_t to = 0; to < topology.tiles(); ++to) {
          const auto around = [](int a, int b, int size) {
            return std::min((a - b + size) % size, (b - a + size) % size);
          };
          const auto [dx, dy] = topology.hops(from, to);
          EXPECT_EQ(std::abs(dx), around(topology.x(from), topology.x(to), width));
          EXPECT_EQ(std::abs(dy), around(topology.y(from), topology.y(to), height));
          if (from == to) continue;
          for (const bool y_first : {false, true}) {
            EXPECT_EQ(follow(topology, *routing, from, to, y_first, waits), 1u);
          }
        }
      }
      EXPECT_FALSE(has_cycle(waits)) << name;
    }
    EXPECT_THROW(make_routing("adaptive", topology), InputError);
  }
}

// The same turns in one class of channels close a circle where the algorithm needs two: the checks
// above can fail.
class OneClass final : public Routing {
 public:
  explicit OneClass(std::unique_ptr<Routing> of) : of_(std::move(of)) {}
  Directions ways(const Packet& p, std::uint32_t t) const override { return of_->ways(p, t); }
  bool turns(Channel in, Channel out, std::uint32_t tile) const override {
    for (unsigned a = 0; a < of_->classes(); ++a) {
      for (unsigned b = 0; b < of_->classes(); ++b) {
        if (of_->turns({in.direction, a}, {out.direction, b}, tile)) return true;
      }
    }
    return false;
  }

 private:
  std::unique_ptr<Routing> of_;
};

TEST(Routing, AdaptiveAndO1TurnNeedTheirClasses) {
  const MachineConfig m = mesh(3, 3);
  const Topology topology(m);
  for (const char* name : {"adaptive", "o1turn"}) {
    const OneClass routing(make_routing(name, topology));
    EXPECT_FALSE(dependency_cycle(topology, routing).empty()) << name;
    EXPECT_THROW(check_deadlock_free(topology, routing, name), InputError);
  }
}

TEST(Routing, ATorusNeedsItsDateline) {
  MachineConfig m = mesh(5, 1);
  m.torus = true;
  const Topology topology(m);
  const OneClass routing(make_routing("xy", topology));
  EXPECT_EQ(dependency_cycle(topology, routing).size(), 5u);
}

TEST(Routing, UnknownNamesAreRefused) {
  const MachineConfig m = mesh(2, 2);
  const Topology topology(m);
  try {
    make_routing("zigzag", topology);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("allowed: xy, yx, west-first, odd-even, adaptive, o1turn"));
  }
}

TEST(Routing, O1TurnDrawsByPacketAndSeed) {
  const MachineConfig m = mesh(8, 8);
  const Topology topology(m);
  const auto one = make_routing("o1turn", topology, 1), two = make_routing("o1turn", topology, 2);
  Packet p = packet(topology, 3, 3, 42, false);
  int y_first = 0, different = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    one->draw(p, i);
    const bool first = p.way;
    y_first += first;
    two->draw(p, i);
    different += p.way != first;
    one->draw(p, i);
    EXPECT_EQ(p.way, first);
  }
  // Five standard deviations of 1000 throws of a coin are 79.
  EXPECT_NEAR(y_first, 500, 79);
  EXPECT_NEAR(different, 500, 79);
}

std::string bytes_by_link(const RunStatistics& r) {
  std::string text;
  for (const LinkStatistics& l : r.links) {
    if (l.bytes == 0) continue;
    text += std::to_string(index(l.from)) + ">" + std::to_string(index(l.to)) + ":" +
            std::to_string(l.bytes) + " ";
  }
  return text;
}

/// Two messages of 5000 bytes from one corner of 2 × 2 tiles to the other, at once: their end.
std::string two_messages(const std::string& routing, std::uint32_t from, std::uint32_t to) {
  return in_child([&] {
    MachineConfig m = mesh(2, 2);
    m.noc.routing = routing;
    Script s;
    const std::uint16_t w = s.channel("wire");
    const auto send = s.segment("send", [&](Code& c) {
      c.send(w, 0, {5000});
      c.send(w, 0, {5000});
    });
    const auto receive = s.segment("receive", [&](Code& c) {
      c.recv(w, 0, {5000});
      c.recv(w, 0, {5000});
    });
    s.group("A", {tile(from)}, send).peers = {{tile(to)}};
    s.group("B", {tile(to)}, receive).peers = {{tile(from)}};
    const RunStatistics& r = s.run(m);
    return bytes_by_link(r) + std::to_string(r.end);
  });
}

// Two hops of 2000 ps and 1 ps per byte: 9000 side by side, 14000 one after the other.
TEST(Routing, AFreeLinkIsTakenWhereThereIsAChoice) {
  EXPECT_EQ(two_messages("xy", 0, 3), "0>1:10000 1>3:10000 14000");
  EXPECT_EQ(two_messages("yx", 0, 3), "0>2:10000 2>3:10000 14000");
  for (const char* name : {"west-first", "odd-even", "adaptive"}) {
    EXPECT_EQ(two_messages(name, 0, 3), "0>1:5000 0>2:5000 1>3:5000 2>3:5000 9000") << name;
  }
  // To the west, west-first has no choice; odd-even has it in even columns only.
  EXPECT_EQ(two_messages("west-first", 1, 2), "0>2:10000 1>0:10000 14000");
  EXPECT_EQ(two_messages("odd-even", 1, 2), "0>2:10000 1>0:10000 14000");
  EXPECT_EQ(two_messages("adaptive", 1, 2), "0>2:5000 1>0:5000 1>3:5000 3>2:5000 9000");
}

// The second, short message is there first, and is received second.
TEST_P(EveryRouting, MessagesAreReceivedInTheOrderOfTheirSends) {
  MachineConfig m = mesh(4, 4);
  m.noc.routing = GetParam();
  Script s;
  const std::uint16_t w = s.channel("wire");
  const auto size = [](std::uint64_t i) { return 1 + i * 7919 % 20011; };
  const auto send = s.segment("send", [&](Code& c) {
    for (std::uint64_t i = 0; i < 60; ++i) c.send(w, 0, {size(i)});
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    for (std::uint64_t i = 0; i < 60; ++i) c.recv(w, 0, {size(i)});
  });
  s.group("A", {tile(0)}, send, 2).peers = {{tile(15)}};
  s.group("B", {tile(15)}, receive, 2).peers = {{tile(0)}};
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.messages, 120u);
  EXPECT_EQ(r.tiles[tile(15)].bytes_received, r.tiles[tile(0)].bytes_sent);
}

TEST(Routing, AnOvertakingMessageWaitsForTheOneBefore) {
  MachineConfig m = mesh(2, 2);
  m.noc.routing = "adaptive";
  Script s;
  const std::uint16_t w = s.channel("wire");
  const auto shape = s.matrix_shape(1000);
  const auto send = s.segment("send", [&](Code& c) {
    c.send(w, 0, {50000});
    c.send(w, 0, {1});
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    const auto first = c.recv(w, 0, {50000});
    const auto second = c.recv(w, 0, {1});
    c.compute(Engine::matrix, shape, 1, {first, second});
  });
  s.group("A", {tile(0)}, send).peers = {{tile(3)}};
  s.group("B", {tile(3)}, receive).peers = {{tile(0)}};
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(3)].finish, 4000u + 50000u + 1000u);
  EXPECT_EQ(state(r, tile(3), TileState::tensor_wait), 54000u);
}

/// Every tile of 8 × 8 sends 20 messages to its mirror image at the diagonal.
Script transpose() {
  Script s;
  const std::uint16_t w = s.channel("wire");
  const auto exchange = s.segment("exchange", [&](Code& c) {
    for (int i = 0; i < 20; ++i) c.send(w, 0, {1000});
    for (int i = 0; i < 20; ++i) c.recv(w, 0, {1000});
  });
  std::vector<TileId> tiles, peers;
  for (std::uint32_t t = 0; t < 64; ++t) {
    if (t / 8 == t % 8) continue;
    tiles.push_back(tile(t));
    peers.push_back(tile(t % 8 * 8 + t / 8));
  }
  s.group("G", tiles, exchange).peers = {peers};
  return s;
}

TEST_P(EveryRouting, DoesNotDependOnTheOrderOfConstruction) {
  const auto work = [](bool reverse) {
    return in_child([reverse] {
      MachineConfig m = mesh(8, 8);
      m.noc.routing = GetParam();
      return fingerprint(transpose().run(m, reverse));
    });
  };
  const std::string once = work(false);
  EXPECT_EQ(once, work(false));
  EXPECT_EQ(once, work(true));
  EXPECT_THAT(once, testing::Not(HasSubstr("exception")));
}

// Dimension order sends all of a row's transposed traffic through one corner.
TEST(Routing, ChoicesRelieveTheTransposedTraffic) {
  std::map<std::string, Picoseconds> end;
  for (const std::string& name : routing_names()) {
    end[name] = std::stoull(in_child([&] {
      MachineConfig m = mesh(8, 8);
      m.noc.routing = name;
      return std::to_string(transpose().run(m).end);
    }));
  }
  EXPECT_EQ(end["xy"], end["yx"]);
  EXPECT_LT(end["adaptive"], 0.8 * static_cast<double>(end["xy"]));
  EXPECT_LT(end["odd-even"], 0.9 * static_cast<double>(end["xy"]));  // fewer ways
  EXPECT_LT(end["o1turn"], 0.8 * static_cast<double>(end["xy"]));
}

INSTANTIATE_TEST_SUITE_P(Names, EveryRouting, testing::ValuesIn(routing_names()),
                         [](const auto& n) {
                           std::string name = n.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tilewright::test
