#include "signal_groups.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

namespace tilewright {
namespace {

using Signal = VcdWriter::Signal;

// GTKWave's trace flags: how a signal is drawn.
constexpr const char* kBits = "@28\n";      // binary, right-justified; texts as they are
constexpr const char* kDecimal = "@24\n";   // decimal, right-justified
constexpr const char* kCurve = "@88024\n";  // decimal, as an analog curve of steps over its range
constexpr const char* kStretch = "@20000\n-\n";                 // gives the curve above another row
constexpr const char* kOpen[] = {"@800200\n", "@1000200\n"};    // begin and end of a group
constexpr const char* kClosed[] = {"@c00200\n", "@1401200\n"};  // the same, folded away

/// "tiles.t0_0" of "tiles.t0_0.matrix".
std::string part_of(const std::string& scope) {
  const std::size_t dot = scope.find('.');
  return scope.substr(0, scope.find('.', dot + 1));
}

/// A signal under the name that it has inside its group.
void add(std::string& text, const Signal& signal, const std::string& shown) {
  const bool curve = signal.bits == 64;  // amounts of data
  text += signal.text || signal.bits == 1 ? kBits : curve ? kCurve : kDecimal;
  text += fmt::format("+{{{}}} {}.{}", shown, signal.scope, signal.name);
  if (signal.bits > 1) text += fmt::format("[{}:0]", signal.bits - 1);
  text += '\n';
  if (curve) text += kStretch;
}

}  // namespace

std::string signal_groups(const std::deque<Signal>& signals, const std::string& dump,
                          Picoseconds from, Picoseconds to) {
  // A zoom of -z shows 2^z units of time per 200 pixels; 4.9 times that fit the window.
  const double zoom = std::log2(std::max(1.0, static_cast<double>(to - from) / 4.9));
  std::string text = fmt::format(
      "[dumpfile] \"{}\"\n[savefile] \"{}\"\n[timestart] {}\n[size] 1480 860\n[pos] -1 -1\n"
      "*-{:.3f} -1\n[sst_width] 180\n[signals_width] 280\n[sst_expanded] 0\n",
      dump, std::filesystem::path(dump).replace_extension(".gtkw").string(), from, zoom);

  std::string slots;
  for (const Signal& s : signals) {
    if (s.name == "slot") add(slots, s, part_of(s.scope).substr(part_of(s.scope).find('.') + 1));
  }
  if (!slots.empty())
    text += fmt::format("{}-pipeline\n{}{}-pipeline\n", kOpen[0], slots, kOpen[1]);

  struct Group {
    std::string part, lines;
    std::size_t signals = 0;
  };
  std::vector<Group> groups;
  for (const Signal& s : signals) {
    const std::string part = part_of(s.scope);
    if (groups.empty() || groups.back().part != part) groups.push_back({part, "", 0});
    const std::string below = s.scope == part ? "" : s.scope.substr(part.size() + 1) + " ";
    add(groups.back().lines, s, below + s.name);
    ++groups.back().signals;
  }
  // The first groups are open, as far as a screen or two go; what stages do is above.
  constexpr std::size_t kMostOpen = 80;
  std::size_t shown = 0;
  for (const Group& g : groups) {
    const bool stage = g.part.rfind("stages.", 0) == 0;
    const bool open = !stage && (shown += g.signals) <= kMostOpen;
    const auto& flags = open ? kOpen : kClosed;
    text += fmt::format("{}-{}\n{}{}-{}\n", flags[0], g.part, g.lines, flags[1], g.part);
  }
  return text;
}

}  // namespace tilewright
