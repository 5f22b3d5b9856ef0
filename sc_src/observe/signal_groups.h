// GTKWave's save file: which signals it shows, in which groups.
#pragma once

#include <deque>
#include <string>

#include <tilewright/observe/vcd.h>

namespace tilewright {

/// Opens `dump`, a file in the same folder, at `from` to `to`. The slots of all pipeline stages
/// come first; then one group for each part of the machine ("tiles.t0_0").
std::string signal_groups(const std::deque<VcdWriter::Signal>& signals, const std::string& dump,
                          Picoseconds from, Picoseconds to);

}  // namespace tilewright
