// The modules of a mesh at flit fidelity.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <systemc>
#include <tlm>

#include <tilewright/hardware/flit_network.h>

namespace tilewright {

struct FlitRouterConfig {
  FlitNetwork& network;  ///< holds the state of all routers; outlives the module
  std::uint32_t tile = 0;
};

/// The structural part of a router, of the same shape as Router: one multi-bound initiator for the
/// links out, one multi-bound target for the links in. What it does is in FlitNetwork.
class FlitRouter : public sc_core::sc_module {
 public:
  using Out = tlm::tlm_initiator_socket<32, FlitLinkTypes, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;
  using In = tlm::tlm_target_socket<32, FlitLinkTypes, 0, sc_core::SC_ZERO_OR_MORE_BOUND>;

  FlitRouter(const sc_core::sc_module_name& name, const FlitRouterConfig& config);

  /// Makes the link to the neighbour in direction `d`.
  void connect(Direction d, FlitRouter& neighbour);

  Out out;
  In in;

 private:
  void end_of_elaboration() override;

  FlitRouterConfig config_;
  std::array<std::int8_t, kDirections> out_position_, in_position_;  // in the sockets, -1: no link
  std::int8_t out_links_ = 0, in_links_ = 0;
};

/// A mesh of routers with their network.
class FlitMesh : public sc_core::sc_module {
 public:
  /// `reverse`: build the routers in the opposite order. The answer must not depend on it; for
  /// tests.
  FlitMesh(const sc_core::sc_module_name& name, const FlitConfig& config, EventQueue& queue,
           std::uint32_t agent, bool reverse = false);

  FlitNetwork network;

 private:
  std::vector<std::unique_ptr<FlitRouter>> routers_;
};

}  // namespace tilewright
