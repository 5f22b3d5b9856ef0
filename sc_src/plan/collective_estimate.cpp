#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <utility>

#include <tilewright/plan/collective_estimate.h>

namespace tilewright {

LinkRoutes::LinkRoutes(const MachineConfig& machine)
    : topology_(machine), yx_(machine.noc.routing == "yx") {
  if (!topology_.grid()) table_ = std::make_unique<RouteTable>(topology_, machine);
  const auto add = [&](const LinkConfig& link) {
    seconds_.push_back(link.bandwidth.is_unlimited() ? 0 : 1 / link.bandwidth.value());
    latency_.push_back(link.latency.value());
  };
  if (machine.fabric) {
    for (const NamedLinkConfig& kind : machine.fabric->kinds) add(kind.link);
  } else {
    for (const LinkConfig& link :
         {machine.noc.link, machine.noc.die_link, machine.noc.wafer_link}) {
      add(link);
    }
  }
}

std::vector<std::uint32_t> LinkRoutes::route(TileId from, TileId to) const {
  std::vector<std::uint32_t> links;
  std::uint32_t node = index(from);
  const std::uint32_t end = index(to);
  if (table_) {
    while (node != end) {
      links.push_back(table_->link(node, end));
      node = topology_.link(links.back()).to;
    }
    return links;
  }
  const auto [x, y] = topology_.hops(node, end);
  const auto go = [&](int hops, Direction forth, Direction back) {
    const auto port = static_cast<unsigned>(hops > 0 ? forth : back);
    for (int i = 0; i < std::abs(hops); ++i) {
      const std::uint32_t link = topology_.first_link(node) + port;
      if (!topology_.link(link).works) return false;
      links.push_back(link);
      node = topology_.link(link).to;
    }
    return true;
  };
  const auto along_x = [&] { return go(x, Direction::east, Direction::west); };
  const auto along_y = [&] { return go(y, Direction::south, Direction::north); };
  const bool whole = yx_ ? along_y() && along_x() : along_x() && along_y();
  return whole ? links : detour(index(from), end);
}

std::vector<std::uint32_t> LinkRoutes::detour(std::uint32_t from, std::uint32_t to) const {
  std::vector<std::uint32_t> by(topology_.nodes(), Topology::kNone);  // link that led there
  std::deque<std::uint32_t> open{from};
  while (!open.empty() && by[to] == Topology::kNone) {
    const std::uint32_t node = open.front();
    open.pop_front();
    for (std::uint32_t l = topology_.first_link(node); l < topology_.first_link(node + 1); ++l) {
      const Topology::Link& link = topology_.link(l);
      if (!link.works || link.to == from || by[link.to] != Topology::kNone) continue;
      by[link.to] = l;
      open.push_back(link.to);
    }
  }
  std::vector<std::uint32_t> links;
  for (std::uint32_t node = to; node != from; node = topology_.from(links.back())) {
    links.push_back(by[node]);
  }
  std::reverse(links.begin(), links.end());
  return links;
}

namespace {

/// What the messages of one table of all groups do to the links.
struct TableCost {
  double longest = 0;  ///< latency of the longest way
  /// Latency of a step of those that follow each other round a ring of the table: of all steps but
  /// the shortest.
  double round = 0;
  double seconds = 0;  ///< per byte, where most messages share a link
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links;  ///< link, messages
};

/// Bytes over each link; the busiest.
class LinkTimes {
 public:
  explicit LinkTimes(const LinkRoutes& routes)
      : routes_(routes), seconds_(routes.topology().links(), 0) {}
  void add(const TableCost& table, std::int64_t bytes) {
    for (const auto& [link, messages] : table.links) {
      if (seconds_[link] <= 0) touched_.push_back(link);
      seconds_[link] += static_cast<double>(bytes) * messages * routes_.seconds_per_byte(link);
      busiest_ = std::max(busiest_, seconds_[link]);
    }
  }
  double busiest() const { return busiest_; }
  void clear() {
    for (const std::uint32_t link : touched_) seconds_[link] = 0;
    touched_.clear();
    busiest_ = 0;
  }

 private:
  const LinkRoutes& routes_;
  std::vector<double> seconds_;
  std::vector<std::uint32_t> touched_;
  double busiest_ = 0;
};

class Estimate {
 public:
  Estimate(const LinkRoutes& routes, const CollectiveGroups& groups, CollectiveKind kind,
           CollectiveAlgorithm algorithm, std::int64_t bytes)
      : routes_(routes), groups_(groups), count_(routes.topology().links(), 0), times_(routes) {
    for (const CollectiveGroup& shape : groups.shapes) {
      schedules_.push_back(make_schedule(kind, algorithm, shape, bytes));
    }
    for (std::size_t t = 0; t < schedule().tables.size(); ++t) tables_.push_back(table_cost(t));
    if (algorithm != CollectiveAlgorithm::two_rings) return;
    // Both rings take every step together.
    for (const TableCost& t : tables_) times_.add(t, 1);
    for (TableCost& t : tables_) t.seconds = times_.busiest();
  }

  double seconds() {
    if (schedule().depth > 1) return pipeline_seconds();
    std::vector<std::uint32_t> sends;
    for (std::uint32_t i = 0; i < schedule().ops.size(); ++i) {
      if (schedule().ops[i].send) sends.push_back(i);
    }
    return std::max(chain_seconds(), together_seconds(sends));
  }

 private:
  const CollectiveSchedule& schedule() const { return schedules_.front(); }

  TableCost table_cost(std::size_t number) {
    TableCost cost;
    for (std::size_t g = 0; g < groups_.members.size(); ++g) {
      const std::vector<TileId>& tiles = groups_.members[g];
      const std::vector<int>& to = schedules_[groups_.shape[g]].tables[number].to;
      std::vector<double> latency(to.size(), 0);
      for (std::size_t m = 0; m < to.size(); ++m) {
        if (to[m] < 0) continue;
        for (const std::uint32_t link :
             routes_.route(tiles[m], tiles[static_cast<std::size_t>(to[m])])) {
          if (count_[link]++ == 0) cost.links.emplace_back(link, 0);
          latency[m] += routes_.latency(link);
        }
        cost.longest = std::max(cost.longest, latency[m]);
      }
      cost.round = std::max(cost.round, round_latency(to, latency));
    }
    for (auto& [link, messages] : cost.links) {
      messages = std::exchange(count_[link], 0);
      cost.seconds = std::max(cost.seconds, messages * routes_.seconds_per_byte(link));
    }
    return cost;
  }

  static double round_latency(const std::vector<int>& to, const std::vector<double>& latency) {
    std::vector<bool> seen(to.size(), false);
    double most = 0;
    for (std::size_t first = 0; first < to.size(); ++first) {
      double sum = 0, least = latency[first];
      int steps = 0;
      for (std::size_t m = first; !seen[m]; m = static_cast<std::size_t>(to[m])) {
        seen[m] = true;
        if (to[m] < 0) break;
        sum += latency[m];
        least = std::min(least, latency[m]);
        ++steps;
      }
      if (steps > 1) most = std::max(most, (sum - least) / (steps - 1));
    }
    return most;
  }

  /// Sends that wait for the same receive leave together and share the links.
  double chain_seconds() {
    const std::vector<CollectiveOp>& ops = schedule().ops;
    std::map<std::uint32_t, std::vector<std::uint32_t>> together;  // by `after`
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      if (ops[i].send) together[ops[i].after].push_back(i);
    }
    std::vector<double> done(ops.size(), 0), free(tables_.size(), 0);
    std::vector<std::deque<double>> arrivals(tables_.size());
    double sent = 0, received = 0, all = 0;
    for (std::uint32_t i = 0; i < ops.size(); ++i) {
      const CollectiveOp& op = ops[i];
      if (!op.send) {
        if (!arrivals[op.table].empty()) {
          received = std::max(received, arrivals[op.table].front());
          arrivals[op.table].pop_front();
        }
        done[i] = received;
        continue;
      }
      const TableCost& cost = tables_[op.table];
      if (op.after != kNoOp) sent = std::max(sent, done[op.after]);
      const std::vector<std::uint32_t>& others = together[op.after];
      const double start = std::max(sent, free[op.table]);
      free[op.table] = start + static_cast<double>(op.bytes) * cost.seconds;
      double arrival = free[op.table] + (others.size() > 1 ? cost.longest : cost.round);
      if (others.size() > 1) {
        // The k-th of n when so much of what is on the busiest link has passed it.
        if (others.front() == i) all = together_seconds(others);
        const auto k = std::lower_bound(others.begin(), others.end(), i) - others.begin() + 1;
        arrival = std::max(
            arrival, start + all * static_cast<double>(k) / static_cast<double>(others.size()));
      }
      arrivals[op.table].push_back(arrival);
    }
    return received;
  }

  /// The busiest link is in the middle of long ways: half of them is left behind it.
  double together_seconds(const std::vector<std::uint32_t>& sends) {
    times_.clear();
    double latency = 0;
    for (const std::uint32_t i : sends) {
      const CollectiveOp& op = schedule().ops[i];
      times_.add(tables_[op.table], op.bytes);
      latency = std::max(latency, tables_[op.table].longest);
    }
    return times_.busiest() + latency / 2;
  }

  /// Up with sums, then down: each the busiest link, and a piece for every hop but the first.
  double pipeline_seconds() {
    double seconds = 0;
    for (const bool sums : {true, false}) {
      times_.clear();
      double latency = 0, piece = 0;
      for (const CollectiveOp& op : schedule().ops) {
        if (op.send || op.adds != sums) continue;
        const TableCost& cost = tables_[op.table];
        times_.add(cost, op.bytes);
        latency = std::max(latency, cost.round > 0 ? cost.round : cost.longest);
        piece = std::max(piece, static_cast<double>(op.bytes) * cost.seconds);
      }
      if (latency <= 0 && times_.busiest() <= 0) continue;
      seconds += times_.busiest() + latency + (schedule().depth - 1) * (piece + latency);
    }
    return seconds;
  }

  const LinkRoutes& routes_;
  const CollectiveGroups& groups_;
  std::vector<CollectiveSchedule> schedules_;  // by shape
  std::vector<TableCost> tables_;
  std::vector<std::uint32_t> count_;  // scratch: messages by link
  LinkTimes times_;                   // scratch
};

}  // namespace

double estimate(const LinkRoutes& routes, const CollectiveGroups& groups, CollectiveKind kind,
                CollectiveAlgorithm algorithm, std::int64_t bytes) {
  return Estimate(routes, groups, kind, algorithm, bytes).seconds();
}

std::vector<std::pair<CollectiveAlgorithm, double>> estimates(const LinkRoutes& routes,
                                                              const CollectiveGroups& groups,
                                                              CollectiveKind kind,
                                                              std::int64_t bytes) {
  constexpr int kMostDirect = 256;
  std::vector<std::pair<CollectiveAlgorithm, double>> result;
  for (std::size_t a = 0; a < kCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    const bool all_pairs =
        algorithm == CollectiveAlgorithm::direct || algorithm == CollectiveAlgorithm::random;
    if (all_pairs && groups.shapes.front().size() > kMostDirect) continue;
    if (!why_not(kind, algorithm, groups.shapes.front()).empty()) continue;
    result.emplace_back(algorithm, estimate(routes, groups, kind, algorithm, bytes));
  }
  return result;
}

CollectiveAlgorithm cheapest(const LinkRoutes& routes, const CollectiveGroups& groups,
                             CollectiveKind kind, std::int64_t bytes) {
  CollectiveAlgorithm best = CollectiveChoices::usual(kind);
  double least = -1;
  for (const auto& [algorithm, seconds] : estimates(routes, groups, kind, bytes)) {
    if (least >= 0 && seconds >= least * (1 - 1e-9)) continue;
    least = seconds;
    best = algorithm;
  }
  return best;
}

}  // namespace tilewright
