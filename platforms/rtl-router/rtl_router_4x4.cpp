#include "Vrouter_4x4.h"
#include "router_pins.h"

namespace tilewright::rtl {

std::unique_ptr<RtlRouter> make_rtl_router_4x4(const sc_core::sc_module_name& name,
                                               FlitNetwork& network, std::uint32_t tile) {
  return std::make_unique<RouterPins<Vrouter_4x4, 4, 4>>(name, network, tile);
}

}  // namespace tilewright::rtl
