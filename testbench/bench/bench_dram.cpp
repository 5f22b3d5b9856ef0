// bench_dram MEMORY READERS WRITERS [MIB [exact|averaged]]: bursts per CPU second of a banked
// memory (platforms/memories/MEMORY.yaml) of one channel, from which so many requesters read and
// write MIB each, at places far from each other.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <systemc>
#include <unistd.h>

#include <tilewright/hardware/dram_model.h>
#include <tilewright/machine/machine.h>

#include "usage.h"

using namespace tilewright;

int sc_main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "hbm2-2.0";
  const int readers = argc > 2 ? std::atoi(argv[2]) : 4,
            writers = argc > 3 ? std::atoi(argv[3]) : 2;
  const auto bytes = static_cast<std::uint64_t>(argc > 4 ? std::atoll(argv[4]) : 16) << 20;
  DramConfig d;
  d.model = "banked";
  d.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/" + name + ".yaml", "memory"));
  d.part.channels = 1;
  d.streams =
      argc > 5 && std::string(argv[5]) == "averaged" ? DramStreams::averaged : DramStreams::exact;
  const auto model = make_dram_model(d);
  const int requesters = readers + writers;
  const double start = bench::cpu_seconds();
  for (int r = 0; r < requesters; ++r) {
    const auto number = static_cast<std::uint32_t>(r);
    // A little more than so many whole rows apart: each begins in another bank.
    model->add(0, number, number * (bytes + 72 * static_cast<std::uint64_t>(d.part.burst.value())),
               bytes, r >= readers, number);
  }
  Picoseconds now = 0;
  for (int done = 0; done < requesters;) {
    now = model->next();
    DramModel::Completion c;
    while (model->pop(now, c)) ++done;
  }
  const double seconds = bench::cpu_seconds() - start;
  const double moved = static_cast<double>(bytes) * requesters;
  std::printf("%s %d readers %d writers  %.3f s CPU  %.2f M bursts/s  efficiency %.3f\n",
              name.c_str(), readers, writers, seconds,
              moved / d.part.burst.value() / seconds * 1e-6,
              moved / (static_cast<double>(now) * 1e-12) / d.part.bandwidth().value());
  std::fflush(stdout);
  _exit(0);
}
