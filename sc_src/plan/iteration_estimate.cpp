#include "iteration_estimate.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "collective_members.h"
#include "state_writer.h"

namespace tilewright {
namespace {

class Estimate {
 public:
  Estimate(StagePlanner& planner, const PlanConfig& plan, const Placement& placement)
      : planner_(planner),
        plan_(plan),
        placement_(placement),
        state_(planner.splits(), planner.sharding(), plan.state_bytes()),
        beside_(planner.beside()) {}

  double iteration(const std::vector<StagePlan>& stages) {
    const std::vector<std::int64_t> samples = plan_.micro_batches(0);
    std::map<std::tuple<int, int, std::int64_t, SlotPhase>, double> known;
    const double length = schedule_length(planner_.schedule(0), [&](int stage, const Slot& slot) {
      const std::int64_t n = samples[slot.micro_batch];
      const auto [it, added] =
          known.try_emplace(std::make_tuple(stage, int{slot.chunk}, n, slot.phase), 0.0);
      if (added) it->second = slot_seconds(stages[static_cast<std::size_t>(stage)], slot, n);
      return it->second;
    });
    double update = 0;
    for (const StagePlan& stage : stages) update = std::max(update, update_seconds(stage));
    return length + update;
  }

 private:
  double seconds(const Collective& c) {
    std::int64_t ranks = 1;
    for (std::size_t a = 0; a < planner_.splits().axes().size(); ++a) {
      if ((c.axes >> a & 1u) != 0) ranks *= planner_.splits().axes()[a].degree;
    }
    if (ranks < 2 || c.bytes == 0) return 0;
    CollectiveKind kind = c.kind;
    std::int64_t bytes = c.bytes;
    if (kind == CollectiveKind::halo || kind == CollectiveKind::halo_sum) {
      kind = CollectiveKind::ring_step;  // part after part to a neighbour
      bytes = c.halo * ranks;
    } else if (kind == CollectiveKind::all_to_all) {
      bytes = (bytes + ranks - 1) / ranks;  // of what one rank has
    }
    const auto [it, added] = known_.try_emplace({kind, c.axes, bytes}, 0.0);
    if (added) it->second = planner_.members().seconds(kind, c.axes, bytes);
    return it->second;
  }
  double seconds(const std::vector<Collective>& collectives) {
    double sum = 0;
    for (const Collective& c : collectives) sum += seconds(c);
    return sum;
  }
  double host_seconds(std::int64_t bytes) const {
    const StreamRates& host = planner_.rates().host;
    return static_cast<double>(bytes) / std::min(host.dram, host.way);
  }

  /// What a slot takes, and what moves beside it.
  struct Seconds {
    double calls = 0, beside = 0;
  };

  void add_block(Seconds& s, const StagePlan& stage, std::size_t position, SlotPhase phase,
                 std::int64_t samples) {
    const std::uint32_t v = planner_.variant(stage.stage, position);
    const BlockKernels& k = planner_.kernels(v, samples);
    const BlockCosts& c = planner_.costs(v, samples, stage.residency, stage.sram_resident);
    const auto run = [&](const std::vector<Kernel>& kernels, const std::vector<KernelCost>& costs) {
      for (std::size_t i = 0; i < kernels.size(); ++i) {
        s.calls +=
            kernel_seconds(kernels[i], costs[i], planner_.rates()) / planner_.slowest(stage.stage);
        if (kernels[i].collective) s.calls += seconds(*kernels[i].collective);
      }
    };
    if (phase == SlotPhase::backward) run(k.recompute, c.recompute);
    run(kernels_of(k, phase), costs_of(c, phase));

    const Sharding& sharding = planner_.sharding();
    const ParametersByAxes fetched = planner_.fetched_parameters(v);
    if (phase != SlotPhase::weight && !fetched.empty()) {
      double& fetches = beside_.gathers ? s.beside : s.calls;
      if (sharding.zero() >= 3) fetches += seconds(state_.gathers(sharding.cut(fetched)));
      if (plan_.offload.weights) {
        fetches += host_seconds(sharding.weights(fetched) * plan_.state_bytes().weight);
      }
    }
    if (plan_.mode != Mode::training) return;
    if (sharding.zero() >= 2 && phase == planner_.schedule(0).last_phase()) {
      (beside_.sums ? s.beside : s.calls) +=
          seconds(state_.scatters(sharding.cut(planner_.block_parameters(v))));
    }
    if (phase != SlotPhase::weight && planner_.moves_activations(stage.stage, position)) {
      s.beside += host_seconds(k.stash_bytes());
    }
  }

  double slot_seconds(const StagePlan& stage, const Slot& slot, std::int64_t samples) {
    const StageRange& range = stage.chunks[slot.chunk].range;
    Seconds s;
    for (std::size_t i = range.first; i < range.last; ++i) {
      add_block(s, stage, i, slot.phase, samples);
    }
    return std::max({s.calls, s.beside, message_seconds(stage, slot, samples)});
  }

  /// What the slot sends to another stage.
  double message_seconds(const StagePlan& stage, const Slot& slot, std::int64_t samples) {
    const Schedule& s = planner_.schedule(0);
    const bool forward = slot.phase == SlotPhase::forward;
    const ChunkPlan& chunk = stage.chunks[slot.chunk];
    const int to = chunk.virtual_stage + (forward ? 1 : -1);
    if (slot.phase == SlotPhase::weight || to < 0 || to >= s.virtual_stages() ||
        s.stage_of(to) == stage.stage) {
      return 0;
    }
    const BlockKernels& k = planner_.kernels(
        planner_.variant(stage.stage, forward ? chunk.range.last - 1 : chunk.range.first), samples);
    const auto axis = planner_.scattered_axis();
    const std::int64_t ways = axis ? planner_.splits().axes()[*axis].degree : 1;
    return planner_.members().seconds(placement_.tile(stage.stage, 0, 0),
                                      placement_.tile(s.stage_of(to), 0, 0),
                                      (forward ? k.output_bytes : k.input_bytes) / ways);
  }

  /// Sums of gradients that nothing hides, the optimiser step and the gathers after it.
  double update_seconds(const StagePlan& stage) {
    if (plan_.mode != Mode::training) return 0;
    const Sharding& sharding = planner_.sharding();
    const ParametersByAxes& parameters = stage.parameters_by_axes;
    double s = 0;
    if (beside_.sums) {
      for (const StateMove& move : planner_.background(stage, planner_.calls(stage, 0)).moves) {
        // Of the buckets the last one.
        if (move.kind == StateMove::Kind::all_reduce)
          s = seconds(state_.all_reduces(move.parameters));
        if (move.kind == StateMove::Kind::scatter) s = seconds(state_.scatters(move.parameters));
      }
    } else if (!sharding.active()) {
      s = seconds(state_.all_reduces(parameters));
    } else if (sharding.zero() == 1) {
      s = seconds(state_.scatters(parameters));
    }
    if (sharding.active()) s += seconds(state_.part_sums(parameters));
    if (plan_.optimizer != OptimizerKind::none) {
      s += kernel_seconds(optimizer_kernel(plan_, sharding.optimizer(parameters)),
                          planner_.optimizer_cost(stage), planner_.rates()) /
           planner_.slowest(stage.stage);
    }
    if (sharding.active() && sharding.zero() < 3) s += seconds(state_.gathers(parameters));
    return s;
  }

  StagePlanner& planner_;
  const PlanConfig& plan_;
  const Placement& placement_;
  const StateWriter state_;
  const BackgroundChoice beside_;
  std::map<std::tuple<CollectiveKind, AxisSet, std::int64_t>, double> known_;  // of collectives
};

}  // namespace

double iteration_seconds(StagePlanner& planner, const PlanConfig& plan, const Placement& placement,
                         const std::vector<StagePlan>& stages) {
  return Estimate(planner, plan, placement).iteration(stages);
}

}  // namespace tilewright
