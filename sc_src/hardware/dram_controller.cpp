#include <algorithm>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_controller.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

DramController::DramController(const sc_core::sc_module_name& name,
                               const DramControllerConfig& config)
    : sc_core::sc_module(name),
      in("in"),
      config_(config),
      model_(make_dram_model(config.dram, config.rates)),
      responses_(in) {
  in.bind(*this);
  config_.queue.attach_agent(config_.id, *this);
  if (config_.memory != nullptr) config_.memory->set_busy_source(config_.id, *model_);
}

void DramController::begin(tlm::tlm_generic_payload& payload, Picoseconds now) {
  auto* extension = payload.get_extension<MemoryExtension>();
  std::uint32_t token = 0;
  if (free_.empty()) {
    token = static_cast<std::uint32_t>(payloads_.size());
    payloads_.push_back({&payload, extension});
  } else {
    token = free_.back();
    free_.pop_back();
    payloads_[token] = {&payload, extension};
  }
  const std::uint32_t requester =
      extension != nullptr ? 2 * extension->tile + extension->background : index(kNoTile);
  model_->add(now, requester, payload.get_address(),
              extension != nullptr ? extension->bytes : payload.get_data_length(),
              payload.is_write(), token);
}

tlm::tlm_sync_enum DramController::nb_transport_fw(tlm::tlm_generic_payload& payload,
                                                   tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  if (phase == tlm::BEGIN_REQ) {
    payload.acquire();
    const Picoseconds now = config_.queue.now();
    if (probe_ != nullptr) probe_->dram_changes(now, config_.id);
    if (delay.value() == 0 && early_.empty()) {
      begin(payload, now);
    } else {
      const Picoseconds time = now + delay.value();
      early_.push_back({early_.empty() ? time : std::max(time, early_.back().time), &payload});
    }
    schedule(now);
    phase = tlm::END_REQ;
    return tlm::TLM_UPDATED;
  }
  if (phase == tlm::END_RESP) {
    responses_.ended();
    return tlm::TLM_COMPLETED;
  }
  throw InternalError(std::string(name()) + ": unexpected phase " + phase.get_name());
}

void DramController::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  delay += sc_core::sc_time::from_value(model_->unloaded(MemoryExtension::length(payload)));
  finish(payload);
}

unsigned DramController::transport_dbg(tlm::tlm_generic_payload& payload) {
  if (payload.get_data_ptr() == nullptr) return 0;
  store_.access(payload);
  return payload.get_data_length();
}

void DramController::finish(tlm::tlm_generic_payload& payload) {
  if (payload.get_data_ptr() != nullptr) store_.access(payload);
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

// Keeps one event pending at the model's next time. When that moves later the old event finds
// nothing to do and schedules the new one.
void DramController::schedule(Picoseconds now) {
  Picoseconds next = model_->next();
  if (!early_.empty()) next = std::min(next, early_.front().time);
  if (next >= scheduled_) return;
  scheduled_ = std::max(next, now);
  config_.queue.push(scheduled_, EventClass::agent, config_.site, 0, config_.id);
}

void DramController::handle(Picoseconds now, EventClass, std::uint32_t, const Event*, std::size_t) {
  if (probe_ != nullptr) probe_->dram_changes(now, config_.id);
  if (now >= scheduled_) scheduled_ = kNever;
  while (!early_.empty() && early_.front().time <= now) {
    begin(*early_.front().payload, now);
    early_.pop_front();
  }
  DramModel::Completion completion;
  while (model_->pop(now, completion)) {
    tlm::tlm_generic_payload* payload = payloads_[completion.token].payload;
    MemoryExtension* extension = payloads_[completion.token].extension;
    free_.push_back(completion.token);
    if (extension != nullptr) extension->first_byte = completion.first_byte;
    finish(*payload);
    responses_.push(*payload);
  }
  schedule(now);
}

}  // namespace tilewright
