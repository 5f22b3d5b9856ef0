// The bytes behind a memory that somebody reads and writes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include <tlm>

namespace tilewright {

/// Storage by address, in pages made when they are first written. What was never written reads
/// as 0.
class SparseMemory {
 public:
  /// Carries out a read or write, with byte enables and streaming width as TLM-2.0 defines them.
  /// The payload has a data pointer.
  void access(const tlm::tlm_generic_payload& payload);

 private:
  static constexpr std::uint64_t kPage = 4096;
  using Page = std::array<unsigned char, kPage>;
  std::unordered_map<std::uint64_t, std::unique_ptr<Page>> pages_;
};

/// One byte for each byte of the payload's data where its byte enables are shorter than the data
/// and so repeat; empty otherwise.
std::vector<unsigned char> repeated_byte_enables(const tlm::tlm_generic_payload& payload);

}  // namespace tilewright
