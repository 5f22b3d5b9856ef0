#include <tilewright/hardware/router.h>

namespace tilewright {

Router::Router(const sc_core::sc_module_name& name, const RouterConfig& config)
    : sc_core::sc_module(name), out("out"), in("in"), config_(config) {
  position_.assign(config_.network.topology_.ports(config_.node), -1);
  out.bind(config_.network.outputs_[config_.node]);
  in.bind(config_.network.inputs_[config_.node]);
}

void Router::connect(unsigned port, Router& neighbour) {
  out.bind(neighbour.in);
  position_[port] = links_++;
}

void Router::end_of_elaboration() {
  for (unsigned port = 0; port < position_.size(); ++port) {
    if (position_[port] < 0) continue;
    config_.network.link(config_.node, port).out = out[position_[port]];
  }
}

}  // namespace tilewright
