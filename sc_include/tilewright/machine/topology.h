// Which tiles are joined by which links.
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

/// The tiles and directed links of a machine that work. Link d of tile t has number
/// t · kDirections + d, whether there is such a link or not.
class Topology {
 public:
  static constexpr std::uint32_t kNone = 0xffffffffu;
  struct Link {
    std::uint32_t to = kNone;  ///< the neighbour; kNone beyond the edge of the mesh
    LinkKind kind = LinkKind::tile;
    bool works = false;
  };

  explicit Topology(const MachineConfig& machine);

  std::uint32_t tiles() const { return tiles_; }
  const Link& link(std::uint32_t tile, unsigned direction) const {
    return links_[tile * kDirections + direction];
  }
  const Link& link(std::uint32_t number) const { return links_[number]; }
  std::uint32_t links() const { return static_cast<std::uint32_t>(links_.size()); }
  /// The link by which the neighbour in `direction` reaches `tile`.
  const Link& link_back(std::uint32_t tile, unsigned direction) const {
    return link(link(tile, direction).to, direction ^ 1u);
  }
  bool dead(std::uint32_t tile) const { return !dead_.empty() && dead_[tile]; }
  /// True when tiles or links are missing, so that routes must go round them.
  bool defective() const { return defective_; }

  int x(std::uint32_t tile) const { return static_cast<int>(tile % width_); }
  int y(std::uint32_t tile) const { return static_cast<int>(tile / width_); }
  int width() const { return static_cast<int>(width_); }
  int height() const { return static_cast<int>(height_); }
  /// "(3,1)".
  std::string name(std::uint32_t tile) const;

  /// Two working tiles of which the first cannot reach the second; {kNone, kNone} if there are
  /// none.
  std::pair<std::uint32_t, std::uint32_t> unreachable() const;

 private:
  std::uint32_t tiles_, width_, height_;
  bool defective_;
  std::vector<bool> dead_;  // empty: none
  std::vector<Link> links_;
};

}  // namespace tilewright
