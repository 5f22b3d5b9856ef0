// The process that feeds the tiles.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/sockets.h>
#include <tilewright/hardware/tile.h>
#include <tilewright/program/program.h>

namespace tilewright {

struct WorkloadDriverConfig {
  const Program& program;
  EventQueue& queue;
  std::uint32_t width = 1, height = 1;  ///< of the mesh
  std::function<void(double)> progress = {};
  std::map<TileId, Seconds> delay = {};  ///< until a tile gets its first call; others begin at 0
  std::uint32_t agent = 0;               ///< number for EventQueue::attach_agent(), for `delay`
};

/// Injects the calls of each group into its tiles, both lists in order, up to the tiles' window,
/// and each call when as many of the other list as it waits for (Call::after) are complete; a tile
/// that has retired a call gets its next ones in the following delta cycle. Untimed but for tiles
/// that start late. One multi-bound initiator per mesh row (binding one to all tiles would take
/// quadratic time). Pauses the simulation when the last call is complete.
class WorkloadDriver : public sc_core::sc_module, public EventHandler {
 public:
  using Out = InitiatorSocket<CallTypes, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;  // a dead row: zero

  WorkloadDriver(const sc_core::sc_module_name& name, const WorkloadDriverConfig& config);

  void connect(std::uint32_t tile, Tile& module);
  bool connected(std::uint32_t tile) const { return clients_[tile].position >= 0; }
  /// A late tile starts.
  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;
  /// Calls not complete.
  std::uint64_t outstanding() const { return total_ - retired_; }

 private:
  class Return : public NonblockingInitiator<CallTypes> {
   public:
    tlm::tlm_sync_enum nb_transport_bw(CallRequest& request, CallPhase& phase,
                                       sc_core::sc_time& delay) override;
    WorkloadDriver* driver = nullptr;
  };
  using CallInterface = tlm::tlm_fw_nonblocking_transport_if<CallRequest, CallPhase>;
  struct List {
    const Call* calls = nullptr;
    std::uint32_t size = 0, injected = 0, retired = 0;
  };
  struct Client {
    CallInterface* tile = nullptr;
    std::int32_t position = -1;  // in its row's socket, -1: not connected
    bool pending = false;
    std::array<List, 2> lists;  // TileGroup::call_lists()
  };

  void end_of_elaboration() override;
  void inject();
  void ready(std::uint32_t tile);
  /// Whether the next call of a list may go to the tile.
  static bool may_inject(const Client& client, bool background);
  void retired(const CallRequest& request);

  WorkloadDriverConfig config_;
  std::vector<std::unique_ptr<Out>> rows_;
  std::vector<Return> returns_;
  std::vector<std::int32_t> bound_;  // by row
  std::vector<Client> clients_;      // by tile
  std::vector<std::uint32_t> pending_, injecting_;
  std::uint64_t total_ = 0, retired_ = 0, report_at_ = 0;
  sc_core::sc_event more_;
};

}  // namespace tilewright
