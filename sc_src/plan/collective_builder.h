// What the collective algorithms are written with.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/integer.h>
#include <tilewright/plan/collective.h>

namespace tilewright {

using Blocks = std::function<std::vector<int>(int member)>;

/// A message of every member to the next one of a table, and its receipt.
struct CollectiveStep {
  std::uint32_t table = 0;
  std::int64_t bytes = 0;
  bool adds = false;
  /// Step of the same strand whose receipt it waits for, or -1.
  int after = -1;
  Blocks blocks;
  std::optional<std::uint32_t> rotation;
  /// When it leaves and when it has arrived, were its strand alone; in seconds.
  double start = 0, end = 0;
};

/// Steps that wait only for each other. Strands of a schedule run side by side.
using Strand = std::vector<CollectiveStep>;

class ScheduleBuilder {
 public:
  /// The table of that name; `to` is by member.
  std::uint32_t table(std::string name, std::vector<int> to);
  std::uint32_t send(std::uint32_t table, std::int64_t bytes, std::uint32_t after, Blocks blocks);
  std::uint32_t receive(std::uint32_t table, std::int64_t bytes, bool adds);
  /// Adds the steps of all strands in the order of their times: the engines of a member take sends
  /// and receives in order.
  void merge(const std::vector<Strand>& strands);
  /// All blocks of one size; or the first of one, the others of another.
  void blocks(int count, std::int64_t bytes);
  void blocks(int first, std::int64_t first_bytes, int others, std::int64_t other_bytes);

  CollectiveSchedule schedule;
};

/// {first, first + 1, ...}
std::vector<int> run_of(int first, int count);

/// Appends a step to a strand: it takes bytes · seconds from when the step before has arrived, or
/// from `earliest`, if that is later.
void append(Strand& strand, CollectiveStep step, double seconds_per_byte, double earliest = 0);

/// A reduce-scatter or an all-gather round a ring of all members, with a block of each.
struct RingPass {
  std::vector<int> order;   ///< members as the ring visits them
  std::uint32_t table = 0;  ///< to the next of the order
  std::int64_t bytes = 0;   ///< of a block
  int first_block = 0;      ///< of member 0
  double seconds = 0;       ///< per byte
  bool rotates = false;     ///< the order is 0, 1, 2, ... and bytes are exact
};
/// With `shift` -1 each place ends with the sum of its own blocks, with 0 with that of the next.
void ring_reduce(Strand& strand, const RingPass& pass, int shift);
/// Each place begins with its own blocks (shift 0) or those of the next one (shift 1).
void ring_gather(Strand& strand, const RingPass& pass, int shift);

/// Whom a member sends to when it is followed by the next of each of these orders, round their
/// ends.
std::vector<int> next_of(int members, const std::vector<std::vector<int>>& orders);

CollectiveSchedule ring_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                 std::int64_t bytes, bool both_ways);
CollectiveSchedule row_column_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                       std::int64_t bytes);
CollectiveSchedule tree_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                 std::int64_t bytes);
CollectiveSchedule halving_doubling_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                             std::int64_t bytes);
CollectiveSchedule direct_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                   std::int64_t bytes, bool shuffled);

/// Pieces in which `bytes` pass along `depth` members in the least time: the first takes depth
/// times as long as one piece, the others follow, each piece takes the hop latency too.
std::int64_t piece_count(const CollectiveGroup& group, std::int64_t bytes, int depth);

}  // namespace tilewright
