// `defects`: what a machine as built lacks against its design.
#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "readers.h"

namespace tilewright {
namespace {

std::string print(TileId t, const MachineConfig& m) {
  return fmt::format("[{}, {}]", m.x(t), m.y(t));
}

/// `count` tiles of the mesh: one as [x, y], several as [[x, y], ...].
std::vector<TileId> read_tiles(const Section& section, const std::string& key, std::size_t count,
                               const MachineConfig& m) {
  const auto pairs = section.pairs(key);
  if (pairs.size() != count) {
    section.fail(key, fmt::format("found {} tiles; wanted: {}", pairs.size(),
                                  count == 1 ? "[x, y]" : "[[x, y], [x, y]]"));
  }
  std::vector<TileId> tiles;
  for (const auto& [x, y] : pairs) {
    check_inside(section, key, x, y, m.width(), m.height(), "mesh");
    tiles.push_back(m.tile(static_cast<int>(x), static_cast<int>(y)));
  }
  return tiles;
}

/// The tiles that an entry of slow_tiles or delayed_tiles names: `tile`, or all of the rectangle
/// between the corners `tiles`.
std::vector<TileId> read_region(const Section& entry, const MachineConfig& m) {
  if (entry.has("tile") == entry.has("tiles")) {
    entry.fail("",
               "wanted: either tile: [x, y] or tiles: [[x, y], [x, y]], the corners of a "
               "rectangle");
  }
  if (entry.has("tile")) return read_tiles(entry, "tile", 1, m);
  const std::vector<TileId> corners = read_tiles(entry, "tiles", 2, m);
  const auto [x0, x1] = std::minmax({m.x(corners[0]), m.x(corners[1])});
  const auto [y0, y1] = std::minmax({m.y(corners[0]), m.y(corners[1])});
  std::vector<TileId> tiles;
  for (int y = y0; y <= y1; ++y) {
    for (int x = x0; x <= x1; ++x) tiles.push_back(m.tile(x, y));
  }
  return tiles;
}

void read_dead_tiles(const Section& defects, MachineConfig& m) {
  m.defects.dead_tiles = read_coordinates(defects, "dead_tiles", m.width(), m.height(), "mesh");
  std::sort(m.defects.dead_tiles.begin(), m.defects.dead_tiles.end(), row_major);
  const std::vector<bool> dead = m.dead_map();
  m.spare.erase(
      std::remove_if(m.spare.begin(), m.spare.end(),
                     [&](const auto& at) { return dead[index(m.tile(at.first, at.second))]; }),
      m.spare.end());
  if (m.usable_tiles() == 0) {
    defects.fail("dead_tiles",
                 fmt::format("{} dead and {} spare tiles are all of the mesh; nothing "
                             "is left to compute",
                             m.defects.dead_tiles.size(), m.spare.size()));
  }
}

void read_dead_links(const Section& defects, MachineConfig& m) {
  const std::vector<bool> dead = m.dead_map();
  std::set<std::pair<TileId, TileId>> seen;
  if (m.fabric && defects.has("dead_links")) {
    defects.fail("dead_links",
                 "links are named by the tiles of a mesh that they join; a machine "
                 "with switches has none");
  }
  for (const Section& entry : defects.sections("dead_links")) {
    if (entry.has("between") == (entry.has("from") || entry.has("to"))) {
      entry.fail("",
                 "wanted: either between: [[x, y], [x, y]], both directions, or from: [x, y] "
                 "and to: [x, y], one direction");
    }
    const bool both = entry.has("between");
    const std::vector<TileId> ends =
        both ? read_tiles(entry, "between", 2, m)
             : std::vector<TileId>{read_tiles(entry, "from", 1, m).front(),
                                   read_tiles(entry, "to", 1, m).front()};
    const std::string key = both ? "between" : "to";
    const TileId a = ends[0], b = ends[1];
    if (m.hops(a, b) != 1) {
      entry.fail(key, fmt::format("{} and {} are not neighbours; a link joins two tiles whose x or "
                                  "y differs by 1",
                                  print(a, m), print(b, m)));
    }
    for (const TileId t : ends) {
      if (!dead[index(t)]) continue;
      entry.fail(key,
                 fmt::format("{} is a dead tile; all its links are gone with it", print(t, m)));
    }
    for (const auto& link :
         both ? std::vector{std::pair{a, b}, std::pair{b, a}} : std::vector{std::pair{a, b}}) {
      if (!seen.insert(link).second) {
        entry.fail(key, fmt::format("the link from {} to {} is given twice", print(link.first, m),
                                    print(link.second, m)));
      }
      m.defects.dead_links.push_back(link);
    }
  }
}

/// Tiles of slow_tiles or delayed_tiles: each must have engines that are used, and be named once.
template <class Value, class Read>
void read_stragglers(const Section& defects, const std::string& key, const MachineConfig& m,
                     std::map<TileId, Value>& values, Read read) {
  const std::vector<bool> dead = m.dead_map(), usable = m.usable_map();
  for (const Section& entry : defects.sections(key)) {
    const std::vector<TileId> tiles = read_region(entry, m);
    const std::string named = entry.has("tile") ? "tile" : "tiles";
    const Value value = read(entry);
    for (const TileId t : tiles) {
      if (!usable[index(t)]) {
        entry.fail(named, fmt::format("{} is a {} tile; its engines are not used", print(t, m),
                                      dead[index(t)] ? "dead" : "spare"));
      }
      if (!values.emplace(t, value).second) {
        entry.fail(named, fmt::format("{} is given twice", print(t, m)));
      }
    }
  }
}

double read_speed(const Section& entry) {
  const double speed = entry.number("speed", 0, 1);
  if (speed < 1e-6) {
    entry.fail("speed", fmt::format("{} is out of range; wanted: a factor on the rate of the "
                                    "engines, 1e-06 to 1 (a tile that does nothing is a dead one)",
                                    speed));
  }
  return speed;
}

Seconds read_delay(const Section& entry) {
  const Seconds delay = entry.seconds("delay");
  if (delay.value() > 1e6) {
    entry.fail("delay", to_string(delay) + " is out of range; wanted: 0 s to 1e+06 s");
  }
  return delay;
}

/// What is named but makes no difference is none.
template <class Value>
void drop(std::map<TileId, Value>& values, const Value& neutral) {
  for (auto it = values.begin(); it != values.end();) {
    it = it->second == neutral ? values.erase(it) : std::next(it);
  }
}

}  // namespace

void read_defects(const Section& defects, MachineConfig& m) {
  read_dead_tiles(defects, m);
  read_dead_links(defects, m);
  read_stragglers(defects, "slow_tiles", m, m.defects.speed, read_speed);
  read_stragglers(defects, "delayed_tiles", m, m.defects.delay, read_delay);
  drop(m.defects.speed, 1.0);
  drop(m.defects.delay, Seconds(0));
}

}  // namespace tilewright
