// A mesh of 2 x 2 tiles with one DRAM controller, elaborated by hand: tile 0 loads a matrix and
// sends it to the opposite corner, where it is multiplied.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/hardware/backplane.h>
#include <tilewright/program/text.h>

using namespace tilewright;

namespace {

const char* const kProgram = R"(tilewright-program 1
channel wire
shape multiply: matrix format=fp16 m=512 n=512 k=512
segment fetch
  data: load "matrix" bytes=1MB
        send "matrix" channel=wire peers=0 bytes=1MB cause=pipeline after=data
segment use
  data: recv "matrix" channel=wire peers=0 bytes=1MB cause=pipeline
        compute "multiply" shape=multiply after=data
group corner
  tiles 0
  peers 0: 3
  call fetch
group opposite
  tiles 3
  peers 0: 0
  call use
)";

MachineConfig machine() {
  MachineConfig m;
  m.tiles_x = m.tiles_y = 2;
  m.matrix.peak["fp16"] = FlopRate(16e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(3 << 20);
  m.noc.link = {Bandwidth(1e12), Seconds(1e-9)};
  m.dram.bandwidth = Bandwidth(250e9);
  m.dram.capacity = Bytes(1e9);
  m.dram.latency = Seconds(100e-9);
  m.dram.sites = {{0, 0}};
  return m;
}

}  // namespace

int sc_main(int, char**) try {
  const Program program = parse_program(kProgram, "mesh-2x2");
  Backplane backplane(machine(), program);
  std::vector<std::unique_ptr<Tile>> tiles;
  for (std::uint32_t t = 0; t < 4; ++t) {
    const std::string name = "tile" + std::to_string(t);
    tiles.push_back(std::make_unique<Tile>(name.c_str(), backplane.tile(TileId{t})));
    backplane.connect(*tiles.back());
  }
  for (const std::size_t i : {0, 1}) {
    backplane.connect(*tiles[2 * i], Direction::east, *tiles[2 * i + 1]);
    backplane.connect(*tiles[2 * i + 1], Direction::west, *tiles[2 * i]);
    backplane.connect(*tiles[i], Direction::south, *tiles[i + 2]);
    backplane.connect(*tiles[i + 2], Direction::north, *tiles[i]);
  }
  DramPort port("dram_port", backplane.dram_port(DramId{0}));
  DramController dram("dram", backplane.dram_controller(DramId{0}));
  port.out.bind(dram.in);

  backplane.run();
  std::printf("done after %.6f us\n", static_cast<double>(backplane.statistics().end) * 1e-6);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "mesh-2x2: %s\n", error.what());
  return exit_code(error);
}
