#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>

#include "segment_writer.h"
#include "state_writer.h"

namespace tilewright {
namespace {

enum class Pass { forward, backward };

/// Writes the program of a placed plan whose stages are planned.
class Lowering {
 public:
  Lowering(const Graph& graph, const PlanConfig& plan, const Placement& placement,
           StagePlanner& planner, LoweredPlan& out)
      : graph_(graph),
        plan_(plan),
        placement_(placement),
        planner_(planner),
        out_(out),
        peers_(planner.splits().axes()),
        state_(planner.splits(), planner.sharding(), plan.state_bytes()) {}

  void run() {
    for (const StagePlan& stage : out_.stages) {
      for (int replica = 0; replica < plan_.replicas(); ++replica) write_group(stage, replica);
    }
    out_.program.channels = peers_.channels();
    out_.program.seal();
    bounds();
  }

 private:
  bool training() const { return plan_.mode == Mode::training; }

  // --- groups ---

  void write_group(const StagePlan& stage, int replica) {
    TileGroup group;
    group.name = plan_.replicas() == 1 ? "stage " + std::to_string(stage.stage)
                                       : "stage " + std::to_string(stage.stage) + " replica " +
                                             std::to_string(replica);
    group.stage = static_cast<std::uint32_t>(stage.stage);
    group.tiles = placement_.tile_group(stage.stage, replica);
    group.first_rank = static_cast<std::uint32_t>(replica * plan_.group_ranks());
    for (const MemoryItem& item : stage.memory) {
      if (item.transient) continue;
      (item.in_sram ? group.sram_resident : group.dram_resident) +=
          static_cast<std::uint64_t>(item.bytes);
    }

    const std::vector<std::int64_t> samples = plan_.micro_batches(replica);
    const Schedule schedule = plan_.replica_schedule(replica);
    for (const Slot& slot : schedule.orders[static_cast<std::size_t>(stage.stage)]) {
      const std::size_t n = stage.range.size();
      const bool backward = slot.phase == SlotPhase::backward;
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t position = backward ? stage.range.last - 1 - i : stage.range.first + i;
        const Pass pass = backward ? Pass::backward : Pass::forward;
        const std::uint32_t segment =
            block_segment(stage, position, pass, samples[slot.micro_batch]);
        group.calls.push_back({segment, slot.micro_batch, static_cast<std::uint32_t>(position)});
      }
    }
    if (const auto segment = update_segment(stage)) {
      group.calls.push_back(
          {*segment, kNoMicroBatch, static_cast<std::uint32_t>(stage.range.first)});
    }
    peers_.fill(group, placement_, stage.stage, replica);
    write_peers(group, stage, replica);
    if (replica == 0 && stage.stage == 0) out_.schedule = schedule;
    out_.program.groups.push_back(std::move(group));
  }

  void write_peers(TileGroup& group, const StagePlan& stage, int replica) const {
    const auto fill = [&](Peers table, int to_stage) {
      group.peers[static_cast<std::size_t>(table)] = placement_.tile_group(to_stage, replica);
    };
    const int s = stage.stage;
    if (s + 1 < plan_.pipeline) fill(Peers::stage_next, s + 1);
    if (s > 0) fill(Peers::stage_previous, s - 1);
    if (tied_parameters(stage) > 0) fill(Peers::tied, s == 0 ? plan_.pipeline - 1 : 0);
  }

  // --- segments of a block ---

  std::uint32_t block_segment(const StagePlan& stage, std::size_t position, Pass pass,
                              std::int64_t samples) {
    const bool first = position == stage.range.first, last = position + 1 == stage.range.last;
    const bool upstream = stage.stage > 0, downstream = stage.stage + 1 < plan_.pipeline;
    // Forward enters at the first block and leaves at the last; backward the other way round.
    const bool enters = pass == Pass::forward ? first && upstream : last && downstream;
    const bool leaves = pass == Pass::forward ? last && downstream : first && upstream;
    std::vector<std::int64_t> received, sent;
    if (enters)
      received = boundary(pass == Pass::forward ? stage.stage - 1 : stage.stage + 1, pass, samples);
    if (leaves) sent = boundary(stage.stage, pass, samples);

    const std::uint32_t block = graph_.chain[position];
    const auto key = std::make_tuple(block, pass, samples, stage.residency.in_sram,
                                     stage.sram_resident, received, sent);
    const auto it = segments_.find(key);
    if (it != segments_.end()) return it->second;
    const std::uint32_t segment = write_block(stage, block, pass, samples, received, sent);
    return segments_[key] = segment;
  }

  /// Sizes of the messages in which `stage` hands one micro-batch over, as its last kernel makes
  /// it.
  std::vector<std::int64_t> boundary(int stage_index, Pass pass, std::int64_t samples) {
    const StagePlan& stage = out_.stages[static_cast<std::size_t>(stage_index)];
    const std::size_t position = pass == Pass::forward ? stage.range.last - 1 : stage.range.first;
    const std::uint32_t block = graph_.chain[position];
    const BlockKernels& k = planner_.kernels(block, samples);
    const BlockCosts& c = planner_.costs(block, samples, stage.residency, stage.sram_resident);
    const auto& kernels = pass == Pass::forward ? k.forward : k.backward;
    const auto& costs = pass == Pass::forward ? c.forward : c.backward;
    const std::string& tensor = pass == Pass::forward ? k.output : k.input_gradient;
    for (std::size_t i = kernels.size(); i-- > 0;) {
      for (const Access& w : kernels[i].writes) {
        if (w.tensor == tensor) return SegmentWriter::message_parts(w.bytes, costs[i].blocks);
      }
    }
    throw InternalError("block '" + graph_.blocks[block].name + "' never makes '" + tensor + "'");
  }

  std::uint32_t write_block(const StagePlan& stage, std::uint32_t block, Pass pass,
                            std::int64_t samples, const std::vector<std::int64_t>& received,
                            const std::vector<std::int64_t>& sent) {
    const BlockKernels& k = planner_.kernels(block, samples);
    const BlockCosts& c = planner_.costs(block, samples, stage.residency, stage.sram_resident);
    const bool forward = pass == Pass::forward;
    std::string name = graph_.blocks[block].name + (forward ? ".forward" : ".backward");
    if (samples != plan_.group_micro_batch()) name += ".short";
    SegmentWriter w = writer(name, stage);

    const Space saved_space = stage.residency[TensorClass::saved] ? Space::sram : Space::dram;
    const Space weight_space = stage.residency[TensorClass::weight] ? Space::sram : Space::dram;
    const Space gradient_space = stage.residency[TensorClass::gradient] ? Space::sram : Space::dram;
    const ParametersByAxes parameters = planner_.block_parameters(block);
    const StateBytes state = plan_.state_bytes();
    const bool gathers = planner_.sharding().active() && planner_.sharding().zero() >= 3;
    const bool scatters =
        !forward && planner_.sharding().active() && planner_.sharding().zero() >= 2;
    const std::int64_t gathered = gathers ? total(parameters) * state.weight : 0;
    const std::int64_t reduced = scatters ? total(parameters) * state.gradient : 0;
    w.allocate(Space::sram, c.footprint());
    w.allocate(weight_space, gathered);
    w.allocate(gradient_space, reduced);
    if (gathers) {
      state_.gather(w, parameters, forward ? Phase::forward : Phase::backward, false);
      w.gate(StateWriter::gathered());
    }
    w.allocate(saved_space, forward ? (training() ? k.stash_bytes() : 0) : k.rebuilt_bytes());

    if (forward) {
      if (!received.empty()) {
        const TensorClass cls = training() ? TensorClass::saved : TensorClass::temporary;
        w.receive(k.input, cls, received, Phase::forward, Channel::forward, Peers::stage_previous);
      }
      write_kernels(w, k.forward, c.forward, k.output, sent, Channel::forward, Peers::stage_next);
    } else {
      if (!received.empty()) {
        w.receive(k.output_gradient, TensorClass::temporary, received, Phase::backward,
                  Channel::backward, Peers::stage_next);
        // Recomputation starts when the gradient has come, as in the schedule's bubble formulas.
        w.gate(k.output_gradient);
      }
      write_kernels(w, k.recompute, c.recompute, "", {}, Channel::forward, Peers::stage_next);
      write_kernels(w, k.backward, c.backward, k.input_gradient, sent, Channel::backward,
                    Peers::stage_previous);
      if (scatters) {
        std::vector<std::string> gradients;
        for (const Kernel& kernel : k.backward) {
          for (const Access& a : kernel.writes) {
            if (a.cls == TensorClass::gradient) gradients.push_back(a.tensor);
          }
        }
        w.join(StateWriter::gradients(), gradients);
        state_.scatter(w, parameters, true, false);
      }
      w.release(saved_space, k.stash_bytes() + k.rebuilt_bytes());
    }
    w.release(gradient_space, reduced);
    w.release(weight_space, gathered);
    w.release(Space::sram, c.footprint());
    return w.finish();
  }

  SegmentWriter writer(const std::string& name, const StagePlan& stage) {
    return {out_.program, name, stage.residency, plan_.precision, planner_.splits().axes(), peers_};
  }

  void write_kernels(SegmentWriter& w, const std::vector<Kernel>& kernels,
                     const std::vector<KernelCost>& costs, const std::string& leaving,
                     const std::vector<std::int64_t>& sent, Channel channel, Peers to) const {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const Kernel& k = kernels[i];
      const bool sends =
          !sent.empty() && std::any_of(k.writes.begin(), k.writes.end(),
                                       [&](const Access& a) { return a.tensor == leaving; });
      if (k.collective) {
        CollectiveRun run;
        run.name = k.name;
        run.phase = k.phase;
        run.cause = cause_of(*k.collective);
        w.collective(run, *k.collective, k.reads.front(), k.writes.front());
        if (sends) w.send(leaving, sent, k.phase, channel, to);
      } else {
        w.kernel(k, costs[i], leaving, sends ? sent : std::vector<std::int64_t>{}, channel, to);
      }
    }
  }

  /// Exchanges are what experts are reached by on their axis; elsewhere they come from operators
  /// that disagree.
  Cause cause_of(const Collective& c) const {
    return planner_.splits().axes()[static_cast<std::size_t>(__builtin_ctz(c.axes))].cause;
  }

  // --- the end of the iteration ---

  /// Parameters of the embedding table that two stages hold when it is tied and cut apart.
  std::int64_t tied_parameters(const StagePlan& stage) const {
    const Block& head = graph_.blocks[graph_.chain.back()];
    const Block& embedding = graph_.blocks[graph_.chain.front()];
    if (!training() || plan_.pipeline == 1 ||
        embedding.operators.front().kind != OpKind::embedding ||
        head.operators.back().kind != OpKind::loss || !(stage.embedding || stage.head)) {
      return 0;
    }
    const Operator& table = embedding.operators.front();
    if (head.find(OpRole::head).weights.front().tensor != table.weights.front().tensor) return 0;
    const std::int64_t held =
        operand_elements(table.weights.front(), planner_.splits().local(table, 1));
    const Sharding& sharding = planner_.sharding();
    const std::int64_t ways =
        sharding.zero() > 0 ? sharding.ways(planner_.splits().summed_gradients(table)) : 1;
    return (held + ways - 1) / ways;
  }

  std::optional<std::uint32_t> update_segment(const StagePlan& stage) {
    const bool steps = plan_.optimizer != OptimizerKind::none;
    const std::int64_t tied = tied_parameters(stage) * plan_.state_bytes().gradient;
    const ParametersByAxes& parameters = stage.parameters_by_axes;
    const bool sums = std::any_of(parameters.begin(), parameters.end(),
                                  [](const auto& entry) { return entry.first != 0; });
    if (!training() || (!steps && !sums && tied == 0)) return {};
    const auto key =
        std::make_tuple(parameters, tied, stage.residency.in_sram, stage.sram_resident);
    const auto it = updates_.find(key);
    if (it != updates_.end()) return it->second;

    SegmentWriter w = writer("update", stage);
    const KernelCost cost = planner_.optimizer_cost(stage);
    if (steps) w.allocate(Space::sram, cost.footprint);
    const Sharding& sharding = planner_.sharding();
    if (!sharding.active()) {
      state_.all_reduce(w, parameters, false);
    } else {
      if (sharding.zero() == 1) state_.scatter(w, parameters, false, false);
      state_.all_reduce_parts(w, parameters);
    }
    if (tied > 0) {
      w.exchange("tied embedding exchange", StateWriter::gradients(), TensorClass::gradient, tied,
                 Channel::tied, Peers::tied);
    }
    if (steps) {
      w.kernel(optimizer_kernel(plan_, sharding.optimizer(parameters)), cost);
      w.release(Space::sram, cost.footprint);
    }
    if (sharding.active() && sharding.zero() < 3) {
      w.join(StateWriter::gathered(), {"weight"});
      state_.gather(w, parameters, Phase::optimizer, false);
    }
    return updates_[key] = w.finish();
  }

  // --- bounds ---

  double matrix_seconds(const std::vector<Kernel>& kernels) const {
    double seconds = 0;
    for (const Kernel& k : kernels) seconds += tilewright::matrix_seconds(k, planner_.rates());
    return seconds;
  }

  void bounds() {
    const std::vector<std::int64_t> samples = plan_.micro_batches(0);
    // Seconds of a whole slot by (stage, samples, direction).
    std::map<std::tuple<int, std::int64_t, SlotPhase>, double> slots;
    const auto slot_seconds = [&](int s, const Slot& slot) {
      const std::int64_t n = samples[slot.micro_batch];
      const auto key = std::make_tuple(s, n, slot.phase);
      const auto it = slots.find(key);
      if (it != slots.end()) return it->second;
      const StagePlan& stage = out_.stages[static_cast<std::size_t>(s)];
      double t = 0;
      for (std::size_t i = stage.range.first; i < stage.range.last; ++i) {
        const BlockKernels& k = planner_.kernels(graph_.chain[i], n);
        t += slot.phase == SlotPhase::backward
                 ? matrix_seconds(k.recompute) + matrix_seconds(k.backward)
                 : matrix_seconds(k.forward);
      }
      return slots[key] = t;
    };
    out_.pipeline_bound = schedule_length(out_.schedule, slot_seconds);
    for (int s = 0; s < plan_.pipeline; ++s) {
      double t = 0;
      for (const Slot& slot : out_.schedule.orders[static_cast<std::size_t>(s)]) {
        t += slot_seconds(s, slot);
      }
      out_.compute_bound = std::max(out_.compute_bound, t);
    }
    const double per_sample = (training() ? graph_.training_flop() : graph_.forward_flop()).value();
    out_.model_flop = per_sample * static_cast<double>(plan_.global_batch);
  }

  const Graph& graph_;
  const PlanConfig& plan_;
  const Placement& placement_;
  StagePlanner& planner_;
  LoweredPlan& out_;
  PeerTables peers_;
  const StateWriter state_;
  std::map<std::tuple<std::uint32_t, Pass, std::int64_t, std::array<bool, kTensorClasses>,
                      std::int64_t, std::vector<std::int64_t>, std::vector<std::int64_t>>,
           std::uint32_t>
      segments_;
  std::map<
      std::tuple<ParametersByAxes, std::int64_t, std::array<bool, kTensorClasses>, std::int64_t>,
      std::uint32_t>
      updates_;
};

}  // namespace

LoweredPlan lower(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine) {
  check_plan(plan, graph, machine);
  LoweredPlan out;
  out.placement = place(plan, machine);
  StagePlanner planner(graph, plan, machine, out.placement);
  out.stages = planner.plan_stages();
  Lowering(graph, plan, out.placement, planner, out).run();
  return out;
}

}  // namespace tilewright
