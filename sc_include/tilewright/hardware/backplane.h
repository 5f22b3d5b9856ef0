// What the modules of a machine plug into.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/dram_controller.h>
#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/memory_system.h>
#include <tilewright/hardware/network.h>
#include <tilewright/hardware/sequencer.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/hardware/tile.h>
#include <tilewright/hardware/workload_driver.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

struct BackplaneOptions {
  /// Called now and then with the fraction of calls completed, from the simulation's thread.
  std::function<void(double fraction)> progress;
  /// Keep kernel time in step with every event, as modules that look at sc_time_stamp() need.
  /// False: the event queue may run ahead of the kernel while the kernel has nothing pending. The
  /// answer is the same.
  bool in_step = true;
  Fidelity fidelity = Fidelity::message;  ///< of the network
};

/// The state that the modules of one machine share (contiguous arrays by tile, see Network,
/// Sequencer, MemorySystem), the event queue and the workload driver. It makes no tile, router or
/// controller: Platform elaborates them for a whole machine, and a platform of one's own does so by
/// hand (platforms/mesh-2x2/main.cpp):
///
///     Backplane backplane(machine, program);
///     Tile a("a", backplane.tile(TileId{0})), b("b", backplane.tile(TileId{1}));
///     backplane.connect(a, Direction::east, b);   // and back
///     backplane.run();
///
/// Every tile and every DRAM site of the machine description needs its modules, but for dead tiles.
class Backplane {
 public:
  /// The program must be sealed and outlive the backplane. Throws InputError when it names tiles,
  /// formats or DRAM that the machine lacks.
  Backplane(const MachineConfig& machine, const Program& program,
            const BackplaneOptions& options = {});

  // What to construct the modules with.
  TileConfig tile(TileId id);
  DramControllerConfig dram_controller(DramId id);
  DramPortConfig dram_port(DramId id);
  DramControllerConfig host_controller(DramId id);
  DramPortConfig host_port(DramId id);
  ComputeCosts& costs(TileId id);

  /// Makes the link from `from` to its neighbour `to` in direction `d`.
  void connect(Tile& from, Direction d, Tile& to) { from.router.connect(d, to.router); }
  /// Binds the driver to a tile; once for each.
  void connect(Tile& tile) { driver.connect(index(tile.id()), tile); }

  /// Runs sc_start() until the last call of the program is complete. Throws InputError when a tile,
  /// link or controller of the machine has no module; DeadlockError when work
  /// is outstanding and nothing is left to happen (who waits for whom), InputError for an
  /// allocation over capacity or a message of a size its receiver does not expect.
  void run();

  /// What was counted; valid after run().
  const RunStatistics& statistics() const { return statistics_; }

  EventQueue queue;

 private:
  std::unique_ptr<Network> network_;

 public:
  Network& network;
  MemorySystem memory;
  Sequencer sequencer;
  WorkloadDriver driver;

 private:
  std::uint32_t site(const DramConfig& memory, DramId id) const;
  void check_complete() const;

  const MachineConfig machine_;
  const std::shared_ptr<MixRates> mix_rates_;  // of the DRAM
  std::map<double, ComputeCosts> costs_;       // by the speed of the tile's engines
  RunStatistics statistics_;
  bool has_run_ = false;
};

}  // namespace tilewright
