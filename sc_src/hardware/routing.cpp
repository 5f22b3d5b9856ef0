#include <tilewright/base/error.h>
#include <tilewright/hardware/routing.h>

namespace tilewright {

namespace {

/// Towards the sign of the hops to go, which are not 0.
constexpr Directions along_x(int dx) { return only(dx > 0 ? Direction::east : Direction::west); }
constexpr Directions along_y(int dy) { return only(dy > 0 ? Direction::south : Direction::north); }
constexpr bool is_x(Direction d) { return d == Direction::east || d == Direction::west; }

/// All hops in x, then all hops in y.
class XyRouting final : public Routing {
 public:
  Directions ways(const Packet& p, std::uint32_t) const override {
    return p.dx != 0 ? along_x(p.dx) : along_y(p.dy);
  }
  bool turns(Direction in, Direction out, std::uint32_t) const override {
    return in == out || (is_x(in) && !is_x(out));
  }
};

}  // namespace

std::unique_ptr<Routing> make_routing(const std::string& name) {
  if (name == "xy") return std::make_unique<XyRouting>();
  throw InputError("noc.routing: '" + name + "' is not known; allowed: xy");
}

}  // namespace tilewright
