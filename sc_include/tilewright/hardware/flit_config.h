// The parameters of the flit-level network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/machine.h>
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
  double flit_bytes = 32;    ///< a message of n bytes is ceil(n / flit_bytes) flits, at least one
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
  /// The tile is part of its router, as at message fidelity: it writes to buffers of its own for
  /// each link out, a flit per cycle and link, and takes flits as they arrive. Without it the tile
  /// has a port of a flit per cycle behind `terminal_delay`.
  bool direct_terminals = false;

  /// A kind of links.
  struct Link {
    int delay = 1;               ///< in place of link_delay
    double cycles_per_flit = 1;  ///< at least 1
    int buffer_flits = 8;        ///< per virtual channel, at its far end
  };
  std::vector<Link> links;  ///< by LinkKind; empty: a flit per cycle, link_delay and buffer_flits
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

/// Cycles from a head's arrival at an idle router until it is on the wire.
std::uint64_t router_cycles(const FlitConfig& config);

/// The routers and links of a machine, as docs/network.md derives them from its description: the
/// fastest link moves a flit per cycle, and an idle hop takes its latency, to the nearest cycle.
/// Throws InputError for a machine whose network has no flit model, saying what it lacks.
FlitConfig flit_config(const MachineConfig& machine);

}  // namespace tilewright
