// In pieces along trees. On a grid two trees share no directed link, and each carries half:
//
//   first    from the root along its row both ways; up and down the other columns; from the columns
//            beside it into the root's column
//   second   the same with rows and columns exchanged
//
// so that a corner, which two links lead to, has its data in n/(2β) (arc-disjoint spanning trees,
// Edmonds 1973). Elsewhere one binary tree over the order of the ring.
#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "collective_builder.h"

namespace tilewright {
namespace {

struct Tree {
  std::vector<std::vector<int>> children;  ///< by member
  std::vector<int> depth;                  ///< by member, hops from the root
  int most = 0;                            ///< the largest depth
};

void find_depth(Tree& tree, int root) {
  tree.depth.resize(tree.children.size(), 0);
  std::vector<int> open{root};
  while (!open.empty()) {
    const int m = open.back();
    open.pop_back();
    const int depth = tree.depth[static_cast<std::size_t>(m)];
    tree.most = std::max(tree.most, depth);
    for (const int c : tree.children[static_cast<std::size_t>(m)]) {
      tree.depth[static_cast<std::size_t>(c)] = depth + 1;
      open.push_back(c);
    }
  }
}

Tree grid_tree(const CollectiveGroup& group, int root, bool rows_first) {
  Tree tree;
  tree.children.resize(group.grid.size());
  const int w = rows_first ? group.columns : group.rows;
  const int h = rows_first ? group.rows : group.columns;
  // Along the root's line is x, across it y.
  const auto member = [&](int x, int y) {
    return rows_first ? group.member(x, y) : group.member(y, x);
  };
  int rx = 0, ry = 0;
  for (int y = 0; y < h; ++y) {
    for (int x = 0; x < w; ++x) {
      if (member(x, y) == root) rx = x, ry = y;
    }
  }
  const auto join = [&](int x, int y, int to_x, int to_y) {
    tree.children[static_cast<std::size_t>(member(x, y))].push_back(member(to_x, to_y));
  };
  for (int x = 0; x < w; ++x) {
    if (x != rx) join(x < rx ? x + 1 : x - 1, ry, x, ry);
  }
  const int beside = rx + 1 < w ? rx + 1 : rx - 1;
  for (int y = 0; y < h; ++y) {
    if (y == ry) continue;
    for (int x = 0; x < w; ++x) {
      if (x != rx) join(x, y < ry ? y + 1 : y - 1, x, y);
    }
    join(beside, y, rx, y);
  }
  find_depth(tree, root);
  return tree;
}

/// Members of [begin, end) of the order below `parent`, which is not among them.
void halve(Tree& tree, const std::vector<int>& order, int parent, std::size_t begin,
           std::size_t end) {
  if (begin == end) return;
  const std::size_t middle = begin + (end - begin) / 2;
  const int m = order[middle];
  tree.children[static_cast<std::size_t>(parent)].push_back(m);
  halve(tree, order, m, begin, middle);
  halve(tree, order, m, middle + 1, end);
}

Tree ring_tree(const CollectiveGroup& group, int root) {
  Tree tree;
  tree.children.resize(group.ring.size());
  std::vector<int> order = group.ring;
  std::rotate(order.begin(), std::find(order.begin(), order.end(), root), order.end());
  const std::size_t middle = 1 + (order.size() - 1) / 2;
  halve(tree, order, root, 1, middle);
  halve(tree, order, root, middle, order.size());
  find_depth(tree, root);
  return tree;
}

/// A table of one tree, and how many pieces later than in the first tree its ends have a piece in
/// hand.
struct TreeTable {
  std::uint32_t number = 0;
  int sender_lag = 0, receiver_lag = 0;
};

/// Tables from members to their children, first, second and third, or the other way; by the lags of
/// the two ends.
std::vector<TreeTable> tables_of(const Tree& tree, const std::vector<int>& lag,
                                 const std::string& suffix, bool down, ScheduleBuilder& builder) {
  std::map<std::tuple<std::size_t, int, int>, std::vector<int>> tables;  // child, lags
  for (std::size_t m = 0; m < tree.children.size(); ++m) {
    for (std::size_t slot = 0; slot < tree.children[m].size(); ++slot) {
      const int child = tree.children[m][slot];
      const int from = down ? static_cast<int>(m) : child;
      const int to = down ? child : static_cast<int>(m);
      auto& table =
          tables[{slot, lag[static_cast<std::size_t>(from)], lag[static_cast<std::size_t>(to)]}];
      table.resize(tree.children.size(), -1);
      table[static_cast<std::size_t>(from)] = to;
    }
  }
  std::vector<TreeTable> result;
  for (auto& [key, to] : tables) {
    const auto& [slot, sender, receiver] = key;
    const std::string name = fmt::format("{} child {}{} {:+} {:+}", down ? "to" : "from", slot + 1,
                                         suffix, sender, receiver);
    result.push_back({builder.table(name, std::move(to)), sender, receiver});
  }
  return result;
}

/// All pieces through all trees, down from their roots, or up with sums on the way.
///
/// A member takes sends and receives in order, the same order for all members. Between two trees it
/// must be that in which pieces come to the member: if one were taken in turn with the other where
/// they do not come in turn, every piece would wait for its counterpart's way round. A member that
/// a piece reaches d hops later in the second tree than in the first has it in hand d pieces later,
/// or more where the latency of a hop counts.
void pass(const std::vector<Tree>& trees, std::int64_t pieces, std::int64_t piece, bool down,
          double pieces_per_hop, ScheduleBuilder& builder) {
  std::vector<std::vector<TreeTable>> tables;
  int least = 0, most = 0;
  for (std::size_t t = 0; t < trees.size(); ++t) {
    std::vector<int> lag(trees[t].depth.size());
    for (std::size_t m = 0; m < lag.size(); ++m) {
      const int hops = down ? trees[t].depth[m] - trees[0].depth[m]
                            : trees[t].most - trees[t].depth[m] - trees[0].most + trees[0].depth[m];
      lag[m] = static_cast<int>(std::lround(hops * pieces_per_hop));
      least = std::min(least, lag[m]);
      most = std::max(most, lag[m]);
    }
    const std::string suffix = trees.size() == 1 ? "" : t == 0 ? " a" : " b";
    tables.push_back(tables_of(trees[t], lag, suffix, down, builder));
  }
  const auto in_hand = [&](std::int64_t time, int lag) {
    return time >= lag && time - lag < pieces;
  };
  for (std::int64_t time = least; time < pieces + most; ++time) {
    std::vector<std::uint32_t> received(trees.size(), kNoOp);
    for (std::size_t t = 0; t < trees.size(); ++t) {
      for (const TreeTable& table : tables[t]) {
        if (!in_hand(time, table.receiver_lag)) continue;
        received[t] = builder.receive(table.number, piece, !down);
      }
    }
    for (std::size_t t = 0; t < trees.size(); ++t) {
      for (const TreeTable& table : tables[t]) {
        if (!in_hand(time, table.sender_lag)) continue;
        const auto block =
            static_cast<int>(static_cast<std::int64_t>(t) * pieces + time - table.sender_lag);
        builder.send(table.number, piece, received[t],
                     [block](int) { return std::vector<int>{block}; });
      }
    }
  }
}

}  // namespace

CollectiveSchedule tree_schedule(CollectiveKind kind, const CollectiveGroup& group,
                                 std::int64_t bytes) {
  ScheduleBuilder builder;
  int root = 0;
  // Sums may meet anywhere: in the middle.
  if (kind == CollectiveKind::all_reduce) {
    root = group.columns > 0 ? group.member(group.columns / 2, group.rows / 2) : group.ring[0];
  }
  std::vector<Tree> trees;
  if (group.mesh && group.columns > 1 && group.rows > 1) {
    trees = {grid_tree(group, root, true), grid_tree(group, root, false)};
  } else {
    trees = {ring_tree(group, root)};
  }
  const auto parts = static_cast<std::int64_t>(trees.size());
  int depth = 0;
  for (const Tree& t : trees) depth = std::max(depth, t.most);
  const std::int64_t pieces = piece_count(group, ceil_div(bytes, parts), depth);
  const std::int64_t piece = ceil_div(bytes, parts * pieces);
  const double seconds =
      static_cast<double>(piece) * std::max(group.row_seconds, group.column_seconds);
  const double pieces_per_hop =
      seconds > 0 ? 1 + std::min(group.hop_seconds / seconds, static_cast<double>(pieces)) : 1;
  if (kind == CollectiveKind::all_reduce)
    pass(trees, pieces, piece, false, pieces_per_hop, builder);
  pass(trees, pieces, piece, true, pieces_per_hop, builder);
  builder.blocks(static_cast<int>(parts * pieces), piece);
  builder.schedule.depth = depth;
  return std::move(builder.schedule);
}

}  // namespace tilewright
