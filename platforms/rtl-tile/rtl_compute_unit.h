// A tile's compute unit whose matrix engine is RTL.
#pragma once

#include <cstdint>
#include <functional>

#include <systemc>

#include <tilewright/hardware/backplane.h>
#include <tilewright/hardware/compute_unit.h>
#include <tilewright/hardware/protocol.h>

#include "gemm_engine.h"

namespace tilewright::rtl {

struct RtlComputeUnitConfig {
  Backplane& backplane;
  TileId tile{};
  GemmEngine& engine;
  bool pipelined = false;
  /// The operands of the product that is to be computed.
  std::function<Gemm(const ComputeShape&)> operands;
  /// Told of every product, with the cycles it took.
  std::function<void(const Gemm&, std::uint64_t cycles)> done;
};

/// Stands where ComputeUnit stands (TileConfig::external_compute). Matrix work runs on the engine,
/// with numbers, and takes the cycles it takes; operands are taken to be there in time. Vector work
/// goes to a ComputeUnit of the usual kind, `vector`, whose `memory` is to be bound to the tile's
/// SRAM. One product at a time, in int8, whole: programs may not cut it into parts.
class RtlComputeUnit : public sc_core::sc_module, public NonblockingTarget<ComputeTypes> {
 public:
  RtlComputeUnit(const sc_core::sc_module_name& name, const RtlComputeUnitConfig& config);

  TargetSocket<ComputeTypes> in;
  ComputeUnit vector;

  tlm::tlm_sync_enum nb_transport_fw(ComputeRequest& request, ComputePhase& phase,
                                     sc_core::sc_time& delay) override;

 private:
  /// The other end of the vector unit's op socket; that unit answers at once.
  class Answer : public NonblockingInitiator<ComputeTypes> {};
  void compute();

  RtlComputeUnitConfig config_;
  Answer answer_;
  InitiatorSocket<ComputeTypes> vector_out_;
  ComputeRequest* request_ = nullptr;
  sc_core::sc_event requested_;
};

}  // namespace tilewright::rtl
