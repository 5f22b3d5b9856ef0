// A protocol checker on every memory-side socket pair of a machine.
#pragma once

#include <tilewright/hardware/memory.h>

namespace tilewright {

/// For PlatformOptions::bind_memory: puts a ProtocolChecker, named check0, check1, ..., between the
/// sockets of each pair. A violation is an InternalError, since both sides are ours. (The payloads
/// of tile programs carry no data, which the checkers allow.)
/// The checkers live as long as a copy of the binder.
MemoryBinder checked_sockets();

}  // namespace tilewright
