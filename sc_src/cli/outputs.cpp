#include "outputs.h"

#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "files.h"
#include "options.h"
#include "waves.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

struct Output {
  std::string name;  ///< "--json"
  std::string path;
};

/// Of whatever command has these options.
std::vector<Output> outputs_of(const po::variables_map& values) {
  std::vector<Output> outputs;
  for (const char* option : {"json", "profile", "link-load", "heat-map", "latencies", "power",
                             "vcd", "csv", "curve", "dump", "schedule", "roofline"}) {
    const std::string path = text_of(values, option);
    if (!path.empty()) outputs.push_back({std::string("--") + option, path});
  }
  const std::string vcd = text_of(values, "vcd"), groups = wave_groups_file(vcd);
  if (!groups.empty() && groups != vcd) outputs.push_back({"the signal groups of --vcd", groups});
  return outputs;
}

void check_kept(const po::variables_map& values, const std::string& what, const fs::path& path) {
  const std::optional<fs::path> read = replaced_file(path.string());
  if (!read) return;
  for (const Output& output : outputs_of(values)) {
    if (replaced_file(output.path) != read) continue;
    throw InputError(fmt::format("{} would replace '{}', which is read as {}; wanted: another file",
                                 output.name, output.path, what));
  }
}

}  // namespace

bool check_outputs(const po::variables_map& values, const std::string& command) {
  const std::vector<Output> outputs = outputs_of(values);
  bool to_stdout = false;
  for (auto a = outputs.begin(); a != outputs.end(); ++a) {
    check_writable(a->path);
    to_stdout |= a->path == "-";
    for (auto b = outputs.begin(); b != a; ++b) {
      if (a->path == "-" && b->path == "-") {
        throw InputError(
            fmt::format("{}: {} and {} cannot both go to stdout", command, b->name, a->name));
      }
      const auto target = replaced_file(a->path);
      if (!target || target != replaced_file(b->path)) continue;
      throw InputError(fmt::format("{}: {} and {} both write '{}'; wanted: a file for each",
                                   command, b->name, a->name, a->path));
    }
  }
  for (const char* option : {"program", "run", "trace"}) {
    const std::string path = text_of(values, option);
    if (!path.empty()) check_kept(values, std::string("--") + option, fs::path(path));
  }
  return to_stdout;
}

void check_kept(const po::variables_map& values, const std::string& option,
                const Document& document) {
  check_kept(values, option, fs::path(document.path()));
  const fs::path folder = fs::path(document.path()).parent_path();
  for (const ResolvedValue& v : document.resolved()) {  // a value that is a path is one of a file
    check_kept(values, v.path + " of " + option, folder / v.value);
  }
}

}  // namespace tilewright::cli
