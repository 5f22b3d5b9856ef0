// Which tile runs which rank.
#pragma once

#include <vector>

#include <tilewright/base/ids.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

/// Tiles of all ranks. Tensor ranks are innermost, then context, expert and data-parallel ranks,
/// then stages.
struct Placement {
  int pipeline = 1;
  int replicas = 1;                       ///< tile groups of a stage
  int group = 1;                          ///< ranks of a tile group
  std::vector<TileId> tiles;              ///< [(stage · replicas + replica) · group + rank]
  int block_width = 0, block_height = 0;  ///< of a rectangle of ranks, 0 where there are none

  TileId tile(int stage, int replica, int rank) const {
    return tiles[static_cast<std::size_t>((stage * replicas + replica) * group + rank)];
  }
  /// The tile group of (stage, replica) by rank. A tensor group follows a ring: consecutive ranks
  /// are neighbours where the shape allows, and the last is a neighbour of the first on rectangles
  /// with an even side.
  std::vector<TileId> tile_group(int stage, int replica) const;
};

/// Places the ranks of a plan, axis inside axis in the plan's order (tensor, context, expert, data,
/// pipeline unless it says otherwise). `block`: the ranks of the innermost axis fill a rectangle
/// w × h, the plan's, or else chosen: one that divides the die (or is divided by it) first, then
/// the squarest, among those that fit all groups on the mesh; rectangles are laid in a snake,
/// within them ranks follow a Hamiltonian cycle when a side is even, a snake otherwise, and the
/// rows of a tensor group of two or three axes its first axis. Spare and dead tiles are avoided: a
/// rectangle that would hold one is skipped. `serpentine`: the snake over all usable tiles. `file`:
/// as listed. Throws InputError (with the plan's place) when the ranks do not fit, naming both
/// numbers and, for block, how many rectangles fit and that `placement: serpentine` would.
Placement place(const PlanConfig& plan, const MachineConfig& machine);

/// A cycle through the w × h grid cells as (x, y) where one exists (w or h even, both ≥ 2), else a
/// snake (last and first are then not neighbours).
std::vector<std::pair<int, int>> ring_order(int width, int height);

}  // namespace tilewright
