// `tilewright run`: one job, simulated and reported.
#include <string>
#include <utility>
#include <vector>

#include "commands.h"
#include "inputs.h"
#include "options.h"
#include "simulation.h"

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
  add_simulation_options(command.options);
  return command;
}

}  // namespace

void run_command(const std::vector<std::string>& arguments) {
  const auto values = parse(run_options(), arguments);
  if (!values) return;
  require_options(*values, "run", {"platform", "model", "plan"});
  simulate_and_report(*values, "run", [&]() -> Simulation {
    Inputs inputs = read_inputs(*values);
    return {inputs.platform->machine,
            [graph = std::move(inputs.model->graph), plan = std::move(inputs.plan->config)](
                const MachineConfig& machine, const SimulateOptions& options) {
              return simulate(machine, graph, plan, options);
            }};
  });
}

}  // namespace tilewright::cli
