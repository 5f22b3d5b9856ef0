// The RTL matrix engine (rtl/gemm_engine.sv) as SystemC code sees it: products in, products out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <systemc>

#include <tilewright/base/quantity.h>

namespace tilewright::rtl {

/// C[m,n] = A[m,k] · B[k,n], all row-major.
struct Gemm {
  std::uint32_t m = 0, n = 0, k = 0;
  std::vector<std::int8_t> a, b;
  std::vector<std::int32_t> c;
};

/// A verilated gemm_engine with its clock, its operand buffers and the buffer of its results. The
/// clock runs only while there is something to do.
class GemmEngine : public sc_core::sc_module {
 public:
  using sc_core::sc_module::sc_module;

  /// Computes `gemm.c`; returns the cycles in which the engine was busy, which is the time that
  /// passes. Callable from a thread, one call at a time; the extents are 1 to 65535.
  virtual std::uint64_t run(Gemm& gemm, bool pipelined) = 0;

  /// Records every signal of the RTL in a VCD file from now on; once the simulation has begun.
  virtual void trace(const std::string& path) = 0;
  /// Completes the file.
  virtual void end_trace() = 0;

  virtual std::uint32_t rows() const = 0;
  virtual std::uint32_t columns() const = 0;
};

/// Engines of the sizes that are verilated (CMakeLists.txt).
std::unique_ptr<GemmEngine> make_gemm_engine_8x8(const sc_core::sc_module_name& name,
                                                 Picoseconds period);
std::unique_ptr<GemmEngine> make_gemm_engine_4x6(const sc_core::sc_module_name& name,
                                                 Picoseconds period);

}  // namespace tilewright::rtl
