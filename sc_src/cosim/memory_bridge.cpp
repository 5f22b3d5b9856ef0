// sc_spawn is part of what <systemc> declares only on request.
#ifndef SC_INCLUDE_DYNAMIC_PROCESSES
#define SC_INCLUDE_DYNAMIC_PROCESSES
#endif
#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/ids.h>
#include <tilewright/cosim/memory_bridge.h>
#include <tilewright/hardware/process.h>
#include <tilewright/hardware/sparse_memory.h>

namespace tilewright {

MemoryBridge::MemoryBridge(const sc_core::sc_module_name& name, const MemoryBridgeConfig& config)
    : sc_core::sc_module(name),
      in("in"),
      out("out"),
      config_(config),
      arriving_("arriving"),
      responding_("responding"),
      responses_(in),
      work_("work") {
  constexpr std::uint64_t kLargestBlock = 1 << 20;
  const std::uint64_t block = config_.block;
  if (block == 0 || (block & (block - 1)) != 0 || block > kLargestBlock) {
    throw InputError(fmt::format("{}: block is {}, but must be a power of two up to {}",
                                 this->name(), block, kLargestBlock));
  }
  if (config_.size == 0 || config_.size % block != 0 || config_.base % block != 0) {
    throw InputError(
        fmt::format("{}: base ({:#x}) and size ({:#x}) must be multiples of the block of {} "
                    "bytes, and size above 0",
                    this->name(), config_.base, config_.size, block));
  }
  if (config_.outstanding == 0) {
    throw InputError(fmt::format("{}: outstanding must be above 0", this->name()));
  }
  in.bind(*this);
  out.bind(*this);
  zeros_.resize(block);
  scratch_.resize(block);

  TILEWRIGHT_HAS_PROCESS(MemoryBridge);
  SC_METHOD(begin);
  sensitive << arriving_.get_event();
  dont_initialize();
  if (config_.blocking) {
    for (std::uint32_t i = 0; i < config_.outstanding; ++i) {
      sc_core::sc_spawn([this] { serve(); }, ("serve" + std::to_string(i)).c_str());
    }
  } else {
    SC_METHOD(issue);
    sensitive << work_;
    dont_initialize();
    SC_METHOD(respond);
    sensitive << responding_.get_event();
    dont_initialize();
  }
}

// --- towards the port ---------------------------------------------------------------------------

tlm::tlm_sync_enum MemoryBridge::nb_transport_fw(Payload& payload, tlm::tlm_phase& phase,
                                                 sc_core::sc_time& delay) {
  if (phase == tlm::END_RESP) {
    responses_.ended();
    return tlm::TLM_COMPLETED;
  }
  if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;  // an extended phase, ignored
  payload.acquire();
  arriving_.notify(payload, delay);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void MemoryBridge::begin() {
  while (Payload* payload = arriving_.get_next_transaction()) {
    if (MemoryExtension::length(*payload) == 0) {
      payload->set_response_status(tlm::TLM_OK_RESPONSE);
      responses_.push(*payload);
      continue;
    }
    std::uint32_t transfer = static_cast<std::uint32_t>(transfers_.size());
    if (free_.empty()) {
      transfers_.emplace_back();
    } else {
      transfer = free_.back();
      free_.pop_back();
    }
    Transfer& t = transfers_[transfer];
    t = {};
    t.payload = payload;
    t.bytes = MemoryExtension::length(*payload);
    t.enables = repeated_byte_enables(*payload);
    const auto* extension = payload->get_extension<MemoryExtension>();
    const std::uint32_t tile = extension != nullptr ? extension->tile : index(kNoTile);
    auto& queue = waiting_[tile];
    if (queue.empty()) turns_.push_back(tile);
    queue.push_back(transfer);
  }
  work_.notify(sc_core::SC_ZERO_TIME);
}

void MemoryBridge::complete(Payload& request) {
  const auto& extension = *request.get_extension<MemoryExtension>();
  const std::uint32_t transfer = extension.part;
  Transfer& t = transfers_[transfer];
  t.complete += extension.bytes;
  if (!request.is_response_ok()) t.status = request.get_response_status();
  auto* whole = t.payload->get_extension<MemoryExtension>();
  if (whole != nullptr) {
    const Picoseconds now = sc_core::sc_time_stamp().value();
    whole->first_byte = std::min({whole->first_byte, extension.first_byte, now});
  }
  request.release();
  --in_flight_;
  work_.notify(sc_core::SC_ZERO_TIME);
  if (t.complete < t.bytes) return;
  t.payload->set_response_status(t.status);
  free_.push_back(transfer);
  responses_.push(*t.payload);
}

void MemoryBridge::b_transport(Payload& payload, sc_core::sc_time& delay) {
  const std::vector<unsigned char> repeated = repeated_byte_enables(payload);
  const unsigned char* enables = repeated.empty() ? payload.get_byte_enable_ptr() : repeated.data();
  const std::uint64_t bytes = MemoryExtension::length(payload);
  tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
  for (std::uint64_t offset = 0; offset < bytes;) {
    Payload request;
    offset += piece(payload, offset, bytes, enables, request);
    out->b_transport(request, delay);
    if (!request.is_response_ok()) status = request.get_response_status();
  }
  payload.set_response_status(status);
}

unsigned MemoryBridge::transport_dbg(Payload& payload) {
  if (payload.get_data_ptr() == nullptr) return 0;
  const unsigned bytes = payload.get_data_length();
  unsigned moved = 0;
  while (moved < bytes) {
    Payload request;
    const std::uint64_t length = piece(payload, moved, bytes, nullptr, request);
    const unsigned now_moved = out->transport_dbg(request);
    moved += now_moved;
    if (now_moved < length) break;
  }
  return moved;
}

// --- towards the memory -------------------------------------------------------------------------

// Sets `request` up for what follows `offset` of a transaction, up to the end of the block. Returns
// its length.
std::uint64_t MemoryBridge::piece(const Payload& whole, std::uint64_t offset, std::uint64_t bytes,
                                  const unsigned char* enables, Payload& request) {
  const std::uint64_t address = (whole.get_address() + offset) % config_.size;
  const std::uint64_t length = std::min(bytes - offset, config_.block - address % config_.block);
  const auto size = static_cast<unsigned>(length);
  request.set_command(whole.get_command());
  request.set_address(config_.base + address);
  request.set_data_length(size);
  request.set_streaming_width(size);
  if (whole.get_data_ptr() != nullptr) {
    request.set_data_ptr(whole.get_data_ptr() + offset);
  } else {
    request.set_data_ptr(whole.is_write() ? zeros_.data() : scratch_.data());
  }
  if (enables != nullptr) {
    // TLM wants a plain pointer; nobody writes through it.
    request.set_byte_enable_ptr(const_cast<unsigned char*>(enables) + offset);
    request.set_byte_enable_length(size);
  }
  return length;
}

MemoryBridge::Payload& MemoryBridge::next_request() {
  const std::uint32_t tile = turns_.front();
  turns_.pop_front();
  auto& queue = waiting_[tile];
  const std::uint32_t transfer = queue.front();
  Transfer& t = transfers_[transfer];
  const PooledPayload pooled = pool_.allocate(t.payload->get_command(), 0, 0);
  const unsigned char* enables =
      t.enables.empty() ? t.payload->get_byte_enable_ptr() : t.enables.data();
  const std::uint64_t length = piece(*t.payload, t.issued, t.bytes, enables, *pooled.payload);
  pooled.extension->bytes = length;
  pooled.extension->tile = tile;
  pooled.extension->part = transfer;
  pooled.extension->first_byte = kNever;
  t.issued += length;
  if (t.issued == t.bytes) queue.pop_front();
  if (!queue.empty()) turns_.push_back(tile);
  ++in_flight_;
  return *pooled.payload;
}

void MemoryBridge::issue() {
  while (open_ == nullptr && in_flight_ < config_.outstanding && has_work()) {
    const sc_core::sc_time now = sc_core::sc_time_stamp();
    if (now < ready_) {
      work_.notify(ready_ - now);
      return;
    }
    Payload& request = next_request();
    open_ = &request;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    switch (out->nb_transport_fw(request, phase, delay)) {
      case tlm::TLM_ACCEPTED:
        break;
      case tlm::TLM_UPDATED:
        if (phase == tlm::END_REQ) {
          request_ended(request, delay);
        } else if (phase == tlm::BEGIN_RESP) {
          nb_transport_bw(request, phase, delay);
        }
        break;
      case tlm::TLM_COMPLETED:  // the delay is that of the whole transaction
        request_ended(request, sc_core::SC_ZERO_TIME);
        responding_.notify(request, delay);
        break;
    }
  }
}

void MemoryBridge::request_ended(const Payload& payload, const sc_core::sc_time& delay) {
  if (open_ != &payload) return;
  open_ = nullptr;
  ready_ = sc_core::sc_time_stamp() + delay;
  work_.notify(delay);
}

tlm::tlm_sync_enum MemoryBridge::nb_transport_bw(Payload& payload, tlm::tlm_phase& phase,
                                                 sc_core::sc_time& delay) {
  if (phase == tlm::END_REQ) {
    request_ended(payload, delay);
  } else if (phase == tlm::BEGIN_RESP) {
    request_ended(payload, delay);  // which it implies
    ending_.push_back(&payload);
    responding_.notify(payload, delay);
  }
  return tlm::TLM_ACCEPTED;
}

void MemoryBridge::respond() {
  while (Payload* payload = responding_.get_next_transaction()) {
    const auto found = std::find(ending_.begin(), ending_.end(), payload);
    if (found != ending_.end()) {
      ending_.erase(found);
      tlm::tlm_phase phase = tlm::END_RESP;
      sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
      out->nb_transport_fw(*payload, phase, delay);
    }
    complete(*payload);
  }
}

void MemoryBridge::serve() {
  for (;;) {
    while (!has_work()) sc_core::wait(work_);
    Payload& request = next_request();
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    out->b_transport(request, delay);
    sc_core::wait(delay);
    complete(request);
  }
}

}  // namespace tilewright
