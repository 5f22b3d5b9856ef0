// One tile of the mesh.
#pragma once

#include <cstdint>
#include <memory>

#include <systemc>

#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/router.h>
#include <tilewright/hardware/sequencer.h>
#include <tilewright/hardware/sockets.h>
#include <tilewright/hardware/sram_bank.h>

namespace tilewright {

struct TileConfig {
  std::uint32_t tile = 0;
  SramConfig sram;
  Network& network;
  Sequencer& sequencer;
  ComputeCosts& costs;
  /// Leave out the built-in compute unit: `compute_out` is then for the owner to bind.
  bool external_compute = false;
  MemoryBinder bind_memory;  ///< of the compute unit to the SRAM; none: directly
};

/// A sequencer with its compute unit, SRAM bank and router. Takes calls at `calls_in`, gives
/// operations to the compute unit by `compute_out`. Has no process: it acts when it is called.
class Tile : public sc_core::sc_module {
 public:
  Tile(const sc_core::sc_module_name& name, const TileConfig& config);

  TileId id() const { return static_cast<TileId>(tile_); }

  TargetSocket<CallTypes> calls_in;
  InitiatorSocket<ComputeTypes> compute_out;
  SramBank sram;
  Router router;
  std::unique_ptr<ComputeUnit> compute;

 private:
  void end_of_elaboration() override;

  Sequencer& sequencer_;
  std::uint32_t tile_;
};

}  // namespace tilewright
