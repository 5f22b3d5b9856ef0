#include <string>

#include <tilewright/hardware/flit_mesh.h>

namespace tilewright {

FlitRouter::FlitRouter(const sc_core::sc_module_name& name, const FlitRouterConfig& config)
    : sc_core::sc_module(name), out("out"), in("in"), config_(config) {
  out_position_.fill(-1);
  in_position_.fill(-1);
  out.bind(config_.network.outputs_[config_.tile]);
  in.bind(config_.network.inputs_[config_.tile]);
}

void FlitRouter::connect(Direction d, FlitRouter& neighbour) {
  const unsigned port = static_cast<unsigned>(d), far = port ^ 1u;
  out.bind(neighbour.in);
  out_position_[port] = out_links_++;
  neighbour.in_position_[far] = neighbour.in_links_++;
}

void FlitRouter::end_of_elaboration() {
  FlitNetwork::Router& router = config_.network.routers_[config_.tile];
  for (unsigned port = 0; port < kDirections; ++port) {
    const auto far = static_cast<std::uint8_t>(port ^ 1u);
    if (out_position_[port] >= 0) {
      router.out[port].link = out[out_position_[port]];
      router.out[port].far_port = far;
    }
    if (in_position_[port] >= 0) {
      router.in[port].upstream = in[in_position_[port]];
      router.in[port].upstream_port = far;
    }
  }
}

FlitMesh::FlitMesh(const sc_core::sc_module_name& name, const FlitConfig& config, EventQueue& queue,
                   std::uint32_t agent, bool reverse)
    : sc_core::sc_module(name), network(config, queue, agent) {
  const Topology topology = topology_of(config);
  const std::uint32_t tiles = network.tiles();
  routers_.resize(tiles);
  for (std::uint32_t i = 0; i < tiles; ++i) {
    const std::uint32_t t = reverse ? tiles - 1 - i : i;
    const std::string label =
        "r" + std::to_string(topology.x(t)) + "_" + std::to_string(topology.y(t));
    routers_[t] = std::make_unique<FlitRouter>(label.c_str(), FlitRouterConfig{network, t});
  }
  for (std::uint32_t i = 0; i < tiles; ++i) {
    const std::uint32_t t = reverse ? tiles - 1 - i : i;
    for (unsigned d = 0; d < kDirections; ++d) {
      const Topology::Link& link = topology.link(t, d);
      if (link.works) routers_[t]->connect(static_cast<Direction>(d), *routers_[link.to]);
    }
  }
}

}  // namespace tilewright
