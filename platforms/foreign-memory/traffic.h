// A traffic initiator in plain SystemC and TLM-2.0, as somebody else may have written it: nothing
// of Tilewright is used here.
#pragma once

#include <cstdint>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/simple_initiator_socket.h>

/// Approximately timed: writes a pattern over a range of addresses, block after block with several
/// in flight, then reads it back the same way and counts the bytes that differ.
class Traffic : public sc_core::sc_module, public tlm::tlm_mm_interface {
 public:
  static constexpr unsigned kBlock = 256;

  SC_CTOR(Traffic) : socket("socket") {
    socket.register_nb_transport_bw(this, &Traffic::nb_transport_bw);
    SC_THREAD(run);
    SC_METHOD(end_response);
    sensitive << response_;
    dont_initialize();
  }
  ~Traffic() override {
    for (Transaction* t : free_) delete t;
  }
  tlm_utils::simple_initiator_socket<Traffic> socket;
  // What to do; to be set before the simulation starts.
  std::uint64_t first = 0;
  unsigned blocks = 0, at_once = 1;
  // What was done.
  std::uint64_t done = 0, errors = 0, wrong_bytes = 0;
  sc_core::sc_time total_latency, finished;

 private:
  struct Transaction : tlm::tlm_generic_payload {
    explicit Transaction(tlm::tlm_mm_interface* manager) : tlm::tlm_generic_payload(manager) {}
    unsigned char bytes[kBlock];
    sc_core::sc_time begun;
  };
  void free(tlm::tlm_generic_payload* payload) override {
    payload->reset();
    free_.push_back(static_cast<Transaction*>(payload));
    freed_.notify(sc_core::SC_ZERO_TIME);
  }
  static unsigned char pattern(std::uint64_t address) {
    return static_cast<unsigned char>(address * 13 + (address >> 8));
  }

  void run() {
    for (unsigned i = 0; i < at_once; ++i) free_.push_back(new Transaction(this));
    for (const bool write : {true, false}) {
      for (unsigned b = 0; b < blocks; ++b) {
        while (free_.empty()) wait(freed_);
        Transaction& t = *free_.back();
        free_.pop_back();
        begin(t, write, first + std::uint64_t{b} * kBlock);
      }
      while (done < (write ? 1u : 2u) * std::uint64_t{blocks}) wait(freed_);
    }
    finished = sc_core::sc_time_stamp();
  }

  void begin(Transaction& t, bool write, std::uint64_t address) {
    t.acquire();
    t.begun = sc_core::sc_time_stamp();
    t.set_command(write ? tlm::TLM_WRITE_COMMAND : tlm::TLM_READ_COMMAND);
    t.set_address(address);
    t.set_data_ptr(t.bytes);
    t.set_data_length(kBlock);
    t.set_streaming_width(kBlock);
    t.set_byte_enable_ptr(nullptr);
    t.set_dmi_allowed(false);
    t.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
    for (unsigned i = 0; i < kBlock; ++i) t.bytes[i] = write ? pattern(address + i) : 0;
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    switch (socket->nb_transport_fw(t, phase, delay)) {
      case tlm::TLM_ACCEPTED:
        wait(request_ended_);
        break;
      case tlm::TLM_UPDATED:
        wait(delay);
        break;
      case tlm::TLM_COMPLETED:
        wait(delay);
        finish(t);
        break;
    }
  }

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
    if (phase == tlm::END_REQ) {
      request_ended_.notify(delay);
    } else {
      responding_ = static_cast<Transaction*>(&payload);
      response_.notify(delay);
    }
    return tlm::TLM_ACCEPTED;
  }

  void end_response() {
    Transaction& t = *responding_;
    t.acquire();
    tlm::tlm_phase phase = tlm::END_RESP;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    finish(t);
    socket->nb_transport_fw(t, phase, delay);
    t.release();
  }

  void finish(Transaction& t) {
    ++done;
    total_latency += sc_core::sc_time_stamp() - t.begun;
    if (!t.is_response_ok()) ++errors;
    for (unsigned i = 0; t.is_read() && i < kBlock; ++i) {
      wrong_bytes += t.bytes[i] != pattern(t.get_address() + i);
    }
    t.release();
  }

  std::vector<Transaction*> free_;
  Transaction* responding_ = nullptr;
  sc_core::sc_event freed_, request_ended_, response_;
};
