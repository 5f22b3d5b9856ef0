// A machine for tests that count bytes: nothing about its speed matters.
#pragma once

#include <tilewright/machine/machine.h>

namespace tilewright::test {

/// A mesh of width × height tiles without DRAM: 1 TFLOP/s, 1 Telem/s, 1 GB of SRAM, links of 1 TB/s
/// and 1 ns.
inline MachineConfig plain_mesh(int width, int height) {
  MachineConfig m;
  m.name = "mesh";
  m.tiles_x = width;
  m.tiles_y = height;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1e9);
  m.noc.link = m.noc.die_link = {Bandwidth(1e12), Seconds(1e-9)};
  return m;
}

}  // namespace tilewright::test
