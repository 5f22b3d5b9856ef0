#include "run_platform.h"

#include <memory>
#include <ostream>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/cosim/checked_sockets.h>
#include <tilewright/hardware/flit_config.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/observe/link_loads.h>
#include <tilewright/observe/power.h>

namespace tilewright {
namespace {

/// How the network of the machine was divided into flits.
std::string flit_note(const MachineConfig& machine) {
  const FlitConfig c = flit_config(machine);
  return fmt::format("flits of {}, cycles of {} ps, packets of {} flits, {} virtual channels",
                     to_string(Bytes(c.flit_bytes)), c.period, c.packet_flits, c.virtual_channels);
}

}  // namespace

const RunStatistics& run_platform(const MachineConfig& machine, const Program& program,
                                  const SimulateOptions& options, Result& result) {
  options.enter("elaborate");
  PlatformOptions platform_options;
  platform_options.progress = options.progress;
  platform_options.reverse_construction = options.reverse_construction;
  platform_options.in_step = options.in_step;
  platform_options.fidelity = options.fidelity;
  result.fidelity = to_string(options.fidelity);
  if (options.check_protocol) platform_options.bind_memory = checked_sockets();
  // Never destroyed: the kernel's module registries make destruction quadratic, and one process
  // runs one simulation.
  auto* platform = new Platform("platform", machine, program, platform_options);
  std::unique_ptr<Waves> waves;
  if (options.waves.vcd != nullptr) {
    waves = std::make_unique<Waves>(options.waves, machine, program, *platform);
  }

  std::unique_ptr<LinkLoads> loads;
  if (options.link_load != nullptr)
    loads = std::make_unique<LinkLoads>(machine, program, *platform);

  if (options.latencies) {
    result.latencies.resize(kCauses);
    platform->count_latencies(result.latencies);
  }
  std::unique_ptr<Power> power;
  if (options.power != nullptr) power = std::make_unique<Power>(machine, program, *platform);

  options.enter("run");
  try {
    platform->run();
  } catch (...) {
    if (waves) waves->finish();
    throw;
  }
  if (options.fidelity == Fidelity::flit) result.notes.push_back(flit_note(machine));
  const RunStatistics& run = platform->statistics();
  if (waves) waves->finish(run.end);
  if (loads) {
    loads->write_csv(*options.link_load, run.end);
    result.hottest_link = loads->hottest(run.end);
  }
  if (options.on_statistics) options.on_statistics(run);
  if (power) power->write_csv(*options.power, run.end);
  if (options.heat_map != nullptr) *options.heat_map << heat_map(machine, run);
  return run;
}

}  // namespace tilewright
