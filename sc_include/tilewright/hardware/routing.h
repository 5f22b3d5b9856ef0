// Which way a packet leaves a router.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <tilewright/hardware/protocol.h>

namespace tilewright {

/// The mesh links of a router; the opposite of d is d ^ 1.
enum class Direction : std::uint8_t { east, west, south, north };
constexpr unsigned kDirections = 4;

/// A routing algorithm. A deterministic one keeps the messages of one source and destination in
/// order, which receivers rely on.
class Routing {
 public:
  virtual ~Routing() = default;
  /// The link by which `p`, not yet at its destination, leaves `tile`.
  virtual Direction next(const Packet& p, std::uint32_t tile) const = 0;
};

/// By the name used in machine descriptions: "xy". Throws InputError naming the known ones.
std::unique_ptr<Routing> make_routing(const std::string& name);

}  // namespace tilewright
