// Round a ring of all members, one way or both ways.
#include <algorithm>

#include "collective_builder.h"

namespace tilewright {
namespace {

/// A strand of its own for each direction: all of the data, or half of it each way.
struct Way {
  std::vector<int> order;
  std::uint32_t table = 0;
  int part = 0;  // number of the part of the data
};

std::vector<Way> ways_of(const CollectiveGroup& group, bool both_ways, ScheduleBuilder& builder) {
  std::vector<Way> ways{{group.ring, 0, 0}};
  if (both_ways) ways.push_back({{group.ring.rbegin(), group.ring.rend()}, 0, 1});
  for (Way& w : ways) {
    w.table = builder.table(w.part == 0 ? "+1" : "-1", next_of(group.size(), {w.order}));
  }
  return ways;
}

/// In pieces from member 0 on, round to the one before it.
void broadcast(std::uint32_t table, const CollectiveGroup& group, std::int64_t bytes,
               ScheduleBuilder& builder) {
  const int depth = group.size() - 1;
  const std::int64_t pieces = piece_count(group, bytes, depth), piece = ceil_div(bytes, pieces);
  for (int& next : builder.schedule.tables[table].to) next = next == 0 ? -1 : next;
  for (int i = 0; i < pieces; ++i) {
    const std::uint32_t received = builder.receive(table, piece, false);
    builder.send(table, piece, received, [i](int) { return std::vector<int>{i}; });
  }
  builder.blocks(static_cast<int>(pieces), piece);
  builder.schedule.depth = depth;
}

}  // namespace

CollectiveSchedule ring_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                 std::int64_t bytes, bool both_ways) {
  ScheduleBuilder builder;
  const int p = group.size();
  if (kind == CollectiveKind::halo || kind == CollectiveKind::halo_sum) {
    // Parts have an order of their own, whatever way a ring would go.
    std::vector<int> order = run_of(0, p);
    if (kind == CollectiveKind::halo_sum) std::reverse(order.begin(), order.end());
    builder.table(kind == CollectiveKind::halo ? "after" : "before", next_of(p, {order}));
    return std::move(builder.schedule);
  }
  const std::vector<Way> ways = ways_of(group, both_ways, builder);
  if (kind == CollectiveKind::broadcast) {
    broadcast(ways.front().table, group, bytes, builder);
    return std::move(builder.schedule);
  }
  const auto parts = static_cast<int>(ways.size());
  const std::int64_t block = ceil_div(bytes, std::int64_t{parts} * p);
  const bool one_step = kind == CollectiveKind::ring_step;
  const bool reduces = kind != CollectiveKind::all_gather && !one_step;
  const bool gathers = kind != CollectiveKind::reduce_scatter;
  std::vector<Strand> strands;
  for (const Way& w : ways) {
    RingPass pass;
    pass.order = w.order;
    pass.table = w.table;
    pass.bytes = block;
    pass.seconds = std::max(group.row_seconds, group.column_seconds);
    pass.rotates = parts == 1 && group.numbered;
    pass.first_block = w.part * p;
    Strand strand;
    // The sums of an all-reduce go on from where they have been completed.
    if (reduces) ring_reduce(strand, pass, gathers ? 0 : -1);
    if (gathers) ring_gather(strand, pass, reduces ? 1 : 0);
    if (one_step) strand.resize(1);
    strands.push_back(std::move(strand));
  }
  builder.merge(strands);
  builder.blocks(parts * p, block);
  return std::move(builder.schedule);
}

}  // namespace tilewright
