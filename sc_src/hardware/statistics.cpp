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
    case TileState::pipeline_wait:
      return "pipeline_wait";
    case TileState::bubble:
      return "bubble";
    case TileState::idle:
      return "idle";
  }
  throw InternalError("not a tile state");
}

}  // namespace tilewright
