// A wafer of dies of tiles, elaborated by hand with a module for every die, running what a plan was
// lowered to.
#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <systemc>
#include <unistd.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>
#include <tilewright/hardware/backplane.h>
#include <tilewright/plan/lower.h>
#include <tilewright/workload/model.h>

using namespace tilewright;

namespace {

/// One die: its tiles with the links between them, and the DRAM controllers at its tiles.
class Die : public sc_core::sc_module {
 public:
  Die(const sc_core::sc_module_name& name, Backplane& backplane, const MachineConfig& machine,
      int die_x, int die_y)
      : sc_core::sc_module(name), machine_(machine) {
    for (int y = 0; y < machine.tiles_y; ++y) {
      for (int x = 0; x < machine.tiles_x; ++x) {
        const TileId id = machine.tile(die_x * machine.tiles_x + x, die_y * machine.tiles_y + y);
        const std::string tile_name = "t" + std::to_string(x) + "_" + std::to_string(y);
        tiles_.push_back(std::make_unique<Tile>(tile_name.c_str(), backplane.tile(id)));
        backplane.connect(*tiles_.back());
      }
    }
    for (int y = 0; y < machine.tiles_y; ++y) {
      for (int x = 0; x < machine.tiles_x; ++x) {
        if (x + 1 < machine.tiles_x) join(backplane, tile(x, y), Direction::east, tile(x + 1, y));
        if (y + 1 < machine.tiles_y) join(backplane, tile(x, y), Direction::south, tile(x, y + 1));
      }
    }
    for (std::uint32_t d = 0; d < machine.dram.sites.size(); ++d) {
      const auto [x, y] = machine.dram.sites[d];
      if (x / machine.tiles_x != die_x || y / machine.tiles_y != die_y) continue;
      const std::string number = std::to_string(d);
      ports_.push_back(std::make_unique<DramPort>(("dram_port" + number).c_str(),
                                                  backplane.dram_port(DramId{d})));
      drams_.push_back(std::make_unique<DramController>(("dram" + number).c_str(),
                                                        backplane.dram_controller(DramId{d})));
      ports_.back()->out.bind(drams_.back()->in);
    }
  }

  Tile& tile(int x, int y) { return *tiles_[static_cast<std::size_t>(y * machine_.tiles_x + x)]; }

  /// The links between two neighbours, one each way; `d` is east or south.
  static void join(Backplane& backplane, Tile& a, Direction d, Tile& b) {
    backplane.connect(a, d, b);
    backplane.connect(b, d == Direction::east ? Direction::west : Direction::north, a);
  }

 private:
  const MachineConfig& machine_;
  std::vector<std::unique_ptr<Tile>> tiles_;
  std::vector<std::unique_ptr<DramPort>> ports_;
  std::vector<std::unique_ptr<DramController>> drams_;
};

}  // namespace

int sc_main(int argc, char** argv) try {
  if (argc != 4) {
    throw InputError("usage: wafer PLATFORM MODEL PLAN (files as for `tilewright run`)");
  }
  const MachineConfig machine = read_machine(Document::load(argv[1], "platform"));
  if (machine.fabric || machine.torus || !machine.host.sites.empty()) {
    throw InputError(std::string(argv[1]) + ": wanted: a mesh, no torus, without host memory");
  }
  const PlanConfig plan = read_plan(Document::load(argv[3], "plan"));
  const ModelConfig model = read_model(Document::load(argv[2], "model"), plan.sequence);
  const LoweredPlan lowered = lower(build_graph(model), plan, machine);

  Backplane backplane(machine, lowered.program);
  std::vector<std::unique_ptr<Die>> dies;
  for (int y = 0; y < machine.dies_y; ++y) {
    for (int x = 0; x < machine.dies_x; ++x) {
      const std::string name = "die" + std::to_string(x) + "_" + std::to_string(y);
      dies.push_back(std::make_unique<Die>(name.c_str(), backplane, machine, x, y));
    }
  }
  const auto die = [&](int x, int y) -> Die& {
    return *dies[static_cast<std::size_t>(y * machine.dies_x + x)];
  };
  for (int y = 0; y < machine.dies_y; ++y) {
    for (int x = 0; x < machine.dies_x; ++x) {
      for (int i = 0; x + 1 < machine.dies_x && i < machine.tiles_y; ++i) {
        Die::join(backplane, die(x, y).tile(machine.tiles_x - 1, i), Direction::east,
                  die(x + 1, y).tile(0, i));
      }
      for (int i = 0; y + 1 < machine.dies_y && i < machine.tiles_x; ++i) {
        Die::join(backplane, die(x, y).tile(i, machine.tiles_y - 1), Direction::south,
                  die(x, y + 1).tile(i, 0));
      }
    }
  }

  backplane.run();
  const RunStatistics& s = backplane.statistics();
  std::printf("%zu dies, %d tiles, %zu DRAM controllers\n", dies.size(), machine.tiles(),
              machine.dram.sites.size());
  std::printf("iteration %.12g s, %llu messages\n", static_cast<double>(s.end) * 1e-12,
              static_cast<unsigned long long>(s.messages));
  std::fflush(stdout);
  _exit(0);  // the kernel takes quadratic time to take this many modules down
} catch (const std::exception& error) {
  std::fprintf(stderr, "wafer: %s\n", error.what());
  return exit_code(error);
}
