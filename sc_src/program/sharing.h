// The checks of loads that several tiles make together, for Program::seal().
#pragma once

#include <tilewright/program/program.h>

namespace tilewright::program_detail {

/// Checks that the tables of shared loads are complete and name a tile of each set, that a tile
/// makes the loads of a table in one of its two lists, and that over the iteration all tiles of a
/// set make equally many, of equally many bytes. Throws InputError.
void check_sharing(const Program& program);

}  // namespace tilewright::program_detail
