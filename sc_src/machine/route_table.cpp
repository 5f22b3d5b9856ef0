#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/circle.h>
#include <tilewright/machine/route_table.h>

namespace tilewright {

namespace {

/// Of a way. Integers, so that equal links add up to equal sums in any order.
struct Cost {
  static constexpr std::uint32_t kNoWay = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t hops = kNoWay;
  std::uint64_t per_byte = 0;  ///< sum over the links, 2^-20 ps
  std::uint64_t latency = 0;   ///< sum over the links, ps
};
bool operator<(const Cost& a, const Cost& b) {
  return a.hops != b.hops           ? a.hops < b.hops
         : a.per_byte != b.per_byte ? a.per_byte < b.per_byte
                                    : a.latency < b.latency;
}
Cost operator+(const Cost& a, const Cost& b) {
  return {a.hops + b.hops, a.per_byte + b.per_byte, a.latency + b.latency};
}

std::vector<Cost> link_costs(const Topology& topology, const MachineConfig& machine) {
  const std::vector<NamedLinkConfig> kinds = machine.link_kinds();
  std::vector<Cost> costs(topology.links());
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    const LinkConfig& link = kinds[static_cast<std::size_t>(topology.link(i).kind)].link;
    costs[i].hops = 1;
    costs[i].per_byte =
        static_cast<std::uint64_t>(std::llround(0x1p20 * 1e12 / link.bandwidth.value()));
    costs[i].latency = to_picoseconds(link.latency);
  }
  return costs;
}

/// Nodes in the order of the up*/down* tree, and each node's place in it: breadth first from the
/// node with most links.
struct Tree {
  std::vector<std::uint32_t> order, place;

  explicit Tree(const Topology& topology) : place(topology.nodes(), topology.nodes()) {
    std::uint32_t root = 0;
    for (std::uint32_t node = 1; node < topology.nodes(); ++node) {
      if (topology.ports(node) > topology.ports(root)) root = node;
    }
    order.push_back(root);
    place[root] = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (unsigned port = 0; port < topology.ports(order[i]); ++port) {
        const Topology::Link& link = topology.link(order[i], port);
        if (!link.works || place[link.to] < topology.nodes()) continue;
        place[link.to] = static_cast<std::uint32_t>(order.size());
        order.push_back(link.to);
      }
    }
  }
  bool up(std::uint32_t from, std::uint32_t to) const { return place[to] < place[from]; }
};

/// Costs of the ways to one destination, and the links that lie on the best of them.
class Ways {
 public:
  Ways(const Topology& topology, const MachineConfig& machine)
      : topology_(topology), of_link_(link_costs(topology, machine)), cost_(topology.nodes()) {}

  /// Over all working links for which `may(from, to)`: breadth first against the links, so that a
  /// level is complete before it is expanded.
  template <class May>
  void spread(std::uint32_t destination, May may) {
    cost_.assign(cost_.size(), Cost());
    cost_[destination].hops = 0;
    level_.assign(1, destination);
    while (!level_.empty()) {
      next_.clear();
      for (const std::uint32_t node : level_) {
        for (unsigned port = 0; port < topology_.ports(node); ++port) {
          const Topology::Link& back = topology_.link(node, port);
          if (!topology_.link_back(node, port).works || !may(back.to, node)) continue;
          const Cost there = cost_[node] + of_link_[topology_.first_link(back.to) + back.to_port];
          Cost& known = cost_[back.to];
          if (known.hops > there.hops) next_.push_back(back.to);
          if (there < known) known = there;
        }
      }
      level_.swap(next_);
    }
  }
  /// Adds the ways that begin with a hop up, for nodes that have none down.
  void climb(const Tree& tree) {
    for (const std::uint32_t node : tree.order) {
      if (cost_[node].hops != Cost::kNoWay) continue;
      each_link(node, [&](std::uint32_t, std::uint32_t to, const Cost& cost) {
        if (tree.up(node, to) && cost < cost_[node]) cost_[node] = cost;
      });
    }
  }
  /// The link out of `node`, kNone if there is no way; `may` as before.
  template <class May>
  std::uint32_t choose(std::uint32_t node, std::uint32_t destination, May may) {
    best_.clear();
    each_link(node, [&](std::uint32_t link, std::uint32_t to, const Cost& cost) {
      if (may(node, to) && !(cost_[node] < cost) && !(cost < cost_[node])) best_.push_back(link);
    });
    return best_.empty() ? Topology::kNone : best_[destination % best_.size()];
  }

 private:
  /// Calls visit(link, its end, cost of the way by it) for every way out of `node`.
  template <class Visit>
  void each_link(std::uint32_t node, Visit visit) const {
    for (unsigned port = 0; port < topology_.ports(node); ++port) {
      const Topology::Link& out = topology_.link(node, port);
      if (!out.works || cost_[out.to].hops == Cost::kNoWay) continue;
      const std::uint32_t link = topology_.first_link(node) + port;
      visit(link, out.to, cost_[out.to] + of_link_[link]);
    }
  }

  const Topology& topology_;
  std::vector<Cost> of_link_, cost_;
  std::vector<std::uint32_t> level_, next_, best_;
};

}  // namespace

RouteTable::RouteTable(const Topology& topology, const MachineConfig& machine)
    : tiles_(topology.tiles()) {
  constexpr std::size_t kMost = std::size_t{1} << 28;
  const std::size_t size = std::size_t{topology.nodes()} * tiles_;
  if (size > kMost) {
    throw InputError(
        fmt::format("machine '{}': ways from {} nodes to {} tiles take a table of {} "
                    "entries; at most {} are possible",
                    machine.name, topology.nodes(), tiles_, size, kMost));
  }
  const std::string& routing = machine.noc.routing;
  if (routing != "shortest" && routing != "up-down") {
    throw InputError("noc.routing: '" + routing +
                     "' is not known for machines with switches; allowed: shortest, up-down");
  }
  links_.assign(size, Topology::kNone);
  const Tree tree(topology);
  Ways ways(topology, machine);
  const auto any = [](std::uint32_t, std::uint32_t) { return true; };
  const auto down = [&tree](std::uint32_t from, std::uint32_t to) { return !tree.up(from, to); };
  const auto up = [&tree](std::uint32_t from, std::uint32_t to) { return tree.up(from, to); };
  for (std::uint32_t to = 0; to < tiles_; ++to) {
    if (topology.dead(to)) continue;
    const auto set = [&](std::uint32_t node, std::uint32_t link) {
      if (node != to) links_[std::size_t{node} * tiles_ + to] = link;
    };
    if (routing == "shortest") {
      ways.spread(to, any);
      for (std::uint32_t node = 0; node < topology.nodes(); ++node) {
        set(node, ways.choose(node, to, any));
      }
      continue;
    }
    ways.spread(to, down);
    for (std::uint32_t node = 0; node < topology.nodes(); ++node) {
      set(node, ways.choose(node, to, down));
    }
    ways.climb(tree);
    for (std::uint32_t node = 0; node < topology.nodes(); ++node) {
      if (link(node, to) == Topology::kNone) set(node, ways.choose(node, to, up));
    }
  }
}

std::vector<std::uint32_t> RouteTable::dependency_cycle(const Topology& topology) const {
  // By link: the ports of the node behind it by which packets that hold it may have to go on.
  std::vector<std::vector<bool>> waits(topology.links());
  for (std::uint32_t i = 0; i < topology.links(); ++i) {
    waits[i].resize(topology.ports(topology.link(i).to));
  }
  for (std::uint32_t node = 0; node < topology.nodes(); ++node) {
    for (std::uint32_t destination = 0; destination < tiles_; ++destination) {
      const std::uint32_t in = link(node, destination);
      if (in == Topology::kNone) continue;
      const std::uint32_t there = topology.link(in).to;
      if (there == destination) continue;
      waits[in][link(there, destination) - topology.first_link(there)] = true;
    }
  }
  return find_circle(topology.links(), [&](std::uint32_t link, std::uint32_t port) {
    if (port == waits[link].size()) return kNoSuccessor;
    return waits[link][port] ? topology.first_link(topology.link(link).to) + port : kSkip;
  });
}

}  // namespace tilewright
