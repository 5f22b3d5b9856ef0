// Which tiles and switches are joined by which links.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/machine/machine.h>

namespace tilewright {

/// The mesh links of a tile; the opposite of d is d ^ 1.
enum class Direction : std::uint8_t { east, west, south, north };
constexpr unsigned kDirections = 4;

/// The nodes of a machine (its tiles, then its switches) and the directed links between them, which
/// come in pairs. The links out of a node are its ports, numbered from 0; on a mesh port d of a
/// tile is Direction d, whether there is such a link or not.
class Topology {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Link {
    std::uint32_t to = kNone;   ///< the neighbour; kNone beyond the edge of a mesh
    std::uint16_t to_port = 0;  ///< of the neighbour: the link back
    LinkKind kind{};
    bool works = false;
  };

  explicit Topology(const MachineConfig& machine);

  std::uint32_t tiles() const { return tiles_; }
  std::uint32_t nodes() const { return nodes_; }
  std::uint32_t links() const { return static_cast<std::uint32_t>(links_.size()); }
  /// The number of a node's port 0; its links have consecutive numbers.
  std::uint32_t first_link(std::uint32_t node) const {
    return first_.empty() ? node * kDirections : first_[node];
  }
  unsigned ports(std::uint32_t node) const { return first_link(node + 1) - first_link(node); }
  const Link& link(std::uint32_t number) const { return links_[number]; }
  const Link& link(std::uint32_t node, unsigned port) const {
    return links_[first_link(node) + port];
  }
  /// The link by which the neighbour at `port` reaches `node`.
  const Link& link_back(std::uint32_t node, unsigned port) const {
    const Link& out = link(node, port);
    return link(out.to, out.to_port);
  }
  /// The node that a link leaves.
  std::uint32_t from(std::uint32_t number) const {
    return grid() ? number / kDirections : link(links_[number].to, links_[number].to_port).to;
  }
  bool dead(std::uint32_t node) const { return node < dead_.size() && dead_[node]; }
  /// True when tiles or links are missing, so that routes must go round them.
  bool defective() const { return defective_; }

  /// A mesh or a torus, not a fabric of switches and links as a file lists them.
  bool grid() const { return first_.empty(); }
  /// A torus: the last tile of a row (or column) of more than one is linked to the first.
  bool torus() const { return torus_; }
  /// True for the links of a torus that join the ends of a row or column.
  bool wraps(std::uint32_t tile, Direction d) const {
    switch (d) {
      case Direction::east:
        return x(tile) == width() - 1;
      case Direction::west:
        return x(tile) == 0;
      case Direction::south:
        return y(tile) == height() - 1;
      default:
        return y(tile) == 0;
    }
  }
  int x(std::uint32_t tile) const { return places_[tile].x; }
  int y(std::uint32_t tile) const { return places_[tile].y; }
  int width() const { return static_cast<int>(width_); }
  int height() const { return static_cast<int>(height_); }
  /// The hops from one tile of a grid to another, east and south positive: on a torus the shorter
  /// way round, and of two equal ones east or south from even coordinates, west or north from odd
  /// ones, which shares them out and is mirrored with the machine.
  std::pair<int, int> hops(std::uint32_t from, std::uint32_t to) const {
    const Place a = places_[from], b = places_[to];
    if (!torus_) return {b.x - a.x, b.y - a.y};
    return {round(b.x - a.x, width(), a.x), round(b.y - a.y, height(), a.y)};
  }

  /// "(3,1)" of a tile, the name of a switch.
  std::string name(std::uint32_t node) const;

  /// The nodes along `links`, each of which begins where the one before ends: "(0,0) -> (1,0) ->
  /// (0,0)".
  std::string circle_text(const std::vector<std::uint32_t>& links) const;

  /// Two working tiles of which the first cannot reach the second; {kNone, kNone} if there are
  /// none.
  std::pair<std::uint32_t, std::uint32_t> unreachable() const;

 private:
  struct Place {
    int x, y;
  };
  static int round(int hops, int size, int from);
  void join_grid(const MachineConfig& machine);
  void join_fabric(const FabricConfig& fabric);

  std::uint32_t tiles_, nodes_, width_, height_;
  bool torus_, defective_;
  std::vector<Place> places_;         // of the tiles, to spare the divisions
  std::vector<bool> dead_;            // by tile; empty: none
  std::vector<std::uint32_t> first_;  // by node, and the number of links; empty: a grid
  std::vector<Link> links_;
  std::vector<std::string> switches_;
};

}  // namespace tilewright
