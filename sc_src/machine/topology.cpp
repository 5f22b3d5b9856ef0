#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include <tilewright/machine/topology.h>

namespace tilewright {

Topology::Topology(const MachineConfig& machine)
    : tiles_(static_cast<std::uint32_t>(machine.tiles())),
      nodes_(tiles_),
      width_(static_cast<std::uint32_t>(machine.width())),
      height_(static_cast<std::uint32_t>(machine.height())),
      torus_(machine.torus),
      defective_(!machine.defects.dead_tiles.empty() || !machine.defects.dead_links.empty()) {
  places_.reserve(tiles_);
  for (int y = 0; y < height(); ++y) {
    for (int x = 0; x < width(); ++x) places_.push_back({x, y});
  }
  if (!machine.defects.dead_tiles.empty()) dead_ = machine.dead_map();
  machine.fabric ? join_fabric(*machine.fabric) : join_grid(machine);
  for (const auto& [from, to] : machine.defects.dead_links) {
    for (unsigned port = 0; port < ports(index(from)); ++port) {
      Link& link = links_[first_link(index(from)) + port];
      if (link.to == index(to)) link.works = false;
    }
  }
}

void Topology::join_grid(const MachineConfig& machine) {
  links_.resize(std::size_t{tiles_} * kDirections);
  const bool wrap_x = torus_ && width_ > 1, wrap_y = torus_ && height_ > 1;
  for (std::uint32_t tile = 0; tile < tiles_; ++tile) {
    const std::uint32_t x = tile % width_, y = tile / width_;
    const auto join = [&](Direction d, bool exists, std::uint32_t to_x, std::uint32_t to_y) {
      if (!exists) return;
      Link& link = links_[tile * kDirections + static_cast<unsigned>(d)];
      link.to = to_y % height_ * width_ + to_x % width_;
      link.to_port = static_cast<std::uint16_t>(static_cast<unsigned>(d) ^ 1u);
      const TileId a = static_cast<TileId>(tile), b = static_cast<TileId>(link.to);
      link.kind = machine.crosses_wafer(a, b) ? LinkKind::wafer
                  : machine.crosses_die(a, b) ? LinkKind::die
                                              : LinkKind::tile;
      link.works = !dead(tile) && !dead(link.to);
    };
    join(Direction::east, wrap_x || x + 1 < width_, x + 1, y);
    join(Direction::west, wrap_x || x > 0, x + width_ - 1, y);
    join(Direction::south, wrap_y || y + 1 < height_, x, y + 1);
    join(Direction::north, wrap_y || y > 0, x, y + height_ - 1);
  }
}

void Topology::join_fabric(const FabricConfig& fabric) {
  switches_ = fabric.switches;
  nodes_ = tiles_ + static_cast<std::uint32_t>(switches_.size());
  first_.assign(nodes_ + 1, 0);
  for (const FabricConfig::Edge& edge : fabric.edges) {
    ++first_[edge.a + 1];
    ++first_[edge.b + 1];
  }
  for (std::uint32_t node = 0; node < nodes_; ++node) first_[node + 1] += first_[node];
  links_.resize(first_.back());
  std::vector<std::uint16_t> used(nodes_, 0);
  for (const FabricConfig::Edge& edge : fabric.edges) {
    const std::uint16_t port_a = used[edge.a]++, port_b = used[edge.b]++;
    const bool works = !dead(edge.a) && !dead(edge.b);
    links_[first_[edge.a] + port_a] = {edge.b, port_b, edge.kind, works};
    links_[first_[edge.b] + port_b] = {edge.a, port_a, edge.kind, works};
  }
}

int Topology::round(int hops, int size, int from) {
  if (2 * std::abs(hops) == size) return from % 2 == 0 ? size / 2 : -size / 2;
  if (2 * hops > size) return hops - size;
  if (2 * hops < -size) return hops + size;
  return hops;
}

std::string Topology::name(std::uint32_t node) const {
  if (node >= tiles_) return switches_[node - tiles_];
  return fmt::format("({},{})", x(node), y(node));
}

std::string Topology::circle_text(const std::vector<std::uint32_t>& links) const {
  constexpr std::size_t kShown = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(links.size(), kShown); ++i) {
    text += name(from(links[i])) + " -> ";
  }
  if (links.size() > kShown) text += "... -> ";
  return text + name(from(links.front()));
}

std::pair<std::uint32_t, std::uint32_t> Topology::unreachable() const {
  std::uint32_t first = 0;
  while (first < tiles_ && dead(first)) ++first;
  // The first tile reaches every other and is reached by every other: then all reach all.
  for (const bool forward : {true, false}) {
    std::vector<bool> seen(nodes_);
    std::vector<std::uint32_t> open{first};
    seen[first] = true;
    while (!open.empty()) {
      const std::uint32_t node = open.back();
      open.pop_back();
      for (unsigned port = 0; port < ports(node); ++port) {
        const std::uint32_t to = link(node, port).to;
        if (to == kNone || seen[to]) continue;
        if (!(forward ? link(node, port) : link_back(node, port)).works) continue;
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
