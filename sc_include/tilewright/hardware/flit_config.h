// The parameters of the flit-level network.
#pragma once

#include <cstdint>
#include <string>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/topology.h>

namespace tilewright {

/// An input-queued virtual-channel router and its links; every delay is in cycles. With the
/// defaults a packet of L flits that crosses R idle routers takes 4R + 2 + (L - 1) cycles
/// (docs/network.md).
struct FlitConfig {
  int width = 1, height = 1;   ///< routers of the mesh
  bool torus = false;          ///< the last router of every row and column is linked to the first
  std::string routing = "xy";  ///< by name, see make_routing()
  std::uint64_t routing_seed = 1;  ///< of routings that draw
  Picoseconds period = 1000;       ///< one cycle
  int flit_bytes = 32;       ///< a message of n bytes is ceil(n / flit_bytes) flits, at least one
  int packet_flits = 0;      ///< longer messages travel as several packets; 0: as one
  int virtual_channels = 8;  ///< per input port, 1 to 32; shared out to the routing's classes
  int buffer_flits = 8;      ///< per virtual channel
  int routing_delay = 0;     ///< 0: the route was computed one hop ahead
  int vc_allocation_delay = 1;      ///< at least 1
  int switch_allocation_delay = 1;  ///< at least 1
  int switch_traversal_delay = 1;   ///< at least 1
  int link_delay = 1;               ///< wire between routers, for flits and for credits, at least 1
  int terminal_delay = 1;           ///< wire between a tile and its router, at least 1
  int credit_delay = 1;             ///< processing of a credit that has reached a router
  /// Bid for the switch in the cycle of the VC allocation; needs both allocations to take one
  /// cycle.
  bool speculative = false;
  /// Give an output channel to the next packet only when the last flit of the one before has left
  /// the buffer behind it.
  bool wait_for_tail_credit = false;

  // For tests: every input port loses its chance of a grant, in switch and VC allocation, in this
  // share of all cycles, at random.
  double stall_probability = 0;
  std::uint64_t stall_seed = 1;
};

/// The mesh it is a network of.
Topology topology_of(const FlitConfig& config);

/// Throws InputError naming the parameter, its value and what is allowed.
void check(const FlitConfig& config);

}  // namespace tilewright
