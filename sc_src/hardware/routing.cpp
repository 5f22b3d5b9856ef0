#include <tilewright/base/error.h>
#include <tilewright/hardware/routing.h>
#include <tilewright/hardware/traffic.h>

namespace tilewright {

namespace {

/// Towards the sign of the hops to go; `none` for 0.
constexpr Directions along_x(int dx, Directions none = 0) {
  return dx > 0 ? only(Direction::east) : dx < 0 ? only(Direction::west) : none;
}
constexpr Directions along_y(int dy, Directions none = 0) {
  return dy > 0 ? only(Direction::south) : dy < 0 ? only(Direction::north) : none;
}
constexpr bool is_x(Direction d) { return d == Direction::east || d == Direction::west; }

Directions x_first(const Packet& p) { return along_x(p.dx, along_y(p.dy)); }
Directions y_first(const Packet& p) { return along_y(p.dy, along_x(p.dx)); }

/// Straight on, or from the first dimension into the second.
bool dimension_order(Direction in, Direction out, bool y_first) {
  return in == out || (is_x(in) != y_first && is_x(out) == y_first);
}

/// All hops in x, then all hops in y.
class XyRouting final : public Routing {
 public:
  Directions ways(const Packet& p, std::uint32_t) const override { return x_first(p); }
  bool turns(Channel in, Channel out, std::uint32_t) const override {
    return dimension_order(in.direction, out.direction, false);
  }
};

/// All hops in y, then all hops in x.
class YxRouting final : public Routing {
 public:
  Directions ways(const Packet& p, std::uint32_t) const override { return y_first(p); }
  bool turns(Channel in, Channel out, std::uint32_t) const override {
    return dimension_order(in.direction, out.direction, true);
  }
};

/// Glass and Ni, "The turn model for adaptive routing" (ISCA 1992): hops to the west come first, so
/// that no turn leads into that direction; between the others the packet has its choice.
class WestFirstRouting final : public Routing {
 public:
  Directions ways(const Packet& p, std::uint32_t) const override {
    return p.dx < 0 ? only(Direction::west) : along_x(p.dx) | along_y(p.dy);
  }
  bool turns(Channel in, Channel out, std::uint32_t) const override {
    return out.direction != Direction::west || in.direction == Direction::west;
  }
  bool in_order() const override { return false; }
};

/// Chiu, "The odd-even turn model for adaptive routing" (IEEE Trans. Parallel and Distributed
/// Systems 11-7, 2000): no turn from east to north or south in even columns, none from north or
/// south to west in odd ones.
class OddEvenRouting final : public Routing {
 public:
  explicit OddEvenRouting(const Topology& topology) : topology_(topology) {}

  Directions ways(const Packet& p, std::uint32_t tile) const override {
    if (p.dx == 0 || p.dy == 0) return along_x(p.dx) | along_y(p.dy);
    const int x = topology_.x(tile);
    const bool odd = x % 2 != 0;
    if (p.dx < 0) return only(Direction::west) | (odd ? 0 : along_y(p.dy));
    // Eastward: turns where it has come from the east only in odd columns, and must not enter an
    // even column with hops in y left when that is its last.
    Directions result = 0;
    if (odd || x == topology_.x(p.source)) result |= along_y(p.dy);
    if ((x + p.dx) % 2 != 0 || p.dx != 1) result |= only(Direction::east);
    return result;
  }
  bool turns(Channel in, Channel out, std::uint32_t tile) const override {
    const bool odd = topology_.x(tile) % 2 != 0;
    if (in.direction == Direction::east && !is_x(out.direction)) return odd;
    if (!is_x(in.direction) && out.direction == Direction::west) return !odd;
    return true;
  }
  bool in_order() const override { return false; }

 private:
  const Topology& topology_;
};

/// Every shortest way. Packets with hops to the west have a class of their own, in which none goes
/// east, as in the other none goes west: without one of the two there is no circle.
class AdaptiveRouting final : public Routing {
 public:
  Directions ways(const Packet& p, std::uint32_t) const override {
    return along_x(p.dx) | along_y(p.dy);
  }
  unsigned classes() const override { return 2; }
  unsigned channel_class(const Packet& p) const override { return p.dx < 0 ? 1 : 0; }
  bool turns(Channel in, Channel out, std::uint32_t) const override {
    const auto fits = [](Channel c) {
      return c.direction != (c.channel_class == 0 ? Direction::west : Direction::east);
    };
    // The last hop to the west may be followed by hops in the first class, not the other way round.
    return fits(in) && fits(out) && in.channel_class >= out.channel_class &&
           (in.channel_class == out.channel_class || !is_x(out.direction));
  }
  bool in_order() const override { return false; }
};

/// Seo et al., "Near-optimal worst-case throughput routing for two-dimensional mesh networks" (ISCA
/// 2005): each packet goes x first or y first, with equal chances, in a class of its own.
class O1TurnRouting final : public Routing {
 public:
  explicit O1TurnRouting(std::uint64_t seed) : seed_(seed) {}

  Directions ways(const Packet& p, std::uint32_t) const override {
    return p.y_first ? y_first(p) : x_first(p);
  }
  unsigned classes() const override { return 2; }
  unsigned channel_class(const Packet& p) const override { return p.y_first ? 1 : 0; }
  bool turns(Channel in, Channel out, std::uint32_t) const override {
    return in.channel_class == out.channel_class &&
           dimension_order(in.direction, out.direction, in.channel_class == 1);
  }
  bool in_order() const override { return false; }
  bool random() const override { return true; }
  void draw(Packet& p, std::uint64_t number) const override {
    TrafficRandom hash(seed_);
    for (const std::uint64_t part : {std::uint64_t{p.source}, std::uint64_t{p.destination}, number})
      hash = TrafficRandom(hash.next() ^ part);
    p.y_first = (hash.next() & 1u) != 0;
  }

 private:
  std::uint64_t seed_;
};

}  // namespace

const std::vector<std::string>& routing_names() {
  static const std::vector<std::string> names{"xy",       "yx",       "west-first",
                                              "odd-even", "adaptive", "o1turn"};
  return names;
}

std::unique_ptr<Routing> make_routing(const std::string& name, const Topology& topology,
                                      std::uint64_t seed) {
  if (name == "xy") return std::make_unique<XyRouting>();
  if (name == "yx") return std::make_unique<YxRouting>();
  if (name == "west-first") return std::make_unique<WestFirstRouting>();
  if (name == "odd-even") return std::make_unique<OddEvenRouting>(topology);
  if (name == "adaptive") return std::make_unique<AdaptiveRouting>();
  if (name == "o1turn") return std::make_unique<O1TurnRouting>(seed);
  std::string allowed;
  for (const std::string& known : routing_names()) allowed += (allowed.empty() ? "" : ", ") + known;
  throw InputError("noc.routing: '" + name + "' is not known; allowed: " + allowed);
}

}  // namespace tilewright
