#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <tilewright/base/error.h>
#include <tilewright/plan/background.h>
#include <tilewright/plan/lower.h>

#include "segment_writer.h"
#include "state_writer.h"

namespace tilewright {
namespace {

/// Writes the program of a placed plan whose stages are planned.
class Lowering {
 public:
  Lowering(const Graph& graph, const PlanConfig& plan, const Placement& placement,
           StagePlanner& planner, LoweredPlan& out)
      : graph_(graph),
        plan_(plan),
        placement_(placement),
        planner_(planner),
        schedule_(planner.schedule(0)),
        out_(out),
        peers_(planner.members(),
               [&planner](int stage, int replica, int rank) {
                 return planner.first_sharer(stage, replica, rank);
               }),
        state_(planner.splits(), planner.sharding(), plan.state_bytes()),
        beside_(planner.beside()) {}

  void run() {
    for (const StagePlan& stage : out_.stages) {
      for (int replica = 0; replica < plan_.replicas(); ++replica) write_group(stage, replica);
    }
    out_.program.channels = peers_.channels();
    out_.program.seal();
    out_.schedule = schedule_;
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
      (item.space == Space::sram   ? group.sram_resident
       : item.space == Space::dram ? group.dram_resident
                                   : group.host_resident) += static_cast<std::uint64_t>(item.bytes);
    }

    const std::vector<StageCall> calls = planner_.calls(stage, replica);
    for (const StageCall& call : calls) {
      group.calls.push_back({block_segment(stage, call), call.slot.micro_batch,
                             static_cast<std::uint32_t>(call.position)});
    }
    if (beside_.sums || beside_.gathers || plan_.offload.activations) {
      write_background(group, stage, calls);
    }
    if (const auto segment = update_segment(stage)) {
      group.calls.push_back({*segment, kNoMicroBatch,
                             static_cast<std::uint32_t>(stage.chunks.front().range.first),
                             static_cast<std::uint32_t>(group.background.size())});
    }
    peers_.fill(group, placement_, stage.stage, replica);
    write_peers(group, stage, replica);
    out_.program.groups.push_back(std::move(group));
  }

  void write_background(TileGroup& group, const StagePlan& stage,
                        const std::vector<StageCall>& calls) {
    const BackgroundPlan plan = planner_.background(stage, calls);
    for (std::size_t i = 0; i < calls.size(); ++i) group.calls[i].after = plan.after[i];
    for (const StateMove& move : plan.moves) {
      const bool forward = calls[move.call].slot.phase == SlotPhase::forward;
      const Call& call = group.calls[move.call];
      group.background.push_back(
          {move_segment(stage, move, forward ? Phase::forward : Phase::backward), call.micro_batch,
           call.layer, move.after});
    }
  }

  std::uint32_t move_segment(const StagePlan& stage, const StateMove& move, Phase phase) {
    const auto key =
        std::make_tuple(move.kind, move.parameters, move.bytes, phase, stage.residency.in_sram);
    const auto it = moves_.find(key);
    if (it != moves_.end()) return it->second;
    const StateBytes bytes = plan_.state_bytes();
    const std::int64_t parameters = total(move.parameters);
    const Space near = space_of(stage, TensorClass::saved);
    SegmentWriter w = writer(name_of(move.kind), stage);
    switch (move.kind) {
      case StateMove::Kind::gather:
        w.allocate(space_of(stage, TensorClass::fetched), parameters * bytes.weight);
        state_.fetch(w, move.parameters, phase, true, stage.residency);
        break;
      case StateMove::Kind::stash_out: {
        w.allocate(Space::host, move.bytes);
        const auto moved = w.copy("stash out", phase, near, Space::host, move.bytes);
        w.release(near, move.bytes, moved);
        break;
      }
      case StateMove::Kind::stash_in: {
        w.allocate(near, move.bytes);
        const auto moved = w.copy("stash in", phase, Space::host, near, move.bytes);
        w.release(Space::host, move.bytes, moved);
        break;
      }
      case StateMove::Kind::scatter: {
        const bool cut = planner_.sharding().scattered() != 0;
        state_.scatter(w, move.parameters, cut, true);
        if (cut) {
          w.release(space_of(stage, TensorClass::gradient), parameters * bytes.gradient);
        }
        break;
      }
      case StateMove::Kind::all_reduce:
        state_.all_reduce(w, move.parameters, true);
        break;
    }
    return moves_[key] = w.finish();
  }

  static const char* name_of(StateMove::Kind kind) {
    switch (kind) {
      case StateMove::Kind::gather:
        return "gather";
      case StateMove::Kind::stash_out:
        return "stash.out";
      case StateMove::Kind::stash_in:
        return "stash.in";
      default:
        return "reduce";
    }
  }

  static Space space_of(const StagePlan& stage, TensorClass cls) {
    return stage.residency.space(cls);
  }

  void write_peers(TileGroup& group, const StagePlan& stage, int replica) const {
    const auto fill = [&](Peers table, int to_stage) {
      group.peers[static_cast<std::size_t>(table)] = placement_.tile_group(to_stage, replica);
    };
    const int s = stage.stage, p = plan_.pipeline;
    // Chunk after chunk, interleaved virtual stages go round.
    const bool round =
        p > 1 && schedule_.chunks > 1 && schedule_.layout == ChunkLayout::interleaved;
    if (s + 1 < p || round) fill(Peers::stage_next, (s + 1) % p);
    if (s > 0 || round) fill(Peers::stage_previous, (s + p - 1) % p);
    if (planner_.tied_parameters(stage) > 0)
      fill(Peers::tied, s == first_stage() ? last_stage() : first_stage());
  }

  int first_stage() const { return schedule_.stage_of(0); }
  int last_stage() const { return schedule_.stage_of(schedule_.virtual_stages() - 1); }

  // --- segments of a block ---

  /// The messages in which a micro-batch enters or leaves a virtual stage; none when it stays.
  struct Transfer {
    std::vector<std::int64_t> parts;
    Channel channel = Channel::forward;
    Peers peers = Peers::stage_next;
    bool operator<(const Transfer& o) const {
      return std::tie(parts, channel, peers) < std::tie(o.parts, o.channel, o.peers);
    }
  };

  /// A call of a block: what distinguishes its segment from those of other calls.
  struct BlockCall {
    std::uint32_t block = 0;
    SlotPhase phase = SlotPhase::forward;
    std::int64_t samples = 0;
    Transfer in, out;
    CallMemory memory;
    bool operator<(const BlockCall& o) const {
      return std::tie(block, phase, samples, in, out, memory.taken, memory.given) <
             std::tie(o.block, o.phase, o.samples, o.in, o.out, o.memory.taken, o.memory.given);
    }
  };

  std::uint32_t block_segment(const StagePlan& stage, const StageCall& of) {
    const ChunkPlan& chunk = *of.chunk;
    const Slot& slot = of.slot;
    const std::size_t position = of.position;
    BlockCall call;
    call.block = planner_.variant(stage.stage, position);
    call.phase = slot.phase;
    call.samples = of.samples;
    call.memory = of.memory;
    const bool first = position == chunk.range.first, last = position + 1 == chunk.range.last;
    // Forward enters at the first block and leaves at the last; backward the other way round.
    const int v = chunk.virtual_stage;
    if (slot.phase == SlotPhase::forward) {
      if (first) call.in = transfer(chunk, v - 1, false, slot, call.samples);
      if (last) call.out = transfer(chunk, v + 1, true, slot, call.samples);
    } else if (slot.phase == SlotPhase::backward) {
      if (last) call.in = transfer(chunk, v + 1, false, slot, call.samples);
      if (first) call.out = transfer(chunk, v - 1, true, slot, call.samples);
    }
    auto& segments = segments_[{stage.residency.in_sram, stage.sram_resident}];
    const auto it = segments.find(call);
    if (it != segments.end()) return it->second;
    const std::uint32_t segment = write_block(stage, call);
    segments[call] = segment;
    return segment;
  }

  /// How a slot's micro-batch passes between a chunk and the virtual stage before or after it.
  Transfer transfer(const ChunkPlan& chunk, int other, bool sends, const Slot& slot,
                    std::int64_t samples) {
    const int own = chunk.virtual_stage;
    if (handover(schedule_, std::min(own, other)) != Handover::message) return {};
    const int from = sends ? own : other, to = sends ? other : own;
    Transfer t;
    t.parts = boundary(from, slot.phase, samples);
    t.channel = peers_.stage_channel(slot.phase, schedule_.chunk_of(to), lane(to, slot));
    // The way back up a V goes from the last stage to the first.
    const bool returns = schedule_.layout == ChunkLayout::vee && schedule_.chunk_of(own) == 1;
    t.peers = (other > own) != returns ? Peers::stage_next : Peers::stage_previous;
    return t;
  }

  /// The messages of a user's own schedule may be taken in another order than they are sent.
  std::uint16_t lane(int to, const Slot& slot) {
    if (plan_.schedule != ScheduleKind::file) return 0;
    auto& lanes = lanes_[{to, slot.phase}];
    if (lanes.empty()) lanes = message_lanes(schedule_, to, slot.phase);
    return lanes[slot.micro_batch];
  }

  /// Sizes of the messages in which a virtual stage hands one micro-batch over, as its last kernel
  /// makes it.
  std::vector<std::int64_t> boundary(int virtual_stage, SlotPhase phase, std::int64_t samples) {
    const StagePlan& stage =
        out_.stages[static_cast<std::size_t>(schedule_.stage_of(virtual_stage))];
    const StageRange& range =
        stage.chunks[static_cast<std::size_t>(schedule_.chunk_of(virtual_stage))].range;
    const bool forward = phase == SlotPhase::forward;
    const std::uint32_t block =
        planner_.variant(stage.stage, forward ? range.last - 1 : range.first);
    const BlockKernels& k = planner_.kernels(block, samples);
    const auto& costs =
        costs_of(planner_.costs(block, samples, stage.residency, stage.sram_resident), phase);
    const auto& kernels = kernels_of(k, phase);
    const std::string& tensor = forward ? k.output : k.input_gradient;
    const std::size_t last = last_writer(kernels, tensor);
    if (last == kernels.size()) {
      throw InternalError("block '" + planner_.block(block).name + "' never makes '" + tensor +
                          "'");
    }
    return SegmentWriter::message_parts(forward ? k.output_bytes : k.input_bytes,
                                        costs[last].pipelining.steps);
  }

  /// The kernel that completes a tensor, or as many as there are.
  static std::size_t last_writer(const std::vector<Kernel>& kernels, const std::string& tensor) {
    for (std::size_t i = kernels.size(); i-- > 0;) {
      const auto& writes = kernels[i].writes;
      if (std::any_of(writes.begin(), writes.end(),
                      [&](const Access& a) { return a.tensor == tensor; })) {
        return i;
      }
    }
    return kernels.size();
  }

  std::uint32_t write_block(const StagePlan& stage, const BlockCall& call) {
    const BlockKernels& k = planner_.kernels(call.block, call.samples);
    const BlockCosts& c =
        planner_.costs(call.block, call.samples, stage.residency, stage.sram_resident);
    const bool forward = call.phase == SlotPhase::forward;
    const bool backward = call.phase == SlotPhase::backward;
    std::string name = planner_.block(call.block).name + (forward    ? ".forward"
                                                          : backward ? ".backward"
                                                                     : ".weight");
    if (call.samples != plan_.group_micro_batch()) name += ".short";
    SegmentWriter w = writer(name, stage);

    const auto space = [&](TensorClass cls) { return space_of(stage, cls); };
    const Sharding& sharding = planner_.sharding();
    const ParametersByAxes parameters = sharding.cut(planner_.block_parameters(call.block));
    const ParametersByAxes fetched = call.phase == SlotPhase::weight
                                         ? ParametersByAxes{}
                                         : planner_.fetched_parameters(call.block);
    const bool scatters =
        sharding.zero() >= 2 && !parameters.empty() && call.phase == schedule_.last_phase();
    const std::int64_t fetched_bytes = total(fetched) * plan_.state_bytes().weight;
    const std::int64_t reduced = scatters ? total(parameters) * plan_.state_bytes().gradient : 0;
    w.allocate(Space::sram, c.footprint());
    if (!beside_.gathers) w.allocate(space(TensorClass::fetched), fetched_bytes);
    w.allocate(space(TensorClass::gradient), reduced);
    if (!fetched.empty() && !beside_.gathers) {
      state_.fetch(w, fetched, forward ? Phase::forward : Phase::backward, false, stage.residency);
      w.gate(StateWriter::gathered());
    }
    w.allocate(space(TensorClass::saved), saved_bytes(call.memory.taken));
    w.allocate(space(TensorClass::temporary), parked_bytes(call.memory.taken));

    if (forward) {
      if (!call.in.parts.empty()) {
        const TensorClass cls = training() ? TensorClass::saved : TensorClass::temporary;
        w.receive(k.input, cls, k.common_boundary, call.in.parts, Phase::forward, call.in.channel,
                  call.in.peers);
      }
      write_kernels(w, k.forward, c.forward, k.output, call.out);
    } else if (backward) {
      if (!call.in.parts.empty()) {
        const TensorClass cls =
            plan_.splits_backward() ? TensorClass::saved : TensorClass::temporary;
        w.receive(k.output_gradient, cls, k.common_boundary, call.in.parts, Phase::backward,
                  call.in.channel, call.in.peers);
        // Recomputation starts when the gradient has come, as in the schedule's bubble formulas.
        w.gate(k.output_gradient);
      }
      write_kernels(w, k.recompute, c.recompute, "", {});
      write_kernels(w, k.backward, c.backward, k.input_gradient, call.out);
    } else {
      write_kernels(w, k.weight, c.weight, "", {});
    }
    if (scatters && !beside_.sums) {
      std::vector<std::string> gradients;
      for (const Kernel& kernel : kernels_of(k, call.phase)) {
        for (const Access& a : kernel.writes) {
          if (a.cls == TensorClass::gradient) gradients.push_back(a.tensor);
        }
      }
      w.join(StateWriter::gradients(), gradients);
      state_.scatter(w, parameters, true, false);
    }
    w.release(space(TensorClass::saved), saved_bytes(call.memory.given));
    w.release(space(TensorClass::temporary), parked_bytes(call.memory.given));
    if (!beside_.sums) w.release(space(TensorClass::gradient), reduced);
    w.release(space(TensorClass::fetched), fetched_bytes);
    w.release(Space::sram, c.footprint());
    return w.finish();
  }

  SegmentWriter writer(const std::string& name, const StagePlan& stage) {
    SegmentWriter w(out_.program, name, stage.residency, plan_.precision, planner_.splits().axes(),
                    peers_);
    if (const auto axis = planner_.scattered_axis()) w.scatter_stages(*axis);
    return w;
  }

  void write_kernels(SegmentWriter& w, const std::vector<Kernel>& kernels,
                     const std::vector<KernelCost>& costs, const std::string& leaving,
                     const Transfer& out) const {
    const std::size_t last = last_writer(kernels, leaving);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const Kernel& k = kernels[i];
      const bool sends = !out.parts.empty() && i == last;
      if (k.collective) {
        CollectiveRun run;
        run.name = k.name;
        run.phase = k.phase;
        run.cause = cause_of(*k.collective);
        if (k.reads.size() > 1) w.join(k.reads[0].tensor, {k.reads[0].tensor, k.reads[1].tensor});
        w.collective(run, *k.collective, k.reads.front(), k.writes.front());
        if (sends) w.send(leaving, out.parts, k.phase, out.channel, out.peers);
      } else {
        w.kernel(k, costs[i], leaving, sends ? out.parts : std::vector<std::int64_t>{}, out.channel,
                 out.peers);
      }
    }
  }

  /// Experts are reached by exchanges over their axis; all others come from operators that
  /// disagree.
  Cause cause_of(const Collective& c) const {
    const Cause of_axis =
        planner_.splits().axes()[static_cast<std::size_t>(__builtin_ctz(c.axes))].cause;
    const bool one_axis = (c.axes & (c.axes - 1)) == 0;
    if (c.kind != CollectiveKind::all_to_all) return of_axis;
    return one_axis && of_axis == Cause::expert ? Cause::expert : Cause::resharding;
  }

  // --- the end of the iteration ---

  std::optional<std::uint32_t> update_segment(const StagePlan& stage) {
    const bool steps = plan_.optimizer != OptimizerKind::none;
    const std::int64_t tied = planner_.tied_parameters(stage) * plan_.state_bytes().gradient;
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
      if (!beside_.sums) state_.all_reduce(w, parameters, false);
    } else {
      if (sharding.zero() == 1 && !beside_.sums) state_.scatter(w, parameters, false, false);
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
      state_.gather(w, parameters);
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
    // Seconds of a whole slot by (stage, chunk, samples, phase).
    std::map<std::tuple<int, int, std::int64_t, SlotPhase>, double> slots;
    const auto slot_seconds = [&](int s, const Slot& slot) {
      const std::int64_t n = samples[slot.micro_batch];
      const auto key = std::make_tuple(s, int{slot.chunk}, n, slot.phase);
      const auto it = slots.find(key);
      if (it != slots.end()) return it->second;
      const StageRange& range = out_.stages[static_cast<std::size_t>(s)].chunks[slot.chunk].range;
      double t = 0;
      for (std::size_t i = range.first; i < range.last; ++i) {
        const BlockKernels& k = planner_.kernels(planner_.variant(s, i), n);
        if (slot.phase == SlotPhase::backward) t += matrix_seconds(k.recompute);
        t += matrix_seconds(kernels_of(k, slot.phase));
      }
      return slots[key] = t / planner_.slowest(s);
    };
    out_.pipeline_bound = schedule_length(schedule_, slot_seconds);
    for (int s = 0; s < plan_.pipeline; ++s) {
      double t = 0;
      for (const Slot& slot : schedule_.orders[static_cast<std::size_t>(s)]) {
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
  const Schedule& schedule_;  // of the largest replica; the others differ in micro-batches alone
  LoweredPlan& out_;
  PeerTables peers_;
  const StateWriter state_;
  const BackgroundChoice beside_;
  std::map<std::pair<std::array<bool, kTensorClasses>, std::int64_t>,
           std::map<BlockCall, std::uint32_t>>
      segments_;  // by residency, then by call
  std::map<std::pair<int, SlotPhase>, std::vector<std::uint16_t>> lanes_;
  std::map<
      std::tuple<ParametersByAxes, std::int64_t, std::array<bool, kTensorClasses>, std::int64_t>,
      std::uint32_t>
      updates_;
  std::map<std::tuple<StateMove::Kind, ParametersByAxes, std::int64_t, Phase,
                      std::array<bool, kTensorClasses>>,
           std::uint32_t>
      moves_;
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
