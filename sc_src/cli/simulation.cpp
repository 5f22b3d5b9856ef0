#include "simulation.h"

#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include "fidelity.h"
#include "files.h"
#include "options.h"
#include "outputs.h"
#include "profile.h"
#include "progress.h"
#include "side_files.h"
#include "waves.h"
#include "without_stragglers.h"

namespace tilewright::cli {
namespace po = boost::program_options;

void add_simulation_options(po::options_description& options) {
  auto add = options.add_options();
  add("json", po::value<std::string>()->value_name("FILE"),
      "also write the result as JSON; - writes it to stdout in place of the report");
  add("profile", po::value<std::string>()->value_name("FILE"),
      "write host time by phase, peak memory and events per second as JSON");
  add("check-protocol", po::bool_switch(),
      "put a TLM-2.0 base-protocol checker on every memory-side socket; the result is the same");
  add("fidelity", po::value<std::string>()->value_name("NAME")->default_value("message"),
      "how closely to simulate the network: message (every message, buffers without limit) or "
      "flit\n"
      "(routers with virtual channels and credits; slow, for small jobs)");
  add_wave_options(options);
  add_side_options(options);
}

void simulate_and_report(const po::variables_map& values, const std::string& command,
                         const std::function<Simulation()>& read) {
  const std::string json = text_of(values, "json"), profile_file = text_of(values, "profile");
  const bool to_stdout = check_outputs(values, command);

  HostProfile profile;
  ProgressBar bar;
  SimulateOptions options;
  options.progress = [&bar](double fraction) { bar.update(fraction); };
  options.check_protocol = values["check-protocol"].as<bool>();
  options.fidelity = fidelity_named(text_of(values, "fidelity"), command);
  options.on_phase = [&profile](const char* phase) { profile.begin(phase); };

  profile.begin("read");
  const Simulation simulation = read();
  WithoutStragglers without(simulation.machine, [&](const MachineConfig& machine) {
    SimulateOptions same;
    same.fidelity = options.fidelity;
    return simulation.run(machine, same).iteration_time;
  });
  WaveFiles waves(values, command);
  options.waves = waves.options();
  SideFiles files(values, options);
  Result result = waves.guard([&] {
    Result r = simulation.run(simulation.machine, options);
    bar.erase();
    return r;
  });
  result.time_without_stragglers = without.wait();
  profile.finish(result.events);

  files.write(result);
  if (!json.empty()) write_file(json, json_report(result));
  if (!to_stdout) std::cout << text_report(result);
  std::cout.flush();
  fmt::print(stderr, "{}\n", profile.text());
  if (!profile_file.empty()) write_file(profile_file, profile.json());
}

}  // namespace tilewright::cli
