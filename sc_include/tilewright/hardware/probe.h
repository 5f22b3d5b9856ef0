// What observers may watch while the machine runs.
#pragma once

#include <array>
#include <cstdint>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/program/program.h>

namespace tilewright {

struct Packet;

/// What a controller has moved for a load or store.
struct MemoryMove {
  Space space = Space::dram;
  bool write = false;
  bool foreign = false;  ///< for a module of somebody else's: no tile's SRAM takes part
  std::uint64_t bytes = 0;
  Picoseconds start = 0, end = 0;
  std::uint32_t tiles = 1;  ///< that get what is read: several share a load
};

/// Is told, before it happens and in order of time, that something it watches may change. What it
/// then reads (Platform::view(), ...) is what has held up to that time. Unwatched parts cost the
/// comparison of a pointer.
class Probe {
 public:
  virtual ~Probe() = default;
  virtual void tile_changes(Picoseconds now, std::uint32_t tile) = 0;
  virtual void dram_changes(Picoseconds now, std::uint32_t id) = 0;
  /// `bytes` of a packet whose head came to a router at `head` have claimed a link
  /// (LinkPlace::number) from `start` to `end`: all of it at message fidelity, at flit fidelity one
  /// flit (`head` is then `now`). Claims of one link come in order and do not overlap. For data
  /// read from DRAM `head` and `start` may lie before `now`, by no more than the data takes on the
  /// slowest link of its way (see Network::inject(), `lead`).
  virtual void link_claimed(Picoseconds now, std::uint32_t link, Picoseconds head,
                            Picoseconds start, Picoseconds end, const Packet& packet,
                            std::uint64_t bytes) = 0;
  /// For those who watch the work (Platform::watch_work()): an engine works on `amount` parts of a
  /// shape from `start` to `end`; a message has been sent on behalf of
  /// the operator or collective `name` (Program::names); a controller has moved data.
  virtual void computes(std::uint32_t /*shape*/, std::uint32_t /*amount*/, Picoseconds /*start*/,
                        Picoseconds /*end*/) {}
  virtual void message_sent(Picoseconds /*now*/, const Packet&, std::uint16_t /*name*/) {}
  virtual void memory_moved(const MemoryMove&) {}
};

/// A directed link. Its ends are tiles, or the switches of a fabric, whose numbers follow those of
/// the tiles (Topology::name()).
struct LinkPlace {
  std::uint32_t number = 0;
  TileId from{}, to{};
};

/// A tile as it is now.
struct TileView {
  /// What an engine has in hand. matrix, vector: the computation; dma_in, dma_out: the last
  /// transfer issued, while any is under way; net_recv: the receive that waits for its message;
  /// net_send: never anything, since sends are complete when they are injected. What the
  /// background has in hand counts where the tile's own calls have nothing.
  struct Work {
    const Instruction* instruction = nullptr;
    const Call* call = nullptr;
  };
  TileState state = TileState::idle;
  Picoseconds stall_from = ~Picoseconds{0};  ///< from then on it is sram_stall, if nothing happens
  TileState state_at(Picoseconds t) const { return t < stall_from ? state : TileState::sram_stall; }
  std::array<Work, kEngines> engines{};
  const Call* call = nullptr;  ///< the latest that computes, or else the oldest incomplete one
  Work background;             ///< the first instruction not complete of the oldest background call
  std::uint32_t loads = 0, stores = 0;                        ///< under way
  std::uint64_t sent = 0, received = 0;                       ///< bytes of messages so far
  std::uint64_t sram_used = 0, sram_peak = 0, dram_used = 0;  ///< bytes
};

/// The open rows of one DRAM channel, command by command. The model itself looks ahead and skips,
/// so it is replayed beside it.
class RowReplay {
 public:
  static constexpr std::int64_t kClosed = -1;

  virtual ~RowReplay() = default;
  virtual std::size_t banks() const = 0;
  virtual std::int64_t row(std::size_t bank) const = 0;
  /// Takes note of requests that have come since.
  virtual void update() = 0;
  /// When a row is opened or closed next if no request comes; all ones: never.
  virtual Picoseconds next() = 0;
  /// Goes to that time.
  virtual void advance() = 0;
};

}  // namespace tilewright
