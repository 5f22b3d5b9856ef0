// The load of a mesh's links as a drawing.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/link_loads.h>

#include "svg.h"

namespace tilewright {

namespace {

constexpr int kPitch = 36, kTile = 16, kMargin = 24;
constexpr int kLink = 5;  // width of a link; the two directions lie side by side

/// From pale yellow for 0 to dark red for 1.
std::string colour(double t) {
  const auto mix = [t](double a, double b) {
    return static_cast<int>(std::lround(a + t * (b - a)));
  };
  return fmt::format("#{:02x}{:02x}{:02x}", mix(255, 140), mix(243, 0), mix(205, 20));
}

}  // namespace

std::string heat_map(const MachineConfig& machine, const RunStatistics& run) {
  if (machine.fabric) {
    throw InputError("machine '" + machine.name +
                     "' joins its tiles by switches; the heat map draws a mesh");
  }
  const int width = machine.width() * kPitch + 2 * kMargin;
  const int height = machine.height() * kPitch + 2 * kMargin + 40;
  Svg svg(width, height);
  const auto busy_share = [&run](const LinkStatistics& link) {
    return run.end == 0 ? 0 : static_cast<double>(link.busy) / static_cast<double>(run.end);
  };
  double most = 0;
  for (const LinkStatistics& link : run.links) most = std::max(most, busy_share(link));
  const auto corner = [](int i) { return kMargin + i * kPitch + (kPitch - kTile) / 2; };
  const std::vector<bool> usable = machine.usable_map(), dead = machine.dead_map();
  for (int t = 0; t < machine.tiles(); ++t) {
    const TileId id = static_cast<TileId>(t);
    if (dead[index(id)]) continue;
    svg.rect(corner(machine.x(id)), corner(machine.y(id)), kTile, kTile,
             usable[index(id)] ? "#c8d2dc" : "#eef1f4", "tile " + machine.node_name(id));
  }
  for (const LinkStatistics& link : run.links) {
    const int x0 = machine.x(link.from), y0 = machine.y(link.from);
    const int x1 = machine.x(link.to), y1 = machine.y(link.to);
    const double busy = busy_share(link);
    const bool vertical = x0 == x1;
    const bool wraps = std::abs(x0 - x1) + std::abs(y0 - y1) > 1;
    // Half of a wrapping link is drawn, out of the tile it leaves.
    const bool forward = vertical ? (y1 > y0) != wraps : (x1 > x0) != wraps;
    const int length = (kPitch - kTile) / (wraps ? 2 : 1);
    const int along = (vertical ? corner(y0) : corner(x0)) + (forward ? kTile : -length);
    const int across =
        (vertical ? corner(x0) : corner(y0)) + kTile / 2 + (forward ? 1 : -1 - kLink);
    svg.rect(vertical ? across : along, vertical ? along : across, vertical ? kLink : length,
             vertical ? length : kLink, colour(most > 0 ? busy / most : 0),
             fmt::format("{} to {}: busy {:.1f} %, {}", machine.node_name(link.from),
                         machine.node_name(link.to), 100 * busy,
                         to_string(Bytes(static_cast<double>(link.bytes)))));
  }
  const int legend = height - 30;
  for (int i = 0; i <= 10; ++i) {
    svg.rect(kMargin + 16 * i, legend, 16, 10, colour(0.1 * i));
  }
  svg.text(kMargin, legend + 22,
           fmt::format("share of the run in which a link is busy, 0 % to {:.1f} %", 100 * most),
           {});
  return svg.str();
}

}  // namespace tilewright
