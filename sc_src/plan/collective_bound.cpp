// What no algorithm can beat (model.md §5): every bound is of bytes that must pass certain links.
#include <algorithm>
#include <limits>
#include <queue>
#include <utility>

#include <tilewright/plan/collective_estimate.h>

namespace tilewright {
namespace {

double bandwidth(const LinkRoutes& routes, std::uint32_t link) {
  if (!routes.topology().link(link).works) return 0;
  const double seconds = routes.seconds_per_byte(link);
  return seconds > 0 ? 1 / seconds : std::numeric_limits<double>::infinity();
}

/// Least latencies from a node to all others.
std::vector<double> latencies(const LinkRoutes& routes, std::uint32_t from) {
  const Topology& topology = routes.topology();
  using Entry = std::pair<double, std::uint32_t>;
  std::vector<double> least(topology.nodes(), std::numeric_limits<double>::infinity());
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> open;
  open.emplace(least[from] = 0, from);
  while (!open.empty()) {
    const auto [seconds, node] = open.top();
    open.pop();
    if (seconds > least[node]) continue;
    for (std::uint32_t l = topology.first_link(node); l < topology.first_link(node + 1); ++l) {
      const Topology::Link& link = topology.link(l);
      if (!link.works || seconds + routes.latency(l) >= least[link.to]) continue;
      open.emplace(least[link.to] = seconds + routes.latency(l), link.to);
    }
  }
  return least;
}

/// The latency between the members furthest apart, or from the root; of very many members, from the
/// first ones, which is a bound as well.
double latency_bound(const LinkRoutes& routes, CollectiveKind kind,
                     const std::vector<TileId>& tiles) {
  constexpr std::size_t kMost = 256;
  double most = 0;
  for (std::size_t m = 0; m < std::min(tiles.size(), kMost); ++m) {
    const bool broadcasts = kind == CollectiveKind::broadcast;
    const TileId from = tiles[broadcasts ? 0 : m];
    const std::vector<double> least = latencies(routes, index(from));
    for (const TileId t : tiles) most = std::max(most, least[index(t)]);
    if (broadcasts) break;
  }
  return most;
}

/// Bytes that must come into, and go out of, a set of `inside` of p members at least; `rooted`: the
/// root is among them.
struct Crossing {
  double in = 0, out = 0;
};
Crossing crossing(CollectiveKind kind, double bytes, double p, double inside, bool rooted) {
  const double outside = p - inside;
  switch (kind) {
    case CollectiveKind::all_reduce:
      return {bytes, bytes};
    case CollectiveKind::reduce_scatter:
      return {bytes * inside / p, bytes * outside / p};
    case CollectiveKind::all_gather:
      return {bytes * outside / p, bytes * inside / p};
    case CollectiveKind::all_to_all:
      return {bytes * inside * outside / p, bytes * inside * outside / p};
    case CollectiveKind::broadcast:
      return rooted ? Crossing{0, bytes} : Crossing{bytes, 0};
    case CollectiveKind::ring_step:
    case CollectiveKind::halo:
    case CollectiveKind::halo_sum:
      break;  // which way they go is not said
  }
  return {};
}

double longer(const Crossing& bytes, double in, double out) {
  return std::max(bytes.in > 0 ? bytes.in / in : 0, bytes.out > 0 ? bytes.out / out : 0);
}

}  // namespace

double collective_bound(const LinkRoutes& routes, CollectiveKind kind,
                        const std::vector<TileId>& tiles, std::int64_t bytes) {
  if (tiles.size() < 2) return 0;
  const Topology& topology = routes.topology();
  const auto p = static_cast<double>(tiles.size()), n = static_cast<double>(bytes);
  double seconds = latency_bound(routes, kind, tiles);

  std::vector<double> in(topology.nodes(), 0), out(topology.nodes(), 0);
  double all = 0;
  for (std::uint32_t l = 0; l < topology.links(); ++l) {
    if (topology.link(l).to == Topology::kNone) continue;
    const double rate = bandwidth(routes, l);
    out[topology.from(l)] += rate;
    in[topology.link(l).to] += rate;
    all += rate;
  }
  // One member.
  for (std::size_t m = 0; m < tiles.size(); ++m) {
    const std::uint32_t t = index(tiles[m]);
    seconds = std::max(seconds, longer(crossing(kind, n, p, 1, m == 0), in[t], out[t]));
  }
  // All links: what is to be known by, or summed over, p members takes p - 1 of them.
  if (kind != CollectiveKind::all_to_all) {
    seconds = std::max(seconds, (kind == CollectiveKind::all_reduce ? 2 : 1) * (p - 1) * n / all);
  }
  if (!topology.grid()) return seconds;
  // Cuts of the mesh between columns, and between rows.
  for (const bool columns : {true, false}) {
    const int size = columns ? topology.width() : topology.height();
    const auto at = [&](std::uint32_t t) { return columns ? topology.x(t) : topology.y(t); };
    std::vector<double> forth(static_cast<std::size_t>(size), 0), back = forth;
    for (std::uint32_t l = 0; l < topology.links(); ++l) {
      if (topology.link(l).to == Topology::kNone) continue;
      const int a = at(topology.from(l)), b = at(topology.link(l).to);
      for (int cut = std::min(a, b); cut < std::max(a, b); ++cut) {
        (a < b ? forth : back)[static_cast<std::size_t>(cut)] += bandwidth(routes, l);
      }
    }
    for (int cut = 0; cut + 1 < size; ++cut) {
      const auto before = static_cast<double>(
          std::count_if(tiles.begin(), tiles.end(), [&](TileId t) { return at(index(t)) <= cut; }));
      if (before == 0 || before == p) continue;
      const bool rooted = at(index(tiles.front())) <= cut;
      seconds = std::max(
          seconds, longer(crossing(kind, n, p, before, rooted), back[static_cast<std::size_t>(cut)],
                          forth[static_cast<std::size_t>(cut)]));
    }
  }
  return seconds;
}

}  // namespace tilewright
