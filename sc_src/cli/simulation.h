// One simulation at the command line, wherever its programs come from: its options, its outputs.
#pragma once

#include <functional>
#include <string>

#include <boost/program_options.hpp>

#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>
#include <tilewright/simulate/simulate.h>

namespace tilewright::cli {

/// Adds --json, --profile, --check-protocol, --fidelity, and the options of waves and side files.
void add_simulation_options(boost::program_options::options_description& options);

/// What is to be simulated.
struct Simulation {
  MachineConfig machine;
  /// Simulates it on a machine: this one, or this one without its stragglers.
  std::function<Result(const MachineConfig&, const SimulateOptions&)> run;
};

/// Simulates what `read` makes of the files that `command` ("program --run") was given, and writes
/// the report to stdout, host time and memory to stderr, and all files that were asked for.
void simulate_and_report(const boost::program_options::variables_map& values,
                         const std::string& command, const std::function<Simulation()>& read);

}  // namespace tilewright::cli
