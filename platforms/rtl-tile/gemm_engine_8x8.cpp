#include "Vgemm_8x8.h"
#include "gemm_pins.h"

namespace tilewright::rtl {

std::unique_ptr<GemmEngine> make_gemm_engine_8x8(const sc_core::sc_module_name& name,
                                                 Picoseconds period) {
  return std::make_unique<GemmPins<Vgemm_8x8, 8, 8>>(name, period);
}

}  // namespace tilewright::rtl
