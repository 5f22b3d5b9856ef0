// Straight from member to member: to every one, or to those whose numbers differ in one bit.
#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "collective_builder.h"

namespace tilewright {
namespace {

/// Distances in the order in which messages go to them.
std::vector<int> distances(int members, bool shuffled) {
  std::vector<int> order(static_cast<std::size_t>(members - 1));
  std::iota(order.begin(), order.end(), 1);
  if (shuffled) {
    // std::shuffle may differ between libraries.
    std::mt19937_64 random(1);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

}  // namespace

CollectiveSchedule direct_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                   std::int64_t bytes, bool shuffled) {
  ScheduleBuilder builder;
  const int p = group.size();
  const bool broadcasts = kind == CollectiveKind::broadcast;
  const std::int64_t block = broadcasts ? bytes : ceil_div(bytes, p);
  const std::vector<int> order = distances(p, shuffled);
  for (const int i : order) {
    std::vector<int> to(static_cast<std::size_t>(p), -1);
    for (int m = 0; m < p; ++m) {
      if (!broadcasts || m == 0) to[static_cast<std::size_t>(m)] = (m + i) % p;
    }
    builder.table(fmt::format("+{}", i), std::move(to));
  }
  std::uint32_t after = kNoOp;
  const auto all = [&](bool adds, const std::function<int(int from, int to)>& what) {
    std::uint32_t last = kNoOp;
    for (std::uint32_t t = 0; t < order.size(); ++t) {
      builder.send(t, block, after, [what, i = order[t], p](int member) {
        return std::vector<int>{what(member, (member + i) % p)};
      });
      last = builder.receive(t, block, adds);
    }
    after = last;
  };
  switch (kind) {
    case CollectiveKind::broadcast:
      all(false, [](int, int) { return 0; });
      builder.blocks(1, block);
      break;
    case CollectiveKind::all_to_all:
      all(false, [p](int from, int to) { return from * p + to; });
      builder.blocks(p * p, block);
      break;
    default:
      if (kind != CollectiveKind::all_gather) all(true, [](int, int to) { return to; });
      if (kind != CollectiveKind::reduce_scatter) all(false, [](int from, int) { return from; });
      builder.blocks(p, block);
      break;
  }
  return std::move(builder.schedule);
}

CollectiveSchedule halving_doubling_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                             std::int64_t bytes) {
  // Members are numbered along the rows of a grid, so that the first bits are near.
  ScheduleBuilder builder;
  const int p = group.size();
  std::vector<int> members = group.grid;
  if (members.empty()) members = run_of(0, p);
  std::vector<int> number(static_cast<std::size_t>(p));
  for (int i = 0; i < p; ++i)
    number[static_cast<std::size_t>(members[static_cast<std::size_t>(i)])] = i;
  const std::int64_t block = ceil_div(bytes, p);
  std::vector<std::uint32_t> tables;
  for (int bit = 1; bit < p; bit *= 2) {
    std::vector<int> to(static_cast<std::size_t>(p));
    for (int m = 0; m < p; ++m) {
      to[static_cast<std::size_t>(m)] =
          members[static_cast<std::size_t>(number[static_cast<std::size_t>(m)] ^ bit)];
    }
    tables.push_back(builder.table(fmt::format("^{}", bit), std::move(to)));
  }
  /// Members whose numbers agree with that of `of` in all bits below `bit`, and in `bit` itself.
  const auto agreeing = [members, number, p](int of, int bit) {
    std::vector<int> result;
    const int mask = 2 * bit - 1, low = number[static_cast<std::size_t>(of)] & mask;
    for (int i = 0; i < p; ++i) {
      if ((i & mask) == low) result.push_back(members[static_cast<std::size_t>(i)]);
    }
    return result;
  };
  Strand strand;
  const auto step = [&](std::size_t t, bool adds) {
    const int bit = 1 << t;
    CollectiveStep s;
    s.table = tables[t];
    s.adds = adds;
    s.bytes = block * (p / (2 * bit));
    s.blocks = [agreeing, bit, adds, to = builder.schedule.tables[tables[t]].to](int member) {
      return agreeing(adds ? to[static_cast<std::size_t>(member)] : member, bit);
    };
    append(strand, std::move(s), 1);
  };
  if (kind != CollectiveKind::all_gather) {
    for (std::size_t t = 0; t < tables.size(); ++t) step(t, true);
  }
  if (kind != CollectiveKind::reduce_scatter) {
    for (std::size_t t = tables.size(); t-- > 0;) step(t, false);
  }
  builder.merge({strand});
  builder.blocks(p, block);
  return std::move(builder.schedule);
}

}  // namespace tilewright
