// What the pins of verilated modules have in common. For the sources that include a verilated model
// alone: its headers bring systemc.h.
#pragma once

#include <memory>
#include <string>

#include <systemc>

#include "verilated_vcd_sc.h"

namespace tilewright::rtl {

/// Lets signals and the model settle. From a thread.
inline void settle() {
  for (int i = 0; i < 4; ++i) sc_core::wait(sc_core::SC_ZERO_TIME);
}

/// Takes a model through reset by one edge of its clock, in no time. From a thread.
inline void reset(sc_core::sc_signal<bool>& clk, sc_core::sc_signal<bool>& rst) {
  rst.write(true);
  settle();
  clk.write(true);
  settle();
  clk.write(false);
  rst.write(false);
  settle();
}

/// A VCD file with every signal of a model.
class VerilatedTrace {
 public:
  /// Once the simulation has begun.
  template <class Model>
  void begin(Model& model, const std::string& path) {
    Verilated::traceEverOn(true);
    file_ = std::make_unique<VerilatedVcdSc>();
    model.trace(file_.get(), 99);
    file_->open(path.c_str());
  }
  void end() { file_->close(); }

 private:
  std::unique_ptr<VerilatedVcdSc> file_;
};

}  // namespace tilewright::rtl
