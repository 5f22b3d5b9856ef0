#include <algorithm>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/detours.h>

namespace tilewright {

namespace {
constexpr unsigned kMostLegs = 255;  // Packet::way
constexpr unsigned kEast = 0, kWest = 1, kSouth = 2, kNorth = 3;
}  // namespace

Detours::Detours(const Topology& topology, bool y_first)
    : topology_(topology), y_first_(y_first), states_(std::size_t{topology.tiles()} * 2) {}

std::uint32_t Detours::leg_end(std::uint32_t from, std::uint32_t to, unsigned leg) {
  const std::uint64_t key = std::uint64_t{from} << 32 | to;
  auto it = ways_.find(key);
  if (it == ways_.end()) {
    it = ways_.emplace(key, works_directly(from, to) ? Way() : find(from, to)).first;
  }
  const Way& way = it->second;
  return leg < way.count ? points_[way.first + leg] : to;
}

bool Detours::works_directly(std::uint32_t from, std::uint32_t to) const {
  const auto [dx, dy] = topology_.hops(from, to);
  std::uint32_t tile = from;
  const auto run = [&](int hops, unsigned forward, unsigned backward) {
    const unsigned d = hops > 0 ? forward : backward;
    for (int i = std::abs(hops); i > 0; --i) {
      const Topology::Link& link = topology_.link(tile, d);
      if (!link.works) return false;
      tile = link.to;
    }
    return true;
  };
  return y_first_ ? run(dy, kSouth, kNorth) && run(dx, kEast, kWest)
                  : run(dx, kEast, kWest) && run(dy, kSouth, kNorth);
}

/// The order in which the search looks at the four directions.
std::vector<unsigned> Detours::preferred(std::uint32_t from, std::uint32_t to) const {
  const auto order = [](int here, int there, int size, unsigned forward, unsigned backward) {
    const bool up = there != here ? there > here : 2 * here < size;
    return up ? std::pair{forward, backward} : std::pair{backward, forward};
  };
  const auto x = order(topology_.x(from), topology_.x(to), topology_.width() - 1, kEast, kWest);
  const auto y = order(topology_.y(from), topology_.y(to), topology_.height() - 1, kSouth, kNorth);
  return y_first_ ? std::vector{y.first, x.first, y.second, x.second}
                  : std::vector{x.first, y.first, x.second, y.second};
}

// Breadth first over (tile, dimension of the last hop), level by level, so that a level knows the
// fewest legs of every way of its length.
Detours::Way Detours::find(std::uint32_t from, std::uint32_t to) {
  const std::vector<unsigned> directions = preferred(from, to);
  ++searches_;
  const std::uint32_t start = from * 2;
  states_[start] = {searches_, 0, 1, start};
  std::vector<std::uint32_t> level{start}, next;
  const auto reached = [&](unsigned second) {
    return states_[to * 2 + second].search == searches_;
  };
  while (!reached(0) && !reached(1)) {
    if (level.empty()) {
      throw InternalError("tile " + topology_.name(from) + " cannot reach tile " +
                          topology_.name(to));
    }
    next.clear();
    for (const std::uint32_t s : level) {
      const State here = states_[s];
      const std::uint32_t tile = s / 2, second = s % 2;
      for (const unsigned d : directions) {
        const Topology::Link& link = topology_.link(tile, d);
        if (!link.works) continue;
        const std::uint32_t dimension = (d >= kSouth) != y_first_ ? 1 : 0;
        const State there{searches_, here.hops + 1,
                          here.legs + (second == 1 && dimension == 0 ? 1u : 0u), s};
        const std::uint32_t to_state = link.to * 2 + dimension;
        State& known = states_[to_state];
        if (known.search != searches_) {
          next.push_back(to_state);
        } else if (known.hops < there.hops || known.legs <= there.legs) {
          continue;
        }
        known = there;
      }
    }
    level.swap(next);
  }
  std::uint32_t at = to * 2;
  if (!reached(0) || (reached(1) && states_[at + 1].legs < states_[at].legs)) ++at;
  if (states_[at].legs > kMostLegs) {
    throw InputError("the way from tile " + topology_.name(from) + " to tile " +
                     topology_.name(to) + " round dead tiles and links turns too often");
  }
  Way way;
  way.first = static_cast<std::uint32_t>(points_.size());
  for (; at != start; at = states_[at].before) {
    const std::uint32_t before = states_[at].before;
    if (states_[before].legs != states_[at].legs) points_.push_back(before / 2);
  }
  std::reverse(points_.begin() + way.first, points_.end());
  way.count = static_cast<std::uint32_t>(points_.size()) - way.first;
  return way;
}

std::unique_ptr<Detours> make_detours(const Topology& topology, const std::string& routing) {
  if (!topology.defective()) return nullptr;
  if (topology.torus() || (routing != "xy" && routing != "yx")) {
    throw InputError("noc.routing: '" + routing + "' " + (topology.torus() ? "on a torus " : "") +
                     "does not go round dead tiles and links; allowed: xy, yx on a mesh");
  }
  return std::make_unique<Detours>(topology, routing == "yx");
}

}  // namespace tilewright
