// The pins of a verilated gemm_engine. For the sources that include the model alone.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include <tilewright/base/error.h>
#include <tilewright/hardware/process.h>

#include "../verilated_pins.h"
#include "gemm_engine.h"

namespace tilewright::rtl {

/// `Model` is the verilated class for an array of Rows × Columns.
template <class Model, unsigned Rows, unsigned Columns>
class GemmPins : public GemmEngine {
 public:
  GemmPins(const sc_core::sc_module_name& name, Picoseconds period)
      : GemmEngine(name), period_(sc_core::sc_time::from_value(period)), model_("rtl") {
    model_.clk(clk_);
    model_.rst(rst_);
    model_.start(start_);
    model_.pipelined(pipelined_);
    model_.m(m_);
    model_.n(n_);
    model_.k(k_);
    model_.busy(busy_);
    model_.fetch(fetch_);
    model_.row(row_);
    model_.col(col_);
    model_.step(step_);
    model_.a(a_);
    model_.b(b_);
    model_.c_valid(c_valid_);
    model_.c_out(c_);
    TILEWRIGHT_HAS_PROCESS(GemmPins);
    SC_METHOD(operands);
    sensitive << fetch_ << row_ << col_ << step_;
    dont_initialize();
  }
  ~GemmPins() override { model_.final(); }

  std::uint32_t rows() const override { return Rows; }
  std::uint32_t columns() const override { return Columns; }

  std::uint64_t run(Gemm& gemm, bool pipelined) override {
    constexpr std::uint32_t kMost = 65535;
    if (gemm.m < 1 || gemm.n < 1 || gemm.k < 1 || gemm.m > kMost || gemm.n > kMost ||
        gemm.k > kMost) {
      throw InputError(std::string(name()) + ": extents must be 1 to 65535");
    }
    if (!was_reset_) reset(clk_, rst_);
    was_reset_ = true;
    gemm_ = &gemm;
    gemm.c.assign(std::size_t{gemm.m} * gemm.n, 0);
    folds_across_ = (gemm.n + Columns - 1) / Columns;
    results_.assign(Columns, 0);
    m_.write(gemm.m);
    n_.write(gemm.n);
    k_.write(gemm.k);
    pipelined_.write(pipelined);
    start_.write(true);
    std::uint64_t cycles = 0;
    do {
      // A cycle ends with the rising edge, before which all signals have settled.
      sc_core::wait(period_ / 2);
      clk_.write(false);
      sc_core::wait(period_ - period_ / 2);
      take_results();
      ++cycles;
      clk_.write(true);
      settle();
      start_.write(false);
      settle();
    } while (busy_.read());
    gemm_ = nullptr;
    return cycles;
  }

  void trace(const std::string& path) override { trace_.begin(model_, path); }
  void end_trace() override { trace_.end(); }

 private:
  // The operand buffers: zero outside the matrices.
  void operands() {
    if (gemm_ == nullptr || !fetch_.read()) return;
    const Gemm& g = *gemm_;
    std::uint64_t a = 0, b = 0;
    for (unsigned r = 0; r < Rows; ++r) {
      const std::uint64_t row = row_.read() + r;
      if (row >= g.m) break;
      a |= std::uint64_t{static_cast<std::uint8_t>(g.a[row * g.k + step_.read()])} << (8 * r);
    }
    for (unsigned c = 0; c < Columns; ++c) {
      const std::uint64_t column = col_.read() + c;
      if (column >= g.n) break;
      b |= std::uint64_t{static_cast<std::uint8_t>(g.b[step_.read() * g.n + column])} << (8 * c);
    }
    write(a_, a);
    write(b_, b);
  }

  // Each column delivers its folds in order, and the rows of each.
  void take_results() {
    const std::uint64_t valid = c_valid_.read();
    for (unsigned c = 0; c < Columns; ++c) {
      if ((valid >> c & 1u) == 0) continue;
      const std::uint64_t number = results_[c]++, fold = number / Rows;
      const std::uint64_t row = fold / folds_across_ * Rows + number % Rows;
      const std::uint64_t column = fold % folds_across_ * Columns + c;
      if (row >= gemm_->m || column >= gemm_->n) continue;
      gemm_->c[row * gemm_->n + column] =
          static_cast<std::int32_t>(c_.read().range(32 * c + 31, 32 * c).to_uint());
    }
  }

  template <class T>
  static void write(sc_core::sc_signal<T>& signal, std::uint64_t value) {
    signal.write(static_cast<T>(value));
  }

  using OperandsA = std::conditional_t<(Rows > 4), std::uint64_t, std::uint32_t>;
  using OperandsB = std::conditional_t<(Columns > 4), std::uint64_t, std::uint32_t>;

  sc_core::sc_time period_;
  sc_core::sc_signal<bool> clk_{"clk"}, rst_{"rst"}, start_{"start"}, pipelined_{"pipelined"};
  sc_core::sc_signal<bool> busy_{"busy"}, fetch_{"fetch"};
  sc_core::sc_signal<std::uint32_t> m_{"m"}, n_{"n"}, k_{"k"};
  sc_core::sc_signal<std::uint32_t> row_{"row"}, col_{"col"}, step_{"step"}, c_valid_{"c_valid"};
  sc_core::sc_signal<OperandsA> a_{"a"};
  sc_core::sc_signal<OperandsB> b_{"b"};
  sc_core::sc_signal<sc_dt::sc_bv<32 * Columns>> c_{"c"};
  Model model_;
  VerilatedTrace trace_;
  bool was_reset_ = false;
  Gemm* gemm_ = nullptr;
  std::uint64_t folds_across_ = 1;
  std::vector<std::uint64_t> results_;  // by column, so far
};

}  // namespace tilewright::rtl
