// A mesh of 2 x 2 tiles, one of which multiplies in RTL: its matrix engine is a systolic array in
// SystemVerilog (rtl/), verilated, which computes real products. The other tiles are transaction
// level with the `systolic` model, and run the same program, so that both must take the same time.
//
//   rtl-tile [VCD]     VCD: record the run in this file, RTL and SystemC signals together
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/hardware/backplane.h>
#include <tilewright/machine/compute_model.h>
#include <tilewright/program/text.h>

#include "gemm_engine.h"
#include "merge_vcd.h"
#include "rtl_compute_unit.h"

using namespace tilewright;

namespace {

constexpr Picoseconds kPeriod = 1000;

// Products of all sorts of extents, ragged ones included: each tile computes them all and passes a
// message on round the ring.
const char* const kProgram = R"(tilewright-program 1
channel ring
shape square:   matrix format=int8 m=32 n=32 k=32
shape ragged:   matrix format=int8 m=13 n=29 k=17
shape row:      matrix format=int8 m=1  n=40 k=64
shape column:   matrix format=int8 m=40 n=1  k=7
shape shallow:  matrix format=int8 m=24 n=24 k=3
shape scalar:   matrix format=int8 m=1  n=1  k=1
shape add:      vector format=int8 elements=4096
segment products
  a: compute "square" shape=square
  b: compute "ragged" shape=ragged
     send "result" channel=ring peers=0 bytes=1KiB cause=tensor after=b
  r: recv "result" channel=ring peers=1 bytes=1KiB cause=tensor
  s: compute "add" shape=add after=r
     compute "row" shape=row after=s
     compute "column" shape=column
     compute "shallow" shape=shallow
     compute "scalar" shape=scalar
group all
  tiles 0 1 3 2
  peers 0: 1 3 2 0
  peers 1: 2 0 1 3
  call products
)";

MachineConfig machine() {
  MachineConfig m;
  m.tiles_x = m.tiles_y = 2;
  m.matrix.model = "systolic";
  m.matrix.peak["int8"] = FlopRate(2 * 8 * 8 * 1e9);
  m.matrix.systolic.rows = m.matrix.systolic.columns = 8;
  m.matrix.systolic.pipelined_folds = true;
  m.matrix.systolic.clock = Frequency(1e9);
  m.matrix.systolic.speed["int8"] = 1;
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1 << 20);
  m.noc.link = {Bandwidth(64e9), Seconds(1e-9)};
  return m;
}

rtl::Gemm random_operands(const ComputeShape& shape) {
  static std::mt19937 random(1);
  rtl::Gemm g;
  g.m = static_cast<std::uint32_t>(shape.m);
  g.n = static_cast<std::uint32_t>(shape.n);
  g.k = static_cast<std::uint32_t>(shape.k);
  g.a.resize(std::size_t{g.m} * g.k);
  g.b.resize(std::size_t{g.k} * g.n);
  for (auto& x : g.a) x = static_cast<std::int8_t>(random());
  for (auto& x : g.b) x = static_cast<std::int8_t>(random());
  return g;
}

std::size_t wrong_results(const rtl::Gemm& g) {
  std::size_t wrong = 0;
  for (std::uint32_t i = 0; i < g.m; ++i) {
    for (std::uint32_t j = 0; j < g.n; ++j) {
      std::int32_t sum = 0;
      for (std::uint32_t l = 0; l < g.k; ++l) sum += g.a[i * g.k + l] * g.b[l * g.n + j];
      wrong += sum != g.c[i * g.n + j];
    }
  }
  return wrong;
}

}  // namespace

int sc_main(int argc, char** argv) try {
  if (argc > 2) throw InputError("usage: rtl-tile [VCD]");
  if (argc == 2 && !std::ofstream(argv[1])) {
    throw InputError("VCD: cannot write '" + std::string(argv[1]) + "'");
  }
  const MachineConfig config = machine();
  const Program program = parse_program(kProgram, "rtl-tile");
  Backplane backplane(config, program);
  const TileId rtl_tile{3};
  std::vector<std::unique_ptr<Tile>> tiles;
  for (std::uint32_t t = 0; t < 4; ++t) {
    TileConfig tile = backplane.tile(TileId{t});
    tile.external_compute = tile.tile == index(rtl_tile);
    tiles.push_back(std::make_unique<Tile>(("tile" + std::to_string(t)).c_str(), tile));
    backplane.connect(*tiles.back());
  }
  for (const std::size_t i : {0, 1}) {
    backplane.connect(*tiles[2 * i], Direction::east, *tiles[2 * i + 1]);
    backplane.connect(*tiles[2 * i + 1], Direction::west, *tiles[2 * i]);
    backplane.connect(*tiles[i], Direction::south, *tiles[i + 2]);
    backplane.connect(*tiles[i + 2], Direction::north, *tiles[i]);
  }

  const auto engine = rtl::make_gemm_engine_8x8("engine", kPeriod);
  const SystolicArray model(config.matrix.systolic);
  sc_core::sc_signal<std::uint32_t> products{"products"}, extents_m{"m"}, extents_n{"n"};
  std::size_t products_done = 0, wrong = 0, differing = 0;
  std::printf("    m    n    k  RTL cycles  model cycles  wrong results\n");
  const auto operands = [&](const ComputeShape& shape) {
    extents_m.write(static_cast<std::uint32_t>(shape.m));
    extents_n.write(static_cast<std::uint32_t>(shape.n));
    return random_operands(shape);
  };
  const auto done = [&](const rtl::Gemm& g, std::uint64_t cycles) {
    const double expected = model.cycles({1, g.m, g.n, g.k, 2.0 * g.m * g.n * g.k});
    const std::size_t errors = wrong_results(g);
    std::printf("%5u%5u%5u%12llu%14.0f%15zu\n", g.m, g.n, g.k,
                static_cast<unsigned long long>(cycles), expected, errors);
    products.write(static_cast<std::uint32_t>(++products_done));
    wrong += errors;
    differing += static_cast<double>(cycles) != expected;
  };
  rtl::RtlComputeUnit unit("unit", {backplane, rtl_tile, *engine, true, operands, done});
  Tile& tile = *tiles[index(rtl_tile)];
  tile.compute_out.bind(unit.in);
  unit.vector.memory.bind(tile.sram.in);

  const std::string vcd = argc == 2 ? argv[1] : "";
  sc_core::sc_trace_file* systemc_trace = nullptr;
  if (!vcd.empty()) {
    systemc_trace = sc_core::sc_create_vcd_trace_file((vcd + ".systemc").c_str());
    systemc_trace->set_time_unit(1, sc_core::SC_PS);
    sc_core::sc_trace(systemc_trace, products, "unit.products");
    sc_core::sc_trace(systemc_trace, extents_m, "unit.m");
    sc_core::sc_trace(systemc_trace, extents_n, "unit.n");
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    engine->trace(vcd + ".rtl");
  }
  backplane.run();
  if (!vcd.empty()) {
    // What changes at an instant is written when time goes on.
    sc_core::sc_start(sc_core::sc_time(1, sc_core::SC_PS));
    sc_core::sc_close_vcd_trace_file(systemc_trace);
    engine->end_trace();
    rtl::merge_vcd({vcd + ".systemc.vcd", vcd + ".rtl"}, vcd);
    std::filesystem::remove(vcd + ".systemc.vcd");
    std::filesystem::remove(vcd + ".rtl");
  }

  const RunStatistics& s = backplane.statistics();
  for (std::uint32_t t = 0; t < 4; ++t) {
    std::printf("tile %u (%s): matrix engine busy for %llu ps\n", t,
                t == index(rtl_tile) ? "RTL" : "model",
                static_cast<unsigned long long>(s.tiles[TileId{t}].matrix_busy));
  }
  std::printf("%zu products, %zu of other duration than the model's, %zu wrong results\n",
              products_done, differing, wrong);
  return differing + wrong == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "rtl-tile: %s\n", error.what());
  return exit_code(error);
}
