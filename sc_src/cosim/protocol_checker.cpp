#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <tilewright/cosim/protocol_checker.h>

namespace tilewright {

namespace {

const char* phase_name(const tlm::tlm_phase& phase) { return phase.get_name(); }

bool is_base_phase(const tlm::tlm_phase& phase) {
  return static_cast<unsigned>(phase) <= static_cast<unsigned>(tlm::END_RESP);
}

std::string describe(const tlm::tlm_generic_payload& payload) {
  const char* command = payload.is_read() ? "read" : payload.is_write() ? "write" : "ignore";
  return fmt::format("{} of {} bytes at {:#x}", command, payload.get_data_length(),
                     static_cast<std::uint64_t>(payload.get_address()));
}

std::vector<unsigned char> contents(const unsigned char* bytes, unsigned length) {
  return bytes == nullptr ? std::vector<unsigned char>{}
                          : std::vector<unsigned char>(bytes, bytes + length);
}

}  // namespace

std::string to_string(ProtocolRule rule) {
  switch (rule) {
    case ProtocolRule::memory_manager:
      return "memory_manager";
    case ProtocolRule::reference_count:
      return "reference_count";
    case ProtocolRule::phase_order:
      return "phase_order";
    case ProtocolRule::request_exclusion:
      return "request_exclusion";
    case ProtocolRule::response_exclusion:
      return "response_exclusion";
    case ProtocolRule::timing:
      return "timing";
    case ProtocolRule::transport:
      return "transport";
    case ProtocolRule::initial_attributes:
      return "initial_attributes";
    case ProtocolRule::changed_attributes:
      return "changed_attributes";
    case ProtocolRule::response_status:
      return "response_status";
    case ProtocolRule::debug:
      return "debug";
  }
  return "?";
}

ProtocolMonitor::ProtocolMonitor(std::string name, const ProtocolCheckerConfig& config)
    : name_(std::move(name)), config_(config) {}

void ProtocolMonitor::violate(ProtocolRule rule, const std::string& what) {
  ++violations_;
  const ProtocolViolation violation{
      rule, fmt::format("{} at {}: {} [{}]", name_, sc_core::sc_time_stamp().to_string(), what,
                        to_string(rule))};
  if (config_.report) {
    config_.report(violation);
  } else {
    SC_REPORT_ERROR("/tilewright/protocol", violation.text.c_str());
  }
}

ProtocolMonitor::Transaction* ProtocolMonitor::find(const Payload& payload) {
  const auto found = transactions_.find(&payload);
  return found == transactions_.end() ? nullptr : &found->second;
}

// --- the payload --------------------------------------------------------------------------------

void ProtocolMonitor::check_references(const Payload& payload, const char* call) {
  if (!payload.has_mm()) {
    violate(ProtocolRule::memory_manager,
            fmt::format("{} of a payload without memory manager, {}", call, describe(payload)));
  } else if (payload.get_ref_count() < 1) {
    violate(ProtocolRule::reference_count,
            fmt::format("{} of a payload without references, {}", call, describe(payload)));
  }
}

void ProtocolMonitor::check_start(const Payload& payload, const char* call) {
  const auto wrong = [&](const std::string& what) {
    violate(ProtocolRule::initial_attributes,
            fmt::format("{}: {}, {}", call, what, describe(payload)));
  };
  if (payload.get_response_status() != tlm::TLM_INCOMPLETE_RESPONSE) {
    wrong("the response status is " + payload.get_response_string());
  }
  if (payload.is_dmi_allowed()) wrong("the DMI hint is set");
  if (!payload.is_read() && !payload.is_write()) {
    if (payload.get_command() != tlm::TLM_IGNORE_COMMAND) wrong("no such command");
    return;
  }
  if (config_.data_pointer && payload.get_data_ptr() == nullptr) wrong("no data pointer");
  if (payload.get_data_length() == 0) wrong("the length is 0");
  if (payload.get_streaming_width() == 0) wrong("the streaming width is 0");
  if (payload.get_byte_enable_ptr() != nullptr && payload.get_byte_enable_length() == 0) {
    wrong("byte enables of length 0");
  }
}

void ProtocolMonitor::check_unchanged(const Payload& payload, const Transaction& t,
                                      const char* call) {
  const auto changed = [&](const char* what) {
    violate(ProtocolRule::changed_attributes,
            fmt::format("{}: the {} changed, {}", call, what, describe(payload)));
  };
  if (payload.get_command() != t.command) changed("command");
  if (payload.get_address() != t.address && !config_.address_may_change) changed("address");
  if (payload.get_data_length() != t.length) changed("data length");
  if (payload.get_streaming_width() != t.streaming_width) changed("streaming width");
  if (payload.get_byte_enable_length() != t.enable_length) changed("byte enable length");
  if (payload.get_data_ptr() != t.data) {
    changed("data pointer");
  } else if (!std::equal(t.written.begin(), t.written.end(), t.data)) {
    changed("data to be written");
  }
  if (payload.get_byte_enable_ptr() != t.enables) {
    changed("byte enable pointer");
  } else if (!std::equal(t.enabled.begin(), t.enabled.end(), t.enables)) {
    changed("byte enables");
  }
}

void ProtocolMonitor::advance(Transaction& t, const sc_core::sc_time& annotation,
                              const char* call) {
  const sc_core::sc_time effective = sc_core::sc_time_stamp() + annotation;
  if (effective < t.last) {
    violate(ProtocolRule::timing, fmt::format("{}: takes effect at {}, before {}", call,
                                              effective.to_string(), t.last.to_string()));
  }
  t.last = effective;
}

// --- the life of a transaction ------------------------------------------------------------------

void ProtocolMonitor::begin(const Payload& payload, State state, const sc_core::sc_time& t,
                            const char* call) {
  check_start(payload, call);
  Transaction transaction;
  transaction.state = state;
  transaction.last = sc_core::sc_time_stamp() + t;
  transaction.command = payload.get_command();
  transaction.address = payload.get_address();
  transaction.data = payload.get_data_ptr();
  transaction.length = payload.get_data_length();
  transaction.streaming_width = payload.get_streaming_width();
  transaction.enables = payload.get_byte_enable_ptr();
  transaction.enable_length = payload.get_byte_enable_length();
  if (payload.is_write()) transaction.written = contents(transaction.data, transaction.length);
  transaction.enabled = contents(transaction.enables, transaction.enable_length);
  transactions_[&payload] = std::move(transaction);
}

void ProtocolMonitor::begin_response(const Payload& payload, Transaction& t) {
  if (open_request_ == &payload) open_request_ = nullptr;  // BEGIN_RESP implies END_REQ
  if (open_response_ != nullptr) {
    violate(ProtocolRule::response_exclusion,
            fmt::format("BEGIN_RESP for {} while the response to {} is open", describe(payload),
                        describe(*open_response_)));
  }
  open_response_ = &payload;
  t.state = State::responding;
  t.status = payload.get_response_status();
  if (t.status == tlm::TLM_INCOMPLETE_RESPONSE) {
    violate(ProtocolRule::response_status,
            fmt::format("BEGIN_RESP without a response status, {}", describe(payload)));
  }
  check_unchanged(payload, t, "BEGIN_RESP");
}

void ProtocolMonitor::complete(const Payload& payload) {
  if (open_request_ == &payload) open_request_ = nullptr;
  if (open_response_ == &payload) open_response_ = nullptr;
  transactions_.erase(&payload);
  ++completed_;
}

void ProtocolMonitor::forward_call(const Payload& payload, const tlm::tlm_phase& phase,
                                   const sc_core::sc_time& t) {
  check_references(payload, "nb_transport_fw");
  if (!is_base_phase(phase)) return;  // an extended phase, which may be ignored
  Transaction* known = find(payload);
  switch (static_cast<unsigned>(phase)) {
    case tlm::BEGIN_REQ:
      if (known != nullptr) {
        violate(
            known->state == State::blocking ? ProtocolRule::transport : ProtocolRule::phase_order,
            fmt::format("BEGIN_REQ of a payload that is under way, {}", describe(payload)));
      }
      if (open_request_ != nullptr && open_request_ != &payload) {
        violate(ProtocolRule::request_exclusion,
                fmt::format("BEGIN_REQ for {} while the request for {} is open", describe(payload),
                            describe(*open_request_)));
      }
      begin(payload, State::requested, t, "BEGIN_REQ");
      open_request_ = &payload;
      return;
    case tlm::END_RESP:
      if (known == nullptr || known->state != State::responding) {
        violate(ProtocolRule::phase_order,
                fmt::format("END_RESP without BEGIN_RESP, {}", describe(payload)));
        return;
      }
      advance(*known, t, "END_RESP");
      check_unchanged(payload, *known, "END_RESP");
      if (payload.get_response_status() != known->status) {
        violate(ProtocolRule::response_status,
                fmt::format("the response status changed to {} after BEGIN_RESP, {}",
                            payload.get_response_string(), describe(payload)));
      }
      complete(payload);
      return;
    default:
      violate(ProtocolRule::phase_order,
              fmt::format("{} on the forward path, {}", phase_name(phase), describe(payload)));
  }
}

void ProtocolMonitor::forward_return(const Payload& payload, const tlm::tlm_phase& called,
                                     const tlm::tlm_phase& phase, const sc_core::sc_time& t,
                                     tlm::tlm_sync_enum answer) {
  if (answer == tlm::TLM_ACCEPTED || !is_base_phase(called)) return;
  const auto wrong_answer = [&] {
    violate(ProtocolRule::phase_order,
            fmt::format("{} was answered {}{}, {}", phase_name(called),
                        answer == tlm::TLM_UPDATED ? "TLM_UPDATED with " : "TLM_COMPLETED",
                        answer == tlm::TLM_UPDATED ? phase_name(phase) : "", describe(payload)));
  };
  if (called == tlm::END_RESP && answer == tlm::TLM_COMPLETED) return;
  Transaction* known = find(payload);
  if (called != tlm::BEGIN_REQ || known == nullptr) return wrong_answer();
  if (answer == tlm::TLM_COMPLETED) {
    if (known->state != State::requested) return wrong_answer();
    advance(*known, t, "TLM_COMPLETED");
    check_unchanged(payload, *known, "TLM_COMPLETED");
    if (payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) {
      violate(ProtocolRule::response_status,
              fmt::format("TLM_COMPLETED without a response status, {}", describe(payload)));
    }
    return complete(payload);
  }
  if (phase == tlm::END_REQ && known->state == State::requested) {
    advance(*known, t, "END_REQ");
    check_unchanged(payload, *known, "END_REQ");
    known->state = State::accepted;
    open_request_ = nullptr;
  } else if (phase == tlm::BEGIN_RESP && known->state != State::responding) {
    advance(*known, t, "BEGIN_RESP");
    begin_response(payload, *known);
  } else {
    wrong_answer();
  }
}

void ProtocolMonitor::backward_call(const Payload& payload, const tlm::tlm_phase& phase,
                                    const sc_core::sc_time& t) {
  check_references(payload, "nb_transport_bw");
  if (!is_base_phase(phase)) return;
  Transaction* known = find(payload);
  const bool under_way = known != nullptr && known->state != State::blocking;
  if (phase == tlm::END_REQ && under_way && known->state == State::requested) {
    advance(*known, t, "END_REQ");
    check_unchanged(payload, *known, "END_REQ");
    known->state = State::accepted;
    open_request_ = nullptr;
  } else if (phase == tlm::BEGIN_RESP && under_way && known->state != State::responding) {
    advance(*known, t, "BEGIN_RESP");
    begin_response(payload, *known);
  } else {
    violate(ProtocolRule::phase_order, fmt::format("{} on the backward path, out of order, {}",
                                                   phase_name(phase), describe(payload)));
  }
}

void ProtocolMonitor::backward_return(const Payload& payload, const tlm::tlm_phase& called,
                                      const tlm::tlm_phase& phase, const sc_core::sc_time& t,
                                      tlm::tlm_sync_enum answer) {
  if (answer == tlm::TLM_ACCEPTED || !is_base_phase(called)) return;
  Transaction* known = find(payload);
  const bool ends = answer == tlm::TLM_COMPLETED || phase == tlm::END_RESP;
  if (called != tlm::BEGIN_RESP || known == nullptr || known->state != State::responding || !ends) {
    violate(ProtocolRule::phase_order,
            fmt::format("{} was answered {}, {}", phase_name(called),
                        answer == tlm::TLM_UPDATED
                            ? std::string("TLM_UPDATED with ") + phase_name(phase)
                            : "TLM_COMPLETED",
                        describe(payload)));
    return;
  }
  advance(*known, t, "END_RESP");
  complete(payload);
}

void ProtocolMonitor::blocking_call(const Payload& payload, const sc_core::sc_time& t) {
  if (sc_core::sc_get_current_process_handle().proc_kind() == sc_core::SC_METHOD_PROC_) {
    violate(ProtocolRule::transport,
            fmt::format("b_transport from a method process, {}", describe(payload)));
  }
  if (payload.has_mm() && payload.get_ref_count() < 1) {
    violate(ProtocolRule::reference_count,
            fmt::format("b_transport of a payload without references, {}", describe(payload)));
  }
  if (find(payload) != nullptr) {
    violate(ProtocolRule::transport,
            fmt::format("b_transport of a payload that is under way, {}", describe(payload)));
  }
  begin(payload, State::blocking, t, "b_transport");
}

void ProtocolMonitor::blocking_return(const Payload& payload, const sc_core::sc_time& t) {
  Transaction* known = find(payload);
  if (known == nullptr) return;  // somebody has begun and ended it again: reported
  advance(*known, t, "return of b_transport");
  check_unchanged(payload, *known, "b_transport");
  if (payload.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE) {
    violate(ProtocolRule::response_status,
            fmt::format("b_transport without a response status, {}", describe(payload)));
  }
  complete(payload);
}

void ProtocolMonitor::debug(const Payload& payload, unsigned moved) {
  if (moved > payload.get_data_length()) {
    violate(ProtocolRule::debug,
            fmt::format("transport_dbg says it moved {} bytes, {}", moved, describe(payload)));
  }
}

void ProtocolMonitor::direct_memory(bool granted, const tlm::tlm_dmi& region) {
  if (granted && region.get_end_address() < region.get_start_address()) {
    violate(ProtocolRule::debug, fmt::format("a DMI region from {:#x} to {:#x}",
                                             static_cast<std::uint64_t>(region.get_start_address()),
                                             static_cast<std::uint64_t>(region.get_end_address())));
  }
}

}  // namespace tilewright
