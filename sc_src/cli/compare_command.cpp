// `tilewright compare`: one job at two fidelities, and where they part.
#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/program/text.h>
#include <tilewright/simulate/replay.h>
#include <tilewright/simulate/simulate.h>

#include "commands.h"
#include "files.h"
#include "forked_work.h"
#include "inputs.h"
#include "options.h"
#include "outcome.h"
#include "outputs.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

CommandOptions compare_options() {
  CommandOptions command{
      "compare",
      "tilewright compare: simulates one job twice, at two fidelities or with two sets of values,\n"
      "and shows where they part: time, stages, causes, latencies and links.",
      "  tilewright compare --platform platforms/tx8-die.yaml \\\n"
      "                     --program workloads/programs/ring-all-reduce.twp \\\n"
      "                     --first message --second flit --json differences.json",
      po::options_description("", 100)};
  add_input_options(command.options);
  auto add = command.options.add_options();
  const auto name = [](const char* fallback) {
    return po::value<std::string>()->value_name("NAME")->default_value(fallback);
  };
  const auto sets = [] {
    return po::value<std::vector<std::string>>()->composing()->value_name("KEY=VALUE");
  };
  add("program", po::value<std::string>()->value_name("FILE"),
      "a program as text (docs/program.md) in place of --model and --plan");
  add("first", name("message"),
      "fidelity of the first simulation: message or flit; or a switching mode at message fidelity: "
      "cut-through, store-and-forward or circuit");
  add("second", name("flit"), "the same of the second");
  add("first-set", sets(), "a --set of the first simulation alone; may be repeated");
  add("second-set", sets(), "a --set of the second simulation alone; may be repeated");
  add("check-protocol", po::bool_switch(),
      "put a TLM-2.0 base-protocol checker on every memory-side socket; the result is the same");
  add("json", po::value<std::string>()->value_name("FILE"),
      "also write the comparison as JSON; - writes it to stdout in place of the report");
  return command;
}

/// One of the two simulations.
struct Side {
  std::string name;
  Fidelity fidelity = Fidelity::message;
  std::vector<std::string> sets;
};

Side side_of(const po::variables_map& values, const std::string& option) {
  const std::vector<std::string> known{"message", "flit", "cut-through", "store-and-forward",
                                       "circuit"};
  Side side;
  side.name = text_of(values, option);
  if (std::find(known.begin(), known.end(), side.name) == known.end()) {
    throw InputError(fmt::format("compare: --{}: unknown name '{}'; known: {}{}", option, side.name,
                                 fmt::join(known, ", "), did_you_mean(side.name, known)));
  }
  if (side.name == to_string(Fidelity::flit)) {
    side.fidelity = Fidelity::flit;
  } else if (side.name != to_string(Fidelity::message)) {
    side.sets.push_back("noc.switching=" + side.name);
  }
  const std::vector<std::string> own = list_of(values, option + "-set");
  side.sets.insert(side.sets.end(), own.begin(), own.end());
  for (const std::string& set : own) {
    if (side.sets.size() > own.size() && same_key(set, side.sets.front())) {
      throw InputError(
          fmt::format("compare: --{0} {1} and --{0}-set {2} both give noc.switching; "
                      "give one of them",
                      option, text_of(values, option), set));
    }
    side.name += " " + set;
  }
  return side;
}

void require_inputs(const po::variables_map& values) {
  if (values.count("program") == 0) {
    return require_options(values, "compare", {"platform", "model", "plan"});
  }
  for (const char* option : {"model", "plan"}) {
    if (values.count(option) == 0) continue;
    throw InputError(fmt::format("compare: --program stands in place of --{}", option));
  }
  require_options(values, "compare", {"platform"});
}

/// What `work` returns; the message of an error begins with the side's name.
template <class Work>
auto in_name_of(const Side& side, const Work& work) {
  try {
    return work();
  } catch (const InputError& e) {
    throw InputError(side.name + ": " + e.what());
  } catch (const DeadlockError& e) {
    throw DeadlockError(side.name + ": " + e.what());
  }
}

/// Starts the simulation of a side. What is wrong with its files is said at once.
ForkedWork start(const po::variables_map& values, const Side& side) {
  const Inputs inputs = read_inputs(values, side.sets);
  const std::string file = text_of(values, "program");
  const Program program = file.empty() ? Program() : load_program(file);
  const bool check_protocol = values["check-protocol"].as<bool>();
  return ForkedWork([&] {
    SimulateOptions options;
    options.fidelity = side.fidelity;
    options.latencies = true;
    options.check_protocol = check_protocol;
    RunStatistics run;
    options.on_statistics = [&run](const RunStatistics& s) { run = s; };
    const MachineConfig& machine = inputs.platform->machine;
    const Result result = file.empty()
                              ? simulate(machine, inputs.model->graph, inputs.plan->config, options)
                              : replay(machine, program, file, options);
    return outcome_text(machine, result, run);
  });
}

}  // namespace

void compare_command(const std::vector<std::string>& arguments) {
  const auto parsed = parse(compare_options(), arguments);
  if (!parsed) return;
  const po::variables_map& values = *parsed;
  require_inputs(values);
  const std::string json = text_of(values, "json");
  const bool to_stdout = check_outputs(values, "compare");
  const Side first = side_of(values, "first"), second = side_of(values, "second");

  const auto started = [&](const Side& side) {
    return in_name_of(side, [&] { return start(values, side); });
  };
  ForkedWork first_work = started(first), second_work = started(second);
  const auto finished = [&](const Side& side, ForkedWork& work) {
    return in_name_of(side, [&] { return outcome_of(side.name, work.wait()); });
  };
  const Outcome a = finished(first, first_work), b = finished(second, second_work);
  const auto ends = [](const Outcome& o) {
    std::vector<std::string> list;
    for (const auto& link : o.links) {
      list.push_back(link["from"].get<std::string>() + link["to"].get<std::string>());
    }
    return list;
  };
  if (ends(a) != ends(b) || a.result["stages"].size() != b.result["stages"].size()) {
    throw InputError(
        "compare: the two have other links or stages; allowed: values that leave the "
        "machine's links and the plan's stages as they are");
  }
  const nlohmann::ordered_json result = differences(a, b);
  if (!json.empty()) write_file(json, result.dump(2) + "\n");
  if (!to_stdout) std::cout << differences_text(result);
}

}  // namespace tilewright::cli
