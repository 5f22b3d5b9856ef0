// The place of a group's members: its grid and its ring.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include <tilewright/plan/collective.h>
#include <tilewright/plan/placement.h>

namespace tilewright {
namespace {

using Order = std::vector<int>;

// Beyond, an order that takes square time to find would take longer than what it saves.
constexpr int kMostWalked = 1024;
constexpr int kMostImproved = 256;

/// Hops between members, round the ends of a torus.
class Distances {
 public:
  Distances(const MachineConfig& machine, const CollectiveGroup& group)
      : group_(group),
        width_(machine.torus ? machine.width() : 0),
        height_(machine.torus ? machine.height() : 0) {}

  int operator()(int a, int b) const {
    const auto& [ax, ay] = group_.at[static_cast<std::size_t>(a)];
    const auto& [bx, by] = group_.at[static_cast<std::size_t>(b)];
    return along(ax - bx, width_) + along(ay - by, height_);
  }
  std::int64_t round(const Order& order) const {
    std::int64_t hops = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      hops += (*this)(order[i], order[(i + 1) % order.size()]);
    }
    return hops;
  }

 private:
  static int along(int hops, int round) {
    hops = std::abs(hops);
    return round > 0 ? std::min(hops, round - hops) : hops;
  }
  const CollectiveGroup& group_;
  int width_, height_;
};

/// Walks round a tree of shortest joints, taking members of even depth on the way out and of odd
/// depth on the way back: no step is longer than three joints, and together they go along each
/// joint once each way (Sekanina 1960: the cube of a tree has a Hamiltonian cycle).
Order tree_walk(int size, const Distances& hops) {
  const auto n = static_cast<std::size_t>(size);
  std::vector<int> parent(n, 0), depth(n, 0), distance(n);
  std::vector<bool> joined(n, false);
  std::vector<std::vector<int>> children(n);
  joined[0] = true;
  for (int m = 1; m < size; ++m) distance[static_cast<std::size_t>(m)] = hops(0, m);
  for (int k = 1; k < size; ++k) {
    int next = -1;
    for (int m = 1; m < size; ++m) {
      const auto i = static_cast<std::size_t>(m);
      if (!joined[i] && (next < 0 || distance[i] < distance[static_cast<std::size_t>(next)])) {
        next = m;
      }
    }
    const auto i = static_cast<std::size_t>(next);
    joined[i] = true;
    children[static_cast<std::size_t>(parent[i])].push_back(next);
    depth[i] = depth[static_cast<std::size_t>(parent[i])] + 1;
    for (int m = 1; m < size; ++m) {
      const auto j = static_cast<std::size_t>(m);
      if (!joined[j] && hops(next, m) < distance[j]) {
        distance[j] = hops(next, m);
        parent[j] = next;
      }
    }
  }
  Order order;
  std::vector<std::pair<int, std::size_t>> stack{{0, 0}};  // member, children done
  while (!stack.empty()) {
    auto& [m, done] = stack.back();
    const auto i = static_cast<std::size_t>(m);
    if (done == 0 && depth[i] % 2 == 0) order.push_back(m);
    if (done == children[i].size()) {
      if (depth[i] % 2 != 0) order.push_back(m);
      stack.pop_back();
    } else {
      stack.emplace_back(children[i][done++], 0);
    }
  }
  return order;
}

/// Turns parts of the ring round, and moves single members to where they are less of a detour, as
/// long as that makes it shorter.
void improve(Order& order, const Distances& hops) {
  const std::size_t n = order.size();
  const auto at = [&](std::size_t i) { return order[i % n]; };
  const auto turn = [&](std::size_t i, std::size_t j) {
    if (hops(at(i), at(j)) + hops(at(i + 1), at(j + 1)) >=
        hops(at(i), at(i + 1)) + hops(at(j), at(j + 1))) {
      return false;
    }
    std::reverse(order.begin() + static_cast<std::ptrdiff_t>(i + 1),
                 order.begin() + static_cast<std::ptrdiff_t>(j + 1));
    return true;
  };
  // Member i behind member j.
  const auto move = [&](std::size_t i, std::size_t j) {
    const int before = at(i + n - 1), member = at(i), after = at(i + 1);
    if (j == i || (j + 1) % n == i) return false;
    const int saved = hops(before, member) + hops(member, after) - hops(before, after);
    if (hops(at(j), member) + hops(member, at(j + 1)) - hops(at(j), at(j + 1)) >= saved) {
      return false;
    }
    const int behind = at(j);
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(i));
    order.insert(std::find(order.begin(), order.end(), behind) + 1, member);
    return true;
  };
  for (bool better = true; better;) {
    better = false;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) {
        if (j > i + 1 && j < n - (i == 0 ? 1 : 0) && turn(i, j)) better = true;
        if (move(i, j)) better = true;
      }
    }
  }
}

/// The shortest ring of a grid: a Hamiltonian cycle, or where both sides are odd one hop more than
/// members: the cycle of all rows but the last, whose members are put between neighbours of the row
/// above in pairs, and the first by itself.
Order grid_ring(const CollectiveGroup& group) {
  const int w = group.columns, h = group.rows;
  const bool odd = w % 2 != 0 && h % 2 != 0 && w > 1 && h > 1;
  Order order;
  for (const auto& [x, y] : ring_order(w, odd ? h - 1 : h)) {
    order.push_back(group.member(x, y));
    // The row above the last is passed from right to left.
    if (!odd || y != h - 2) continue;
    const bool pairs = x > 0 && x % 2 == 0;
    if (pairs || x == 0) order.push_back(group.member(x, h - 1));
    if (pairs) order.push_back(group.member(x - 1, h - 1));
  }
  return order;
}

void find_grid(CollectiveGroup& group) {
  std::map<int, int> columns, rows;  // coordinate → number
  for (const auto& [x, y] : group.at) columns[x] = rows[y] = 0;
  const auto number = [](std::map<int, int>& of) {
    int n = 0;
    for (auto& [coordinate, i] : of) i = n++;
    return n;
  };
  const int w = number(columns), h = number(rows);
  if (std::int64_t{w} * h != group.size()) return;
  std::vector<int> grid(group.at.size(), -1);
  for (int m = 0; m < group.size(); ++m) {
    const auto& [x, y] = group.at[static_cast<std::size_t>(m)];
    grid[static_cast<std::size_t>(rows[y] * w + columns[x])] = m;
  }
  if (std::count(grid.begin(), grid.end(), -1) > 0) return;
  group.columns = w;
  group.rows = h;
  group.grid = std::move(grid);
}

void find_ring(const MachineConfig& machine, CollectiveGroup& group) {
  group.ring.resize(group.at.size());
  std::iota(group.ring.begin(), group.ring.end(), 0);
  if (!group.mesh || group.size() < 4) return;
  const Distances hops(machine, group);
  std::int64_t least = hops.round(group.ring);
  if (least == group.size()) return;
  const auto consider = [&](Order order) {
    const std::int64_t length = hops.round(order);
    if (length >= least) return;
    least = length;
    group.ring = std::move(order);
  };
  if (group.columns > 1 && group.rows > 1) {
    consider(grid_ring(group));
    return;
  }
  if (group.size() > kMostWalked) return;
  Order order = tree_walk(group.size(), hops);
  if (group.size() <= kMostImproved) improve(order, hops);
  consider(std::move(order));
}

/// The slowest links along the rows and the columns of the rectangle round the members, and the
/// longest hop.
void find_rates(const MachineConfig& machine, CollectiveGroup& group) {
  const auto seconds = [](const LinkConfig& link) {
    return link.bandwidth.is_unlimited() ? 0 : 1 / link.bandwidth.value();
  };
  if (!group.mesh) {
    // Rows of a cluster are its nodes: joined inside by the first kind of links, by the others
    // outside. An edge list is one row.
    const std::vector<NamedLinkConfig> kinds = machine.link_kinds();
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      double& rate = k == 0 || machine.height() == 1 ? group.row_seconds : group.column_seconds;
      rate = std::max(rate, seconds(kinds[k].link));
      group.hop_seconds = std::max(group.hop_seconds, kinds[k].link.latency.value());
    }
    return;
  }
  int left = machine.width(), right = 0, top = machine.height(), bottom = 0;
  for (const auto& [x, y] : group.at) {
    left = std::min(left, x);
    right = std::max(right, x);
    top = std::min(top, y);
    bottom = std::max(bottom, y);
  }
  const auto cross = [&](TileId a, TileId b, double& rate) {
    const LinkConfig& link = machine.crosses_wafer(a, b) ? machine.noc.wafer_link
                             : machine.crosses_die(a, b) ? machine.noc.die_link
                                                         : machine.noc.link;
    rate = std::max(rate, seconds(link));
    group.hop_seconds = std::max(group.hop_seconds, link.latency.value());
  };
  for (int x = left; x < right; ++x) {
    cross(machine.tile(x, top), machine.tile(x + 1, top), group.row_seconds);
  }
  for (int y = top; y < bottom; ++y) {
    cross(machine.tile(left, y), machine.tile(left, y + 1), group.column_seconds);
  }
}

}  // namespace

CollectiveGroup make_group(const MachineConfig& machine, const std::vector<TileId>& tiles) {
  CollectiveGroup group;
  group.mesh = !machine.fabric;
  for (const TileId t : tiles) group.at.emplace_back(machine.x(t), machine.y(t));
  find_rates(machine, group);
  int left = machine.width(), top = machine.height();
  for (const auto& [x, y] : group.at) {
    left = std::min(left, x);
    top = std::min(top, y);
  }
  for (auto& [x, y] : group.at) {
    x -= left;
    y -= top;
  }
  find_grid(group);
  if (group.columns == 1) group.row_seconds = 0;
  if (group.rows == 1) group.column_seconds = 0;
  find_ring(machine, group);
  group.numbered = std::is_sorted(group.ring.begin(), group.ring.end());
  return group;
}

void agree(std::vector<CollectiveGroup>& groups) {
  if (groups.empty()) return;
  CollectiveGroup& first = groups.front();
  bool same = true;
  for (const CollectiveGroup& g : groups) {
    same = same && g.columns == first.columns && g.rows == first.rows;
    first.numbered = first.numbered && g.numbered;
    first.row_seconds = std::max(first.row_seconds, g.row_seconds);
    first.column_seconds = std::max(first.column_seconds, g.column_seconds);
    first.hop_seconds = std::max(first.hop_seconds, g.hop_seconds);
  }
  for (CollectiveGroup& g : groups) {
    g.numbered = first.numbered;
    g.row_seconds = first.row_seconds;
    g.column_seconds = first.column_seconds;
    g.hop_seconds = first.hop_seconds;
    if (same) continue;
    g.columns = g.rows = 0;
    g.grid.clear();
  }
}

}  // namespace tilewright
