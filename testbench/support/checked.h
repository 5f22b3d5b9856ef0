// Simulations with a protocol checker on every memory-side socket.
#pragma once

#include <tilewright/simulate/simulate.h>

namespace tilewright::test {

inline SimulateOptions checked() {
  SimulateOptions options;
  options.check_protocol = true;
  return options;
}

}  // namespace tilewright::test
