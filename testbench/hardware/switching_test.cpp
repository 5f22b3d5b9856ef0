// Store-and-forward and circuit switching against cut-through: closed forms.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

MachineConfig with(MachineConfig m, const std::string& switching) {
  m.noc.switching = switching;
  return m;
}

struct Flow {
  std::uint32_t from, to;
  std::uint64_t bytes;
};

/// Messages that are sent at once, by different tiles or one after the other by one: when each
/// arrives.
std::vector<Picoseconds> arrivals(const MachineConfig& m, const std::vector<Flow>& flows) {
  const std::string text = in_child([&] {
    Script s;
    const auto tiles = static_cast<std::size_t>(m.tiles());
    std::vector<std::vector<std::vector<TileId>>> peers_out(tiles), peers_in(tiles);
    std::vector<std::vector<Instruction>> out(tiles), in(tiles);
    for (const Flow& f : flows) {
      const std::uint16_t c = s.channel(std::to_string(f.from) + ">" + std::to_string(f.to));
      Segment scratch;
      Code code(scratch);
      code.send(c, static_cast<std::uint32_t>(peers_out[f.from].size()), {f.bytes});
      code.recv(c, 0, {f.bytes});
      out[f.from].push_back(scratch.code[0]);
      peers_out[f.from].push_back({tile(f.to)});
      in[f.to].push_back(scratch.code[1]);
      peers_in[f.to].push_back({tile(f.from)});
    }
    for (std::uint32_t t = 0; t < static_cast<std::uint32_t>(m.tiles()); ++t) {
      if (out[t].empty() && in[t].empty()) continue;
      const auto segment = s.segment("t" + std::to_string(t), [&](Code& c) {
        for (const Instruction& i : out[t]) c.add(i);
        for (Instruction i : in[t]) {
          i.operand += static_cast<std::uint32_t>(peers_out[t].size());
          c.add(i);
        }
      });
      auto& group = s.group("T" + std::to_string(t), {tile(t)}, segment);
      group.peers = peers_out[t];
      group.peers.insert(group.peers.end(), peers_in[t].begin(), peers_in[t].end());
    }
    const RunStatistics& r = s.run(m);
    std::string result;
    for (const Flow& f : flows) result += std::to_string(r.tiles[tile(f.to)].finish) + " ";
    return result;
  });
  EXPECT_THAT(text, testing::Not(HasSubstr("exception"))) << text;
  std::vector<Picoseconds> times;
  std::istringstream stream(text);
  for (Picoseconds t = 0; stream >> t;) times.push_back(t);
  return times;
}

Picoseconds alone(const MachineConfig& m, std::uint32_t from, std::uint32_t to,
                  std::uint64_t bytes) {
  return arrivals(m, {{from, to, bytes}}).front();
}

TEST(Switching, OneMessageOverSixHops) {
  const MachineConfig m = mesh(4, 4);
  EXPECT_EQ(alone(with(m, "cut-through"), 15, 0, 5000), 6u * 2000 + 5000);
  EXPECT_EQ(alone(with(m, "store-and-forward"), 15, 0, 5000), 6u * (2000 + 5000));
  EXPECT_EQ(alone(with(m, "circuit"), 15, 0, 5000), 6u * 2000 + 5000);
}

// Tile links 1 ps per byte and 2 ns, the die link in the middle 4 ps per byte and 10 ns.
TEST(Switching, EveryLinkCountsOnceMoreWhereItStores) {
  MachineConfig m = mesh(2, 1);
  m.dies_x = 2;
  EXPECT_EQ(alone(with(m, "cut-through"), 0, 3, 1000), 14000u + 4000u);
  EXPECT_EQ(alone(with(m, "store-and-forward"), 0, 3, 1000), 14000u + 1000u + 4000u + 1000u);
  EXPECT_EQ(alone(with(m, "circuit"), 0, 3, 1000), 14000u + 4000u);
}

// A train of k messages over h links: the last one follows (k - 1) n behind the first.
TEST(Switching, AStoredTrainIsAPipeline) {
  const std::vector<Flow> train(5, Flow{0, 3, 1000});
  const MachineConfig m = with(mesh(4, 1), "store-and-forward");
  EXPECT_EQ(arrivals(m, train).front(), 3u * (2000 + 1000) + 4 * 1000);
  // A circuit is torn down in between: each takes all of its time.
  EXPECT_EQ(arrivals(with(mesh(4, 1), "circuit"), train).front(), 5u * (3 * 2000 + 1000));
}

// Three messages along a row of tiles, from 3 towards 0: a long one from 2, one from 3 that needs
// its link, and another from 3 that needs only the link before. With circuits the second waits for
// the long one and holds its first link meanwhile, so the third waits too, though that link is
// idle.
TEST(Switching, ACircuitThatWaitsBlocksWhatItHolds) {
  const std::vector<Flow> flows{{2, 1, 50000}, {3, 0, 10000}, {3, 2, 10000}};
  const MachineConfig m = mesh(4, 1);
  const auto circuit = arrivals(with(m, "circuit"), flows);
  const Picoseconds first = 50000 + 2000, second = first + 10000 + 3 * 2000;
  EXPECT_EQ(circuit[0], first);
  EXPECT_EQ(circuit[1], second);
  EXPECT_EQ(circuit[2], second + 10000 + 2000);
  const auto through = arrivals(with(m, "cut-through"), flows);
  EXPECT_EQ(through[1], 50000u + 10000u + 2 * 2000u);
  EXPECT_EQ(through[2], 2 * 10000u + 2000u);
}

// Controller at tile 0, 100 ns and 2 ps per byte; tile 2 is two hops away.
TEST(Switching, LoadsAndStores) {
  MachineConfig m = mesh(3, 1);
  m.dram.sites = {{0, 0}};
  const auto end = [&](const std::string& switching, bool store) {
    return std::stoull(in_child([&] {
      Script s;
      const auto move = s.segment("move", [&](Code& c) { store ? c.store(1000) : c.load(1000); });
      s.group("G", {tile(2)}, move);
      return std::to_string(s.run(with(m, switching)).end);
    }));
  };
  // Load: request, controller, and the data has streamed over the first link beside it.
  EXPECT_EQ(end("cut-through", false), 4000u + 100000u + 2000u + 4000u);
  EXPECT_EQ(end("store-and-forward", false), 4000u + 100000u + 2000u + 4000u + 1000u);
  EXPECT_EQ(end("circuit", false), 4000u + 100000u + 2000u + 4000u);
  // Store: the controller begins with the head, which store-and-forward brings with the tail.
  EXPECT_EQ(end("cut-through", true), 4000u + 100000u + 2000u + 4000u);
  EXPECT_EQ(end("store-and-forward", true), 2 * 3000u + 100000u + 2000u + 4000u);
  EXPECT_EQ(end("circuit", true), 4000u + 100000u + 2000u + 4000u);
}

TEST(Switching, RingAllReduceMatchesTheClosedForm) {
  for (const char* name : {"cut-through", "store-and-forward", "circuit"}) {
    EXPECT_EQ(in_child([name] {
                Script s;
                const std::uint16_t w = s.channel("ring");
                const auto ring =
                    s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 4, 16000); });
                const std::vector<TileId> tiles{tile(0), tile(1), tile(3), tile(2)};
                s.group("G", tiles, ring).peers = ring_peers(tiles);
                return std::to_string(s.run(with(mesh(2, 2), name)).end);
              }),
              std::to_string(6 * (2000 + 4000)))
        << name;
  }
}

TEST(Switching, OrderOfConstructionDoesNotMatter) {
  for (const char* name : {"store-and-forward", "circuit"}) {
    const auto work = [name](bool reverse) {
      return in_child([name, reverse] {
        Script s;
        const std::uint16_t w = s.channel("ring");
        const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 16, 160001); });
        std::vector<TileId> tiles;
        for (std::uint32_t t = 0; t < 16; ++t) tiles.push_back(tile(t * 7 % 16));
        s.group("G", tiles, ring, 3).peers = ring_peers(tiles);
        return fingerprint(s.run(with(mesh(4, 4), name), reverse));
      });
    };
    const std::string once = work(false);
    EXPECT_EQ(once, work(true));
    EXPECT_THAT(once, testing::Not(HasSubstr("exception")));
  }
}

TEST(Switching, UnknownNamesAreRefused) {
  EXPECT_THAT(in_child([] {
                one_message(tile(0), tile(1), 1, 1).run(with(mesh(2, 1), "wormhole"));
                return std::string();
              }),
              HasSubstr("allowed: cut-through, store-and-forward, circuit"));
}

}  // namespace
}  // namespace tilewright::test
