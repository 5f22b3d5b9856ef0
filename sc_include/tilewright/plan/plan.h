// A parallelism plan as its user writes it: degrees, batch, schedule, recomputation, placement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>
#include <tilewright/workload/dtype.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

enum class ScheduleKind { gpipe, one_f_one_b };
enum class Recomputation { none, full };
enum class OptimizerKind { none, sgd, adam };
enum class Mode { training, inference };
enum class PlacementKind {
  serpentine,  ///< ranks follow a snake through all tiles of the machine
  block,       ///< every tensor group is a rectangle, rectangles follow a snake
};

/// Bytes held per parameter, model.md §8. fp16/bf16: 2 weight + 2 gradient, and an fp32 master
/// copy with the optimiser; fp32: 4 + 4 and no master copy.
struct StateBytes {
  int weight = 2;
  int gradient = 2;   ///< 0 in inference
  int optimizer = 0;  ///< master copy and moments: Adam 12 (8 with fp32), SGD 4 (0 with fp32)
  int total() const { return weight + gradient + optimizer; }
};

struct PlanConfig {
  std::string name;
  int pipeline = 1, tensor = 1, data = 1;
  /// Norms, dropouts and residuals are cut by token over the tensor group (arXiv 2205.05198).
  bool sequence_parallel = false;
  std::int64_t global_batch = 1;  ///< samples per iteration, all replicas together
  std::int64_t micro_batch = 1;   ///< samples per micro-batch of one replica; the last may be short
  std::int64_t sequence = 0;      ///< tokens per sample; 0: the model's
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  Recomputation recomputation = Recomputation::none;
  OptimizerKind optimizer = OptimizerKind::adam;
  Mode mode = Mode::training;
  DType precision = DType::fp16;  ///< fp16 and bf16 are mixed precision
  PlacementKind placement = PlacementKind::block;
  int block_width = 0, block_height = 0;  ///< of a tensor group's rectangle; 0: chosen
  /// Layers per stage, first to last; empty: cost-balanced.
  std::vector<std::int64_t> stage_layers;
  /// Where the user wrote them, for errors found when model and machine are known:
  /// "plans/a.yaml:4: parallelism.tensor".
  std::string where_tensor, where_pipeline, where_data, where_batch, where_stages, where_placement,
      where_precision, where_sequence;

  int ranks() const { return pipeline * tensor * data; }
  StateBytes state_bytes() const;
  /// Samples of replica r: global_batch cut as evenly as possible, larger parts first.
  std::int64_t replica_batch(int replica) const;
  /// Sizes of the micro-batches of a replica, in order; all micro_batch but possibly the last.
  std::vector<std::int64_t> micro_batches(int replica) const;
};

/// Reads and checks a plan by itself (docs/plan.md). Throws InputError.
PlanConfig read_plan(const Document& document);

/// Checks a plan against model and machine: heads, kv heads, ffn and vocabulary divisible by the
/// tensor degree (the vocabulary may be padded: a note in the result, not refused), pipeline ≤
/// layers, ranks ≤ usable tiles, number format supported, stage_layers summing to the layers,
/// global batch ≥ data degree. Throws InputError with the place the user wrote the offending value,
/// the value, and what would be allowed (for a degree: the divisors that work).
void check_plan(const PlanConfig& plan, const Graph& graph, const MachineConfig& machine);

}  // namespace tilewright
