// A mesh at flit fidelity by itself.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <systemc>

#include <tilewright/hardware/flit_network.h>
#include <tilewright/hardware/router.h>

namespace tilewright {

/// A mesh of routers with their network.
class FlitMesh : public sc_core::sc_module {
 public:
  /// `reverse`: see make_routers().
  FlitMesh(const sc_core::sc_module_name& name, const FlitConfig& config, EventQueue& queue,
           std::uint32_t agent, bool reverse = false)
      : sc_core::sc_module(name),
        network(config, queue, agent),
        routers_(make_routers(network, reverse)) {}

  FlitNetwork network;

 private:
  std::vector<std::unique_ptr<Router>> routers_;
};

}  // namespace tilewright
