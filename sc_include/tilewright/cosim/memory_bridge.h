// Puts a TLM-2.0 memory of somebody else's in the place of a DRAM controller.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/peq_with_get.h>

#include <tilewright/hardware/event_queue.h>
#include <tilewright/hardware/memory.h>
#include <tilewright/hardware/response_queue.h>

namespace tilewright {

struct MemoryBridgeConfig {
  std::uint64_t size = 0;          ///< bytes of the memory; addresses wrap round at it
  std::uint64_t base = 0;          ///< its first address
  std::uint64_t block = 64;        ///< bytes: no request crosses a multiple of it. A power of two,
                                   ///< not above the burst of the memory or the grain in which its
                                   ///< channels are interleaved
  std::uint32_t outstanding = 32;  ///< requests begun and not complete
  bool blocking = false;           ///< use b_transport: for targets that have nothing else
};

/// Between a DramPort (`in`) and any base-protocol target (`out`), loosely or approximately timed.
/// What the port asks for as one transaction goes out as requests that the strictest target takes:
///
///  - each lies within one aligned block, with a data pointer, a memory manager and no extension
///    that it would have to know; the first and the last of a transaction may be shorter;
///  - non-blocking: the next BEGIN_REQ follows END_REQ, however late it comes and on whichever
///  path;
///    responses may come in any order, on the return path or the backward path, and are ended by an
///    END_RESP of their own, sent from a process of the bridge: no call is made inside another;
///  - blocking: as many threads as `outstanding` call b_transport and then wait for the delay that
///    it was given, so that a target that does not make its callers wait serves them side by side;
///  - the tiles take turns block by block; one tile's requests go in order.
///
/// Annotated delays are honoured. Blocks that carry no data (those of tile programs) read into a
/// scratch buffer and write zeros. An error response becomes that of the whole transaction.
class MemoryBridge : public sc_core::sc_module,
                     public tlm::tlm_fw_transport_if<>,
                     public tlm::tlm_bw_transport_if<> {
 public:
  /// Throws InputError when size, base and block do not fit each other.
  MemoryBridge(const sc_core::sc_module_name& name, const MemoryBridgeConfig& config);

  tlm::tlm_target_socket<32> in;
  tlm::tlm_initiator_socket<32> out;

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) override;

  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}

 private:
  using Payload = tlm::tlm_generic_payload;
  /// A transaction of the port.
  struct Transfer {
    Payload* payload = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t issued = 0, complete = 0;  // bytes
    std::vector<unsigned char> enables;      // where they had to be repeated
    tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
  };

  void begin();
  void issue();
  void respond();
  void serve();
  bool has_work() const { return !turns_.empty(); }
  Payload& next_request();
  std::uint64_t piece(const Payload& whole, std::uint64_t offset, std::uint64_t bytes,
                      const unsigned char* enables, Payload& request);
  void request_ended(const Payload& payload, const sc_core::sc_time& delay);
  void complete(Payload& request);

  MemoryBridgeConfig config_;
  tlm_utils::peq_with_get<Payload> arriving_, responding_;
  ResponseQueue responses_;
  PayloadPool pool_;
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;
  std::map<std::uint32_t, std::deque<std::uint32_t>> waiting_;  // by tile: transfers to issue
  std::deque<std::uint32_t> turns_;                             // tiles with something to issue
  std::vector<unsigned char> zeros_, scratch_;
  sc_core::sc_event work_;
  Payload* open_ = nullptr;       // BEGIN_REQ sent, END_REQ not seen
  sc_core::sc_time ready_;        // when the last END_REQ takes effect
  std::vector<Payload*> ending_;  // BEGIN_RESP seen, END_RESP not sent
  std::uint32_t in_flight_ = 0;
};

}  // namespace tilewright
