// `tilewright collective`: one collective by itself (docs/collectives.md).
#include <algorithm>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>
#include <tilewright/plan/collective_estimate.h>
#include <tilewright/plan/collective_program.h>
#include <tilewright/simulate/replay.h>

#include "commands.h"
#include "inputs.h"
#include "options.h"
#include "outputs.h"
#include "side_files.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

CommandOptions collective_options() {
  CommandOptions command{
      "collective",
      "tilewright collective: runs one collective by itself on the tiles of a platform and "
      "compares\n"
      "its time with the cost model and with what no algorithm can beat. docs/collectives.md\n"
      "describes the algorithms.",
      "  tilewright collective --platform platforms/tx8-die.yaml --kind all_reduce --bytes 64MiB",
      po::options_description("", 100)};
  auto add = command.options.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  add("platform", text("FILE"), "machine description (YAML)");
  add("set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=VALUE"),
      "replace one value of the platform, e.g. noc.link_bandwidth=512GB/s; may be repeated");
  add("kind", text("NAME"), "all_reduce, reduce_scatter, all_gather, all_to_all or broadcast");
  add("algorithm", text("NAME")->default_value("auto"),
      "ring, two-rings, row-column, tree, halving-doubling, direct, random; auto: the cheapest by "
      "the cost model");
  add("bytes", text("SIZE"),
      "all_reduce, reduce_scatter: of every tile's data; all_gather: of what it has in the end; "
      "all_to_all: of what it has for all tiles; broadcast: of what is sent");
  add("group", text("WxH+X+Y"),
      "the rectangle of tiles that takes part, from its tile (X,Y), or WxH from (0,0); default: "
      "all "
      "tiles. Spare and dead tiles are left out");
  add("root", text("X,Y"), "where a broadcast begins; default: the first tile of the group");
  add_side_options(command.options);
  add("help", "this text");
  return command;
}

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& allowed) {
  throw InputError(
      fmt::format("collective: --{}: '{}' is not allowed; allowed: {}", option, value, allowed));
}

/// The value of `text` among the first `count` of an enumeration.
template <class Enum>
std::optional<Enum> named(const std::string& text, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    if (text == to_string(static_cast<Enum>(i))) return static_cast<Enum>(i);
  }
  return {};
}

template <class Enum>
Enum choice(const std::string& option, const std::string& text, std::size_t count) {
  if (const auto value = named<Enum>(text, count)) return *value;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < count; ++i) names.emplace_back(to_string(static_cast<Enum>(i)));
  if (option == "algorithm") names.emplace_back("auto");
  throw InputError(fmt::format("collective: --{}: unknown {} '{}'; known: {}{}", option, option,
                               text, fmt::join(names, ", "), did_you_mean(text, names)));
}

/// Whole numbers joined by these separators: "8x4+2+0" by "x++".
std::optional<std::vector<int>> integers(const std::string& text, const std::string& separators) {
  std::vector<int> result;
  std::size_t at = 0;
  for (std::size_t i = 0; i <= separators.size(); ++i) {
    const std::size_t end = i < separators.size() ? text.find(separators[i], at) : text.size();
    if (end == std::string::npos || end == at || end - at > 8 ||
        text.find_first_not_of("0123456789", at) < end) {
      return {};
    }
    result.push_back(std::stoi(text.substr(at, end - at)));
    at = end + 1;
  }
  return result;
}

std::vector<TileId> tiles_of(const po::variables_map& values, const MachineConfig& machine) {
  int x = 0, y = 0, width = machine.width(), height = machine.height();
  const std::string text = text_of(values, "group");
  if (!text.empty()) {
    const auto at = integers(text, "x++");
    const auto size = at ? at : integers(text, "x");
    const std::string allowed = fmt::format("WxH or WxH+X+Y within the machine's {}x{} tiles",
                                            machine.width(), machine.height());
    if (!size) refuse("group", text, allowed);
    width = (*size)[0];
    height = (*size)[1];
    if (at) x = (*at)[2], y = (*at)[3];
    if (width < 1 || height < 1 || x + width > machine.width() || y + height > machine.height()) {
      refuse("group", text, allowed);
    }
  }
  const std::vector<bool> usable = machine.usable_map();
  std::vector<TileId> tiles;
  for (int j = y; j < y + height; ++j) {
    for (int i = x; i < x + width; ++i) {
      if (usable[index(machine.tile(i, j))]) tiles.push_back(machine.tile(i, j));
    }
  }
  if (tiles.size() < 2) {
    throw InputError(
        fmt::format("collective: the group has {} usable {}; a collective takes at least 2",
                    tiles.size(), tiles.size() == 1 ? "tile" : "tiles"));
  }
  return tiles;
}

/// Puts the root of a broadcast in front.
void take_root(const po::variables_map& values, CollectiveKind kind, const MachineConfig& machine,
               std::vector<TileId>& tiles) {
  const std::string text = text_of(values, "root");
  if (text.empty()) return;
  if (kind != CollectiveKind::broadcast) {
    throw InputError(fmt::format("collective: --root has no meaning for {}", to_string(kind)));
  }
  const auto at = integers(text, ",");
  const auto root = at && (*at)[0] < machine.width() && (*at)[1] < machine.height()
                        ? std::find(tiles.begin(), tiles.end(), machine.tile((*at)[0], (*at)[1]))
                        : tiles.end();
  if (root == tiles.end()) refuse("root", text, "X,Y of a tile of the group");
  std::rotate(tiles.begin(), root, root + 1);
}

std::int64_t bytes_of(const std::string& text, std::size_t members) {
  const auto value = [&]() -> std::optional<Bytes> {
    try {
      return parse_bytes(text);
    } catch (const std::invalid_argument&) {
      return {};
    }
  }();
  // What all members have together stays well within 64 bits.
  const double most = 1e18 / static_cast<double>(members);
  if (!value || !(value->value() >= 1) || !(value->value() <= most)) {
    refuse(
        "bytes", text,
        fmt::format("a size such as 64MiB, at least 1 B and at most {}", to_string(Bytes(most))));
  }
  return static_cast<std::int64_t>(value->value());
}

}  // namespace

void collective_command(const std::vector<std::string>& arguments) {
  const auto parsed = parse(collective_options(), arguments);
  if (!parsed) return;
  const po::variables_map& values = *parsed;
  require_options(values, "collective", {"platform", "kind", "bytes"});
  const auto kind = choice<CollectiveKind>("kind", text_of(values, "kind"), kCollectiveKinds);
  const std::string algorithm_text = text_of(values, "algorithm");
  const bool automatic = algorithm_text == "auto";
  const std::string size = text_of(values, "bytes");
  auto algorithm = CollectiveAlgorithm::ring;
  if (!automatic) {
    algorithm = choice<CollectiveAlgorithm>("algorithm", algorithm_text, kCollectiveAlgorithms);
  }
  const bool to_stdout = check_outputs(values, "collective");
  const Inputs inputs = read_inputs(values);
  const MachineConfig& machine = inputs.platform->machine;
  std::vector<TileId> tiles = tiles_of(values, machine);
  take_root(values, kind, machine, tiles);
  const std::int64_t bytes = bytes_of(size, tiles.size());

  const LinkRoutes routes(machine);
  const CollectiveGroups groups{{make_group(machine, tiles)}, {0}, {tiles}};
  if (automatic) algorithm = cheapest(routes, groups, kind, bytes);
  const std::string reason = why_not(kind, algorithm, groups.shapes.front());
  if (!reason.empty()) throw InputError(fmt::format("collective: --algorithm: {}", reason));

  SimulateOptions options;
  SideFiles files(values, options);
  const Program program = collective_program(machine, tiles, kind, algorithm, bytes);
  const Result result = replay(machine, program, to_string(kind), options);
  files.write(result);
  if (to_stdout) return;
  const double time = result.iteration_time.value();
  const double bound = collective_bound(routes, kind, tiles, bytes);
  const double expected = estimate(routes, groups, kind, algorithm, bytes);
  std::cout << fmt::format("{} of {} on {} tiles of {}\n\n", to_string(kind),
                           to_string(Bytes(static_cast<double>(bytes))), tiles.size(),
                           machine.name);
  std::cout << fmt::format("algorithm    {}{}\n", to_string(algorithm),
                           automatic ? " (the cheapest by the cost model)" : "");
  std::cout << fmt::format("time         {}\n", to_string(Seconds(time)));
  std::cout << fmt::format("cost model   {} ({:+.1f} %)\n", to_string(Seconds(expected)),
                           100 * (expected / time - 1));
  std::cout << fmt::format("lower bound  {}\n", to_string(Seconds(bound)));
  std::cout << fmt::format("ratio        {:.3f}\n", time / bound);
  if (!automatic) return;
  std::cout << "\ncost model of\n";
  for (const auto& [other, seconds] : estimates(routes, groups, kind, bytes)) {
    std::cout << fmt::format("  {:<18}{}\n", to_string(other), to_string(Seconds(seconds)));
  }
}

}  // namespace tilewright::cli
