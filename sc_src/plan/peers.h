// Where the messages of a plan's programs go: peer tables and channels.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tilewright/plan/partition.h>
#include <tilewright/plan/placement.h>
#include <tilewright/plan/schedule.h>
#include <tilewright/program/program.h>

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

/// Steps along each axis of the ranks of a stage.
using AxisShifts = std::array<int, kMaxAxes>;
AxisShifts one_axis(std::size_t axis, int shift);

/// Numbers the peer tables and channels of collectives as segments come to need them. Segments are
/// shared between groups, so the numbers are the same in all of them.
class PeerTables {
 public:
  explicit PeerTables(const std::vector<GroupAxis>& axes) : axes_(axes) {}

  /// The table in which each rank's peer is the one so many steps further along every axis, around
  /// its end.
  std::uint32_t along(const AxisShifts& shifts);
  /// The channel of messages sent so many steps along every axis: a tile receives a channel from
  /// one source. Background calls have their own.
  std::uint16_t channel(const AxisShifts& shifts, bool background);
  /// The channel of what a chunk of a stage receives from another stage; of its own by lane, where
  /// messages are taken in another order than they are sent (message_lanes()).
  Channel stage_channel(SlotPhase phase, int chunk, std::uint16_t lane);
  /// Names of all channels, in order.
  const std::vector<std::string>& channels() const { return channel_names_; }

  /// Fills a group's tables, all that are numbered so far.
  void fill(TileGroup& group, const Placement& placement, int stage, int replica) const;

 private:
  AxisShifts wrapped(const AxisShifts& shifts) const;

  const std::vector<GroupAxis>& axes_;
  std::vector<AxisShifts> tables_;
  std::map<std::pair<AxisShifts, bool>, std::uint16_t> channels_;
  std::map<std::tuple<SlotPhase, int, std::uint16_t>, std::uint16_t> stage_channels_;
  std::vector<std::string> channel_names_{"pipeline forward", "pipeline backward",
                                          "tied embedding"};
  std::map<AxisShifts, std::uint32_t> numbers_;
};

}  // namespace tilewright
