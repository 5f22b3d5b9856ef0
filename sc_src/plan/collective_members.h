// The groups of a plan's ranks that run collectives together, and the algorithms they use.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include <tilewright/plan/collective.h>
#include <tilewright/plan/collective_estimate.h>
#include <tilewright/plan/partition.h>
#include <tilewright/plan/placement.h>

namespace tilewright {

/// The ranks of a stage that share a place on all axes but some are one group of those axes. A rank
/// is the member that its places on these axes make it, the first axis innermost.
class CollectiveMembers {
 public:
  CollectiveMembers(const std::vector<GroupAxis>& axes, const Placement& placement,
                    const MachineConfig& machine, const CollectiveChoices& choices)
      : axes_(axes), placement_(placement), machine_(machine), choices_(choices) {}

  /// What the groups of `axes` run; where the choice is left open, the cheapest. Throws InputError
  /// when the chosen algorithm cannot run on them.
  CollectiveAlgorithm algorithm(CollectiveKind kind, AxisSet axes, std::int64_t bytes);
  /// The schedule of that algorithm. All groups of the axes run the same instructions; the tables
  /// are those of the first group.
  CollectiveSchedule schedule(CollectiveKind kind, AxisSet axes, std::int64_t bytes);

  /// By rank of a stage (replicas numbered through) the rank that a table of the schedule makes its
  /// peer, or -1: whom it sends to, or whom it receives from.
  struct Peers {
    std::vector<int> to, from;
  };
  std::map<std::string, Peers> peers(CollectiveKind kind, AxisSet axes, std::int64_t bytes,
                                     int stage);
  /// Closed-form seconds of that algorithm on idle links, estimate(), on the first stage.
  double seconds(CollectiveKind kind, AxisSet axes, std::int64_t bytes);
  /// Seconds of one message on idle links.
  double seconds(TileId from, TileId to, std::int64_t bytes);
  /// "tensor", "tensor_x context".
  std::string name(AxisSet axes) const;

 private:
  /// Ranks of one group, by member, and its shape.
  struct Members {
    std::vector<int> ranks;
    std::size_t shape = 0;
  };
  struct Groups {
    std::vector<std::vector<Members>> by_stage;
    std::vector<CollectiveGroup> shapes;  ///< different ones
  };
  const Groups& groups(AxisSet axes);
  const LinkRoutes& routes();
  /// The groups of the first stage, which stand for all.
  CollectiveGroups first_stage(AxisSet axes);
  std::vector<TileId> tiles(int stage, const Members& members) const;
  int stage_ranks() const { return placement_.replicas * placement_.group; }
  TileId tile(int stage, int rank) const {
    return placement_.tile(stage, rank / placement_.group, rank % placement_.group);
  }

  const std::vector<GroupAxis>& axes_;
  const Placement& placement_;
  const MachineConfig& machine_;
  const CollectiveChoices& choices_;
  std::map<AxisSet, Groups> groups_;
  std::map<std::tuple<CollectiveKind, AxisSet, std::int64_t>, CollectiveAlgorithm> cheapest_;
  std::unique_ptr<LinkRoutes> routes_;
};

}  // namespace tilewright
