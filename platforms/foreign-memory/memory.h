// Two memories in plain SystemC and TLM-2.0, as somebody else may have written them: nothing of
// Tilewright is used here. Each holds 1 MiB.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/peq_with_get.h>
#include <tlm_utils/simple_target_socket.h>

constexpr std::uint64_t kMemoryBytes = 1 << 20;

/// Loosely timed: adds a fixed latency and the time on the bus to the delay it is given.
class LtMemory : public sc_core::sc_module {
 public:
  SC_CTOR(LtMemory) : socket("socket"), store_(kMemoryBytes) {
    socket.register_b_transport(this, &LtMemory::b_transport);
  }
  tlm_utils::simple_target_socket<LtMemory> socket;
  std::uint64_t requests = 0;

 private:
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
    const std::uint64_t address = payload.get_address(), length = payload.get_data_length();
    if (payload.get_byte_enable_ptr() != nullptr) {
      payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
      return;
    }
    if (address + length > store_.size()) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    if (payload.is_write()) std::memcpy(&store_[address], payload.get_data_ptr(), length);
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), &store_[address], length);
    ++requests;
    delay += sc_core::sc_time(40, sc_core::SC_NS) +
             sc_core::sc_time(static_cast<double>(length) / 25.6, sc_core::SC_NS);  // 25.6 GB/s
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  std::vector<unsigned char> store_;
};

/// Approximately timed, with rules of its own: requests are bursts of at most 64 bytes that lie
/// within one aligned block; every phase comes back on the backward path; a queue of eight, behind
/// which END_REQ waits; one burst at a time on a bus of 25.6 GB/s, after a latency of 40 ns.
class AtMemory : public sc_core::sc_module {
 public:
  static constexpr std::uint64_t kBurst = 64;
  static constexpr std::size_t kQueue = 8;

  SC_CTOR(AtMemory) : socket("socket"), store_(kMemoryBytes), ready_("ready") {
    socket.register_nb_transport_fw(this, &AtMemory::nb_transport_fw);
    socket.register_transport_dbg(this, &AtMemory::transport_dbg);
    SC_METHOD(accept);
    sensitive << accept_event_;
    dont_initialize();
    SC_METHOD(respond);
    sensitive << ready_.get_event() << response_ended_;
    dont_initialize();
  }
  tlm_utils::simple_target_socket<AtMemory> socket;
  std::uint64_t requests = 0, held_back = 0;

 private:
  using Payload = tlm::tlm_generic_payload;

  tlm::tlm_sync_enum nb_transport_fw(Payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
    if (phase == tlm::BEGIN_REQ) {
      if (request_ != nullptr) SC_REPORT_FATAL("AtMemory", "a request before the last was ended");
      payload.acquire();
      request_ = &payload;
      accept_event_.notify(delay);
    } else if (phase == tlm::END_RESP) {
      responding_->release();
      responding_ = nullptr;
      --queued_;
      response_ended_.notify(delay);
      if (request_ != nullptr) accept_event_.notify(delay);
    } else {
      SC_REPORT_FATAL("AtMemory", "a phase that is not for a target");
    }
    return tlm::TLM_ACCEPTED;
  }

  void accept() {
    if (request_ == nullptr) return;
    if (queued_ == kQueue) {
      ++held_back;
      return;  // until a response has ended
    }
    Payload& payload = *request_;
    request_ = nullptr;
    ++queued_;
    ++requests;
    const sc_core::sc_time now = sc_core::sc_time_stamp();
    const sc_core::sc_time arrival = now + sc_core::sc_time(40, sc_core::SC_NS);
    const sc_core::sc_time start = arrival > bus_free_ ? arrival : bus_free_;
    bus_free_ = start + sc_core::sc_time(2.5, sc_core::SC_NS);  // 64 bytes, or fewer masked
    ready_.notify(payload, bus_free_ - now);
    tlm::tlm_phase phase = tlm::END_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(payload, phase, delay);
  }

  void respond() {
    if (responding_ != nullptr) return;
    responding_ = ready_.get_next_transaction();
    if (responding_ == nullptr) return;
    execute(*responding_);
    tlm::tlm_phase phase = tlm::BEGIN_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    socket->nb_transport_bw(*responding_, phase, delay);
  }

  void execute(Payload& payload) {
    const std::uint64_t address = payload.get_address(), length = payload.get_data_length();
    if (length > kBurst || address / kBurst != (address + length - 1) / kBurst) {
      payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
      return;
    }
    if (address + length > store_.size()) {
      payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
      return;
    }
    if (payload.is_write()) std::memcpy(&store_[address], payload.get_data_ptr(), length);
    if (payload.is_read()) std::memcpy(payload.get_data_ptr(), &store_[address], length);
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
  }
  unsigned transport_dbg(Payload& payload) {
    execute(payload);
    return payload.is_response_ok() ? payload.get_data_length() : 0;
  }

  std::vector<unsigned char> store_;
  tlm_utils::peq_with_get<Payload> ready_;
  sc_core::sc_event accept_event_, response_ended_;
  Payload* request_ = nullptr;     // BEGIN_REQ seen, END_REQ not sent
  Payload* responding_ = nullptr;  // BEGIN_RESP sent, END_RESP not seen
  std::size_t queued_ = 0;
  sc_core::sc_time bus_free_;
};
