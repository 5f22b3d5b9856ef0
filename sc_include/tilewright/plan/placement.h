// Which tile runs which rank.
#pragma once

#include <vector>

#include <tilewright/base/ids.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

/// Tiles of all ranks. Tensor ranks are innermost, then data replicas, then stages, so that a
/// tensor group is compact and the replicas of a stage are neighbours.
struct Placement {
  int pipeline = 1, tensor = 1, data = 1;
  std::vector<TileId> tiles;              ///< [(stage · data + replica) · tensor + rank]
  int block_width = 0, block_height = 0;  ///< of a tensor group, 0 for serpentine

  TileId tile(int stage, int replica, int rank) const {
    return tiles[static_cast<std::size_t>((stage * data + replica) * tensor + rank)];
  }
  /// The tensor group of (stage, replica), in ring order: consecutive ranks are neighbours where
  /// the shape allows, and the last is a neighbour of the first on rectangles with an even side.
  std::vector<TileId> tensor_group(int stage, int replica) const;
  /// The data-parallel group of (stage, rank).
  std::vector<TileId> data_group(int stage, int rank) const;
};

/// Places the ranks of a plan. `block`: the tensor group's rectangle w × h = tensor is the plan's,
/// or else chosen: one that divides the die (or is divided by it) first, then the squarest, among
/// those that fit all groups on the mesh; rectangles are laid in a snake, within them ranks follow
/// a Hamiltonian cycle when a side is even, a snake otherwise. Spare tiles are avoided: a rectangle
/// that would hold one is skipped. `serpentine`: the snake over all usable tiles. Throws InputError
/// (with the plan's place) when the ranks do not fit, naming both numbers and, for block, how many
/// rectangles fit and that `placement: serpentine` would.
Placement place(const PlanConfig& plan, const MachineConfig& machine);

/// A cycle through the w × h grid cells as (x, y) where one exists (w or h even, both ≥ 2), else a
/// snake (last and first are then not neighbours).
std::vector<std::pair<int, int>> ring_order(int width, int height);

}  // namespace tilewright
