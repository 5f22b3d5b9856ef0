// One tile's switch and its links, or a switch of a fabric.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <systemc>

#include <tilewright/hardware/network.h>
#include <tilewright/hardware/protocol.h>
#include <tilewright/hardware/routing.h>
#include <tilewright/hardware/sockets.h>

namespace tilewright {

struct RouterConfig {
  Network& network;        ///< holds the state of all routers; outlives the module
  std::uint32_t node = 0;  ///< tile, or switch of a fabric
};

/// The structural part of a router: one multi-bound initiator for the links out, one multi-bound
/// target for the links in. What passes them, whole messages or flits, and how it moves is in
/// Network. Not for two links between one pair of tiles: a socket can be bound to another only
/// once.
class Router : public sc_core::sc_module {
 public:
  Router(const sc_core::sc_module_name& name, const RouterConfig& config);

  /// Makes the link of this port to a neighbour. Throws InputError when the machine's description
  /// has no such link.
  void connect(unsigned port, Router& neighbour);
  void connect(Direction d, Router& neighbour) { connect(static_cast<unsigned>(d), neighbour); }

  InitiatorSocket<LinkTypes, 0, sc_core::SC_ZERO_OR_MORE_BOUND> out;
  TargetSocket<LinkTypes, 0, sc_core::SC_ZERO_OR_MORE_BOUND> in;

 private:
  void end_of_elaboration() override;

  struct Port {
    int out = -1, in = -1;  // positions in the sockets; -1: no link
  };
  RouterConfig config_;
  std::vector<Port> ports_;
  int links_out_ = 0, links_in_ = 0;
};

/// The routers of a network's tiles by themselves, named r0_0, r1_0, ..., and linked. `reverse`:
/// built in the opposite order. The answer must not depend on it; for tests.
std::vector<std::unique_ptr<Router>> make_routers(Network& network, bool reverse = false);

}  // namespace tilewright
