#include <fmt/format.h>

#include <tilewright/machine/topology.h>

namespace tilewright {

Topology::Topology(const MachineConfig& machine)
    : tiles_(static_cast<std::uint32_t>(machine.tiles())),
      width_(static_cast<std::uint32_t>(machine.width())),
      height_(static_cast<std::uint32_t>(machine.height())),
      defective_(!machine.defects.dead_tiles.empty() || !machine.defects.dead_links.empty()),
      links_(std::size_t{tiles_} * kDirections) {
  if (!machine.defects.dead_tiles.empty()) dead_ = machine.dead_map();
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
    const std::uint32_t x = tile % width_, y = tile / width_;
    const auto join = [&](Direction d, bool exists, std::uint32_t to) {
      if (!exists) return;
      Link& link = links_[tile * kDirections + static_cast<unsigned>(d)];
      link.to = to;
      link.kind = machine.crosses_die(static_cast<TileId>(tile), static_cast<TileId>(to))
                      ? LinkKind::die
                      : LinkKind::tile;
      link.works = !dead(tile) && !dead(to);
    };
    join(Direction::east, x + 1 < width_, tile + 1);
    join(Direction::west, x > 0, tile - 1);
    join(Direction::south, y + 1 < height_, tile + width_);
    join(Direction::north, y > 0, tile - width_);
  }
  for (const auto& [from, to] : machine.defects.dead_links) {
    for (unsigned d = 0; d < kDirections; ++d) {
      Link& link = links_[index(from) * kDirections + d];
      if (link.to == index(to)) link.works = false;
    }
  }
}

std::string Topology::name(std::uint32_t tile) const {
  return fmt::format("({},{})", tile % width_, tile / width_);
}

std::pair<std::uint32_t, std::uint32_t> Topology::unreachable() const {
  std::uint32_t first = 0;
  while (first < tiles_ && dead(first)) ++first;
  // The first tile reaches every other and is reached by every other: then all reach all.
  for (const bool forward : {true, false}) {
    std::vector<bool> seen(tiles_);
    std::vector<std::uint32_t> open{first};
    seen[first] = true;
    while (!open.empty()) {
      const std::uint32_t tile = open.back();
      open.pop_back();
      for (unsigned d = 0; d < kDirections; ++d) {
        const std::uint32_t to = link(tile, d).to;
        if (to == kNone || seen[to]) continue;
        if (!(forward ? link(tile, d) : link_back(tile, d)).works) continue;
        seen[to] = true;
        open.push_back(to);
      }
    }
    for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
      if (seen[tile] || dead(tile)) continue;
      return forward ? std::pair{first, tile} : std::pair{tile, first};
    }
  }
  return {kNone, kNone};
}

}  // namespace tilewright
