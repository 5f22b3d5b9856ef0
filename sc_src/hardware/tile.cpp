#include <tilewright/hardware/tile.h>

namespace tilewright {

Tile::Tile(const sc_core::sc_module_name& name, const TileConfig& config)
    : sc_core::sc_module(name),
      calls_in("calls"),
      compute_out("op"),
      sram("sram", config.sram),
      router("router", RouterConfig{config.network, config.tile}),
      sequencer_(config.sequencer),
      tile_(config.tile) {
  sequencer_.set_sram(tile_, sram);
  calls_in.bind(sequencer_.calls_in(tile_));
  compute_out.bind(sequencer_.compute_return(tile_));
  if (!config.external_compute) {
    compute = std::make_unique<ComputeUnit>("compute", ComputeUnitConfig{config.costs});
    compute_out.bind(compute->in);
    (config.bind_memory ? config.bind_memory : bind_sockets)(compute->memory, sram.in);
  }
}

void Tile::end_of_elaboration() { sequencer_.wire(tile_, calls_in[0], compute_out[0]); }

}  // namespace tilewright
