// The transaction types of the model's own sockets: links, calls and compute requests.
//
// Each has a traits class of its own, so that a socket of one kind can be bound to no other and to
// no base-protocol socket. All three are one-phase: the payload belongs to the callee for the
// duration of nb_transport_fw (links: the packet is handed over), and there is no response phase on
// links.
#pragma once

#include <cstdint>

#include <systemc>
#include <tlm>

#include <tilewright/base/error.h>
#include <tilewright/base/ids.h>
#include <tilewright/base/quantity.h>
#include <tilewright/program/program.h>

namespace tilewright {

// --- Links -----------------------------------------------------------------------------------

enum class PacketKind : std::uint8_t {
  message,     ///< from tile to tile
  read_data,   ///< from a DRAM controller's site to the tile that loads
  write_data,  ///< from a tile that stores to a controller's site
  copied,      ///< data read that goes to several tiles, as far as their ways are one
};

/// A message on its way, in one cache line. It occupies a slot of the network's pool from injection
/// until its receiver has taken it. All times are picoseconds; where the head is, is the time of
/// the event that carries the packet, less `lead`.
struct alignas(64) Packet {
  Picoseconds tail = 0;  ///< when the last byte reaches the current router
  Picoseconds injected = 0;
  std::uint64_t bytes = 0;
  Picoseconds lead = 0;  ///< how far the head is ahead of the event (data read from DRAM)
  std::uint32_t source = 0, destination = 0;  ///< tiles
  std::int16_t dx = 0, dy = 0;                ///< hops left in its leg, east and south positive
  std::uint32_t sequence = 0;                 ///< injection number, breaks ties within a port
  std::uint32_t slot = 0;                     ///< own position in the pool
  std::uint32_t link = 0;  ///< messages: next in the receiver's mailbox; memory: transfer part
  std::uint16_t channel = 0;
  PacketKind kind = PacketKind::message;
  Cause cause = Cause::memory;
  std::uint16_t port = 0;  ///< input port at the router the packet goes to
  bool arrived = false;
  /// What its routing remembers: 1 when y comes first (O1TurnRouting), legs begun (Detours).
  std::uint8_t way = 0;
};
static_assert(sizeof(Packet) == 64, "a packet is one cache line");

/// What a link moves per cycle and a buffer holds per place, at flit fidelity. A packet's head
/// finds the way and takes a virtual channel in every router, its tail gives it back.
struct Flit {
  std::uint32_t packet = 0;  ///< slot in the network's packet pool
  std::uint32_t index : 24;  ///< position in the message
  std::uint32_t vc : 6;      ///< virtual channel at the router the flit is in, or goes to
  std::uint32_t head : 1;
  std::uint32_t tail : 1;
  Flit() : index(0), vc(0), head(0), tail(0) {}
};
static_assert(sizeof(Flit) == 8, "buffers are counted in cache lines");

/// The payload of a link. Valid for the duration of the call.
struct LinkTransfer {
  Packet* packet = nullptr;  ///< head: the packet, which is handed over
  Flit flit;                 ///< flit: what is moved; credit: only the channel (`vc`) is meant
  std::uint8_t port = 0;     ///< flit: input port at the receiver; credit: its output port
  std::uint16_t cycles =
      0;  ///< flit, credit: until it can be used there; so says the delay in time
};

/// A link carries packets at message fidelity, flits and credits at flit fidelity.
enum class LinkPhase : std::uint8_t {
  head,    ///< forward: a packet's head is on its way, the rest follows
  flit,    ///< forward: a flit is on its way
  credit,  ///< backward: a place has become free in the receiver's buffer
};

struct LinkTypes {
  using tlm_payload_type = LinkTransfer;
  using tlm_phase_type = LinkPhase;
};
/// What a hop calls, and what a credit comes back by.
using LinkForward = tlm::tlm_fw_nonblocking_transport_if<LinkTransfer, LinkPhase>;
using LinkBackward = tlm::tlm_bw_nonblocking_transport_if<LinkTransfer, LinkPhase>;

// --- Calls: the workload driver tells a tile what to run ----------------------------------------

struct CallRequest {
  std::uint32_t tile = 0;
  std::uint32_t call = 0;   ///< position in TileGroup::calls, or background
  bool background = false;  ///< which of the two
};

enum class CallPhase : std::uint8_t {
  begin,  ///< forward: the tile takes the call into its window
  end,    ///< backward: the oldest call of the list is complete
};

struct CallTypes {
  using tlm_payload_type = CallRequest;
  using tlm_phase_type = CallPhase;
};

// --- Compute: the tile gives an operation to its compute unit ------------------------------------

struct ComputeRequest {
  std::uint32_t tile = 0;
  std::uint32_t shape = 0;   ///< Program::shapes
  std::uint32_t begin = 0;   ///< the first of `amount` parts of the shape's denominator, so that
  std::uint32_t amount = 0;  ///< the durations of consecutive pieces sum to the whole's
  Engine engine = Engine::matrix;
  Picoseconds stall = 0;  ///< out: part of the delay due to the SRAM's bandwidth
};

enum class ComputePhase : std::uint8_t { begin, end };

/// A compute unit answers TLM_COMPLETED with the operation's duration as delay, or TLM_ACCEPTED and
/// later calls nb_transport_bw with ComputePhase::end. The request stays valid until then.
struct ComputeTypes {
  using tlm_payload_type = ComputeRequest;
  using tlm_phase_type = ComputePhase;
};

/// The target sockets of compute units, standard ones and our own alike.
using ComputeTarget = tlm::tlm_base_target_socket_b<32, tlm::tlm_fw_transport_if<ComputeTypes>,
                                                    tlm::tlm_bw_transport_if<ComputeTypes>>;

// --- Defaults for the transport calls that our protocols do not have
// ------------------------------

template <class Types>
class NonblockingTarget : public tlm::tlm_fw_transport_if<Types> {
 public:
  using Payload = typename Types::tlm_payload_type;
  void b_transport(Payload&, sc_core::sc_time&) override {
    throw InternalError("b_transport is not part of this protocol");
  }
  bool get_direct_mem_ptr(Payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(Payload&) override { return 0; }
};

template <class Types>
class NonblockingInitiator : public tlm::tlm_bw_transport_if<Types> {
 public:
  using Payload = typename Types::tlm_payload_type;
  using Phase = typename Types::tlm_phase_type;
  tlm::tlm_sync_enum nb_transport_bw(Payload&, Phase&, sc_core::sc_time&) override {
    throw InternalError("this protocol has no backward calls");
  }
  void invalidate_direct_mem_ptr(sc_dt::uint64, sc_dt::uint64) override {}
};

}  // namespace tilewright
