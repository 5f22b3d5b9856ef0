// bench_network ring|uniform [WIDTH HEIGHT [CALLS]]: message-hops per CPU second of a whole run,
// programs, sockets, attribution and kernel time in step included.
//
// ring: groups of 16 tiles, each an all-reduce ring. uniform: random permutations, paced by vector
// operators to about a third of the bisection's capacity.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <support/script.h>
#include <unistd.h>

#include "usage.h"

using namespace tilewright;

namespace {

test::Script ring(const MachineConfig& m, std::size_t calls) {
  test::Script s;
  const std::uint16_t channel = s.channel("ring");
  const auto segment = s.segment(
      "all-reduce", [&](test::Code& c) { test::ring_all_reduce(c, channel, 16, 262144); });
  // Groups are 8×2 or 2×8 blocks where they fit, walked round; what is left over stays idle.
  const int w = m.width() >= 8 ? 8 : 2, h = 16 / w;
  for (int y0 = 0; y0 + h <= m.height(); y0 += h) {
    for (int x0 = 0; x0 + w <= m.width(); x0 += w) {
      std::vector<TileId> tiles;
      if (w == 8) {
        for (int x = 0; x < w; ++x) tiles.push_back(m.tile(x0 + x, y0));
        for (int x = w; x-- > 0;) tiles.push_back(m.tile(x0 + x, y0 + 1));
      } else {
        for (int y = 0; y < h; ++y) tiles.push_back(m.tile(x0, y0 + y));
        for (int y = h; y-- > 0;) tiles.push_back(m.tile(x0 + 1, y0 + y));
      }
      s.group("ring", tiles, segment, calls).peers = test::ring_peers(tiles);
    }
  }
  return s;
}

test::Script uniform(const MachineConfig& m, std::size_t calls) {
  test::Script s;
  std::mt19937 random(1);
  std::vector<TileId> tiles;
  for (int t = 0; t < m.tiles(); ++t) tiles.push_back(static_cast<TileId>(t));
  constexpr std::uint32_t kRounds = 32;
  constexpr std::uint64_t kBytes = 16384;
  // Half of the messages cross the middle; in one direction a quarter, over `height` links.
  const double tiles_per_link = static_cast<double>(m.width()) / 4;
  const double pace = static_cast<double>(kBytes) * tiles_per_link / 0.3;
  const auto shape = s.vector_shape(pace);
  std::vector<std::vector<TileId>> peers;
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    s.channel("round " + std::to_string(round));
    std::vector<TileId> to = tiles, from(tiles.size());
    std::shuffle(to.begin(), to.end(), random);
    for (std::size_t i = 0; i < to.size(); ++i) from[index(to[i])] = tiles[i];
    peers.push_back(to);
    peers.push_back(from);
  }
  const auto segment = s.segment("uniform", [&](test::Code& c) {
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const auto paced = c.compute(Engine::vector, shape);
      c.send(static_cast<std::uint16_t>(round), 2 * round, {kBytes}, {paced});
      c.recv(static_cast<std::uint16_t>(round), 2 * round + 1, {kBytes});
    }
  });
  s.group("uniform", tiles, segment, calls).peers = peers;
  return s;
}

}  // namespace

int sc_main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "ring";
  const int width = argc > 2 ? std::atoi(argv[2]) : 20;
  const int height = argc > 3 ? std::atoi(argv[3]) : 16;
  const std::size_t calls = argc > 4 ? static_cast<std::size_t>(std::atoi(argv[4])) : 100;
  if (kind != "ring" && kind != "uniform") {
    std::fprintf(stderr, "usage: bench_network ring|uniform [WIDTH HEIGHT [CALLS]]\n");
    return 2;
  }
  MachineConfig machine = test::mesh(width, height);
  test::Script script = kind == "ring" ? ring(machine, calls) : uniform(machine, calls);
  script.streams();
  const double before = bench::cpu_seconds();
  Platform platform("machine", machine, script.program);
  const double built = bench::cpu_seconds();
  platform.run();
  const double seconds = bench::cpu_seconds() - built;
  const RunStatistics& r = platform.statistics();
  const auto hops = static_cast<double>(r.message_hops);
  std::printf(
      "%s %dx%d  elaborate %.3f s  run %.3f s CPU  hops %.3g  events %.3g  messages %.3g  "
      "%.2f M hops/s  %.2f M events/s  %.0f MB  end %.6g s\n",
      kind.c_str(), width, height, built - before, seconds, hops, static_cast<double>(r.events),
      static_cast<double>(r.messages), hops / seconds * 1e-6,
      static_cast<double>(r.events) / seconds * 1e-6, bench::peak_megabytes(),
      to_seconds(r.end).value());
  std::fflush(stdout);
  _exit(0);
}
