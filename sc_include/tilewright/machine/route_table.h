// Routes through a fabric of switches.
#pragma once

#include <cstdint>
#include <vector>

#include <tilewright/machine/topology.h>

namespace tilewright {

/// For every node and destination tile of a fabric the link to take, so that each pair of tiles has
/// one way. By the machine's `noc.routing`:
///
///  - `shortest`: a way of fewest hops; of several such ways one of the least sum of 1 / bandwidth,
///    then of latencies.
///  - `up-down`: up* / down* routing (Schroeder et al., Autonet, 1990). Links towards the root of a
///    breadth-first tree are up, the others down; a way goes up as long as it has to, then down. No
///    way turns from down to up, so no circle of waiting packets can close.
///
/// Where a node has several equally good links the destinations take one each in turn, so that
/// parallel switches share the traffic.
class RouteTable {
 public:
  /// Throws InputError when the table would not fit in memory or the routing is not known.
  RouteTable(const Topology& topology, const MachineConfig& machine);

  /// The number of the link by which a packet for `destination` leaves `node`; Topology::kNone
  /// where there is no way.
  std::uint32_t link(std::uint32_t node, std::uint32_t destination) const {
    return links_[std::size_t{node} * tiles_ + destination];
  }

  /// Links whose packets may wait for each other in a circle, in order; empty if there is none:
  /// then nothing can block, however small the buffers are.
  std::vector<std::uint32_t> dependency_cycle(const Topology& topology) const;

 private:
  std::uint32_t tiles_;
  std::vector<std::uint32_t> links_;
};

}  // namespace tilewright
