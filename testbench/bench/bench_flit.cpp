// bench_flit WIDTH HEIGHT LOAD [CYCLES [VCS [PACKET]]]: flit-hops per CPU second of the flit-level
// network under uniform traffic, sources, statistics and kernel time in step included. A flit-hop
// is a link between two routers passed by one flit.
#include <cstdio>
#include <cstdlib>

#include <support/flit_mesh.h>
#include <unistd.h>

#include "usage.h"

using namespace tilewright;

int sc_main(int argc, char** argv) {
  FlitConfig c =
      test::flit_mesh(argc > 1 ? std::atoi(argv[1]) : 8, argc > 2 ? std::atoi(argv[2]) : 8);
  c.virtual_channels = argc > 5 ? std::atoi(argv[5]) : 8;
  LoadOptions o;
  o.offered = argc > 3 ? std::atof(argv[3]) : 0.1;
  o.packet_flits = argc > 6 ? static_cast<std::uint32_t>(std::atoi(argv[6])) : 8;
  o.warmup = 1000;
  o.measure = argc > 4 ? static_cast<std::uint64_t>(std::atoll(argv[4])) : 20000;
  o.drain = 1000;

  const double start = bench::cpu_seconds();
  test::FlitBench& b = test::flit_bench(c);
  const double built = bench::cpu_seconds();
  const LoadResult r = b.run("uniform", o);
  const double seconds = bench::cpu_seconds() - built;
  FlitNetwork& n = b.network();
  std::uint64_t hops = 0;
  for (std::uint32_t t = 0; t < n.tiles(); ++t) {
    for (unsigned d = 0; d < kDirections; ++d) hops += n.flits(t, d);
  }
  const auto per_second = [seconds](std::uint64_t count) {
    return static_cast<double>(count) / seconds;
  };
  std::printf(
      "%dx%d uniform  load %.3f  accepted %.4f  elaborate %.3f s  run %.3f s CPU  %.2f M "
      "flit-hops/s  "
      "%.2f M router traversals/s  %.0f cycles/s  %.0f MB\n",
      c.width, c.height, o.offered, r.accepted, built - start, seconds, per_second(hops) * 1e-6,
      per_second(n.flit_hops()) * 1e-6, per_second(n.cycles()), bench::peak_megabytes());
  std::fflush(stdout);
  _exit(0);
}
