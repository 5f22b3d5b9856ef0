// `tilewright run`: one job, simulated and reported.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/result.h>
#include <tilewright/simulate/simulate.h>

#include "commands.h"
#include "fidelity.h"
#include "files.h"
#include "inputs.h"
#include "options.h"
#include "outputs.h"
#include "profile.h"
#include "progress.h"
#include "side_files.h"
#include "waves.h"
#include "without_stragglers.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

CommandOptions run_options() {
  CommandOptions command{
      "run",
      "tilewright run: simulates one iteration of a model under a plan on a platform and reports\n"
      "where its time goes. The report goes to stdout, host time and memory to stderr.",
      "  tilewright run --platform platforms/tx8-wafer.yaml \\\n"
      "                 --model workloads/models/megatron-18b.yaml \\\n"
      "                 --plan workloads/plans/megatron-18b-tx8.yaml \\\n"
      "                 --set plan.batch.micro=32 --json result.json",
      po::options_description("", 100)};
  add_input_options(command.options);
  auto add = command.options.add_options();
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
  add_wave_options(command.options);
  add_side_options(command.options);
  return command;
}

void require_inputs(const po::variables_map& values) {
  std::string missing;
  for (const char* option : {"platform", "model", "plan"}) {
    if (values.count(option) > 0) continue;
    missing += fmt::format("{}--{}", missing.empty() ? "" : ", ", option);
  }
  if (missing.empty()) return;
  throw InputError(fmt::format("run: missing {} (see 'tilewright run --help')", missing));
}

}  // namespace

void run_command(const std::vector<std::string>& arguments) {
  const auto parsed = parse(run_options(), arguments);
  if (!parsed) return;
  const po::variables_map& values = *parsed;
  require_inputs(values);
  const std::string json = text_of(values, "json"), profile_file = text_of(values, "profile");
  const bool to_stdout = check_outputs(values, "run");

  HostProfile profile;
  ProgressBar bar;
  SimulateOptions options;
  options.progress = [&bar](double fraction) { bar.update(fraction); };
  options.check_protocol = values["check-protocol"].as<bool>();
  options.fidelity = fidelity_named(text_of(values, "fidelity"), "run");
  options.on_phase = [&profile](const char* phase) { profile.begin(phase); };

  profile.begin("read");
  const Inputs inputs = read_inputs(values);
  const Graph& graph = inputs.model->graph;
  const PlanConfig& plan = inputs.plan->config;
  WithoutStragglers without(inputs.platform->machine, [&](const MachineConfig& machine) {
    SimulateOptions same;
    same.fidelity = options.fidelity;
    return simulate(machine, graph, plan, same).iteration_time;
  });
  WaveFiles waves(values, "run");
  options.waves = waves.options();
  SideFiles files(values, options);
  Result result = waves.guard([&] {
    Result r = simulate(inputs.platform->machine, graph, plan, options);
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
