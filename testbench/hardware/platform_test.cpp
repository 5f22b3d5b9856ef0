// The answer does not depend on how the model was put together.
#include <random>

#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

// Permutation traffic over several channels, rings, DRAM traffic with ties everywhere.
Script busy_program(const MachineConfig& m) {
  Script s;
  std::mt19937 random(11);
  std::vector<TileId> tiles;
  for (int t = 0; t < m.tiles(); ++t) tiles.push_back(tile(static_cast<std::uint32_t>(t)));
  const auto v = s.vector_shape(1500);
  std::vector<std::vector<TileId>> peers = ring_peers(tiles);
  const std::uint16_t ring = s.channel("ring");
  std::vector<std::uint16_t> channels;
  for (int round = 0; round < 8; ++round) {
    channels.push_back(s.channel("round " + std::to_string(round)));
    std::vector<TileId> to = tiles, from(tiles.size());
    std::shuffle(to.begin(), to.end(), random);
    for (std::size_t i = 0; i < to.size(); ++i) from[index(to[i])] = tiles[i];
    peers.push_back(to);
    peers.push_back(from);
  }
  const auto segment = s.segment("busy", [&](Code& c) {
    std::uint32_t last = c.compute(Engine::vector, v);
    for (std::uint32_t round = 0; round < 8; ++round) {
      c.send(channels[round], 2 + 2 * round, {3000}, {last}, Cause::pipeline);
      const auto loaded = c.load(4000);
      c.recv(channels[round], 3 + 2 * round, {3000}, {}, Cause::pipeline);
      last = c.compute(Engine::vector, v, 1, {last, loaded});
      c.store(1000, {last});
    }
    ring_all_reduce(c, ring, static_cast<std::uint32_t>(tiles.size()), 5000);
  });
  s.group("G", tiles, segment, 6).peers = peers;
  return s;
}

MachineConfig machine() {
  MachineConfig m = mesh(4, 3);
  m.dies_x = 2;
  m.dies_y = 2;
  m.dram.policy = DramPolicy::interleaved;
  m.dram.sites = {{0, 0}, {7, 0}, {0, 5}, {7, 5}, {3, 2}};
  return m;
}

std::string run(bool reverse, MachineConfig m) {
  return in_child([&] {
    Script s = busy_program(m);
    return fingerprint(s.run(m, reverse));
  });
}

TEST(Platform, ReverseConstructionGivesTheSameStatistics) {
  const std::string forward = run(false, machine());
  EXPECT_EQ(forward.find("exception"), std::string::npos) << forward;
  EXPECT_GT(forward.size(), 1000u);
  EXPECT_EQ(forward, run(true, machine()));
  EXPECT_EQ(forward, run(false, machine()));
}

TEST(Platform, ReverseConstructionWithUnlimitedLinks) {
  MachineConfig m = machine();
  m.noc.link = {Bandwidth::unlimited(), Seconds(0)};
  m.noc.die_link = {Bandwidth::unlimited(), Seconds(0)};
  EXPECT_EQ(run(false, m), run(true, m));
}

TEST(Platform, ProgressReachesOne) {
  const MachineConfig m = machine();
  Script s = busy_program(m);
  s.streams();
  PlatformOptions options;
  double last = 0;
  options.progress = [&last](double f) {
    EXPECT_GE(f, last);
    last = f;
  };
  Platform platform("machine", m, s.program, options);
  platform.run();
  EXPECT_GT(last, 0.9);
  EXPECT_LE(last, 1.0);
  EXPECT_THROW(platform.run(), InternalError);
}

TEST(Platform, EmptyProgram) {
  Script s;
  const RunStatistics& r = s.run(mesh(2, 2));
  EXPECT_EQ(r.end, 0u);
  EXPECT_EQ(r.tiles.size(), 4u);
  EXPECT_EQ(r.links.size(), 8u);
}

TEST(Platform, CallsOfEmptySegments) {
  Script s;
  const auto nothing = s.segment("nothing", [](Code&) {});
  s.group("A", {tile(0)}, nothing, 20);
  EXPECT_EQ(s.run(mesh(2, 2)).end, 0u);
}

}  // namespace
}  // namespace tilewright::test
