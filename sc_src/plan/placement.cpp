#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/placement.h>

namespace tilewright {
namespace {

[[noreturn]] void fail(const PlanConfig& plan, const std::string& message) {
  throw InputError(fmt::format("{}: {}",
                               plan.where_placement.empty()
                                   ? fmt::format("plan '{}': placement", plan.name)
                                   : plan.where_placement,
                               message));
}

/// Whether a rectangle holds spare or dead tiles, in constant time.
class UnusableCount {
 public:
  explicit UnusableCount(const MachineConfig& machine)
      : width_(static_cast<std::size_t>(machine.width()) + 1) {
    if (machine.usable_tiles() == machine.tiles()) return;
    const std::vector<bool> usable = machine.usable_map();
    sum_.assign(width_ * (static_cast<std::size_t>(machine.height()) + 1), 0);
    for (int y = 0; y < machine.height(); ++y) {
      for (int x = 0; x < machine.width(); ++x) {
        sum_[at(x + 1, y + 1)] = sum_[at(x, y + 1)] + sum_[at(x + 1, y)] - sum_[at(x, y)] +
                                 (usable[index(machine.tile(x, y))] ? 0 : 1);
      }
    }
  }
  bool none(int x, int y, int w, int h) const {
    return sum_.empty() ||
           sum_[at(x + w, y + h)] + sum_[at(x, y)] == sum_[at(x, y + h)] + sum_[at(x + w, y)];
  }

 private:
  std::size_t at(int x, int y) const {
    return static_cast<std::size_t>(y) * width_ + static_cast<std::size_t>(x);
  }
  std::size_t width_;
  std::vector<std::uint32_t> sum_;
};

/// Where pieces of a length start along one side of the mesh. In dies: cut anew in every die, so
/// that no piece crosses a boundary; else end to end over the whole mesh.
std::vector<int> starts(int piece, int per_die, int dies, bool in_dies) {
  std::vector<int> result;
  const int span = in_dies ? per_die : per_die * dies;
  for (int d = 0; d < (in_dies ? dies : 1); ++d) {
    for (int k = 0; k + piece <= span; k += piece) result.push_back(d * span + k);
  }
  return result;
}

/// A way of laying rectangles over the mesh.
struct Layout {
  int width = 0, height = 0;
  bool in_dies = true;
};

using Corners = std::vector<std::pair<int, int>>;

/// Top left corners of the rectangles without spare and dead tiles, along a snake of rows; at most
/// `most`.
Corners corners(const Layout& layout, const MachineConfig& m, const UnusableCount& unusable,
                std::size_t most) {
  const std::vector<int> xs = starts(layout.width, m.tiles_x, m.dies_x, layout.in_dies);
  const std::vector<int> ys = starts(layout.height, m.tiles_y, m.dies_y, layout.in_dies);
  Corners result;
  for (std::size_t row = 0; row < ys.size(); ++row) {
    for (std::size_t i = 0; i < xs.size() && result.size() < most; ++i) {
      const int x = xs[row % 2 == 0 ? i : xs.size() - 1 - i];
      if (unusable.none(x, ys[row], layout.width, layout.height)) result.emplace_back(x, ys[row]);
    }
  }
  return result;
}

/// True when the rectangle of the innermost axis is a tensor group of several axes.
bool is_grid(const PlanConfig& plan, int unit) {
  return plan.tensor_shape.size() > 1 && plan.axis_order().front() == PlacedAxis::tensor &&
         unit == plan.tensor;
}

std::string inner_axis(const PlanConfig& plan) {
  return std::string("the ") + to_string(plan.axis_order().front()) + " ranks of a group";
}

std::vector<std::pair<int, int>> row_order(int width, int height) {
  std::vector<std::pair<int, int>> cells;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) cells.emplace_back(x, y);
  }
  return cells;
}

/// The layouts to try, best first (see Placement in the header, and docs/plan.md).
std::vector<Layout> candidates(const PlanConfig& plan, const MachineConfig& m, int unit) {
  struct Ranked {
    int rank;     ///< 0: divides the die or is divided by it, 1: stays inside dies, 2: crosses them
    int longest;  ///< of its sides: the squarest first
    Layout layout;
  };
  std::vector<Ranked> ranked;
  const auto consider = [&](int w, int h) {
    const bool divides = m.tiles_x % w == 0 && m.tiles_y % h == 0;
    const bool divided = w % m.tiles_x == 0 && h % m.tiles_y == 0;
    const int longest = std::max(w, h);
    if (divides || divided) {
      ranked.push_back({0, longest, {w, h, divides}});
      return;
    }
    if (w <= m.tiles_x && h <= m.tiles_y) ranked.push_back({1, longest, {w, h, true}});
    if (w <= m.width() && h <= m.height()) ranked.push_back({2, longest, {w, h, false}});
  };
  if (plan.block_width > 0 && plan.block_height > 0) {
    consider(plan.block_width, plan.block_height);
  } else if (is_grid(plan, unit)) {
    consider(plan.tensor_shape[0], unit / plan.tensor_shape[0]);
  } else {
    for (int w = unit; w >= 1; --w) {  // of w × h and h × w the wide one first
      if (unit % w == 0) consider(w, unit / w);
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(), [](const Ranked& a, const Ranked& b) {
    return std::pair(a.rank, a.longest) < std::pair(b.rank, b.longest);
  });
  std::vector<Layout> result;
  for (const Ranked& r : ranked) result.push_back(r.layout);
  return result;
}

/// Tiles for the ranks in their physical order: `unit` of them to a rectangle.
std::vector<TileId> block_tiles(const PlanConfig& plan, const MachineConfig& machine, int unit,
                                Placement& placement) {
  const UnusableCount unusable(machine);
  const auto groups = static_cast<std::size_t>(plan.ranks() / unit);
  std::optional<Layout> fullest;  // for the message
  std::size_t most = 0;
  for (const Layout& layout : candidates(plan, machine, unit)) {
    const Corners at = corners(layout, machine, unusable, groups);
    if (!fullest || at.size() > most) {
      fullest = layout;
      most = at.size();
    }
    if (at.size() < groups) continue;
    placement.block_width = layout.width;
    placement.block_height = layout.height;
    std::vector<TileId> tiles;
    tiles.reserve(static_cast<std::size_t>(plan.ranks()));
    const auto cells = is_grid(plan, unit) ? row_order(layout.width, layout.height)
                                           : ring_order(layout.width, layout.height);
    for (const auto& [x, y] : at) {
      for (const auto& [dx, dy] : cells) tiles.push_back(machine.tile(x + dx, y + dy));
    }
    return tiles;
  }
  const std::string size =
      fmt::format("machine '{}' of {} × {} tiles", machine.name, machine.width(), machine.height());
  if (most == 0) {
    fail(plan,
         fmt::format("no rectangle of {} tiles ({}) fits on {}; 'placement: serpentine' would "
                     "place the {} ranks on its {} usable tiles",
                     unit, inner_axis(plan), size, plan.ranks(), machine.usable_tiles()));
  }
  fail(plan, fmt::format("block placement needs {} rectangles of {} tiles ({}), but at most {} of "
                         "{} × {} fit on {}; 'placement: serpentine' would place the {} ranks on "
                         "its {} usable tiles",
                         groups, unit, inner_axis(plan), most, fullest->width, fullest->height,
                         size, plan.ranks(), machine.usable_tiles()));
}

std::vector<TileId> serpentine_tiles(const PlanConfig& plan, const MachineConfig& machine) {
  const std::vector<bool> usable = machine.usable_map();
  const auto ranks = static_cast<std::size_t>(plan.ranks());
  std::vector<TileId> tiles;
  tiles.reserve(ranks);
  for (int y = 0; y < machine.height(); ++y) {
    for (int i = 0; i < machine.width() && tiles.size() < ranks; ++i) {
      const TileId t = machine.tile(y % 2 == 0 ? i : machine.width() - 1 - i, y);
      if (usable[index(t)]) tiles.push_back(t);
    }
  }
  return tiles;
}

/// The rank (index into Placement::tiles) at each physical position, in the plan's order of axes.
std::vector<std::size_t> rank_order(const PlanConfig& plan) {
  struct Digit {
    std::size_t degree, stride;
  };
  std::vector<Digit> digits;
  for (const PlacedAxis axis : plan.axis_order()) {
    std::size_t stride = 1;
    for (const PlacedAxis inner : kRankOrder) {
      if (inner == axis) break;
      stride *= static_cast<std::size_t>(plan.degree(inner));
    }
    digits.push_back({static_cast<std::size_t>(plan.degree(axis)), stride});
  }
  std::vector<std::size_t> ranks(static_cast<std::size_t>(plan.ranks()), 0);
  for (std::size_t at = 0; at < ranks.size(); ++at) {
    std::size_t rest = at;
    for (const Digit& d : digits) {
      ranks[at] += rest % d.degree * d.stride;
      rest /= d.degree;
    }
  }
  return ranks;
}

/// The tiles a user lists.
void place_as_listed(const PlanConfig& plan, const MachineConfig& machine, Placement& placement) {
  const std::vector<bool> usable = machine.usable_map(), dead = machine.dead_map();
  std::vector<bool> taken(static_cast<std::size_t>(machine.tiles()), false);
  if (plan.listed_tiles.size() != static_cast<std::size_t>(plan.ranks())) {
    fail(plan,
         fmt::format("{} tiles are listed for {} ranks", plan.listed_tiles.size(), plan.ranks()));
  }
  for (const auto& [x, y] : plan.listed_tiles) {
    if (x >= machine.width() || y >= machine.height()) {
      fail(plan, fmt::format("tile [{}, {}] is not on machine '{}' of {} × {} tiles", x, y,
                             machine.name, machine.width(), machine.height()));
    }
    const TileId t = machine.tile(x, y);
    if (!usable[index(t)]) {
      fail(plan,
           fmt::format("tile [{}, {}] is a {} tile", x, y, dead[index(t)] ? "dead" : "spare"));
    }
    if (taken[index(t)]) fail(plan, fmt::format("tile [{}, {}] is listed twice", x, y));
    taken[index(t)] = true;
    placement.tiles.push_back(t);
  }
}

}  // namespace

std::vector<TileId> Placement::tile_group(int stage, int replica) const {
  const auto first =
      tiles.begin() + static_cast<std::ptrdiff_t>(stage * replicas + replica) * group;
  return {first, first + group};
}

Placement place(const PlanConfig& plan, const MachineConfig& machine) {
  if (plan.ranks() > machine.usable_tiles()) {
    fail(plan,
         fmt::format("{} are {} ranks, but machine '{}' has {} usable tiles", plan.degrees_text(),
                     plan.ranks(), machine.name, machine.usable_tiles()));
  }
  Placement placement;
  placement.pipeline = plan.pipeline;
  placement.replicas = plan.replicas();
  placement.group = plan.group_ranks();
  if (plan.placement == PlacementKind::file) {
    place_as_listed(plan, machine, placement);
    return placement;
  }
  const int unit = plan.degree(plan.axis_order().front());
  const std::vector<TileId> tiles = plan.placement == PlacementKind::block
                                        ? block_tiles(plan, machine, unit, placement)
                                        : serpentine_tiles(plan, machine);
  placement.tiles.resize(tiles.size());
  const std::vector<std::size_t> ranks = rank_order(plan);
  for (std::size_t at = 0; at < tiles.size(); ++at) placement.tiles[ranks[at]] = tiles[at];
  return placement;
}

std::vector<std::pair<int, int>> ring_order(int width, int height) {
  std::vector<std::pair<int, int>> cells;
  cells.reserve(static_cast<std::size_t>(width) * static_cast<std::size_t>(height));
  const bool cycle = width >= 2 && height >= 2 && (width % 2 == 0 || height % 2 == 0);
  if (!cycle) {
    for (int y = 0; y < height; ++y) {
      for (int i = 0; i < width; ++i) cells.emplace_back(y % 2 == 0 ? i : width - 1 - i, y);
    }
    return cells;
  }
  // A snake through all but the first column ends beside that column after an even number of rows;
  // the column leads back. An odd number of rows: the same with x and y exchanged.
  const bool exchanged = height % 2 != 0;
  const int across = exchanged ? height : width, along = exchanged ? width : height;
  const auto add = [&](int a, int b) {
    exchanged ? cells.emplace_back(b, a) : cells.emplace_back(a, b);
  };
  add(0, 0);
  for (int b = 0; b < along; ++b) {
    for (int i = 1; i < across; ++i) add(b % 2 == 0 ? i : across - i, b);
  }
  for (int b = along - 1; b > 0; --b) add(0, b);
  return cells;
}

}  // namespace tilewright
