// One collective by itself, as a program.
#pragma once

#include <cstdint>
#include <vector>

#include <tilewright/plan/collective.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// The program in which `tiles`, in this order, run one collective from their SRAM; the first one
/// is the root of a broadcast. Written as those of a plan are. `bytes` as of make_schedule().
/// Throws InputError when the algorithm cannot run on them.
Program collective_program(const MachineConfig& machine, const std::vector<TileId>& tiles,
                           CollectiveKind kind, CollectiveAlgorithm algorithm, std::int64_t bytes);

}  // namespace tilewright
