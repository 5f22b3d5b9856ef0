#include <tilewright/hardware/response_queue.h>

namespace tilewright {

void ResponseQueue::push(tlm::tlm_generic_payload& payload) {
  if (open_) {
    waiting_.push_back(&payload);
  } else {
    send(payload);
    drain();
  }
}

void ResponseQueue::ended() {
  open_ = false;
  drain();
}

void ResponseQueue::drain() {
  while (!open_ && !waiting_.empty()) {
    tlm::tlm_generic_payload* payload = waiting_.front();
    waiting_.pop_front();
    send(*payload);
  }
}

void ResponseQueue::send(tlm::tlm_generic_payload& payload) {
  tlm::tlm_phase phase = tlm::BEGIN_RESP;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  open_ = true;
  const tlm::tlm_sync_enum answer = socket_->nb_transport_bw(payload, phase, delay);
  if (answer == tlm::TLM_COMPLETED || (answer == tlm::TLM_UPDATED && phase == tlm::END_RESP)) {
    open_ = false;
  }
  payload.release();
}

}  // namespace tilewright
