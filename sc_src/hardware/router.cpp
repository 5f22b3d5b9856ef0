#include <string>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/router.h>

namespace tilewright {

Router::Router(const sc_core::sc_module_name& name, const RouterConfig& config)
    : sc_core::sc_module(name), out("out"), in("in"), config_(config) {
  ports_.resize(config_.network.topology().ports(config_.node));
  out.bind(config_.network.output(config_.node));
  in.bind(config_.network.input(config_.node));
}

void Router::connect(unsigned port, Router& neighbour) {
  const Topology& topology = config_.network.topology();
  const std::uint32_t to =
      port < ports_.size() ? topology.link(config_.node, port).to : Topology::kNone;
  if (to != neighbour.config_.node) {
    throw InputError(fmt::format(
        "{}: port {} of {} leads to {}, not to {} ({}), by the description of the machine", name(),
        port, topology.name(config_.node), to == Topology::kNone ? "nothing" : topology.name(to),
        topology.name(neighbour.config_.node), neighbour.name()));
  }
  out.bind(neighbour.in);
  ports_[port].out = links_out_++;
  const unsigned far = topology.link(config_.node, port).to_port;
  neighbour.ports_[far].in = neighbour.links_in_++;
  config_.network.join(topology.first_link(config_.node) + port);
}

void Router::end_of_elaboration() {
  Network& network = config_.network;
  for (unsigned port = 0; port < ports_.size(); ++port) {
    const auto [to, from] = ports_[port];
    if (to >= 0) network.wire_out(config_.node, port, *out[to]);
    if (from >= 0) network.wire_in(config_.node, port, *in[from]);
  }
}

std::vector<std::unique_ptr<Router>> make_routers(Network& network, bool reverse) {
  const Topology& topology = network.topology();
  const std::uint32_t tiles = network.tiles();
  std::vector<std::unique_ptr<Router>> routers(tiles);
  const auto each_tile = [&](auto act) {
    for (std::uint32_t i = 0; i < tiles; ++i) act(reverse ? tiles - 1 - i : i);
  };
  each_tile([&](std::uint32_t t) {
    const std::string label =
        "r" + std::to_string(topology.x(t)) + "_" + std::to_string(topology.y(t));
    routers[t] = std::make_unique<Router>(label.c_str(), RouterConfig{network, t});
  });
  each_tile([&](std::uint32_t t) {
    for (unsigned d = 0; d < kDirections; ++d) {
      const Topology::Link& link = topology.link(t, d);
      if (link.works) routers[t]->connect(d, *routers[link.to]);
    }
  });
  return routers;
}

}  // namespace tilewright
