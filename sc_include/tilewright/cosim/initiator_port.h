// Where a TLM-2.0 initiator of somebody else's enters the mesh.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <systemc>
#include <tlm>
#include <tlm_utils/peq_with_get.h>

#include <tilewright/hardware/backplane.h>
#include <tilewright/hardware/memory_system.h>
#include <tilewright/hardware/response_queue.h>

namespace tilewright {

struct InitiatorPortConfig {
  Backplane& backplane;
  TileId tile{};                    ///< whose router the initiator is attached to
  std::vector<DramId> controllers;  ///< that it sees, in order; empty: all of the machine
  std::uint64_t interleave = 4096;  ///< bytes: neighbouring blocks lie at different controllers
  std::uint32_t outstanding = 16;   ///< transactions at once; more wait for END_REQ
};

/// A base-protocol target at a tile, inner or at the edge. Reads and writes travel the network to
/// the DRAM controllers like the tile's own loads and stores: a read's request takes the hop
/// latencies, its data comes back as a packet; a write's data goes as a packet, its acknowledgement
/// takes the hop latencies back. They share links and controllers with everything else and count in
/// the statistics of both.
///
///  - Non-blocking: BEGIN_REQ is answered with END_REQ at once, or later when `outstanding`
///    transactions are under way; BEGIN_RESP comes at the time of completion, one response at a
///    time. Annotated delays are honoured. b_transport waits until the transaction is complete.
///  - Addresses count from 0 to the capacity of all controllers. Block number b of `interleave`
///    bytes lies at controller b mod n, at block b / n of it. Beyond: TLM_ADDRESS_ERROR_RESPONSE.
///  - Data is moved where there is a data pointer: through the controller's payload, to the bytes
///    stored there. Byte enables are obeyed. Streaming (a width below the length) and a length of 0
///    are answered with TLM_BURST_ERROR_RESPONSE. An error of the memory is passed on.
///  - transport_dbg reaches the memory without time; there is no DMI.
class InitiatorPort : public sc_core::sc_module,
                      public tlm::tlm_fw_transport_if<>,
                      public MemoryClient {
 public:
  /// Throws InputError for a tile or controller that the machine lacks, an interleave of 0, or an
  /// event queue that runs ahead of the kernel.
  InitiatorPort(const sc_core::sc_module_name& name, const InitiatorPortConfig& config);

  tlm::tlm_target_socket<32> in;

  std::uint64_t size() const { return size_; }  ///< bytes that can be addressed

  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) override;
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) override;
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) override;

  void memory_done(Picoseconds now, std::uint32_t tile, std::uint32_t token) override;
  void memory_head(Picoseconds, std::uint32_t, std::uint32_t) override {}

 private:
  /// A transaction under way.
  struct Access {
    tlm::tlm_generic_payload* payload = nullptr;
    std::vector<unsigned char> enables;   // where they had to be repeated
    sc_core::sc_event* waiter = nullptr;  // of b_transport
  };

  void begin();
  void finish();
  void admit();
  void start(tlm::tlm_generic_payload& payload, sc_core::sc_event* waiter);
  tlm::tlm_response_status check(const tlm::tlm_generic_payload& payload) const;
  const std::vector<AccessPiece>& pieces(const tlm::tlm_generic_payload& payload);

  InitiatorPortConfig config_;
  std::uint64_t size_ = 0;
  tlm_utils::peq_with_get<tlm::tlm_generic_payload> arriving_;
  std::vector<Access> accesses_;  // by token
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> done_;  // complete, not yet responded to
  sc_core::sc_event finish_, slot_;
  std::uint32_t accepted_ = 0;
  tlm::tlm_generic_payload* held_ = nullptr;  // waits for END_REQ
  sc_core::sc_time held_until_;               // and begins no earlier
  ResponseQueue responses_;
  std::vector<AccessPiece> pieces_;  // scratch
};

}  // namespace tilewright
