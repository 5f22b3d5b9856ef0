// The operators of a job as its tiles run them: what each computes and moves, and how long it takes
// in closed form.
#pragma once

#include <string>
#include <vector>

#include <tilewright/plan/plan.h>
#include <tilewright/plan/stage_plan.h>

namespace tilewright {

/// A kernel of one rank for a full micro-batch, or its optimiser step. Equal ones of several stages
/// are one.
struct OperatorCost {
  std::string name;  ///< of the kernel: "mlp_up.dgrad"
  Phase phase = Phase::forward;
  std::vector<int> stages;
  double calls = 0;     ///< in an iteration, by one rank of each of the stages
  double flop = 0;      ///< of a matrix kernel
  double elements = 0;  ///< elements × passes of its vector part, or of a vector kernel
  double dram_bytes = 0, sram_bytes = 0;
  double seconds = 0;  ///< kernel_seconds()
  /// What each part of the tile would need if it were alone; `seconds` is no less than any.
  double matrix_seconds = 0, vector_seconds = 0, sram_seconds = 0, dram_seconds = 0;
};

struct OperatorTable {
  std::vector<OperatorCost>
      operators;  ///< in the order in which the first of their stages runs them
  TileRates rates;
};

/// Plans the stages as lower() does. Collectives, which compute nothing, are left out. Throws
/// InputError.
OperatorTable list_operators(const Graph& graph, const PlanConfig& plan,
                             const MachineConfig& machine);

}  // namespace tilewright
