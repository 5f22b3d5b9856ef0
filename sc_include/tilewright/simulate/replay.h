// A tile program, run on a machine without a model and a plan.
#pragma once

#include <string>

#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>
#include <tilewright/program/program.h>
#include <tilewright/simulate/simulate.h>

namespace tilewright {

/// Elaborates `machine`, runs `program` (sealed) on it and summarises. The program that lower()
/// wrote for a plan gives the iteration time and the counters that simulate() gives for that plan.
/// `name` stands where reports name the model.
///
/// What only a model and a plan know is 0 or empty in the result: samples, tokens, parameters,
/// layers of a stage, micro-batches in flight, the pipeline bound. Stages are the groups of equal
/// stage. Model FLOPs are those executed outside Phase::recompute; MFU, HFU and the compute bound
/// rate each `compute` at the machine's peak for its shape's format.
///
/// One call per process, as simulate(). Throws InputError (also for a program that the machine
/// cannot run), DeadlockError, InternalError.
Result replay(const MachineConfig& machine, const Program& program, const std::string& name,
              const SimulateOptions& options = {});

}  // namespace tilewright
