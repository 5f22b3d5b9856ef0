// The `tilewright` executable: picks the command, turns failures into messages and exit codes.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/observe/version.h>

#include "commands.h"
#include "options.h"

namespace tilewright::cli {
namespace {

const char* const kHelp =
    R"(Tilewright simulates the training or inference of a model on a tiled AI accelerator.

Usage:
  tilewright run --platform FILE --model FILE --plan FILE [options]
                       simulate one iteration and report where its time goes
  tilewright compare --platform FILE --model FILE --plan FILE [--first NAME] [--second NAME]
                       simulate the job at two fidelities and show where they part
  tilewright describe [--platform FILE] [--model FILE] [--plan FILE] [options]
                       show what the files mean: values with their origin, sizes, FLOPs
  tilewright network [--mesh WxH] [--traffic NAME] [--load LIST] [options]
                       drive the on-chip network with synthetic traffic: latency against load
  tilewright collective --platform FILE --kind NAME --bytes SIZE [options]
                       one all-reduce, all-gather, ... by itself: its time against lower bounds
  tilewright program --dump FILE --platform FILE --model FILE --plan FILE [options]
  tilewright program --run FILE --platform FILE [options]
                       write the tile programs of a job as text; run such a text
  tilewright COMMAND --help
  tilewright --version

Example:
  tilewright run --platform platforms/tx8-wafer.yaml \
                 --model workloads/models/megatron-18b.yaml \
                 --plan workloads/plans/megatron-18b-tx8.yaml

Exit codes: 0 done, 2 wrong input, 3 internal error, 4 the simulated program deadlocked.
)";

void dispatch(const std::vector<std::string>& arguments) {
  static const std::map<std::string, void (*)(const std::vector<std::string>&)> commands{
      {"run", run_command},
      {"compare", compare_command},
      {"describe", describe_command},
      {"network", network_command},
      {"collective", collective_command},
      {"program", program_command}};
  if (arguments.empty()) {
    throw InputError(
        "no command given: run, compare, describe, network, collective or program (see "
        "'tilewright --help')");
  }
  const std::string& first = arguments.front();
  std::vector<std::string> rest(arguments.begin() + 1, arguments.end());
  if (first == "--help" || first == "-h" || (first == "help" && rest.empty())) {
    std::cout << kHelp;
    return;
  }
  if (first == "--version") {
    std::cout << "tilewright " << kVersion << '\n';
    return;
  }
  // `tilewright help run` is `tilewright run --help`.
  const std::string& name = first == "help" ? rest.front() : first;
  const auto command = commands.find(name);
  if (command == commands.end()) {
    const bool option = name.rfind('-', 0) == 0;
    throw InputError(fmt::format(
        "unknown {} '{}'{} (see 'tilewright --help')", option ? "option" : "command", name,
        did_you_mean(name, option
                               ? std::vector<std::string>{"--help", "--version"}
                               : std::vector<std::string>{"run", "compare", "describe", "network",
                                                          "collective", "program", "help"})));
  }
  command->second(first == "help" ? std::vector<std::string>{"--help"} : rest);
}

int run_guarded(const std::vector<std::string>& arguments) {
  try {
    dispatch(arguments);
    std::cout.flush();
    if (!std::cout || std::fflush(stdout) != 0) throw InputError("cannot write to standard output");
    return 0;
  } catch (const std::exception& error) {
    std::cout.flush();
    const int code = exit_code(error);
    fmt::print(stderr, "tilewright: {}: {}\n", code == 3 ? "internal error" : "error",
               error.what());
    return code;
  } catch (...) {
    fmt::print(stderr, "tilewright: internal error: unknown exception\n");
    return 3;
  }
}

}  // namespace
}  // namespace tilewright::cli

int sc_main(int argc, char* argv[]) {
  // The kernel's own remarks go to stdout otherwise, which belongs to our results.
  sc_core::sc_report_handler::set_actions(sc_core::SC_INFO, sc_core::SC_DO_NOTHING);
  sc_core::sc_report_handler::set_actions(sc_core::SC_ERROR, sc_core::SC_THROW);
  sc_core::sc_report_handler::set_actions(sc_core::SC_FATAL, sc_core::SC_THROW);
  const int code = tilewright::cli::run_guarded(std::vector<std::string>(argv + 1, argv + argc));
  // Destroying modules one by one takes time quadratic in their number: leave without.
  std::fflush(stdout);
  std::fflush(stderr);
  std::_Exit(code);
}

int main(int argc, char* argv[]) {
  setenv("SYSTEMC_DISABLE_COPYRIGHT_MESSAGE", "1", 1);
  return sc_core::sc_elab_and_sim(argc, argv);
}
