// The facade: a model, a plan and a machine in, a Result out.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>

#include <tilewright/hardware/fidelity.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>
#include <tilewright/observe/waves.h>
#include <tilewright/plan/plan.h>
#include <tilewright/program/program.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

struct SimulateOptions {
  std::function<void(double fraction)> progress;
  /// Told when a phase begins: "lower", "elaborate", "run", "report"; for profiles of host time.
  std::function<void(const char* phase)> on_phase;
  void enter(const char* phase) const {
    if (on_phase) on_phase(phase);
  }
  /// Shown the hardware's counters when it has run.
  std::function<void(const RunStatistics&)> on_statistics;
  WaveOptions waves;                  ///< waveforms to write while it runs
  std::ostream* link_load = nullptr;  ///< takes the load of all links (LinkLoads::write_csv())
  std::ostream* heat_map = nullptr;   ///< takes a drawing of it (observe/link_loads.h)
  bool latencies = false;             ///< count them, see Result::latencies
  std::ostream* power = nullptr;      ///< takes what is drawn over time (Power::write_csv())
  bool reverse_construction = false;  ///< see PlatformOptions; for tests
  bool in_step = false;               ///< see PlatformOptions; no foreign module is elaborated here
  Fidelity fidelity = Fidelity::message;  ///< of the network
  bool check_protocol = false;            ///< a ProtocolChecker on every memory-side socket pair
};

/// Checks, lowers, elaborates, runs and summarises. One call per process (the SystemC kernel cannot
/// restart). Throws InputError, DeadlockError, InternalError.
Result simulate(const MachineConfig& machine, const Graph& graph, const PlanConfig& plan,
                const SimulateOptions& options = {});

}  // namespace tilewright
