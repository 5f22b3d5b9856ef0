// The elaborated machine: the top sc_module.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <systemc>

#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

struct PlatformOptions {
  /// Called now and then with the fraction of calls completed, from the simulation's thread.
  std::function<void(double fraction)> progress;
  /// Build the modules in the opposite order. The answer must not depend on it; for tests.
  bool reverse_construction = false;
  /// Keep kernel time in step with every event, as modules that look at sc_time_stamp() need.
  /// False: the event queue may run ahead of the kernel while the kernel has nothing pending. The
  /// answer is the same.
  bool in_step = true;
};

/// A mesh of tiles, its links and DRAM controllers, and the workload driver, elaborated from a
/// machine description. One per process (the SystemC kernel cannot restart).
class Platform : public sc_core::sc_module {
 public:
  /// Elaborates; about 7 KB and 45 µs per tile. The program must be sealed and outlive the
  /// platform. Throws InputError when the program names tiles, formats or DRAM that the machine
  /// lacks.
  Platform(const sc_core::sc_module_name& name, const MachineConfig& machine,
           const Program& program, const PlatformOptions& options = {});
  ~Platform() override;

  /// Runs sc_start() until nothing is left to do. Throws DeadlockError when work is outstanding
  /// (who waits for whom), InputError for an allocation over capacity or a message of a size its
  /// receiver does not expect.
  void run();

  const RunStatistics& statistics() const;

  // For observers. watch_...(): before run(); one probe each (several for the links), which
  // outlives the run.
  void watch_tile(TileId tile, Probe& probe);
  void watch_dram(DramId dram, Probe& probe);
  void watch_links(Probe& probe);
  TileView view(TileId tile) const;
  std::size_t dram_queue(DramId dram) const;  ///< requests taken and not yet served
  /// The rows of a controller's channels; none when its model has no banks.
  std::vector<std::unique_ptr<RowReplay>> dram_rows(DramId dram) const;
  std::vector<LinkPlace> links() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tilewright
