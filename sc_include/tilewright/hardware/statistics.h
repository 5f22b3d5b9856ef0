// What the hardware counts while it runs. Plain data, read after Platform::run().
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/ids.h>
#include <tilewright/base/quantity.h>
#include <tilewright/hardware/language.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// What a tile is doing, or waiting for, at an instant. The states of a tile partition the
/// iteration: their times sum to its length exactly.
enum class TileState : std::uint8_t {
  matrix,           ///< matrix engine busy (recomputed operators excepted)
  vector,           ///< vector engine busy and the matrix engine not
  recomputation,    ///< either engine busy with Phase::recompute
  sram_stall,       ///< an engine held back by the SRAM's bandwidth
  dram_wait,        ///< engines wait for a load or a store
  tensor_wait,      ///< engines wait for a tensor-parallel message (or the rank that is to send it)
  data_wait,        ///< the same for data-parallel messages
  context_wait,     ///< the same for context-parallel messages
  expert_wait,      ///< the same for expert-parallel messages
  resharding_wait,  ///< the same for tensors that are split anew
  offload_wait,     ///< engines wait for the second memory tier
  pipeline_wait,    ///< a stage-to-stage message is on its way
  bubble,           ///< the neighbouring stage has not sent yet, or this tile has finished
  idle,             ///< the program gives the tile nothing to do
};
constexpr int kTileStates = 14;
std::string to_string(TileState s);  ///< "matrix", "dram_wait", ...

/// The state of a tile that waits for bytes which move on behalf of `cause`.
TileState wait_for(Cause cause);

struct TileStatistics {
  std::array<Picoseconds, kTileStates> time{};
  /// By cause: time in which a message of it is on its way to the tile (offload: or a load or store
  /// of the tile is under way), or the tile is in its wait. What exceeds the wait is hidden behind
  /// other states. Nothing is counted for Cause::memory.
  std::array<Picoseconds, kCauses> active{};
  Picoseconds matrix_busy = 0, vector_busy = 0;
  Picoseconds first_start = 0, finish = 0;  ///< of the tile's first and last instruction
  double flop = 0;                          ///< executed by the matrix engine
  double recomputed_flop = 0;               ///< part of `flop` in Phase::recompute
  std::uint64_t sram_peak = 0;              ///< high-water mark, bytes
  std::uint64_t dram_peak = 0;              ///< high-water mark of this tile's own allocations
  std::uint64_t host_peak = 0;              ///< the same in the host memory
  std::uint64_t bytes_sent = 0, bytes_received = 0;  ///< messages between tiles
  /// The most bytes of messages that were there at one time without having been received.
  std::uint64_t waiting_peak = 0;
};

/// Its ends may be switches, see LinkPlace.
struct LinkStatistics {
  TileId from{}, to{};
  LinkKind kind = LinkKind::tile;
  std::uint64_t bytes = 0, messages = 0;
  Picoseconds busy = 0;
};

/// Of one controller.
struct DramStatistics {
  TileId site{};
  std::uint64_t bytes_read = 0, bytes_written = 0;
  Picoseconds busy = 0;              ///< time with at least one request in service
  std::uint64_t allocated_peak = 0;  ///< high-water mark, bytes
};

struct RunStatistics {
  Picoseconds end = 0;             ///< last completion
  std::uint64_t events = 0;        ///< entries taken from the event queue
  std::uint64_t message_hops = 0;  ///< link traversals, memory traffic included
  std::uint64_t messages = 0;      ///< tile-to-tile messages
  std::array<std::uint64_t, kCauses> bytes_by_cause{};  ///< injected
  IdVector<TileId, TileStatistics> tiles;
  IdVector<LinkId, LinkStatistics> links;
  IdVector<DramId, DramStatistics> dram;
  IdVector<DramId, DramStatistics> host;  ///< controllers of the second memory tier
};

}  // namespace tilewright
