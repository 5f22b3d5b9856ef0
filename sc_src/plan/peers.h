// Where the messages of a plan's programs go: peer tables and channels.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tilewright/plan/placement.h>
#include <tilewright/plan/schedule.h>
#include <tilewright/program/program.h>

#include "collective_members.h"

namespace tilewright {

/// Tables of TileGroup::peers that are the same in every group; those of PeerTables follow.
enum class Peers : std::uint32_t {
  stage_next,
  stage_previous,
  tied,  ///< the other holder of the tied embedding table
};
constexpr std::uint32_t kFixedPeers = 3;

/// Program::channels that every plan has; those of PeerTables follow.
enum class Channel : std::uint16_t { forward, backward, tied };

/// Numbers the peer tables and channels of collectives as segments come to need them. Segments are
/// shared between groups, so the numbers are the same in all of them.
class PeerTables {
 public:
  /// By stage, replica and rank: the rank whose tile stands for those that keep together what all
  /// hold (StagePlanner::first_sharer()).
  using FirstSharer = std::function<int(int stage, int replica, int rank)>;
  explicit PeerTables(CollectiveMembers& members, FirstSharer first_sharer = {})
      : members_(members), first_sharer_(std::move(first_sharer)) {}

  /// A collective as the groups of its axes run it.
  struct Run {
    CollectiveSchedule schedule;
    /// By table of the schedule: where its messages go and come from, and their channel. A tile
    /// receives a channel from one source. Background calls have channels of their own.
    struct Way {
      std::uint32_t to = 0, from = 0;
      std::uint16_t channel = 0;
    };
    std::vector<Way> ways;
  };
  Run run(CollectiveKind kind, AxisSet axes, std::int64_t bytes, bool background);

  /// The channel of what a chunk of a stage receives from another stage; of its own by lane, where
  /// messages are taken in another order than they are sent (message_lanes()).
  Channel stage_channel(SlotPhase phase, int chunk, std::uint16_t lane);
  /// The table of the ranks that keep together what all of the tensor axis hold.
  std::uint32_t sharers();
  /// Names of all channels, in order.
  const std::vector<std::string>& channels() const { return channel_names_; }

  /// Fills a group's tables, all that are numbered so far.
  void fill(TileGroup& group, const Placement& placement, int stage, int replica);

 private:
  /// Collectives that send to the same members: of these axes with this algorithm, the way from a
  /// root or not, by the table of this name.
  using Key = std::tuple<AxisSet, CollectiveAlgorithm, bool, std::string>;
  struct Table {
    Key key;
    CollectiveKind kind;  // of a collective that uses it
    std::int64_t bytes;
  };

  using Known = std::tuple<CollectiveKind, AxisSet, std::int64_t>;

  CollectiveMembers& members_;
  FirstSharer first_sharer_;
  std::vector<Table> tables_;  // each is two of TileGroup::peers: to, from
  std::map<Key, std::uint32_t> numbers_;
  std::optional<std::uint32_t> sharers_;  // in tables_
  int known_stage_ = -1;
  std::map<Known, std::map<std::string, CollectiveMembers::Peers>> known_;  // of that stage
  std::map<std::pair<Key, bool>, std::uint16_t> channels_;
  std::map<std::tuple<SlotPhase, int, std::uint16_t>, std::uint16_t> stage_channels_;
  std::vector<std::string> channel_names_{"pipeline forward", "pipeline backward",
                                          "tied embedding"};
};

}  // namespace tilewright
