#include <tilewright/base/error.h>
#include <tilewright/hardware/statistics.h>

namespace tilewright {

std::string to_string(TileState s) {
  switch (s) {
    case TileState::matrix:
      return "matrix";
    case TileState::vector:
      return "vector";
    case TileState::recomputation:
      return "recomputation";
    case TileState::sram_stall:
      return "sram_stall";
    case TileState::dram_wait:
      return "dram_wait";
    case TileState::tensor_wait:
      return "tensor_wait";
    case TileState::data_wait:
      return "data_wait";
    case TileState::context_wait:
      return "context_wait";
    case TileState::expert_wait:
      return "expert_wait";
    case TileState::resharding_wait:
      return "resharding_wait";
    case TileState::offload_wait:
      return "offload_wait";
    case TileState::pipeline_wait:
      return "pipeline_wait";
    case TileState::bubble:
      return "bubble";
    case TileState::idle:
      return "idle";
  }
  throw InternalError("not a tile state");
}

TileState wait_for(Cause cause) {
  switch (cause) {
    case Cause::memory:
      return TileState::dram_wait;
    case Cause::tensor:
      return TileState::tensor_wait;
    case Cause::data:
      return TileState::data_wait;
    case Cause::pipeline:
      return TileState::pipeline_wait;
    case Cause::context:
      return TileState::context_wait;
    case Cause::expert:
      return TileState::expert_wait;
    case Cause::resharding:
      return TileState::resharding_wait;
    case Cause::offload:
      return TileState::offload_wait;
  }
  throw InternalError("not a cause");
}

}  // namespace tilewright
