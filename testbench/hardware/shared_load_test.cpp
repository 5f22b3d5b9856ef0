// Loads that several tiles make together: hand-computed times and bytes.
#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

// DRAM: 100 ns, then 2 ps per byte. Links: 2 ns and 1 ps per byte.
MachineConfig machine(int width, int height, std::vector<std::pair<int, int>> sites = {{0, 0}}) {
  MachineConfig m = mesh(width, height);
  m.dram.sites = std::move(sites);
  m.noc.multicast = true;
  return m;
}

std::uint32_t shared_load(Code& c, std::uint64_t bytes, std::uint64_t head = 0,
                          const Code::After& after = {}) {
  const std::uint32_t load = c.load(bytes, after);
  c[load].shared = true;
  c[load].head = head;
  return load;
}

std::vector<TileId> tiles_of(const std::vector<std::uint32_t>& numbers) {
  std::vector<TileId> tiles;
  for (const std::uint32_t n : numbers) tiles.push_back(tile(n));
  return tiles;
}

/// One group whose tiles share every load.
TileGroup& sharing_group(Script& s, const std::vector<std::uint32_t>& tiles,
                         std::uint32_t segment) {
  TileGroup& g = s.group("A", tiles_of(tiles), segment);
  g.peers = {std::vector<TileId>(tiles.size(), tile(tiles.front()))};
  return g;
}

Script all_share(const std::vector<std::uint32_t>& tiles, std::uint64_t bytes,
                 std::uint64_t head = 0) {
  Script s;
  sharing_group(s, tiles, s.segment("load", [&](Code& c) { shared_load(c, bytes, head); }));
  return s;
}

std::uint64_t bytes_of(const RunStatistics& r, std::uint32_t from, std::uint32_t to) {
  for (const LinkStatistics& l : r.links) {
    if (index(l.from) == from && index(l.to) == to) return l.bytes;
  }
  return 0;
}

// The request of tile 3 comes to the site after three hops; the data leaves once for all.
TEST(SharedLoad, ARowOfFourReadsOnceAndEveryLinkCarriesItOnce) {
  Script s = all_share({0, 1, 2, 3}, 10000);
  const RunStatistics& r = s.run(machine(4, 1));
  const Picoseconds read = 6000u + 100000u + 20000u;
  for (std::uint32_t t = 0; t < 4; ++t) EXPECT_EQ(r.tiles[tile(t)].finish, read + t * 2000u) << t;
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 10000u);
  EXPECT_EQ(r.dram[DramId{0}].busy, 20000u);
  EXPECT_EQ(r.message_hops, 3u);
  for (std::uint32_t t = 0; t < 3; ++t) EXPECT_EQ(bytes_of(r, t, t + 1), 10000u) << t;
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::memory)], 40000u);  // what tiles load
  EXPECT_EQ(state(r, tile(3), TileState::dram_wait), r.tiles[tile(3)].finish);
}

// The same without sharing: the controller reads four times, the links carry each tile's own.
TEST(SharedLoad, WithoutItFourTilesReadFourTimes) {
  Script s = all_share({0, 1, 2, 3}, 10000);
  s.program.segments[0].code[0].shared = false;
  const RunStatistics& r = s.run(machine(4, 1));
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 40000u);
  EXPECT_EQ(r.message_hops, 6u);
  for (std::uint32_t t = 0; t < 3; ++t) EXPECT_EQ(bytes_of(r, t, t + 1), (3 - t) * 10000u) << t;
  EXPECT_GE(r.end, 100000u + 4 * 20000u);
}

TEST(SharedLoad, OverSlowLinksTheDataStreamsFromItsFirstByteOn) {
  MachineConfig m = machine(4, 1);
  m.noc.link.bandwidth = Bandwidth(0.25e12);  // 4 ps per byte
  Script s = all_share({1, 2, 3}, 10000);
  const RunStatistics& r = s.run(m);
  for (std::uint32_t t = 1; t < 4; ++t) {
    EXPECT_EQ(r.tiles[tile(t)].finish, 6000u + 100000u + 40000u + t * 2000u) << t;
  }
}

TEST(SharedLoad, StoreAndForwardTakesEveryLinkInTurn) {
  MachineConfig m = machine(4, 1);
  m.noc.switching = "store-and-forward";
  Script s = all_share({1, 3}, 10000);
  const RunStatistics& r = s.run(m);
  // The first link keeps pace with the controller, each further one takes the whole again.
  EXPECT_EQ(r.tiles[tile(1)].finish, 6000u + 120000u + 2000u);
  EXPECT_EQ(r.tiles[tile(3)].finish, 6000u + 120000u + 2000u + 2 * (10000u + 2000u));
  EXPECT_EQ(bytes_of(r, 0, 1), 10000u);
}

TEST(SharedLoad, TheTreeOfXyRoutingBranchesWhereWaysPart) {
  Script s = all_share({1, 4, 5, 8}, 10000);
  const RunStatistics& r = s.run(machine(3, 3));
  const std::set<std::pair<std::uint32_t, std::uint32_t>> tree{
      {0, 1}, {1, 4}, {1, 2}, {2, 5}, {5, 8}};
  for (const LinkStatistics& l : r.links) {
    const bool used = tree.count({index(l.from), index(l.to)}) > 0;
    EXPECT_EQ(l.bytes, used ? 10000u : 0u) << index(l.from) << " to " << index(l.to);
    EXPECT_EQ(l.messages, used ? 1u : 0u);
  }
  const Picoseconds read = 4 * 2000u + 120000u;  // the request of (2,2)
  EXPECT_EQ(r.tiles[tile(1)].finish, read + 2000u);
  EXPECT_EQ(r.tiles[tile(4)].finish, read + 4000u);
  EXPECT_EQ(r.tiles[tile(5)].finish, read + 6000u);
  EXPECT_EQ(r.tiles[tile(8)].finish, read + 8000u);
}

TEST(SharedLoad, BeginsWhenTheLastTileHasMadeIt) {
  Script s;
  const std::uint32_t shape = s.matrix_shape(1e6);  // 1 us
  sharing_group(s, {1, 2}, s.segment("early", [](Code& c) { shared_load(c, 10000); }));
  const auto late = s.segment(
      "late", [&](Code& c) { shared_load(c, 10000, 0, {c.compute(Engine::matrix, shape)}); });
  s.group("B", {tile(3)}, late).peers = {{tile(1)}};
  const RunStatistics& r = s.run(machine(4, 1));
  const Picoseconds read = 1000000u + 6000u + 120000u;
  for (std::uint32_t t = 1; t < 4; ++t) EXPECT_EQ(r.tiles[tile(t)].finish, read + t * 2000u) << t;
  EXPECT_EQ(state(r, tile(1), TileState::dram_wait), r.tiles[tile(1)].finish);
}

// The links are full of a message until 200, 202 and 204 ns: the copy for each tile waits its turn
// and the next link's goes on behind it.
TEST(SharedLoad, WaitsForLinksThatOthersUse) {
  Script s;
  const std::uint16_t wire = s.channel("wire");
  sharing_group(s, {1, 2}, s.segment("load", [](Code& c) { shared_load(c, 10000); }));
  const auto send = s.segment("send", [&](Code& c) { c.send(wire, 0, {200000}); });
  const auto receive = s.segment("receive", [&](Code& c) {
    c.recv(wire, 0, {200000});
    c[shared_load(c, 10000)].operand = 1;
  });
  s.group("from", {tile(0)}, send).peers = {{tile(3)}};
  s.group("to", {tile(3)}, receive).peers = {{tile(0)}, {tile(1)}};
  s.program.groups[0].peers.push_back(s.program.groups[0].peers[0]);
  s.program.segments[0].code[0].operand = 1;
  const RunStatistics& r = s.run(machine(4, 1));
  EXPECT_EQ(r.tiles[tile(1)].finish, 212000u);
  EXPECT_EQ(r.tiles[tile(2)].finish, 214000u);
  EXPECT_EQ(r.tiles[tile(3)].finish, 216000u);
}

TEST(SharedLoad, EveryTileHearsOfItsHead) {
  Script s;
  const std::uint32_t shape = s.matrix_shape(1e6);  // 1 us
  const auto segment = s.segment("load", [&](Code& c) {
    const std::uint32_t load = shared_load(c, 10000, 1000);
    c.compute(Engine::matrix, shape, 1, {load | kHead});
  });
  sharing_group(s, {1, 3}, segment);
  const RunStatistics& r = s.run(machine(4, 1));
  // A computation begins when the first tenth is there.
  const auto head = [](std::uint32_t t) { return 6000u + 100000u + 2000u + t * 2000u; };
  for (const std::uint32_t t : {1u, 3u}) {
    EXPECT_EQ(r.tiles[tile(t)].finish, head(t) + 1000000u) << t;
    EXPECT_EQ(state(r, tile(t), TileState::dram_wait), head(t)) << t;
  }
  EXPECT_EQ(bytes_of(r, 0, 1), 10000u);  // the head's bytes too
}

TEST(SharedLoad, EveryControllerHasATreeOfItsOwn) {
  MachineConfig m = machine(3, 1, {{0, 0}, {2, 0}});
  m.dram.policy = DramPolicy::interleaved;
  Script s = all_share({0, 1, 2}, 10001);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 5001u);
  EXPECT_EQ(r.dram[DramId{1}].bytes_read, 5000u);
  EXPECT_EQ(bytes_of(r, 0, 1), 5001u);
  EXPECT_EQ(bytes_of(r, 1, 2), 5001u);
  EXPECT_EQ(bytes_of(r, 2, 1), 5000u);
  EXPECT_EQ(bytes_of(r, 1, 0), 5000u);
  // The ends wait for the part of the far controller, the middle for the larger one.
  EXPECT_EQ(r.tiles[tile(2)].finish, 4000u + 100000u + 10002u + 4000u);
  EXPECT_EQ(r.tiles[tile(0)].finish, 4000u + 100000u + 10000u + 4000u);
  EXPECT_EQ(r.tiles[tile(1)].finish, 4000u + 100000u + 10002u + 2000u);
}

TEST(SharedLoad, EveryPortOfAControllerHasATreeOfItsOwn) {
  MachineConfig m = machine(2, 2);
  m.dram.further_ports[DramId{0}] = {{0, 1}};
  Script s = all_share({0, 1, 2, 3}, 10000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 10000u);
  EXPECT_EQ(bytes_of(r, 0, 1), 10000u);
  EXPECT_EQ(bytes_of(r, 2, 3), 10000u);
  EXPECT_EQ(r.message_hops, 2u);
}

TEST(SharedLoad, ASwitchCopies) {
  MachineConfig m = machine(4, 1);
  m.noc.routing = "shortest";
  FabricConfig f;
  f.kinds = {{"port", {Bandwidth(1e12), Seconds(2e-9)}}};
  f.switches = {"hub"};
  for (std::uint32_t t = 0; t < 4; ++t) f.edges.push_back({t, 4, static_cast<LinkKind>(0)});
  m.fabric = f;
  Script s = all_share({1, 2, 3}, 10000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 4000u + 120000u + 4000u);
  EXPECT_EQ(r.message_hops, 4u);  // one link up, three down
}

// Tile 1's way from the controller leads round the dead link over tiles 2 and 3.
TEST(SharedLoad, GoesRoundDeadLinks) {
  MachineConfig m = machine(2, 2);
  m.defects.dead_links = {{tile(0), tile(1)}};
  Script s = all_share({1, 3}, 10000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.message_hops, 3u);
  EXPECT_EQ(bytes_of(r, 0, 2), 10000u);
  EXPECT_EQ(bytes_of(r, 2, 3), 10000u);
  EXPECT_EQ(bytes_of(r, 3, 1), 10000u);
  EXPECT_EQ(r.tiles[tile(1)].finish, r.tiles[tile(3)].finish + 2000u);
}

// A tile that is ahead makes its next load before others have made this one.
TEST(SharedLoad, LoadsMeetInOrder) {
  Script s;
  const std::uint32_t shape = s.matrix_shape(1e6);
  sharing_group(s, {1}, s.segment("ahead", [](Code& c) {
    for (int i = 0; i < 3; ++i) shared_load(c, 10000 + static_cast<std::uint64_t>(i));
  }));
  const auto behind = s.segment("behind", [&](Code& c) {
    std::uint32_t work = kNone;
    for (int i = 0; i < 3; ++i) {
      work = c.compute(Engine::matrix, shape, 1, work == kNone ? Code::After{} : Code::After{work});
      shared_load(c, 10000 + static_cast<std::uint64_t>(i), 0, {work});
    }
  });
  s.group("B", {tile(2)}, behind).peers = {{tile(1)}};
  const RunStatistics& r = s.run(machine(3, 1));
  EXPECT_EQ(r.tiles[tile(1)].finish, 3000000u + 4000u + 100000u + 20004u + 2000u);
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 30003u);
}

// One request each may be under way: only the tile that asks last has the shared one among its own,
// so that loads which wait for each other cannot fill them up.
TEST(SharedLoad, ALimitOfOutstandingRequestsDoesNotBlockIt) {
  MachineConfig m = machine(3, 1);
  m.dma.outstanding = 1;
  Script s;
  const auto segment = s.segment("load", [](Code& c) {
    for (int i = 0; i < 2; ++i) {
      shared_load(c, 10000);
      c.load(1000);
    }
  });
  sharing_group(s, {1, 2}, segment);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 2 * 10000u + 4 * 1000u);
}

TEST(SharedLoad, BackgroundCallsShareByTablesOfTheirOwn) {
  Script s;
  const auto front = s.segment("front", [](Code& c) { shared_load(c, 10000); });
  const auto back = s.segment("back", [](Code& c) { c[shared_load(c, 20000)].operand = 1; });
  TileGroup& g = sharing_group(s, {1, 2}, front);
  g.background = {Call{back, 0, 0}};
  g.peers.push_back(g.peers.front());
  const RunStatistics& r = s.run(machine(3, 1));
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 30000u);
}

// Whatever the routing: the controller reads once, no link carries more than one copy where each
// pair has one way, and every tile waits no less than when it is alone.
TEST(SharedLoad, EveryRoutingBringsItToEveryTile) {
  std::mt19937 random(7);
  for (const char* routing : {"xy", "yx", "west-first", "odd-even", "adaptive", "o1turn"}) {
    for (int trial = 0; trial < 3; ++trial) {
      const int width = 2 + static_cast<int>(random() % 4),
                height = 2 + static_cast<int>(random() % 4);
      std::vector<std::uint32_t> tiles;
      for (std::uint32_t t = 1; t < static_cast<std::uint32_t>(width * height); ++t) {
        if (random() % 2 == 0 || tiles.size() < 2) tiles.push_back(t);
      }
      const std::string result = in_child([&] {
        MachineConfig m = machine(width, height);
        m.noc.routing = routing;
        Script s = all_share(tiles, 4096);
        const RunStatistics& r = s.run(m);
        std::string text = std::to_string(r.dram[DramId{0}].bytes_read);
        std::uint64_t most = 0, into = 0;
        for (const LinkStatistics& l : r.links) {
          most = std::max(most, l.bytes);
          const std::uint32_t to = index(l.to);
          if (std::find(tiles.begin(), tiles.end(), to) != tiles.end()) into += l.bytes > 0 ? 1 : 0;
        }
        std::uint32_t hops = 0;  // of the farthest
        for (const std::uint32_t t : tiles) {
          hops = std::max(
              hops, t % static_cast<std::uint32_t>(width) + t / static_cast<std::uint32_t>(width));
        }
        return text + " " + std::to_string(most) + " " + std::to_string(into >= tiles.size()) +
               " " + std::to_string(r.end - (100000 + 8192 + 2 * hops * 2000));
      });
      EXPECT_EQ(result, "4096 4096 1 0") << routing << " " << width << "x" << height;
    }
  }
}

TEST(SharedLoad, TheAnswerDoesNotDependOnTheOrderOfConstruction) {
  const auto print = [](bool reverse) {
    return in_child([reverse] {
      Script s;
      const std::uint32_t shape = s.matrix_shape(5000);
      const auto segment = s.segment("mix", [&](Code& c) {
        for (int i = 0; i < 4; ++i) {
          const std::uint32_t load = shared_load(c, 9000, 1000);
          c.load(3000);
          c.store(2000, {c.compute(Engine::matrix, shape, 1, {load | kHead})});
        }
      });
      TileGroup& g = sharing_group(s, {0, 1, 2, 3, 4, 5, 6, 7, 8}, segment);
      for (std::size_t r = 4; r < 9; ++r) g.peers[0][r] = tile(4);
      return fingerprint(s.run(machine(3, 3, {{1, 1}}), reverse));
    });
  };
  EXPECT_EQ(print(false), print(true));
}

// --- Errors -------------------------------------------------------------------------------------

template <class Error>
std::string error_of(Script& s, const MachineConfig& m, Fidelity fidelity = Fidelity::message) {
  try {
    s.run(m, false, fidelity);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(SharedLoad, ATileThatNeverComesIsNamed) {
  Script s;
  const std::uint16_t wire = s.channel("go");
  sharing_group(s, {1}, s.segment("first", [&](Code& c) {
    const std::uint32_t load = shared_load(c, 10000);
    c[c.send(wire, 1, {100}, {load})].operand = 1;
  })).peers.push_back({tile(2)});
  const auto second = s.segment("second", [&](Code& c) {
    const std::uint32_t got = c.recv(wire, 1, {100});
    shared_load(c, 10000, 0, {got});
  });
  s.group("B", {tile(2)}, second).peers = {{tile(1)}, {tile(1)}};
  const std::string error = error_of<DeadlockError>(s, machine(3, 1));
  EXPECT_THAT(error, HasSubstr("tile (1,0) of A: dma_in waits for load to finish in first, shared "
                               "with tile (2,0), which has not come to it"));
  EXPECT_THAT(error, HasSubstr("they wait in a circle: tile (1,0) for tile (2,0) for tile (1,0)"));
}

TEST(SharedLoad, BytesThatDifferAreRefused) {
  Script s;
  sharing_group(s, {1}, s.segment("a", [](Code& c) { shared_load(c, 10000); }));
  s.group("B", {tile(2)}, s.segment("b", [](Code& c) { shared_load(c, 9999); })).peers = {
      {tile(1)}};
  EXPECT_THAT(error_of<InputError>(s, machine(3, 1)),
              HasSubstr("a load that tiles share differs between them: tile (1,0) loads 10000 "
                        "bytes (head 0) of the DRAM, tile (2,0) loads 9999 bytes (head 0)"));
}

TEST(SharedLoad, MachinesThatDoNotCopyRefuseIt) {
  MachineConfig m = machine(3, 1);
  m.noc.multicast = false;
  Script s = all_share({1, 2}, 100);
  EXPECT_THAT(error_of<InputError>(s, m), HasSubstr("tile (1,0) and tile (2,0) share loads: the "
                                                    "network of the machine does not copy packets "
                                                    "(noc.multicast)"));
}

TEST(SharedLoad, FlitFidelityRefusesIt) {
  MachineConfig m = machine(3, 1);
  m.noc.flit.clock = Frequency(2e9);
  Script s = all_share({1, 2}, 100);
  EXPECT_THAT(error_of<InputError>(s, m, Fidelity::flit),
              HasSubstr("at fidelity flit no router copies flits"));
}

TEST(SharedLoad, DifferentControllersAreRefused) {
  Script s = all_share({0, 3}, 100);
  EXPECT_THAT(
      error_of<InputError>(s, machine(4, 1, {{0, 0}, {3, 0}})),
      HasSubstr("tile (0,0) and tile (3,0) share loads, but their traffic goes to different "
                "controllers of the DRAM"));
}

}  // namespace
}  // namespace tilewright::test
