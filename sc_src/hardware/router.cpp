#include <tilewright/hardware/router.h>

namespace tilewright {

Router::Router(const sc_core::sc_module_name& name, const RouterConfig& config)
    : sc_core::sc_module(name), out("out"), in("in"), config_(config) {
  position_.fill(-1);
  out.bind(config_.network.outputs_[config_.tile]);
  in.bind(config_.network.inputs_[config_.tile]);
}

void Router::connect(Direction d, Router& neighbour) {
  out.bind(neighbour.in);
  position_[static_cast<std::size_t>(d)] = links_++;
}

void Router::end_of_elaboration() {
  for (unsigned d = 0; d < kDirections; ++d) {
    if (position_[d] < 0) continue;
    config_.network.link(config_.tile, static_cast<Direction>(d)).out = out[position_[d]];
  }
}

}  // namespace tilewright
