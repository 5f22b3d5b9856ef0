// A DRAM controller behind a base-protocol socket.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/hardware/response_queue.h>
#include <tilewright/hardware/sparse_memory.h>

namespace tilewright {

class MemorySystem;

struct DramControllerConfig {
  DramConfig dram;
  std::uint32_t id = 0;    ///< its number in the machine
  std::uint32_t site = 0;  ///< the tile it is attached to
  EventQueue& queue;
  MemorySystem* memory = nullptr;             ///< reports its busy time there
  std::shared_ptr<MixRates> rates = nullptr;  ///< see make_dram_model()
};

/// Non-blocking, four phases: BEGIN_REQ is answered with END_REQ at once (any number of requests
/// may be outstanding); BEGIN_RESP follows when the model has moved the last byte, and a response
/// waits for the END_RESP of the one before it. The length may exceed 32 bits (MemoryExtension).
/// Blocking transport returns the unloaded time and does not contend with other requests. Data is
/// stored where payloads have a data pointer (those of tile programs have none) and reads as 0
/// where none was written; transport_dbg moves it without time. The controller can be replaced by
/// any base-protocol target.
class DramController : public sc_core::sc_module,
                       public tlm::tlm_fw_transport_if<>,
                       public EventHandler {
 public:
  DramController(const sc_core::sc_module_name& name, const DramControllerConfig& config);

  tlm::tlm_target_socket<32> in;

  Picoseconds busy() const { return model_->busy(); }
  /// Requests taken and not yet served.
  std::size_t queued() const { return payloads_.size() - free_.size() + early_.size(); }
  const DramModel& model() const { return *model_; }
  /// `probe` hears of changes.
  void watch(Probe& probe) { probe_ = &probe; }

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) override;

  void handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
              std::size_t count) override;

 private:
  void begin(tlm::tlm_generic_payload& payload, Picoseconds now);
  void finish(tlm::tlm_generic_payload& payload);
  void schedule(Picoseconds now);

  DramControllerConfig config_;
  std::unique_ptr<DramModel> model_;
  Probe* probe_ = nullptr;
  Picoseconds scheduled_ = kNever;       // the earliest of our events that is pending
  std::vector<PooledPayload> payloads_;  // by token; no extension: a foreign one
  std::vector<std::uint32_t> free_;
  ResponseQueue responses_;
  SparseMemory store_;
  struct Early {
    Picoseconds time;
    tlm::tlm_generic_payload* payload;
  };
  std::deque<Early> early_;  // requests annotated with a delay
};

}  // namespace tilewright
