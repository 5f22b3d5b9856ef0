// The elaborated machine: the top sc_module.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <systemc>

#include <tilewright/hardware/backplane.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

struct PlatformOptions : BackplaneOptions {
  /// Build the modules in the opposite order. The answer must not depend on it; for tests.
  bool reverse_construction = false;
  /// Binds each memory-side socket pair: a tile's compute unit to its SRAM, a DRAM port to its
  /// controller. For modules that stand between them, such as a protocol checker. None: directly.
  MemoryBinder bind_memory;
  /// Another memory in a controller's place, or another compute unit in a tile's: the socket to
  /// bind; null for the built-in one. Given, they imply in_step.
  std::function<MemoryTarget*(DramId)> external_memory;
  std::function<ComputeTarget*(TileId)> external_compute;
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

  /// See Backplane::run().
  void run();

  const RunStatistics& statistics() const;
  Backplane& backplane();

  // For observers. watch_...(): before run(); one probe each (several for the links), which
  // outlives the run.
  void watch_tile(TileId tile, Probe& probe);
  void watch_dram(DramId dram, Probe& probe);
  void watch_links(Probe& probe);
  /// Counts the latencies of messages, loads and stores (Sequencer, MemorySystem); before run().
  /// `by_cause` has kCauses elements and outlives the run.
  void count_latencies(std::vector<LatencyHistogram>& by_cause);
  void watch_work(Probe& probe);
  TileView view(TileId tile) const;
  /// Requests taken and not yet served. Of a memory that is not ours nobody hears when it changes.
  std::size_t dram_queue(DramId dram) const;
  /// The rows of a controller's channels; none when its model has no banks.
  std::vector<std::unique_ptr<RowReplay>> dram_rows(DramId dram) const;
  std::vector<LinkPlace> links() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tilewright
