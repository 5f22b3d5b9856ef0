#include <algorithm>
#include <cmath>

#include <tilewright/base/error.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/sram_bank.h>

namespace tilewright {

SramBank::SramBank(const sc_core::sc_module_name& name, const SramConfig& config)
    : sc_core::sc_module(name), in("in"), config_(config) {
  for (const Bandwidth b : {config.bandwidth, config.read, config.write}) {
    if (!(b.value() > 0)) throw InputError("sram.bandwidth must be above zero");
  }
  in.bind(*this);
}

bool SramBank::allocate(std::uint64_t bytes) {
  if (static_cast<double>(used_) + static_cast<double>(bytes) > config_.capacity.value()) {
    return false;
  }
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  return true;
}

bool SramBank::release(std::uint64_t bytes) {
  if (bytes > used_) return false;
  used_ -= bytes;
  return true;
}

void SramBank::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const auto* extension = payload.get_extension<MemoryExtension>();
  const auto bytes = static_cast<double>(MemoryExtension::length(payload));
  const double written = payload.is_write()     ? bytes
                         : extension != nullptr ? static_cast<double>(extension->written)
                                                : 0;
  const double time = 1e12 * config_.seconds(bytes - written, written);
  delay += sc_core::sc_time::from_value(static_cast<Picoseconds>(std::llround(time)));
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

tlm::tlm_sync_enum SramBank::nb_transport_fw(tlm::tlm_generic_payload& payload,
                                             tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;
  b_transport(payload, delay);
  return tlm::TLM_COMPLETED;
}

}  // namespace tilewright
