// A tile's local memory: capacity, high-water mark and operand bandwidth.
#pragma once

#include <cstdint>

#include <systemc>
#include <tlm>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/sockets.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

/// Accesses take SramConfig::seconds(); each is timed for itself. Lengths come from MemoryExtension
/// when present, and with it what part of a stream is written; without it an access is all of its
/// command's kind.
class SramBank : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  SramBank(const sc_core::sc_module_name& name, const SramConfig& config);

  TargetSocket<tlm::tlm_base_protocol_types, 0, sc_core::SC_ZERO_OR_MORE_BOUND> in;

  /// Takes `bytes`; false, and nothing taken, when they do not fit.
  bool allocate(std::uint64_t bytes);
  /// Gives back `bytes`; false when fewer are allocated.
  bool release(std::uint64_t bytes);
  std::uint64_t used() const { return used_; }
  std::uint64_t peak() const { return peak_; }

  /// Adds the stream time to `delay`. No data is moved.
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
  /// Completes at once with the same annotation.
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }

 private:
  SramConfig config_;
  std::uint64_t used_ = 0, peak_ = 0;
};

}  // namespace tilewright
