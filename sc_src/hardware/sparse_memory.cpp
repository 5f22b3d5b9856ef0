#include <tilewright/hardware/sparse_memory.h>

namespace tilewright {

void SparseMemory::access(const tlm::tlm_generic_payload& payload) {
  unsigned char* data = payload.get_data_ptr();
  const unsigned char* enables = payload.get_byte_enable_ptr();
  const unsigned enable_length = payload.get_byte_enable_length();
  const unsigned width = payload.get_streaming_width();
  std::uint64_t number = 0;
  Page* page = nullptr;
  bool known = false;
  for (unsigned i = 0; i < payload.get_data_length(); ++i) {
    if (enables != nullptr && enables[i % enable_length] != TLM_BYTE_ENABLED) continue;
    const std::uint64_t address = payload.get_address() + i % width;
    if (!known || address / kPage != number) {
      known = true;
      number = address / kPage;
      const auto found = pages_.find(number);
      page = found == pages_.end() ? nullptr : found->second.get();
    }
    if (payload.is_read()) {
      data[i] = page == nullptr ? 0 : (*page)[address % kPage];
    } else if (payload.is_write()) {
      if (page == nullptr) page = (pages_[number] = std::make_unique<Page>()).get();
      (*page)[address % kPage] = data[i];
    }
  }
}

std::vector<unsigned char> repeated_byte_enables(const tlm::tlm_generic_payload& payload) {
  std::vector<unsigned char> enables;
  const unsigned length = payload.get_byte_enable_length();
  if (payload.get_byte_enable_ptr() == nullptr || length >= payload.get_data_length()) {
    return enables;
  }
  enables.resize(payload.get_data_length());
  for (std::size_t i = 0; i < enables.size(); ++i) {
    enables[i] = payload.get_byte_enable_ptr()[i % length];
  }
  return enables;
}

}  // namespace tilewright
