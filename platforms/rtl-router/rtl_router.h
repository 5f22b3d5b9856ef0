// A router of the flit network in RTL (rtl/vc_router.sv).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <systemc>

#include <tilewright/hardware/flit_network.h>

namespace tilewright::rtl {

/// A verilated vc_router in the place of one router of a FlitNetwork, whose links it uses. Its
/// clock ticks in the cycles in which something is in it, or arrives.
///
/// The RTL's registers take one cycle for each of VC allocation, switch allocation and switch
/// traversal, with routing one hop ahead, XY; the network must be configured so, and without
/// speculation, wait_for_tail_credit or stalls. Link, terminal and credit delays are the network's.
class RtlRouter : public sc_core::sc_module, public FlitExternalRouter {
 public:
  using sc_core::sc_module::sc_module;

  /// Records every signal of the RTL in a VCD file from now on; once the simulation has begun.
  virtual void trace(const std::string& path) = 0;
  /// Completes the file.
  virtual void end_trace() = 0;

  virtual std::uint64_t flits() const = 0;  ///< that have passed
};

/// Routers of the sizes that are verilated (CMakeLists.txt): virtual channels x flits of each. Each
/// takes the place of `tile`'s router. Throws InputError when the network's configuration is not
/// what the RTL does.
std::unique_ptr<RtlRouter> make_rtl_router_2x3(const sc_core::sc_module_name& name,
                                               FlitNetwork& network, std::uint32_t tile);
std::unique_ptr<RtlRouter> make_rtl_router_4x4(const sc_core::sc_module_name& name,
                                               FlitNetwork& network, std::uint32_t tile);

}  // namespace tilewright::rtl
