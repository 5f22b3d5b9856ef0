// What memory-side (base protocol) transactions carry beyond the generic payload, and their pool.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// Attached once to every pooled payload and kept ("sticky"). A target that does not know it sees
/// an ordinary payload without data whose length is limited to 2^32-1 bytes.
class MemoryExtension : public tlm::tlm_extension<MemoryExtension> {
 public:
  std::uint64_t bytes = 0;     ///< true length; written by the initiator
  std::uint64_t written = 0;   ///< of a stream of reads and writes as one: the writes
  std::uint32_t tile = 0;      ///< on whose behalf; bandwidth is shared fairly between tiles
  bool background = false;     ///< of a background call: shared as with another tile
  std::uint32_t part = 0;      ///< the initiator's own number of the transaction
  Picoseconds first_byte = 0;  ///< when service began; written by the target, else BEGIN_RESP

  tlm::tlm_extension_base* clone() const override { return new MemoryExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& other) override {
    *this = static_cast<const MemoryExtension&>(other);
  }

  /// Bytes that `payload` moves: from the extension when it has one, else the length.
  static std::uint64_t length(const tlm::tlm_generic_payload& payload);
};

/// Sockets of the memory side, standard ones and our own alike.
using MemoryInitiator = tlm::tlm_base_initiator_socket_b<32>;
using MemoryTarget = tlm::tlm_base_target_socket_b<32>;
/// Binds the one to the other, perhaps with something between them.
using MemoryBinder = std::function<void(MemoryInitiator&, MemoryTarget&)>;
void bind_sockets(MemoryInitiator& initiator, MemoryTarget& target);

/// A payload and the extension that stays with it.
struct PooledPayload {
  tlm::tlm_generic_payload* payload = nullptr;
  MemoryExtension* extension = nullptr;
};

/// Reference-counted payloads with their extension; freed ones are reset and used again.
class PayloadPool : public tlm::tlm_mm_interface {
 public:
  PayloadPool() = default;
  PayloadPool(const PayloadPool&) = delete;
  PayloadPool& operator=(const PayloadPool&) = delete;
  ~PayloadPool() override;

  /// A payload with one reference and every attribute set: no data pointer, no byte enables, no
  /// DMI.
  PooledPayload allocate(tlm::tlm_command command, std::uint64_t address, std::uint64_t bytes);
  void free(tlm::tlm_generic_payload* payload) override;

  std::size_t in_use() const { return all_.size() - free_.size(); }

 private:
  std::vector<std::unique_ptr<tlm::tlm_generic_payload>> all_;  // each owns its extension
  std::vector<PooledPayload> free_;
};

}  // namespace tilewright
