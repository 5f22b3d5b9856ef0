// Everything decided about a pipeline stage before its program is written: which blocks, what is
// resident where, and how much memory that takes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <tilewright/machine/machine.h>
#include <tilewright/plan/activation_memory.h>
#include <tilewright/plan/background.h>
#include <tilewright/plan/communication_buffers.h>
#include <tilewright/plan/cost.h>
#include <tilewright/plan/kernels.h>
#include <tilewright/plan/placement.h>
#include <tilewright/plan/plan.h>
#include <tilewright/plan/schedule.h>
#include <tilewright/plan/sharding.h>
#include <tilewright/plan/stages.h>

namespace tilewright {

class CollectiveMembers;

/// One consumer of a rank's memory.
struct MemoryItem {
  std::string name;  ///< "weights", "stashed activations (4 micro-batches)", ...
  TensorClass cls = TensorClass::weight;
  std::int64_t bytes = 0;
  Space space = Space::dram;
  bool transient = false;  ///< allocated call by call, not for the whole iteration
};

/// A virtual stage.
struct ChunkPlan {
  int virtual_stage = 0;
  StageRange range;  ///< of Graph::chain
  std::int64_t first_layer = 0, layers = 0;
};

struct StagePlan {
  int stage = 0;
  std::vector<ChunkPlan> chunks;
  std::int64_t layers = 0;  ///< of all chunks
  bool embedding = false, head = false;
  std::int64_t parameters = 0;        ///< of the whole stage
  std::int64_t local_parameters = 0;  ///< that one rank works with
  /// The same by the axes over which their gradients are summed.
  ParametersByAxes parameters_by_axes;
  int in_flight = 1;  ///< peak_in_flight(): micro-batches of a chunk that are held
  /// The most bytes of messages from other stages that can wait, in any replica.
  std::int64_t waiting = 0;
  Residency residency;
  std::int64_t sram_resident = 0;              ///< bytes per rank that residents take at their peak
  std::int64_t sram_working = 0;               ///< largest kernel footprint
  std::vector<MemoryItem> memory;              ///< per rank, largest first
  std::vector<std::size_t> positions() const;  ///< of Graph::chain, all chunks
  std::string layers_text() const;             ///< "0-3", "0-1,8-9"
  std::int64_t sram_bytes() const { return sram_resident + sram_working; }
  std::int64_t dram_bytes() const { return bytes_in(Space::dram); }
  std::int64_t host_bytes() const { return bytes_in(Space::host); }

 private:
  std::int64_t bytes_in(Space space) const;
};

/// One pass of a micro-batch through a block, as a stage runs it.
struct StageCall {
  const ChunkPlan* chunk = nullptr;  ///< of the stage
  std::size_t position = 0;          ///< of Graph::chain
  Slot slot;
  std::int64_t samples = 0;
  CallMemory memory;
};

/// The costs of a block's kernels, list by list.
struct BlockCosts {
  std::vector<KernelCost> forward, recompute, backward, weight;
  bool feasible() const;
  std::int64_t footprint() const;  ///< the largest of all
};

/// What a slot runs, recomputation apart.
const std::vector<Kernel>& kernels_of(const BlockKernels& kernels, SlotPhase phase);
const std::vector<KernelCost>& costs_of(const BlockCosts& costs, SlotPhase phase);

/// The optimiser step of a rank: one vector kernel over the parameters whose state it keeps.
Kernel optimizer_kernel(const PlanConfig& plan, std::int64_t parameters);

/// Chooses, stage by stage, what is resident in SRAM: among all sets of tensor classes that fit,
/// the one with the least closed-form iteration time, then the least DRAM traffic. A larger SRAM
/// only adds sets and loosens blockings, so it is never slower. Throws InputError naming stage,
/// tile, needs, the three largest consumers and what would fit when a memory is too small.
class StagePlanner {
 public:
  StagePlanner(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine,
               const Placement& placement);
  ~StagePlanner();

  /// Plans every stage and checks capacities.
  std::vector<StagePlan> plan_stages();
  /// From here on errors do not say what would fit.
  void without_advice() { advise_ = false; }

  /// What stands at a position of the chain when `stage` runs it: a block of the graph and what it
  /// drops. Equal ones have one number.
  std::uint32_t variant(int stage, std::size_t position);
  const Block& block(std::uint32_t variant) const {
    return graph_.blocks[variants_[variant].block];
  }
  /// Kernels of a variant for `samples` samples. Computed once per distinct pair.
  const BlockKernels& kernels(std::uint32_t variant, std::int64_t samples);
  /// Their costs beside `sram_resident` bytes of residents. Computed once per distinct argument.
  const BlockCosts& costs(std::uint32_t variant, std::int64_t samples, const Residency& residency,
                          std::int64_t sram_resident);
  /// Cost of the optimiser step of a stage.
  KernelCost optimizer_cost(const StagePlan& stage) const;
  /// What a tile group runs.
  const Schedule& schedule(int replica);
  /// What a tile group of a stage calls before its update, in order; blocks that have nothing to do
  /// in a slot (an embedding without weight slot) left out.
  std::vector<StageCall> calls(const StagePlan& stage, int replica);
  /// What moves beside these calls.
  BackgroundPlan background(const StagePlan& stage, const std::vector<StageCall>& calls);
  /// What of the plan runs beside the computation.
  BackgroundChoice beside() const;
  /// Whether what a position keeps moves to the host memory.
  bool moves_activations(int stage, std::size_t position) const {
    return plan_.offload.activations &&
           plan_.offload.activations->applies(stage, layer_at_[position]);
  }
  /// Those of a tile at full speed: what is chosen by time does not look at slow tiles.
  const TileRates& rates() const { return rates_; }
  /// Speed of the slowest tile of a stage's first replica, in (0, 1].
  double slowest(int stage) const;
  const Splits& splits() const { return splits_; }
  /// How the activation lies that passes between blocks.
  const Layouts& boundary() const { return boundary_; }
  const Sharding& sharding() const { return sharding_; }
  /// Ranks of the tensor axis that keep together what all of them hold: those that use the same
  /// DRAM controllers, equally many everywhere. 1: each keeps its own.
  int sharers() const { return sharers_; }
  /// The first of those that a rank of a tile group is among.
  int first_sharer(int stage, int replica, int rank) const;
  /// Parameters of a variant that one rank works with, by the axes over which their
  /// gradients are summed.
  ParametersByAxes block_parameters(std::uint32_t variant) const;
  /// Those of them that a pass fetches from other ranks or from the host memory.
  ParametersByAxes fetched_parameters(std::uint32_t variant) const;
  /// The embedding table, when the head shares it.
  const Operator* tied_table() const;
  /// Parameters of that table whose gradients a stage exchanges with the other one that holds it;
  /// 0 when there is no other.
  std::int64_t tied_parameters(const StagePlan& stage);
  /// The groups of ranks that run collectives, and their algorithms.
  CollectiveMembers& members() { return *members_; }
  /// The axis whose ranks, all of which hold what passes between stages, send a part of it each.
  std::optional<std::size_t> scattered_axis() const;

 private:
  StagePlan plan_stage(int stage, const std::vector<StageRange>& virtual_stages);
  /// What the call of one block takes and gives back in a slot for `samples` samples.
  CallMemory call_memory(const StagePlan& stage, const ChunkPlan& chunk, std::size_t position,
                         SlotPhase phase, std::int64_t samples);
  /// Bytes of a block's activations that a rank of the stage keeps from forward to backward.
  std::int64_t stash_bytes(const StagePlan& stage, std::size_t position, std::int64_t samples);
  /// Throws InputError when sets of ranks that use the same controllers differ in size, or are of
  /// one rank.
  int count_sharers() const;
  /// Parameters of a block; the head's table counts with the embedding where a stage holds both and
  /// the gradients of both uses add up.
  ParametersByAxes own_parameters(const StagePlan& stage, std::size_t position);
  /// The most that a stage keeps of activations, in any replica.
  KeptPeak kept(const StagePlan& stage);
  /// The same by whole slots, where nothing moves to the host memory.
  KeptPeak kept_near(const StagePlan& stage, int replica, const std::vector<std::int64_t>& waiting);
  /// waiting_messages() of a tile.
  WaitingMessages waiting(const StagePlan& stage, int replica);
  /// What summands on their way take, by what they are added to.
  struct SummandBytes {
    std::int64_t activations = 0, gradients = 0;
  };
  SummandBytes summands(const StagePlan& stage);
  std::int64_t summands(const Collective& collective);
  std::int64_t summands(const std::vector<Collective>& collectives);
  std::int64_t summands_beside(const StagePlan& stage);
  std::vector<StageRange> cut();
  /// Closed-form iteration time and DRAM bytes of one rank; nothing when a kernel does not fit.
  std::optional<std::pair<double, double>> evaluate(const StagePlan& stage);
  bool choose_residency(StagePlan& stage);
  void list_memory(StagePlan& stage);
  /// A memory behind controllers.
  struct Tier {
    const DramConfig& memory;
    IdVector<TileId, std::vector<DramId>> controllers_of;
  };
  void check_capacity(const Tier& tier, Space space, const std::vector<StagePlan>& stages);
  [[noreturn]] void refuse(const StagePlan& stage, Space space, const std::string& where,
                           std::int64_t need, std::int64_t capacity);
  std::string advice() const;
  KernelOptions kernel_options(std::int64_t samples, const Dropped& dropped) const;

  struct BlockVariant {
    std::uint32_t block = 0;
    Dropped dropped;
  };

  const Graph& model_;
  const PlanConfig& plan_;
  const MachineConfig& machine_;
  const Placement& placement_;
  const Splits splits_;
  const Graph graph_;  // what the ranks work on: the model, with copies of key/value heads
  const Sharding sharding_;
  const Layouts boundary_;
  const std::unique_ptr<CollectiveMembers> members_;
  std::map<std::tuple<CollectiveKind, AxisSet, std::int64_t>, std::int64_t> summands_;
  int sharers_ = 1;
  std::map<std::size_t, Schedule> schedules_;  // by the number of micro-batches
  const Tier dram_, host_;
  TileRates rates_;
  bool advise_ = true;
  std::vector<std::int64_t> layer_at_;  // by position of the chain, -1 outside the layers
  std::vector<BlockVariant> variants_;
  std::map<std::pair<std::uint32_t, std::int64_t>, BlockKernels> kernels_;
  std::map<std::tuple<std::uint32_t, std::int64_t, std::array<bool, kTensorClasses>, std::int64_t>,
           BlockCosts>
      costs_;
};

}  // namespace tilewright
