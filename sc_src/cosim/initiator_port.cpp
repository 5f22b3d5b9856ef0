#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/cosim/initiator_port.h>
#include <tilewright/hardware/process.h>
#include <tilewright/hardware/sparse_memory.h>

namespace tilewright {

InitiatorPort::InitiatorPort(const sc_core::sc_module_name& name, const InitiatorPortConfig& config)
    : sc_core::sc_module(name),
      in("in"),
      config_(config),
      arriving_("arriving"),
      finish_("finished"),
      slot_("slot"),
      responses_(in) {
  in.bind(*this);
  Backplane& backplane = config_.backplane;
  if (backplane.queue.runs_ahead()) {
    throw InputError(fmt::format("{}: needs BackplaneOptions::in_step", this->name()));
  }
  if (index(config_.tile) >= backplane.network.tiles()) {
    throw InputError(fmt::format("{}: tile {} is not among the {} of the machine", this->name(),
                                 index(config_.tile), backplane.network.tiles()));
  }
  const auto drams = static_cast<std::uint32_t>(backplane.memory.controllers());
  if (config_.controllers.empty()) {
    for (std::uint32_t d = 0; d < drams; ++d) {
      config_.controllers.push_back(static_cast<DramId>(d));
    }
  }
  for (const DramId d : config_.controllers) {
    if (index(d) < drams) continue;
    throw InputError(fmt::format("{}: DRAM controller {} is not among the {} of the machine",
                                 this->name(), index(d), drams));
  }
  if (config_.interleave == 0) {
    throw InputError(fmt::format("{}: interleave must be above 0", this->name()));
  }
  if (config_.outstanding == 0) {
    throw InputError(fmt::format("{}: outstanding must be above 0", this->name()));
  }
  auto each = static_cast<std::uint64_t>(backplane.memory.capacity());
  if (config_.controllers.size() > 1) each -= each % config_.interleave;
  size_ = each * config_.controllers.size();

  TILEWRIGHT_HAS_PROCESS(InitiatorPort);
  SC_METHOD(begin);
  sensitive << arriving_.get_event();
  dont_initialize();
  SC_METHOD(finish);
  sensitive << finish_;
  dont_initialize();
}

tlm::tlm_sync_enum InitiatorPort::nb_transport_fw(tlm::tlm_generic_payload& payload,
                                                  tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::END_RESP) {
    responses_.ended();
    return tlm::TLM_COMPLETED;
  }
  if (phase != tlm::BEGIN_REQ) return tlm::TLM_ACCEPTED;  // an extended phase, ignored
  payload.acquire();
  if (accepted_ == config_.outstanding) {
    held_ = &payload;
    held_until_ = sc_core::sc_time_stamp() + delay;
    return tlm::TLM_ACCEPTED;
  }
  ++accepted_;
  arriving_.notify(payload, delay);
  phase = tlm::END_REQ;
  return tlm::TLM_UPDATED;
}

void InitiatorPort::begin() {
  while (tlm::tlm_generic_payload* payload = arriving_.get_next_transaction()) {
    start(*payload, nullptr);
  }
}

void InitiatorPort::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  sc_core::wait(delay);
  delay = sc_core::SC_ZERO_TIME;
  while (accepted_ == config_.outstanding) sc_core::wait(slot_);
  ++accepted_;
  sc_core::sc_event done;
  start(payload, &done);
  sc_core::wait(done);
}

tlm::tlm_response_status InitiatorPort::check(const tlm::tlm_generic_payload& payload) const {
  if (payload.get_data_length() == 0 || payload.get_streaming_width() < payload.get_data_length()) {
    return tlm::TLM_BURST_ERROR_RESPONSE;
  }
  const std::uint64_t address = payload.get_address(), length = payload.get_data_length();
  return address > size_ || length > size_ - address ? tlm::TLM_ADDRESS_ERROR_RESPONSE
                                                     : tlm::TLM_OK_RESPONSE;
}

const std::vector<AccessPiece>& InitiatorPort::pieces(const tlm::tlm_generic_payload& payload) {
  pieces_.clear();
  const std::uint64_t first = payload.get_address(), length = payload.get_data_length();
  const std::uint64_t count = config_.controllers.size(), block = config_.interleave;
  if (count == 1) {
    pieces_.push_back({index(config_.controllers.front()), first, 0, length});
    return pieces_;
  }
  for (std::uint64_t offset = 0; offset < length;) {
    const std::uint64_t address = first + offset, number = address / block, in = address % block;
    const std::uint64_t bytes = std::min(length - offset, block - in);
    pieces_.push_back(
        {index(config_.controllers[number % count]), number / count * block + in, offset, bytes});
    offset += bytes;
  }
  return pieces_;
}

void InitiatorPort::start(tlm::tlm_generic_payload& payload, sc_core::sc_event* waiter) {
  std::uint32_t token = static_cast<std::uint32_t>(accesses_.size());
  if (free_.empty()) {
    accesses_.emplace_back();
  } else {
    token = free_.back();
    free_.pop_back();
  }
  accesses_[token] = {&payload, repeated_byte_enables(payload), waiter};
  EventQueue& queue = config_.backplane.queue;
  const bool moves = payload.is_read() || payload.is_write();
  const tlm::tlm_response_status status = moves ? check(payload) : tlm::TLM_OK_RESPONSE;
  if (!moves || status != tlm::TLM_OK_RESPONSE) {
    payload.set_response_status(status);
    memory_done(queue.now(), index(config_.tile), token);
    return;
  }
  const Access& access = accesses_[token];
  const unsigned char* enables =
      access.enables.empty() ? payload.get_byte_enable_ptr() : access.enables.data();
  config_.backplane.memory.access(queue.now(), index(config_.tile), payload, enables,
                                  pieces(payload), *this, token);
}

void InitiatorPort::memory_done(Picoseconds, std::uint32_t, std::uint32_t token) {
  done_.push_back(token);
  finish_.notify(sc_core::SC_ZERO_TIME);
}

// In a process of its own, so that the initiator's code does not run inside the event queue's.
void InitiatorPort::finish() {
  for (std::size_t i = 0; i < done_.size(); ++i) {
    const std::uint32_t token = done_[i];
    tlm::tlm_generic_payload& payload = *accesses_[token].payload;
    sc_core::sc_event* waiter = accesses_[token].waiter;
    free_.push_back(token);
    --accepted_;
    if (payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) {
      payload.set_response_status(tlm::TLM_OK_RESPONSE);
    }
    if (waiter != nullptr) {
      waiter->notify(sc_core::SC_ZERO_TIME);
    } else {
      responses_.push(payload);
    }
  }
  done_.clear();
  if (held_ != nullptr && accepted_ < config_.outstanding) admit();
  if (accepted_ < config_.outstanding) slot_.notify(sc_core::SC_ZERO_TIME);
}

// Ends the request that was held back.
void InitiatorPort::admit() {
  tlm::tlm_generic_payload& payload = *held_;
  held_ = nullptr;
  ++accepted_;
  const sc_core::sc_time now = sc_core::sc_time_stamp();
  sc_core::sc_time delay = held_until_ > now ? held_until_ - now : sc_core::SC_ZERO_TIME;
  arriving_.notify(payload, delay);
  tlm::tlm_phase phase = tlm::END_REQ;
  in->nb_transport_bw(payload, phase, delay);
}

unsigned InitiatorPort::transport_dbg(tlm::tlm_generic_payload& payload) {
  const bool moves = payload.is_read() || payload.is_write();
  if (!moves || payload.get_data_ptr() == nullptr || check(payload) != tlm::TLM_OK_RESPONSE) {
    return 0;
  }
  return static_cast<unsigned>(config_.backplane.memory.debug_access(payload, pieces(payload)));
}

}  // namespace tilewright
