#include "Vgemm_4x6.h"
#include "gemm_pins.h"

namespace tilewright::rtl {

std::unique_ptr<GemmEngine> make_gemm_engine_4x6(const sc_core::sc_module_name& name,
                                                 Picoseconds period) {
  return std::make_unique<GemmPins<Vgemm_4x6, 4, 6>>(name, period);
}

}  // namespace tilewright::rtl
