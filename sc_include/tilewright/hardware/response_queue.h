// How a target of ours gives its responses back.
#pragma once

#include <deque>

#include <systemc>
#include <tlm>

namespace tilewright {

/// Sends BEGIN_RESP for one payload after the other: each waits for the END_RESP of the one before
/// it, as the base protocol demands.
class ResponseQueue {
 public:
  explicit ResponseQueue(tlm::tlm_target_socket<32>& socket) : socket_(socket) {}

  /// Takes over one reference to `payload`, whose response status is set.
  void push(tlm::tlm_generic_payload& payload);
  /// The initiator's END_RESP has come.
  void ended();

 private:
  void drain();
  void send(tlm::tlm_generic_payload& payload);

  tlm::tlm_target_socket<32>& socket_;
  std::deque<tlm::tlm_generic_payload*> waiting_;
  bool open_ = false;  // BEGIN_RESP sent, END_RESP not seen
};

}  // namespace tilewright
