// How long an engine needs for an operator, apart from its operands' way through the SRAM.
#pragma once

#include <memory>
#include <string>

#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// Timing of the matrix and vector engines.
class ComputeModel {
 public:
  virtual ~ComputeModel() = default;
  /// Picoseconds for the whole of `shape`, not rounded; `format` is its number format's name.
  /// Throws InputError when the engine does not support it.
  virtual double engine_time(const ComputeShape& shape, const std::string& format) const = 0;
};

/// By MatrixConfig::model: "peak" (FLOP / peak rate of the format). Vector operators take
/// elements / throughput in every model, fp32 ones twice that. Throws InputError naming the known
/// models.
std::unique_ptr<ComputeModel> make_compute_model(const MachineConfig& machine);

}  // namespace tilewright
