#include <algorithm>
#include <limits>

#include <tilewright/hardware/memory.h>

namespace tilewright {

std::uint64_t MemoryExtension::length(const tlm::tlm_generic_payload& payload) {
  const auto* extension = payload.get_extension<MemoryExtension>();
  return extension != nullptr ? extension->bytes : payload.get_data_length();
}

void bind_sockets(MemoryInitiator& initiator, MemoryTarget& target) {
  initiator.get_base_port()(target.get_base_interface());
  target.get_base_port()(initiator.get_base_interface());
}

PayloadPool::~PayloadPool() = default;  // a payload deletes its extensions

PooledPayload PayloadPool::allocate(tlm::tlm_command command, std::uint64_t address,
                                    std::uint64_t bytes) {
  if (free_.empty()) {
    auto* extension = new MemoryExtension;
    all_.push_back(std::make_unique<tlm::tlm_generic_payload>(this));
    all_.back()->set_extension(extension);
    free_.push_back({all_.back().get(), extension});
  }
  const PooledPayload pooled = free_.back();
  free_.pop_back();
  tlm::tlm_generic_payload& payload = *pooled.payload;
  const auto length =
      static_cast<unsigned>(std::min<std::uint64_t>(bytes, std::numeric_limits<unsigned>::max()));
  payload.set_command(command);
  payload.set_address(address);
  payload.set_data_ptr(nullptr);
  payload.set_data_length(length);
  payload.set_streaming_width(length);
  payload.set_byte_enable_ptr(nullptr);
  payload.set_byte_enable_length(0);
  payload.set_dmi_allowed(false);
  payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  MemoryExtension& extension = *pooled.extension;
  extension.bytes = bytes;
  extension.tile = 0;
  extension.background = false;
  extension.part = 0;
  extension.first_byte = 0;
  payload.acquire();
  return pooled;
}

void PayloadPool::free(tlm::tlm_generic_payload* payload) {
  payload->reset();
  free_.push_back({payload, payload->get_extension<MemoryExtension>()});
}

}  // namespace tilewright
