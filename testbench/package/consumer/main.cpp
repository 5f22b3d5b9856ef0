// Runs a tile program on a machine and prints the iteration time in picoseconds. The SystemC
// library brings main(), which calls sc_main().
#include <cstdio>
#include <exception>

#include <systemc>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/text.h>
#include <tilewright/simulate/replay.h>

int sc_main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: consumer PLATFORM PROGRAM\n");
    return 2;
  }
  const auto document = tilewright::Document::load(argv[1], "platform");
  const auto machine = tilewright::read_machine(document);
  const auto program = tilewright::load_program(argv[2]);
  const auto result = tilewright::replay(machine, program, "consumer");
  std::printf("iteration %.0f ps\n", result.iteration_time.value() * 1e12);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "consumer: %s\n", error.what());
  return tilewright::exit_code(error);
}
