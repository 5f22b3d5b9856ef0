#include <algorithm>
#include <limits>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

DramPort::DramPort(const sc_core::sc_module_name& name, const DramPortConfig& config)
    : sc_core::sc_module(name), out("out"), config_(config) {
  out.bind(*this);
  config_.memory.add_port(config_.id, *this);
}

void DramPort::request(std::uint32_t part) {
  waiting_.push_back(part);
  if (open_ == nullptr) issue();
}

// Requests go out one after the other; a controller that ends each at once sees them all now.
void DramPort::issue() {
  while (open_ == nullptr && !waiting_.empty()) {
    const std::uint32_t part = waiting_.front();
    waiting_.pop_front();
    const MemorySystem::Part& p = config_.memory.parts_.all[part];
    const PooledPayload pooled =
        pool_.allocate(p.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address_, p.bytes);
    address_ += p.bytes;
    tlm::tlm_generic_payload& payload = *pooled.payload;
    MemoryExtension& extension = *pooled.extension;
    extension.tile = p.tile;
    extension.background = p.background;
    extension.part = part;
    extension.first_byte = kNever;
    open_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    switch (out->nb_transport_fw(payload, phase, delay)) {
      case tlm::TLM_ACCEPTED:
        break;  // END_REQ or BEGIN_RESP comes by nb_transport_bw
      case tlm::TLM_UPDATED:
        open_ = nullptr;
        if (phase == tlm::BEGIN_RESP) {
          response(payload, delay);
          phase = tlm::END_RESP;
          delay = sc_core::SC_ZERO_TIME;
          out->nb_transport_fw(payload, phase, delay);
        }
        break;
      case tlm::TLM_COMPLETED:
        open_ = nullptr;
        response(payload, delay);
        break;
    }
  }
}

tlm::tlm_sync_enum DramPort::nb_transport_bw(tlm::tlm_generic_payload& payload,
                                             tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  const bool ends_request = open_ == &payload;  // BEGIN_RESP implies END_REQ
  if (ends_request) open_ = nullptr;
  tlm::tlm_sync_enum answer = tlm::TLM_ACCEPTED;
  if (phase == tlm::BEGIN_RESP) {
    response(payload, delay);
    answer = tlm::TLM_COMPLETED;
  }
  if (ends_request) issue();
  return answer;
}

void DramPort::response(tlm::tlm_generic_payload& payload, const sc_core::sc_time& delay) {
  if (payload.is_response_error()) {
    throw InternalError(std::string(name()) + ": the memory answered " +
                        payload.get_response_string());
  }
  const auto& extension = *payload.get_extension<MemoryExtension>();
  const std::uint32_t part = extension.part;
  EventQueue& queue = config_.memory.queue_;
  const Picoseconds at = queue.now() + delay.value();
  Picoseconds& first_byte = config_.memory.parts_.all[part].first_byte;
  first_byte = std::min({first_byte, extension.first_byte, at});
  payload.release();
  if (delay.value() == 0) {
    config_.memory.responded(at, part);
  } else {
    queue.push(at, EventClass::memory_response, config_.site, 0, part);
  }
}

}  // namespace tilewright
