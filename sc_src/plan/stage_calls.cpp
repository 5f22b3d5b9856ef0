// What a stage runs call by call, what moves beside it, and what it keeps of activations meanwhile.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <tilewright/plan/stage_plan.h>

namespace tilewright {

const std::vector<Kernel>& kernels_of(const BlockKernels& k, SlotPhase phase) {
  return phase == SlotPhase::forward    ? k.forward
         : phase == SlotPhase::backward ? k.backward
                                        : k.weight;
}

const std::vector<KernelCost>& costs_of(const BlockCosts& c, SlotPhase phase) {
  return phase == SlotPhase::forward    ? c.forward
         : phase == SlotPhase::backward ? c.backward
                                        : c.weight;
}

const Schedule& StagePlanner::schedule(int replica) {
  const std::size_t m = plan_.micro_batch_count(replica);
  const auto it = schedules_.find(m);
  return it != schedules_.end()
             ? it->second
             : schedules_.emplace(m, plan_.replica_schedule(replica)).first->second;
}

CallMemory StagePlanner::call_memory(const StagePlan& stage, const ChunkPlan& chunk,
                                     std::size_t position, SlotPhase phase, std::int64_t samples) {
  const Schedule& s = schedule(0);
  const Handover below =
      position == chunk.range.first ? handover(s, chunk.virtual_stage - 1) : Handover::at_once;
  const Handover above =
      position + 1 == chunk.range.last ? handover(s, chunk.virtual_stage) : Handover::at_once;
  const std::uint32_t v = variant(s.stage_of(chunk.virtual_stage), position);
  const BlockKernels& k = kernels(v, samples);
  if (sharers_ == 1) return tilewright::call_memory(k, s, phase, below, above);
  // What passes between blocks is stashed, or a gradient.
  const bool saved = s.backward && (phase == SlotPhase::forward || s.split_backward);
  const auto together = [&](TensorClass cls) { return stage.residency.keeps_together(cls); };
  return tilewright::call_memory(
      k.kept_together(sharers_, together(TensorClass::saved),
                      together(saved ? TensorClass::saved : TensorClass::temporary)),
      s, phase, below, above);
}

std::int64_t StagePlanner::stash_bytes(const StagePlan& stage, std::size_t position,
                                       std::int64_t samples) {
  const BlockKernels& k = kernels(variant(stage.stage, position), samples);
  if (!stage.residency.keeps_together(TensorClass::saved)) return k.stash_bytes();
  return k.kept_together(sharers_, true, false).stash_bytes();
}

std::vector<StageCall> StagePlanner::calls(const StagePlan& stage, int replica) {
  const std::vector<std::int64_t> samples = plan_.micro_batches(replica);
  std::map<std::tuple<std::size_t, SlotPhase, std::int64_t>, CallMemory> known;
  std::vector<StageCall> calls;
  for (const Slot& slot : schedule(replica).orders[static_cast<std::size_t>(stage.stage)]) {
    const ChunkPlan& chunk = stage.chunks[slot.chunk];
    const std::int64_t n = samples[slot.micro_batch];
    for (std::size_t i = 0; i < chunk.range.size(); ++i) {
      const std::size_t position =
          slot.phase == SlotPhase::forward ? chunk.range.first + i : chunk.range.last - 1 - i;
      const auto key = std::make_tuple(position, slot.phase, n);
      auto it = known.find(key);
      if (it == known.end()) {
        it = known.emplace(key, call_memory(stage, chunk, position, slot.phase, n)).first;
      }
      const CallMemory& memory = it->second;
      const BlockKernels& k = kernels(variant(stage.stage, position), n);
      if (kernels_of(k, slot.phase).empty() && memory.taken == KeptBytes{} &&
          memory.given == KeptBytes{}) {
        continue;
      }
      calls.push_back({&chunk, position, slot, n, memory});
    }
  }
  return calls;
}

BackgroundChoice StagePlanner::beside() const {
  BackgroundChoice choice;
  choice.sums = plan_.mode == Mode::training && plan_.overlap.bucket > 0;
  choice.gathers = choice.sums || plan_.offload.weights;
  choice.bucket = plan_.overlap.bucket;
  choice.prefetch = plan_.overlap.prefetch;
  choice.gradient_bytes = plan_.state_bytes().gradient;
  return choice;
}

BackgroundPlan StagePlanner::background(const StagePlan& stage,
                                        const std::vector<StageCall>& calls) {
  const bool training = plan_.mode == Mode::training;
  const SlotPhase last = schedule(0).last_phase();
  std::map<std::pair<std::size_t, std::uint32_t>, std::size_t> moved_out;  // call that left a stash
  std::vector<StateUse> uses;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const StageCall& call = calls[i];
    StateUse use;
    use.position = call.position;
    use.reads_weights = call.slot.phase != SlotPhase::weight;
    use.makes_gradients = training && call.slot.phase == last;
    if (moves_activations(stage.stage, call.position)) {
      const auto key = std::make_pair(call.position, call.slot.micro_batch);
      const std::int64_t stash = stash_bytes(stage, call.position, call.samples);
      const auto left = moved_out.find(key);
      if (call.slot.phase == SlotPhase::forward) {
        use.leaves = stash;
        moved_out[key] = i;
      } else if (left != moved_out.end()) {
        use.returns = stash;
        use.left_by = left->second;
        moved_out.erase(left);
      }
    }
    uses.push_back(use);
  }
  return plan_background(
      uses, sharding_, beside(),
      [&](std::size_t position) { return own_parameters(stage, position); },
      [&](std::size_t position) { return fetched_parameters(variant(stage.stage, position)); });
}

ParametersByAxes StagePlanner::block_parameters(std::uint32_t variant) const {
  ParametersByAxes result;
  for (const Operator& op : block(variant).operators) {
    for (const auto& [axes, n] : splits_.parameters_by_axes(op)) result[axes] += n;
  }
  return result;
}

ParametersByAxes StagePlanner::fetched_parameters(std::uint32_t variant) const {
  ParametersByAxes all = block_parameters(variant);
  if (plan_.offload.weights) return all;
  return sharding_.zero() >= 3 ? sharding_.cut(all) : ParametersByAxes{};
}

const Operator* StagePlanner::tied_table() const {
  const Block& head = graph_.blocks[graph_.chain.back()];
  const Block& embedding = graph_.blocks[graph_.chain.front()];
  if (embedding.operators.front().kind != OpKind::embedding ||
      head.operators.back().kind != OpKind::loss) {
    return nullptr;
  }
  const Operator& table = embedding.operators.front();
  const bool shared =
      head.find(OpRole::head).weights.front().tensor == table.weights.front().tensor;
  return shared ? &table : nullptr;
}

ParametersByAxes StagePlanner::own_parameters(const StagePlan& stage, std::size_t position) {
  ParametersByAxes own = block_parameters(variant(stage.stage, position));
  const Operator* table = tied_table();
  if (sharding_.zero() < 2 && table != nullptr && stage.embedding && position > 0 &&
      position + 1 == graph_.chain.size()) {
    own[splits_.summed_gradients(*table)] -=
        operand_elements(table->weights.front(), splits_.local(*table, 1));
  }
  return own;
}

KeptPeak StagePlanner::kept_near(const StagePlan& stage, int replica,
                                 const std::vector<std::int64_t>& waiting) {
  const std::vector<std::int64_t> samples = plan_.micro_batches(replica);
  std::map<std::tuple<int, SlotPhase, std::int64_t>, SlotMemory> slots;
  const auto memory = [&](const Slot& slot) -> const SlotMemory& {
    const ChunkPlan& chunk = stage.chunks[slot.chunk];
    const auto key = std::make_tuple(int{slot.chunk}, slot.phase, samples[slot.micro_batch]);
    const auto it = slots.find(key);
    if (it != slots.end()) return it->second;
    std::vector<CallMemory> calls;
    for (std::size_t i = chunk.range.first; i < chunk.range.last; ++i) {
      calls.push_back(call_memory(stage, chunk, i, slot.phase, samples[slot.micro_batch]));
    }
    if (slot.phase != SlotPhase::forward) std::reverse(calls.begin(), calls.end());
    return slots.emplace(key, SlotMemory(std::move(calls))).first->second;
  };
  const StageOrder& order = schedule(replica).orders[static_cast<std::size_t>(stage.stage)];
  KeptPeak kept;
  kept.near = peak_kept(order, memory);
  kept.with_messages = peak_kept_and_waiting(order, memory, waiting);
  return kept;
}

KeptPeak StagePlanner::kept(const StagePlan& stage) {
  KeptPeak most;
  // Replicas differ by a micro-batch, or by the samples of the last one.
  for (const int replica : std::set<int>{0, plan_.replicas() - 1}) {
    const WaitingMessages messages = waiting(stage, replica);
    const std::vector<std::int64_t>& by_slot = messages.next;
    KeptPeak kept;
    if (plan_.offload.activations) {
      const std::vector<StageCall> run = calls(stage, replica);
      const StageOrder& order = schedule(replica).orders[static_cast<std::size_t>(stage.stage)];
      std::vector<CallMemory> memory;
      std::vector<std::int64_t> waits;
      std::size_t slot = 0;  // of the order
      for (const StageCall& call : run) {
        while (order[slot].micro_batch != call.slot.micro_batch ||
               order[slot].chunk != call.slot.chunk || order[slot].phase != call.slot.phase) {
          ++slot;
        }
        memory.push_back(call.memory);
        waits.push_back(by_slot[slot + 1]);
      }
      kept = peak_kept_beside(memory, waits, background(stage, run));
      kept.with_messages = std::max(kept.with_messages, by_slot.front());
    } else {
      kept = kept_near(stage, replica, by_slot);
    }
    const std::int64_t parked = std::max(kept.near.back(), most.near.back());
    if (saved_bytes(kept.near) > saved_bytes(most.near)) most.near = kept.near;
    most.near.back() = parked;
    most.host = std::max(most.host, kept.host);
    most.waiting =
        std::max(most.waiting, *std::max_element(messages.all.begin(), messages.all.end()));
    most.with_messages = std::max(most.with_messages, kept.with_messages);
  }
  return most;
}

}  // namespace tilewright
