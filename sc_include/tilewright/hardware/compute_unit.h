// The engines of a tile that compute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/sockets.h>
#include <tilewright/machine/compute_model.h>

namespace tilewright {

/// Bytes that pass through the SRAM while an operator runs, and those of them that are written.
inline double through_sram(const ComputeShape& s) { return s.sram_bytes + s.dma_in + s.dma_out; }
inline double written_to_sram(const ComputeShape& s) { return s.sram_written + s.dma_in; }

/// Durations per operator shape, worked out once for all tiles whose engines have the same speed.
class ComputeCosts {
 public:
  /// `speed`: factor on the rates of the engines, in (0, 1]; the SRAM is not affected.
  ComputeCosts(const MachineConfig& machine, const Program& program, double speed = 1);

  struct Cost {
    double engine = -1;  ///< ps for the whole shape
    double sram = -1;    ///< ps for its operands and results through the SRAM; -1: not measured yet
    double per_part = 0;  ///< max of both / denominator
    double stall_per_part = 0;
    /// The duration of parts [begin, begin + amount).
    static Picoseconds of(double per_part, std::uint32_t begin, std::uint32_t amount);
  };
  Cost& operator[](std::uint32_t shape) { return costs_[shape]; }
  const ComputeShape& shape(std::uint32_t shape) const { return program_.shapes[shape]; }
  PayloadPool& payloads() { return payloads_; }  ///< for requests to the SRAM

 private:
  const Program& program_;
  std::vector<Cost> costs_;
  PayloadPool payloads_;
};

struct ComputeUnitConfig {
  ComputeCosts& costs;
};

/// Answers a ComputeRequest with its duration: max(engine time, SRAM stream time) × the fraction of
/// the shape, rounded so that pieces sum to the whole; the excess over the engine time is reported
/// as the request's `stall`. The SRAM's part is asked from the bank behind `memory`. It may be
/// replaced by any module with such a target socket, for example a bridge to an RTL model.
class ComputeUnit : public sc_core::sc_module,
                    public NonblockingTarget<ComputeTypes>,
                    public tlm::tlm_bw_transport_if<> {
 public:
  ComputeUnit(const sc_core::sc_module_name& name, const ComputeUnitConfig& config);

  TargetSocket<ComputeTypes> in;
  InitiatorSocket<> memory;

  tlm::tlm_sync_enum nb_transport_fw(ComputeRequest& request, ComputePhase& phase,
                                     sc_core::sc_time& delay) override;

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                     sc_core::sc_time&) override {
    return tlm::TLM_COMPLETED;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

 private:
  void measure(ComputeCosts::Cost& cost, const ComputeShape& shape);

  ComputeCosts& costs_;
};

}  // namespace tilewright
