// A parallelism plan as its user writes it: degrees, batch, schedule, recomputation, placement.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/collective.h>
#include <tilewright/plan/offload.h>
#include <tilewright/plan/recomputation.h>
#include <tilewright/plan/schedule.h>
#include <tilewright/workload/dtype.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

enum class OptimizerKind { none, sgd, adam };
enum class Mode { training, inference };
enum class PlacementKind {
  serpentine,  ///< ranks follow a snake through all tiles of the machine
  block,       ///< the ranks of the innermost axis are a rectangle, rectangles follow a snake
  file,        ///< as listed
};
/// What ranks are numbered by, and laid over the mesh by, axis inside axis.
enum class PlacedAxis { tensor, context, expert, data, pipeline };
/// The numbering, innermost first.
constexpr std::array<PlacedAxis, 5> kRankOrder{PlacedAxis::tensor, PlacedAxis::context,
                                               PlacedAxis::expert, PlacedAxis::data,
                                               PlacedAxis::pipeline};
const char* to_string(PlacedAxis axis);

/// Bytes held per parameter, model.md §8. fp16/bf16: 2 weight + 2 gradient (4 when gradients are
/// summed in fp32), and an fp32 master copy with the optimiser; fp32: 4 + 4 and no master copy.
struct StateBytes {
  int weight = 2;
  int gradient = 2;   ///< 0 in inference
  int optimizer = 0;  ///< master copy and moments: Adam 12 (8 with fp32), SGD 4 (0 with fp32)
  int total() const { return weight + gradient + optimizer; }
};

/// How operators are split over the tensor axes.
enum class PartitionPreset {
  megatron,   ///< columns, then rows (arXiv 1909.08053); a second axis the other way round
  accpar,     ///< by sample, input or output features, as a cost recursion chooses (1910.02342)
  streaming,  ///< every operator by token: each rank has all weights pass by
};

/// What becomes of an extent that a cut does not divide.
enum class Uneven {
  refuse,
  pad,  ///< every rank works on the largest part; the report says so
};

/// A user's own cut of an operator: over `axis` by `dim`, or not at all.
struct OperatorCut {
  OpRole role = OpRole::qkv;
  std::string axis;
  std::optional<Dim> dim;
  std::string where;
};

/// What runs beside the computation instead of after it.
struct Overlap {
  /// Gradients are summed over the replicas in buckets of whole blocks of at least so many bytes,
  /// each as soon as the last backward pass is through it; 0: all at the end.
  std::int64_t bucket = 0;
  /// How many blocks ahead weights are gathered (ZeRO 3) and what lives in the host memory is
  /// fetched; 0: when the block is next.
  int prefetch = 1;
  /// Chunks in which a GEMM and the tensor-parallel sum of its result, or gather of its input, run
  /// side by side; 1: one starts when the other is done.
  int tensor_chunks = 1;
  /// Keys and values go round the context ranks block by block, each beside the attention of the
  /// block before (ring attention, arXiv 2310.01889).
  bool ring_attention = false;
};

struct PlanConfig {
  std::string name;
  int pipeline = 1, tensor = 1, data = 1;
  /// Ranks that share the tokens of a sample; they hold the same weights.
  int context = 1;
  /// Of the data-parallel ranks, so many hold different experts; divides `data`.
  int expert = 1;
  /// Degrees of the axes of the tensor group, one to three; their product is `tensor`. Empty: one.
  std::vector<int> tensor_shape;
  /// Norms, dropouts and residuals are cut by token over the tensor group (arXiv 2205.05198).
  bool sequence_parallel = false;
  PartitionPreset partition = PartitionPreset::megatron;
  std::vector<OperatorCut> cuts;  ///< on top of the preset
  Uneven uneven = Uneven::refuse;
  /// ZeRO (arXiv 1910.02054): what each of the ranks that hold the same weights keeps only a part
  /// of. 1: the optimiser state, 2: and the gradients, 3: and the weights.
  int zero = 0;
  Overlap overlap;
  CollectiveChoices collectives;
  /// Every tensor rank sends its part of a stage's output, and the next stage gathers them
  /// (arXiv 2104.04473 §4.1). Without effect when the output is cut already.
  bool scatter_gather = false;
  std::int64_t global_batch = 1;  ///< samples per iteration, all replicas together
  std::int64_t micro_batch = 1;   ///< samples per micro-batch of one replica; the last may be short
  std::int64_t sequence = 0;      ///< tokens per sample; 0: the model's
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  int interleaved_chunks = 2;                    ///< per stage, of ScheduleKind::interleaved
  std::shared_ptr<const Schedule> own_schedule;  ///< of ScheduleKind::file
  Recomputation recomputation;
  Offload offload;
  /// Scores, softmax and context are one kernel, which never writes the scores (arXiv 2205.14135).
  bool fuse_attention = false;
  /// Norms are worked out as GEMMs load their first operand.
  bool fuse_norm = false;
  /// Pointwise operators join the kernel that makes what they read; else each is one of its own.
  bool fuse_pointwise = true;
  /// Tensor ranks that use the same DRAM controllers keep what each of them holds whole once, a
  /// part each, and load it together.
  bool multicast = false;
  OptimizerKind optimizer = OptimizerKind::adam;
  Mode mode = Mode::training;
  DType precision = DType::fp16;  ///< fp16 and bf16 are mixed precision
  bool fp32_gradients = false;    ///< weight gradients are summed and exchanged in fp32
  PlacementKind placement = PlacementKind::block;
  int block_width = 0, block_height = 0;          ///< of a rectangle; 0: chosen
  std::vector<PlacedAxis> placement_order;        ///< innermost first; empty: kRankOrder
  std::vector<std::pair<int, int>> listed_tiles;  ///< mesh coordinates by rank, for `file`
  /// Layers per stage, first to last; empty: cost-balanced.
  std::vector<std::int64_t> stage_layers;
  std::vector<Document> files;  ///< that the plan names: a schedule, a list of tiles
  /// Where the user wrote them, for errors found when model and machine are known:
  /// "plans/a.yaml:4: parallelism.tensor".
  std::string where_tensor, where_pipeline, where_data, where_batch, where_stages, where_placement,
      where_precision, where_sequence, where_context, where_expert, where_zero, where_partition,
      where_recomputation, where_fusion, where_schedule, where_offload, where_multicast;

  int ranks() const { return pipeline * tensor * context * data; }
  /// Ranks that work on the same micro-batches: one tile group.
  int group_ranks() const { return tensor * context * expert; }
  /// Tile groups of a stage.
  int replicas() const { return data / expert; }
  /// Ranks along an axis; along `data` the tile groups.
  int degree(PlacedAxis axis) const;
  std::vector<PlacedAxis> axis_order() const;
  /// "pipeline 20 × tensor 16 × data 1": what the ranks come from.
  std::string degrees_text() const;
  StateBytes state_bytes() const;
  /// Samples of tile group r, which are those of `expert` data-parallel ranks: global_batch cut as
  /// evenly as possible, larger parts first.
  std::int64_t replica_batch(int replica) const;
  /// Samples of a whole micro-batch of a tile group: micro_batch of each data-parallel rank.
  std::int64_t group_micro_batch() const { return micro_batch * expert; }
  /// Sizes of the micro-batches of a tile group, in order; all group_micro_batch() but possibly the
  /// last.
  std::vector<std::int64_t> micro_batches(int replica) const;
  std::size_t micro_batch_count(int replica) const;
  /// Virtual stages that a stage holds.
  int chunks() const;
  int virtual_stages() const { return pipeline * chunks(); }
  /// Weight gradients have slots of their own.
  bool splits_backward() const;
  /// What the stages of a tile group run. Inference streams, whatever the kind is.
  Schedule replica_schedule(int replica) const;
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
