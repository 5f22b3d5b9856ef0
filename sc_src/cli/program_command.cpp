// `tilewright program`: tile programs as text (docs/program.md).
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/text.h>
#include <tilewright/simulate/replay.h>

#include "commands.h"
#include "files.h"
#include "inputs.h"
#include "options.h"
#include "outputs.h"
#include "simulation.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

po::options_description simulation_options() {
  po::options_description options("With --run", 100);
  add_simulation_options(options);
  return options;
}

CommandOptions program_options() {
  CommandOptions command{
      "program",
      "tilewright program: writes the tile programs that a model and a plan become on a platform\n"
      "(--dump), or runs a program, written by Tilewright, by hand or by another tool (--run).\n"
      "docs/program.md describes the format.",
      "  tilewright program --run workloads/programs/ring-all-reduce.twp \\\n"
      "                     --platform platforms/tx8-die.yaml",
      po::options_description("", 100)};
  add_input_options(command.options);
  auto add = command.options.add_options();
  add("dump", po::value<std::string>()->value_name("FILE"),
      "write the program of --platform, --model and --plan; - writes it to stdout");
  add("run", po::value<std::string>()->value_name("FILE"), "run the program of FILE on --platform");
  command.options.add(simulation_options());
  return command;
}

void refuse(const po::variables_map& values, const std::string& command,
            const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    if (values.count(option) == 0 || values[option].defaulted()) continue;
    throw InputError(fmt::format("{}: --{} has no meaning here (see 'tilewright program --help')",
                                 command, option));
  }
}

void dump(const po::variables_map& values) {
  require_options(values, "program --dump", {"platform", "model", "plan"});
  std::vector<std::string> of_run;
  const po::options_description simulation = simulation_options();
  for (const auto& option : simulation.options()) of_run.push_back(option->long_name());
  refuse(values, "program --dump", of_run);
  const std::string file = text_of(values, "dump");
  check_outputs(values, "program --dump");
  const Inputs inputs = read_inputs(values);
  const LoweredPlan lowered =
      lower(inputs.model->graph, inputs.plan->config, inputs.platform->machine);
  const std::string text = program_text(lowered.program);
  write_file(file, text);
  if (file == "-") return;
  std::size_t instructions = 0, calls = 0, tiles = 0;
  for (const Segment& s : lowered.program.segments) instructions += s.code.size();
  for (const TileGroup& g : lowered.program.groups) {
    calls += g.calls.size() + g.background.size();
    tiles += g.tiles.size();
  }
  std::cout << fmt::format(
      "{}: {} instructions in {} segments, {} calls in {} groups of together "
      "{} tiles, {} bytes of text\n",
      file, instructions, lowered.program.segments.size(), calls, lowered.program.groups.size(),
      tiles, text.size());
}

/// "ring" for "programs/ring.twp".
std::string name_of(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot > 0) name.resize(dot);
  return name;
}

void run(const po::variables_map& values) {
  require_options(values, "program --run", {"platform"});
  refuse(values, "program --run", {"model", "plan"});
  const std::string file = text_of(values, "run");
  simulate_and_report(values, "program --run", [&]() -> Simulation {
    Inputs inputs = read_inputs(values);
    return {std::move(inputs.platform->machine),
            [program = load_program(file), name = name_of(file), file](
                const MachineConfig& machine, const SimulateOptions& options) {
              try {
                return replay(machine, program, name, options);
              } catch (const InputError& e) {
                throw InputError(file + ": " + e.what());
              }
            }};
  });
}

}  // namespace

void program_command(const std::vector<std::string>& arguments) {
  const auto values = parse(program_options(), arguments);
  if (!values) return;
  const bool dumps = values->count("dump") > 0, runs = values->count("run") > 0;
  if (dumps == runs) {
    throw InputError("program: give --dump FILE or --run FILE (see 'tilewright program --help')");
  }
  dumps ? dump(*values) : run(*values);
}

}  // namespace tilewright::cli
