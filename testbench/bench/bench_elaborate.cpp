// bench_elaborate WIDTH HEIGHT: CPU time and memory of construction, binding and the first delta.
#include <cstdio>
#include <cstdlib>

#include <support/script.h>
#include <unistd.h>

#include "usage.h"

using namespace tilewright;

int sc_main(int argc, char** argv) {
  const int width = argc > 1 ? std::atoi(argv[1]) : 354;
  const int height = argc > 2 ? std::atoi(argv[2]) : 25;
  MachineConfig machine = test::mesh(width, height);
  for (int y = 0; y < height; ++y) {
    machine.dram.sites.emplace_back(0, y);
    if (width > 1) machine.dram.sites.emplace_back(width - 1, y);
  }
  const Program program;
  const double before = bench::cpu_seconds();
  Platform platform("machine", machine, program);
  const double built = bench::cpu_seconds();
  platform.run();
  const double started = bench::cpu_seconds();
  std::printf(
      "tiles %d  construct+bind %.3f s  first delta %.3f s  total %.3f s CPU  peak %.0f MB\n",
      width * height, built - before, started - built, started - before, bench::peak_megabytes());
  std::fflush(stdout);
  _exit(0);
}
