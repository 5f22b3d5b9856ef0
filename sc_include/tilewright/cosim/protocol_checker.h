// Watches a base-protocol (TLM-2.0) connection and says when one side breaks a rule.
//
// Needs nothing of Tilewright's: put it between any initiator socket and any target socket.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include <systemc>
#include <tlm>

namespace tilewright {

/// The rules, with the clauses of IEEE Std 1666-2011 they come from.
enum class ProtocolRule : std::uint8_t {
  memory_manager,      ///< non-blocking transactions have a memory manager (14.5)
  reference_count,     ///< and at least one reference, in every call (14.5)
  phase_order,         ///< BEGIN_REQ, END_REQ, BEGIN_RESP, END_RESP, each on its own path, answered
                       ///< as allowed; a transaction in flight is not begun again (15.2.3, 15.2.4)
  request_exclusion,   ///< no BEGIN_REQ while another request is open (15.2.6)
  response_exclusion,  ///< no BEGIN_RESP while another response is open (15.2.6)
  timing,              ///< time + annotation of a transaction never decreases (15.2.7, 11.1.3)
  transport,  ///< b_transport only from threads (11.1.1), and not for a transaction that is
              ///< under way by nb_transport, nor the reverse (15.2.10)
  initial_attributes,  ///< the payload is set up as the standard demands (14.7)
  changed_attributes,  ///< and the initiator's attributes and data stay as given (14.7)
  response_status,     ///< set by the target before it responds, and by nobody later (14.7)
  debug,               ///< transport_dbg moves no more than was asked for (11.3); a DMI region does
                       ///< not end before it starts (11.2)
};
std::string to_string(ProtocolRule rule);

struct ProtocolViolation {
  ProtocolRule rule{};
  std::string text;  ///< instance, time, what happened
};

struct ProtocolCheckerConfig {
  /// Reads and writes need a data pointer, as the standard says. False where pure timing models
  /// talk to each other without data.
  bool data_pointer = true;
  /// Interconnects may rewrite the address of a transaction downstream. False: not here.
  bool address_may_change = false;
  /// Told of every violation, in the middle of the call. None: SC_REPORT_ERROR with the message
  /// type /tilewright/protocol, which by SystemC's default throws.
  std::function<void(const ProtocolViolation&)> report;
};

/// The rules apart from any socket: told what is called and what is answered.
class ProtocolMonitor {
 public:
  ProtocolMonitor(std::string name, const ProtocolCheckerConfig& config);

  using Payload = tlm::tlm_generic_payload;
  void forward_call(const Payload& payload, const tlm::tlm_phase& phase, const sc_core::sc_time& t);
  void forward_return(const Payload& payload, const tlm::tlm_phase& called,
                      const tlm::tlm_phase& phase, const sc_core::sc_time& t,
                      tlm::tlm_sync_enum answer);
  void backward_call(const Payload& payload, const tlm::tlm_phase& phase,
                     const sc_core::sc_time& t);
  void backward_return(const Payload& payload, const tlm::tlm_phase& called,
                       const tlm::tlm_phase& phase, const sc_core::sc_time& t,
                       tlm::tlm_sync_enum answer);
  void blocking_call(const Payload& payload, const sc_core::sc_time& t);
  void blocking_return(const Payload& payload, const sc_core::sc_time& t);
  void debug(const Payload& payload, unsigned moved);
  void direct_memory(bool granted, const tlm::tlm_dmi& region);

  /// Transactions begun and not complete: 0 when all is done.
  std::size_t in_flight() const { return transactions_.size(); }
  std::uint64_t completed() const { return completed_; }
  std::uint64_t violations() const { return violations_; }

 private:
  enum class State : std::uint8_t { requested, accepted, responding, blocking };
  struct Transaction {
    State state{};
    sc_core::sc_time last;  // time + annotation of the last call or return
    tlm::tlm_command command{};
    std::uint64_t address = 0;
    unsigned char* data = nullptr;
    unsigned char* enables = nullptr;
    unsigned length = 0, enable_length = 0, streaming_width = 0;
    tlm::tlm_response_status status{};
    std::vector<unsigned char> written, enabled;  // contents
  };

  void begin(const Payload& payload, State state, const sc_core::sc_time& t, const char* call);
  void begin_response(const Payload& payload, Transaction& t);
  void complete(const Payload& payload);
  void check_start(const Payload& payload, const char* call);
  void check_unchanged(const Payload& payload, const Transaction& t, const char* call);
  void check_references(const Payload& payload, const char* call);
  void advance(Transaction& t, const sc_core::sc_time& annotation, const char* call);
  void violate(ProtocolRule rule, const std::string& what);
  Transaction* find(const Payload& payload);

  std::string name_;
  ProtocolCheckerConfig config_;
  std::unordered_map<const Payload*, Transaction> transactions_;
  const Payload* open_request_ = nullptr;
  const Payload* open_response_ = nullptr;
  std::uint64_t completed_ = 0, violations_ = 0;
};

/// A ProtocolMonitor between an initiator and a target:
///
///     ProtocolChecker<> checker("checker");
///     initiator.socket.bind(checker.in);
///     checker.out.bind(target.socket);
///
/// Passes everything on unchanged and takes no time. The widths may differ, so that it also joins
/// sockets of different BUSWIDTH.
template <unsigned InWidth = 32, unsigned OutWidth = InWidth>
class ProtocolChecker : public sc_core::sc_module,
                        public tlm::tlm_fw_transport_if<>,
                        public tlm::tlm_bw_transport_if<> {
 public:
  explicit ProtocolChecker(const sc_core::sc_module_name& name,
                           const ProtocolCheckerConfig& config = {})
      : sc_core::sc_module(name), in("in"), out("out"), monitor_(this->name(), config) {
    in.bind(*this);
    out.bind(*this);
  }

  tlm::tlm_target_socket<InWidth> in;
  tlm::tlm_initiator_socket<OutWidth> out;

  const ProtocolMonitor& monitor() const { return monitor_; }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& t) override {
    const Held held(payload);
    const tlm::tlm_phase called = phase;
    monitor_.forward_call(payload, phase, t);
    const tlm::tlm_sync_enum answer = out->nb_transport_fw(payload, phase, t);
    monitor_.forward_return(payload, called, phase, t, answer);
    return answer;
  }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& t) override {
    const Held held(payload);
    const tlm::tlm_phase called = phase;
    monitor_.backward_call(payload, phase, t);
    const tlm::tlm_sync_enum answer = in->nb_transport_bw(payload, phase, t);
    monitor_.backward_return(payload, called, phase, t, answer);
    return answer;
  }
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& t) override {
    monitor_.blocking_call(payload, t);
    out->b_transport(payload, t);
    monitor_.blocking_return(payload, t);
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) override {
    const unsigned moved = out->transport_dbg(payload);
    monitor_.debug(payload, moved);
    return moved;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& region) override {
    const bool granted = out->get_direct_mem_ptr(payload, region);
    monitor_.direct_memory(granted, region);
    return granted;
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64 start, sc_dt::uint64 end) override {
    in->invalidate_direct_mem_ptr(start, end);
  }

 private:
  // The callee may drop the last reference; the payload is looked at after the call.
  class Held {
   public:
    explicit Held(tlm::tlm_generic_payload& payload) : payload_(payload) {
      held_ = payload.has_mm() && payload.get_ref_count() > 0;
      if (held_) payload.acquire();
    }
    ~Held() {
      if (held_) payload_.release();
    }
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    tlm::tlm_generic_payload& payload_;
    bool held_;
  };

  ProtocolMonitor monitor_;
};

}  // namespace tilewright
