#include "collective_members.h"

#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>

namespace tilewright {

std::string CollectiveMembers::name(AxisSet axes) const {
  std::string text;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((axes >> a & 1u) == 0 || axes_[a].degree < 2) continue;
    text += (text.empty() ? "" : " ") + axes_[a].name;
  }
  return text;
}

std::vector<TileId> CollectiveMembers::tiles(int stage, const Members& members) const {
  std::vector<TileId> result;
  for (const int rank : members.ranks) result.push_back(tile(stage, rank));
  return result;
}

const CollectiveMembers::Groups& CollectiveMembers::groups(AxisSet axes) {
  const auto [it, added] = groups_.try_emplace(axes);
  Groups& result = it->second;
  if (!added) return result;
  int members = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((axes >> a & 1u) != 0) members *= axes_[a].degree;
  }
  result.by_stage.resize(static_cast<std::size_t>(placement_.pipeline));
  for (int stage = 0; stage < placement_.pipeline; ++stage) {
    std::vector<Members>& of_stage = result.by_stage[static_cast<std::size_t>(stage)];
    std::map<int, std::size_t> number;  // by the rank with place 0 on all of the axes
    for (int rank = 0; rank < stage_ranks(); ++rank) {
      int first = rank, member = 0, stride = 1;
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        if ((axes >> a & 1u) == 0) continue;
        const int place = rank / axes_[a].stride % axes_[a].degree;
        first -= place * axes_[a].stride;
        member += place * stride;
        stride *= axes_[a].degree;
      }
      const auto [group, is_new] = number.try_emplace(first, of_stage.size());
      if (is_new) {
        of_stage.push_back({std::vector<int>(static_cast<std::size_t>(members)), 0});
      }
      of_stage[group->second].ranks[static_cast<std::size_t>(member)] = rank;
    }
    for (Members& m : of_stage) {
      const CollectiveGroup shape = make_group(machine_, tiles(stage, m));
      const auto known = std::find(result.shapes.begin(), result.shapes.end(), shape);
      m.shape = static_cast<std::size_t>(known - result.shapes.begin());
      if (known == result.shapes.end()) result.shapes.push_back(shape);
    }
  }
  agree(result.shapes);
  return result;
}

CollectiveAlgorithm CollectiveMembers::algorithm(CollectiveKind kind, AxisSet axes,
                                                 std::int64_t bytes) {
  const CollectiveChoice choice = choices_.of(name(axes), kind);
  const Groups& all = groups(axes);
  if (choice.algorithm) {
    const std::string reason = why_not(kind, *choice.algorithm, all.shapes.front());
    if (reason.empty()) return *choice.algorithm;
    throw InputError(fmt::format("{}: {} over axis {}: {}",
                                 choice.where.empty() ? "collectives" : choice.where,
                                 to_string(kind), name(axes), reason));
  }
  const auto [it, added] =
      cheapest_.try_emplace({kind, axes, bytes}, CollectiveChoices::usual(kind));
  if (!added || bytes < 1) return it->second;
  it->second = cheapest(routes(), first_stage(axes), kind, bytes);
  return it->second;
}

const LinkRoutes& CollectiveMembers::routes() {
  if (!routes_) routes_ = std::make_unique<LinkRoutes>(machine_);
  return *routes_;
}

CollectiveGroups CollectiveMembers::first_stage(AxisSet axes) {
  const Groups& all = groups(axes);
  CollectiveGroups first{all.shapes, {}, {}};
  for (const Members& m : all.by_stage.front()) {
    first.shape.push_back(m.shape);
    first.members.push_back(tiles(0, m));
  }
  return first;
}

double CollectiveMembers::seconds(CollectiveKind kind, AxisSet axes, std::int64_t bytes) {
  return estimate(routes(), first_stage(axes), kind, algorithm(kind, axes, bytes), bytes);
}

double CollectiveMembers::seconds(TileId from, TileId to, std::int64_t bytes) {
  double latency = 0, per_byte = 0;
  for (const std::uint32_t link : routes().route(from, to)) {
    latency += routes().latency(link);
    per_byte = std::max(per_byte, routes().seconds_per_byte(link));
  }
  return latency + static_cast<double>(bytes) * per_byte;
}

CollectiveSchedule CollectiveMembers::schedule(CollectiveKind kind, AxisSet axes,
                                               std::int64_t bytes) {
  return make_schedule(kind, algorithm(kind, axes, bytes), groups(axes).shapes.front(), bytes);
}

std::map<std::string, CollectiveMembers::Peers> CollectiveMembers::peers(CollectiveKind kind,
                                                                         AxisSet axes,
                                                                         std::int64_t bytes,
                                                                         int stage) {
  const Groups& all = groups(axes);
  std::vector<CollectiveSchedule> schedules(all.shapes.size());
  std::map<std::string, Peers> result;
  for (const Members& m : all.by_stage[static_cast<std::size_t>(stage)]) {
    CollectiveSchedule& s = schedules[m.shape];
    if (s.tables.empty()) {
      s = make_schedule(kind, algorithm(kind, axes, bytes), all.shapes[m.shape], bytes);
    }
    for (const CollectiveTable& table : s.tables) {
      Peers& p = result[table.name];
      p.to.resize(static_cast<std::size_t>(stage_ranks()), -1);
      p.from.resize(static_cast<std::size_t>(stage_ranks()), -1);
      for (std::size_t member = 0; member < table.to.size(); ++member) {
        if (table.to[member] < 0) continue;
        const int from = m.ranks[member];
        const int to = m.ranks[static_cast<std::size_t>(table.to[member])];
        p.to[static_cast<std::size_t>(from)] = to;
        p.from[static_cast<std::size_t>(to)] = from;
      }
    }
  }
  return result;
}

}  // namespace tilewright
