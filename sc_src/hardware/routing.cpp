#include <tilewright/base/error.h>
#include <tilewright/hardware/routing.h>

namespace tilewright {

namespace {

/// All hops in x, then all hops in y: deadlock-free and in order.
class XyRouting final : public Routing {
 public:
  Direction next(const Packet& p, std::uint32_t) const override {
    if (p.dx != 0) return p.dx > 0 ? Direction::east : Direction::west;
    return p.dy > 0 ? Direction::south : Direction::north;
  }
};

}  // namespace

std::unique_ptr<Routing> make_routing(const std::string& name) {
  if (name == "xy") return std::make_unique<XyRouting>();
  throw InputError("noc.routing: '" + name + "' is not known; allowed: xy");
}

}  // namespace tilewright
