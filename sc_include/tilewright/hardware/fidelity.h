// How closely the network is simulated.
#pragma once

#include <cstdint>
#include <string>

namespace tilewright {

enum class Fidelity : std::uint8_t {
  message,  ///< whole messages, buffers without limit: MessageNetwork
  flit,     ///< flits through routers with virtual channels and credits: FlitNetwork
};
inline std::string to_string(Fidelity f) { return f == Fidelity::message ? "message" : "flit"; }

}  // namespace tilewright
