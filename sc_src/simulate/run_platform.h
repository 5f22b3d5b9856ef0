// The part of a simulation that every kind of job shares.
#pragma once

#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>
#include <tilewright/simulate/simulate.h>

namespace tilewright {

/// Elaborates the machine and runs the program on it, which must both stay, and writes what the
/// options ask for. What a failed run has done is in its waves. Fills the result's hottest link
/// when the links are watched.
const RunStatistics& run_platform(const MachineConfig& machine, const Program& program,
                                  const SimulateOptions& options, Result& result);

}  // namespace tilewright
