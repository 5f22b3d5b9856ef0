// `tilewright program`: tile programs as text (docs/program.md).
#include <cstdio>
#include <iostream>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/text.h>
#include <tilewright/simulate/replay.h>

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
  add("json", po::value<std::string>()->value_name("FILE"),
      "with --run: also write the result as JSON; - writes it to stdout in place of the report");
  add("fidelity", po::value<std::string>()->value_name("NAME"),
      "with --run: how closely to simulate the network, as 'tilewright run' has it");
  add_wave_options(command.options);
  add_side_options(command.options);
  return command;
}

void check(const po::variables_map& values, const char* mode,
           const std::vector<std::string>& needed, const std::vector<std::string>& refused) {
  std::string missing;
  for (const std::string& option : needed) {
    if (values.count(option) == 0) missing += (missing.empty() ? "--" : ", --") + option;
  }
  if (!missing.empty()) {
    throw InputError(
        fmt::format("program --{}: missing {} (see 'tilewright program --help')", mode, missing));
  }
  for (const std::string& option : refused) {
    if (values.count(option) == 0) continue;
    throw InputError(
        fmt::format("program --{}: --{} has no meaning here (see 'tilewright program "
                    "--help')",
                    mode, option));
  }
}

void dump(const po::variables_map& values) {
  check(values, "dump", {"platform", "model", "plan"},
        {"json", "fidelity", "link-load", "heat-map", "latencies", "power", "vcd", "vcd-scope",
         "vcd-from", "vcd-to"});
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
  check(values, "run", {"platform"}, {"model", "plan"});
  const std::string file = text_of(values, "run"), json = text_of(values, "json");
  const bool to_stdout = check_outputs(values, "program --run");
  HostProfile profile;
  ProgressBar bar;
  SimulateOptions options;
  options.progress = [&bar](double fraction) { bar.update(fraction); };
  options.on_phase = [&profile](const char* phase) { profile.begin(phase); };
  if (values.count("fidelity") > 0) {
    options.fidelity = fidelity_named(text_of(values, "fidelity"), "program");
  }
  profile.begin("read");
  const Inputs inputs = read_inputs(values);
  const Program program = load_program(file);
  WithoutStragglers without(inputs.platform->machine, [&](const MachineConfig& machine) {
    SimulateOptions same;
    same.fidelity = options.fidelity;
    return replay(machine, program, name_of(file), same).iteration_time;
  });
  WaveFiles waves(values, "program --run");
  options.waves = waves.options();
  SideFiles files(values, options);
  Result result = waves.guard([&] {
    Result r = replay(inputs.platform->machine, program, name_of(file), options);
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
