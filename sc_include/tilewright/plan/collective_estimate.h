// What a collective costs: a closed form over the links that its messages take, and lower bounds.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <tilewright/machine/machine.h>
#include <tilewright/machine/route_table.h>
#include <tilewright/machine/topology.h>
#include <tilewright/plan/collective.h>

namespace tilewright {

/// The links that a message takes: on a mesh or torus along x, then y (routing `yx`: the reverse;
/// adaptive routings are taken for `xy`), round defects some shortest way; on a fabric by its route
/// table.
class LinkRoutes {
 public:
  explicit LinkRoutes(const MachineConfig& machine);

  const Topology& topology() const { return topology_; }
  /// Numbers of the links from one tile to another, in order.
  std::vector<std::uint32_t> route(TileId from, TileId to) const;
  double seconds_per_byte(std::uint32_t link) const {
    return seconds_[static_cast<std::size_t>(topology_.link(link).kind)];
  }
  double latency(std::uint32_t link) const {
    return latency_[static_cast<std::size_t>(topology_.link(link).kind)];
  }

 private:
  std::vector<std::uint32_t> detour(std::uint32_t from, std::uint32_t to) const;

  Topology topology_;
  bool yx_;
  std::unique_ptr<RouteTable> table_;      // of a fabric
  std::vector<double> seconds_, latency_;  // by LinkKind
};

/// Groups that run the same collective side by side.
struct CollectiveGroups {
  std::vector<CollectiveGroup> shapes;       ///< different ones, which agree()
  std::vector<std::size_t> shape;            ///< by group
  std::vector<std::vector<TileId>> members;  ///< tiles by group and member
};

/// Seconds that a collective takes on idle links. The greater of
///
///  - the chain: a receive comes one message after its send, which waits for what it passes on and
///    for the sends before it on its table. A message takes the latency of its way, and its bytes
///    at the rate that the most shared link of its table leaves it. Messages that wait for the same
///    receive share the links with each other too.
///  - the busiest link: all bytes that go over it, and the longest latency.
///
/// What passes a pipeline of d hops in pieces takes its busiest link, and d - 1 pieces.
double estimate(const LinkRoutes& routes, const CollectiveGroups& groups, CollectiveKind kind,
                CollectiveAlgorithm algorithm, std::int64_t bytes);

/// The estimates of the algorithms that the groups can run, in the order of CollectiveAlgorithm.
/// Among more than 256 members messages between all of them are left out: there are too many to
/// look at.
std::vector<std::pair<CollectiveAlgorithm, double>> estimates(const LinkRoutes& routes,
                                                              const CollectiveGroups& groups,
                                                              CollectiveKind kind,
                                                              std::int64_t bytes);
/// The first algorithm of least estimate; the usual one if there are none.
CollectiveAlgorithm cheapest(const LinkRoutes& routes, const CollectiveGroups& groups,
                             CollectiveKind kind, std::int64_t bytes);

/// Seconds that no algorithm can be faster than (docs/collectives.md): the links into (and out of)
/// a member, the links across a cut of the mesh, the links altogether, the latency between the
/// members furthest apart. Arguments as of make_schedule().
double collective_bound(const LinkRoutes& routes, CollectiveKind kind,
                        const std::vector<TileId>& tiles, std::int64_t bytes);

}  // namespace tilewright
