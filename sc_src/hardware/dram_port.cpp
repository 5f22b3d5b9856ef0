#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

DramPort::DramPort(const sc_core::sc_module_name& name, const DramPortConfig& config)
    : sc_core::sc_module(name), out("out"), config_(config) {
  out.bind(*this);
  config_.memory.add_port(config_.id, *this);
}

void DramPort::request(std::uint32_t part) {
  if (outstanding_++ == 0) busy_since_ = std::max(busy_end_, config_.memory.queue_.now());
  waiting_.push_back(part);
  if (open_ == nullptr) issue();
}

// A payload with one reference for a part, which it carries in its extension.
tlm::tlm_generic_payload& DramPort::payload_of(std::uint32_t part) {
  MemorySystem& memory = config_.memory;
  const MemorySystem::Part& p = memory.parts_.all[part];
  const bool foreign = p.origin != MemorySystem::kNoOrigin;
  const std::uint64_t address = foreign ? memory.origins_.all[p.origin].address : address_;
  const PooledPayload pooled =
      pool_.allocate(p.write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND, address, p.bytes);
  pooled.extension->tile = p.tile;
  pooled.extension->background = p.background;
  pooled.extension->part = part;
  pooled.extension->first_byte = kNever;
  if (!foreign) {
    address_ += p.bytes;
    return *pooled.payload;
  }
  const MemorySystem::Origin& origin = memory.origins_.all[p.origin];
  unsigned char* data = origin.payload->get_data_ptr();
  if (data != nullptr) pooled.payload->set_data_ptr(data + origin.offset);
  if (origin.enables != nullptr) {
    // TLM wants a plain pointer; nobody writes through it.
    pooled.payload->set_byte_enable_ptr(const_cast<unsigned char*>(origin.enables) + origin.offset);
    pooled.payload->set_byte_enable_length(pooled.payload->get_data_length());
  }
  return *pooled.payload;
}

// Requests go out one after the other; a controller that ends each at once sees them all now.
void DramPort::issue() {
  while (open_ == nullptr && !waiting_.empty()) {
    tlm::tlm_generic_payload& payload = payload_of(waiting_.front());
    waiting_.pop_front();
    open_ = &payload;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    switch (out->nb_transport_fw(payload, phase, delay)) {
      case tlm::TLM_ACCEPTED:
        break;  // END_REQ or BEGIN_RESP comes by nb_transport_bw
      case tlm::TLM_UPDATED:
        open_ = nullptr;
        if (phase == tlm::BEGIN_RESP) {
          payload.acquire();
          response(payload, delay);
          phase = tlm::END_RESP;
          out->nb_transport_fw(payload, phase, delay);
          payload.release();
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
  MemorySystem& memory = config_.memory;
  EventQueue& queue = memory.queue_;
  const auto& extension = *payload.get_extension<MemoryExtension>();
  const std::uint32_t part = extension.part;
  MemorySystem::Part& p = memory.parts_.all[part];
  const Picoseconds at = queue.now() + delay.value();
  busy_end_ = std::max(busy_end_, at);
  if (--outstanding_ == 0) busy_ += busy_end_ - busy_since_;
  p.first_byte = std::min({p.first_byte, extension.first_byte, at});
  if (!payload.is_response_ok()) {
    if (p.origin == MemorySystem::kNoOrigin) {
      // Not thrown: the caller may be a process of somebody else's module.
      queue.fail(std::make_exception_ptr(
          InputError(fmt::format("{}: the memory answered {} to a {} of {} bytes at {:#x}", name(),
                                 payload.get_response_string(), p.write ? "write" : "read", p.bytes,
                                 static_cast<std::uint64_t>(payload.get_address())))));
    } else {
      memory.origins_.all[p.origin].payload->set_response_status(payload.get_response_status());
    }
  }
  payload.release();
  if (delay.value() == 0) {
    memory.responded(at, part);
  } else {
    queue.push(at, EventClass::memory_response, config_.site, 0, part);
  }
}

}  // namespace tilewright
