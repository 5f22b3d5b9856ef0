#include "waves.h"

#include <cstdio>
#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>

#include "options.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;

void add_wave_options(po::options_description& options) {
  auto add = options.add_options();
  add("vcd", po::value<std::string>()->value_name("FILE"),
      "write waveforms (traces/README.md), and beside them the signal groups for GTKWave, FILE "
      "with "
      "the extension .gtkw");
  add("vcd-scope", po::value<std::vector<std::string>>()->composing()->value_name("PATTERN"),
      "what to write, e.g. 'tiles.t0_0', 'tiles.*.state', 'links.t0_0_to_*', 'controllers.dram3'; "
      "* and ? stand for any characters; may be repeated (default: the stages, and the first tile "
      "of each)");
  add("vcd-from", po::value<std::string>()->value_name("TIME"),
      "begin at this simulated time, e.g. 2.5ms");
  add("vcd-to", po::value<std::string>()->value_name("TIME"), "end at this simulated time");
}

std::string wave_groups_file(const std::string& vcd) {
  return replaced_file(vcd) ? fs::path(vcd).replace_extension(".gtkw").string() : std::string();
}

WaveFiles::WaveFiles(const po::variables_map& values, const std::string& command) {
  const auto refuse = [&command](const std::string& message) {
    throw InputError(fmt::format("{}: {} (see 'tilewright {} --help')", command, message, command));
  };
  const auto time = [&](const char* option, Picoseconds fallback) {
    if (values.count(option) == 0) return fallback;
    try {
      return to_picoseconds(parse_seconds(text_of(values, option)));
    } catch (const std::invalid_argument& error) {
      refuse(fmt::format("--{}: {}", option, error.what()));
    } catch (const InputError& error) {
      refuse(fmt::format("--{}: {}", option, error.what()));
    }
    return fallback;
  };
  if (values.count("vcd") == 0) {
    for (const char* option : {"vcd-scope", "vcd-from", "vcd-to"}) {
      if (values.count(option) > 0)
        refuse(fmt::format("--{} has no meaning without --vcd", option));
    }
    return;
  }
  const std::string path = text_of(values, "vcd");
  if (path.empty() || path == "-") refuse("--vcd needs a file, since stdout takes the report");
  options_.scopes = list_of(values, "vcd-scope");
  options_.from = time("vcd-from", options_.from);
  options_.to = time("vcd-to", options_.to);
  if (options_.from > options_.to) {
    refuse(fmt::format("--vcd-from {} is after --vcd-to {}", text_of(values, "vcd-from"),
                       text_of(values, "vcd-to")));
  }

  const std::string groups = wave_groups_file(path);
  if (groups == path) refuse(fmt::format("--vcd {}: its signal groups take this name", path));
  vcd_ = std::make_unique<OutputFile>(path);
  options_.vcd = &vcd_->stream();
  options_.name = fs::path(path).filename().string();
  if (groups.empty()) return;
  groups_ = std::make_unique<OutputFile>(groups);
  options_.groups = &groups_->stream();
}

Result WaveFiles::guard(const std::function<Result()>& run) {
  try {
    Result result = run();
    commit();
    const Seconds from = to_seconds(options_.from);
    if (vcd_ && from > result.iteration_time) {
      fmt::print(stderr, "note: the run ended after {}, before --vcd-from {}\n",
                 to_string(result.iteration_time), to_string(from));
    }
    return result;
  } catch (...) {
    keep();
    throw;
  }
}

void WaveFiles::commit() {
  if (vcd_) vcd_->commit();
  if (groups_) groups_->commit();
}

void WaveFiles::keep() {
  if (!vcd_ || vcd_->stream().tellp() <= 0) return;
  try {
    commit();
  } catch (const InputError&) {  // the failure of the run is what to report
  }
}

}  // namespace tilewright::cli
