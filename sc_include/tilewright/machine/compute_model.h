// How long an engine needs for an operator, apart from its operands' way through the SRAM: pure
// arithmetic on the machine description and the operator's extents.
//
// Known by the plan (closed-form estimate, lower bounds) and by the hardware (what it simulates),
// so that both speak of the same engine.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/machine/machine.h>

namespace tilewright {

/// `batch` independent products C[m,n] = A[m,k] · B[k,n]. `flop` counts what is really multiplied
/// and may be less than 2·batch·m·n·k (causal attention skips part of the scores); an engine then
/// needs that part of its time.
struct GemmShape {
  std::int64_t batch = 1, m = 0, n = 0, k = 0;
  double flop = 0;
};

/// Bytes between an engine and the SRAM.
struct OperandTraffic {
  double read = 0, written = 0;
};

/// Cycles of one R × C systolic array of multiply-accumulators (clock and number format apart).
///
/// With spatial extents Sr, Sc and temporal extent T (os: M, N, K; ws: K, N, M; is: K, M, N) the
/// array computes ⌈Sr/R⌉·⌈Sc/C⌉ folds, each T + R + C − 2 cycles long in the output-stationary
/// dataflow (the operands enter skewed along both edges) and T + 2R + C − 2 in the other two (R
/// more to load the stationary operand); see A. Samajdar et al., "A systematic methodology for
/// characterizing scalability of DNN accelerators using SCALE-Sim", ISPASS 2020. The folds of a
/// batch and of K are dealt out over the tile's arrays: the longest share counts.
///
/// Pipelined folds: a fold's operands enter while the one before drains and its stationary operand
/// (or result) moves through shadow registers, a row per cycle, so each fold but the last takes
/// max(T, R) cycles. Never more than unpipelined, never less than MACs / (R·C).
class SystolicArray {
 public:
  explicit SystolicArray(const SystolicConfig& config) : config_(config) {}

  std::int64_t cycles_per_fold(const GemmShape& gemm) const;
  /// Of the whole batch.
  std::int64_t folds(const GemmShape& gemm) const;
  /// Of the whole batch on all arrays; `flop` is not looked at. A double: products of three extents
  /// may exceed 64 bits.
  double cycles(const GemmShape& gemm) const;
  /// Bytes that cross the edges of the arrays in all folds, `element` bytes an operand element and
  /// `sum` a partial sum. os: A once per column of folds, B once per row of them, C out once. ws:
  /// the weights once, A once per column of folds, partial sums out of every row of folds and in
  /// again but for the first. is: likewise with A in place of the weights.
  OperandTraffic traffic(const GemmShape& gemm, int element, std::int64_t sum = 4) const;

 private:
  struct Extents {
    std::int64_t rows, columns, steps;
  };
  Extents extents(const GemmShape& gemm) const;

  SystolicConfig config_;
};

/// Measured efficiency (part of the peak rate) over (m, n, k). Between the points of the grid the
/// logarithm of the efficiency is interpolated linearly over the logarithms of the extents, so that
/// time follows a power law; outside, the nearest edge counts.
class EfficiencyTable {
 public:
  /// Points of one number format. They must form a complete grid (read_machine() checks that).
  explicit EfficiencyTable(const std::vector<EfficiencyPoint>& points);

  double efficiency(const GemmShape& gemm) const;
  bool covers(const GemmShape& gemm) const;
  /// A grid point that `points` lacks, as "m 1, n 64, k 64"; empty when the grid is complete. A
  /// point given twice is named likewise.
  static std::string fault(const std::vector<EfficiencyPoint>& points);

 private:
  std::array<std::vector<double>, 3> axes_;  // logarithms, ascending
  std::vector<double> values_;               // logarithms, m slowest
};

/// Timing of the matrix and vector engines of a tile.
class ComputeModel {
 public:
  virtual ~ComputeModel() = default;
  /// Seconds of the matrix engine; `format` is the number format's name. Throws InputError when the
  /// engine does not support it.
  virtual double matrix_seconds(const GemmShape& gemm, const std::string& format) const = 0;
  /// What the engine moves through the SRAM for a GEMM of elements of so many bytes, where the
  /// model knows (systolic): nothing otherwise.
  virtual std::optional<OperandTraffic> traffic(const GemmShape&, int /*element*/) const {
    return {};
  }
  /// Seconds of the vector engine for `elements` × passes; fp32 runs at half the rate of 16 bits.
  double vector_seconds(double elements, const std::string& format) const;
  /// What a report has to say about this operator's time, "" when nothing (such as that it lies
  /// outside what was measured).
  virtual std::string caveat(const GemmShape&, const std::string& /*format*/) const { return {}; }

 protected:
  explicit ComputeModel(const MachineConfig& machine) : machine_(machine) {}
  /// Dense FLOP at the peak rate.
  double peak_seconds(const GemmShape& gemm, const std::string& format) const;

  MachineConfig machine_;
};

/// By MatrixConfig::model:
///  - "peak": FLOP / peak rate of the format;
///  - "systolic": SystolicArray's cycles / (clock × the format's speed × sparsity);
///  - "table": FLOP / (peak rate × EfficiencyTable's efficiency).
/// Throws InputError naming the known models.
std::unique_ptr<ComputeModel> make_compute_model(const MachineConfig& machine);

}  // namespace tilewright
