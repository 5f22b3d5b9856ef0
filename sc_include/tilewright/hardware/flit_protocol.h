// The transaction types of links between routers at flit fidelity.
//
// A link carries flits forward and credits backward, both without a response phase. The traits are
// the protocol's own, so a flit link binds to no message link and to no base-protocol socket.
#pragma once

#include <cstdint>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/protocol.h>

namespace tilewright {

/// What a link moves per cycle and a buffer holds per place. A packet's head finds the way and
/// takes a virtual channel in every router, its tail gives it back.
struct Flit {
  std::uint32_t packet = 0;  ///< slot in the network's packet pool
  std::uint32_t index : 24;  ///< position in the message, modulo 2^24
  std::uint32_t vc : 6;      ///< virtual channel at the router the flit is in, or goes to
  std::uint32_t head : 1;
  std::uint32_t tail : 1;
  Flit() : index(0), vc(0), head(0), tail(0) {}
};
static_assert(sizeof(Flit) == 8, "buffers are counted in cache lines");

/// The payload of a link. Valid for the duration of the call.
struct FlitTransfer {
  Flit flit;                 ///< flits: what is moved; credits: only the channel (`vc`) is meant
  std::uint8_t port = 0;     ///< flits: input port at the receiver; credits: its output port
  std::uint16_t cycles = 0;  ///< until it can be used there; the call's delay is the same in time
};

enum class FlitPhase : std::uint8_t {
  flit,    ///< forward: a flit is on its way
  credit,  ///< backward: a place has become free in the receiver's buffer
};

struct FlitLinkTypes {
  using tlm_payload_type = FlitTransfer;
  using tlm_phase_type = FlitPhase;
};
using FlitForward = tlm::tlm_fw_nonblocking_transport_if<FlitTransfer, FlitPhase>;
using FlitBackward = tlm::tlm_bw_nonblocking_transport_if<FlitTransfer, FlitPhase>;

}  // namespace tilewright
