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

unsigned ring_classes(const Topology& topology) { return topology.torus() ? 2 : 1; }

/// The class of the link `out`: 1 when it wraps round or the packet has wrapped round before in
/// this dimension, so that the tile behind the link lies on the other side of its source.
unsigned ring_class(const Topology& topology, const Packet& p, std::uint32_t tile, Direction out) {
  if (!topology.torus()) return 0;
  const std::uint32_t next = topology.link(tile, static_cast<unsigned>(out)).to;
  switch (out) {
    case Direction::east:
      return topology.x(next) < topology.x(p.source) ? 1 : 0;
    case Direction::west:
      return topology.x(next) > topology.x(p.source) ? 1 : 0;
    case Direction::south:
      return topology.y(next) < topology.y(p.source) ? 1 : 0;
    default:
      return topology.y(next) > topology.y(p.source) ? 1 : 0;
  }
}

/// Whether the classes fit: a ring is entered in class 0, or 1 on the link that wraps; that link
/// leads from class 0 to 1, every other one stays in its class.
bool ring_turns(const Topology& topology, Routing::Channel in, Routing::Channel out,
                std::uint32_t tile) {
  if (!topology.torus()) return true;
  const unsigned wraps = topology.wraps(tile, out.direction) ? 1 : 0;
  if (in.direction != out.direction) return out.channel_class == wraps;
  return out.channel_class == in.channel_class + wraps;
}

/// Straight on, or from the first dimension into the second.
bool dimension_order(Direction in, Direction out, bool y_first) {
  return in == out || (is_x(in) != y_first && is_x(out) == y_first);
}

/// All hops in one dimension, then all hops in the other.
///
/// On a torus every ring has two classes: a packet is in the second one from the link on that wraps
/// round (the dateline). In each class the links of a ring form a line and not a circle, and
/// packets go from the first to the second only (Dally and Seitz 1987).
template <bool kYFirst>
class DimensionOrder final : public Routing {
 public:
  explicit DimensionOrder(const Topology& topology) : topology_(topology) {}

  Directions ways(const Packet& p, std::uint32_t) const override {
    return kYFirst ? y_first(p) : x_first(p);
  }
  unsigned classes() const override { return ring_classes(topology_); }
  unsigned channel_class(const Packet& p, std::uint32_t tile, Direction out) const override {
    return ring_class(topology_, p, tile, out);
  }
  bool turns(Channel in, Channel out, std::uint32_t tile) const override {
    return dimension_order(in.direction, out.direction, kYFirst) &&
           ring_turns(topology_, in, out, tile);
  }

 private:
  const Topology& topology_;
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
  unsigned channel_class(const Packet& p, std::uint32_t, Direction) const override {
    return p.dx < 0 ? 1 : 0;
  }
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
/// 2005): each packet goes x first or y first, with equal chances, in classes of its own.
class O1TurnRouting final : public Routing {
 public:
  O1TurnRouting(const Topology& topology, std::uint64_t seed)
      : topology_(topology), rings_(ring_classes(topology)), seed_(seed) {}

  Directions ways(const Packet& p, std::uint32_t) const override {
    return p.way != 0 ? y_first(p) : x_first(p);
  }
  unsigned classes() const override { return 2 * rings_; }
  unsigned channel_class(const Packet& p, std::uint32_t tile, Direction out) const override {
    return p.way * rings_ + ring_class(topology_, p, tile, out);
  }
  bool turns(Channel in, Channel out, std::uint32_t tile) const override {
    const unsigned way = in.channel_class / rings_;
    if (out.channel_class / rings_ != way) return false;
    return dimension_order(in.direction, out.direction, way == 1) &&
           ring_turns(topology_, {in.direction, in.channel_class % rings_},
                      {out.direction, out.channel_class % rings_}, tile);
  }
  bool in_order() const override { return false; }
  bool random() const override { return true; }
  void draw(Packet& p, std::uint64_t number) const override {
    TrafficRandom hash(seed_);
    for (const std::uint64_t part : {std::uint64_t{p.source}, std::uint64_t{p.destination}, number})
      hash = TrafficRandom(hash.next() ^ part);
    p.way = hash.next() & 1u;
  }

 private:
  const Topology& topology_;
  unsigned rings_;
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
  if (name == "xy") return std::make_unique<DimensionOrder<false>>(topology);
  if (name == "yx") return std::make_unique<DimensionOrder<true>>(topology);
  if (name == "o1turn") return std::make_unique<O1TurnRouting>(topology, seed);
  std::string allowed;
  if (topology.torus()) {
    // The others choose turns by the sides of a mesh; a torus has none.
    allowed = "xy, yx, o1turn on a torus";
  } else {
    if (name == "west-first") return std::make_unique<WestFirstRouting>();
    if (name == "odd-even") return std::make_unique<OddEvenRouting>(topology);
    if (name == "adaptive") return std::make_unique<AdaptiveRouting>();
    for (const std::string& known : routing_names()) {
      allowed += (allowed.empty() ? "" : ", ") + known;
    }
  }
  throw InputError("noc.routing: '" + name + "' is not known; allowed: " + allowed);
}

}  // namespace tilewright
