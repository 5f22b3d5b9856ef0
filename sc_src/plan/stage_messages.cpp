// What messages take of a stage's memory, and how they pass between stages.
#include <algorithm>

#include <tilewright/plan/communication_buffers.h>
#include <tilewright/plan/stage_plan.h>

#include "collective_members.h"
#include "state_writer.h"

namespace tilewright {

std::optional<std::size_t> StagePlanner::scattered_axis() const {
  constexpr std::size_t kTensor = 0;  // the first axis
  const bool scatters = plan_.scatter_gather && plan_.tensor > 1 && plan_.tensor_shape.size() < 2 &&
                        boundary_[kTensor] == Layout::replicated;
  return scatters ? std::optional<std::size_t>(kTensor) : std::nullopt;
}

std::int64_t StagePlanner::tied_parameters(const StagePlan& stage) {
  const Operator* table = tied_table();
  const Schedule& s = schedule(0);
  const bool apart = s.stage_of(0) != s.stage_of(s.virtual_stages() - 1);
  if (plan_.mode != Mode::training || !apart || table == nullptr ||
      !(stage.embedding || stage.head)) {
    return 0;
  }
  const std::int64_t held = operand_elements(table->weights.front(), splits_.local(*table, 1));
  const std::int64_t ways =
      sharding_.zero() > 0 ? sharding_.ways(splits_.summed_gradients(*table)) : 1;
  return (held + ways - 1) / ways;
}

WaitingMessages StagePlanner::waiting(const StagePlan& stage, int replica) {
  const std::vector<std::int64_t> samples = plan_.micro_batches(replica);
  const auto axis = scattered_axis();
  const std::int64_t ways = axis ? splits_.axes()[*axis].degree : 1;
  return waiting_messages(schedule(replica), stage.stage, [&](const Slot& slot) {
    const bool forward = slot.phase == SlotPhase::forward;
    const StageRange& range = stage.chunks[slot.chunk].range;
    const BlockKernels& k = kernels(variant(stage.stage, forward ? range.first : range.last - 1),
                                    samples[slot.micro_batch]);
    return ((forward ? k.input_bytes : k.output_bytes) + ways - 1) / ways;
  });
}

std::int64_t StagePlanner::summands(const Collective& c) {
  std::int64_t ranks = 1;
  for (std::size_t a = 0; a < splits_.axes().size(); ++a) {
    if ((c.axes >> a & 1u) != 0) ranks *= splits_.axes()[a].degree;
  }
  if (ranks < 2 || c.bytes == 0) return 0;
  const std::int64_t part = (c.bytes + ranks - 1) / ranks;
  switch (c.kind) {
    case CollectiveKind::all_reduce:
    case CollectiveKind::reduce_scatter: {
      const auto [it, added] = summands_.try_emplace({c.kind, c.axes, c.bytes}, 0);
      if (added) it->second = summand_bytes(members_->schedule(c.kind, c.axes, c.bytes));
      return it->second;
    }
    case CollectiveKind::ring_step:
      return c.accumulate ? part : 0;
    case CollectiveKind::halo_sum:
      return std::min(part, c.halo);
    default:
      return 0;
  }
}

std::int64_t StagePlanner::summands(const std::vector<Collective>& collectives) {
  std::int64_t most = 0;
  for (const Collective& c : collectives) most = std::max(most, summands(c));
  return most;
}

std::int64_t StagePlanner::summands_beside(const StagePlan& stage) {
  if (!beside().sums) return 0;
  const StateWriter state(splits_, sharding_, plan_.state_bytes());
  std::int64_t most = 0;
  for (const StateMove& move : background(stage, calls(stage, 0)).moves) {
    if (move.kind == StateMove::Kind::scatter) {
      most = std::max(most, summands(state.scatters(move.parameters)));
    } else if (move.kind == StateMove::Kind::all_reduce) {
      most = std::max(most, summands(state.all_reduces(move.parameters)));
    }
  }
  return most;
}

StagePlanner::SummandBytes StagePlanner::summands(const StagePlan& stage) {
  const StateWriter state(splits_, sharding_, plan_.state_bytes());
  const bool sums_beside = beside().sums;
  SummandBytes most;
  const auto gradients = [&](const std::vector<Collective>& collectives) {
    most.gradients = std::max(most.gradients, summands(collectives));
  };
  for (const std::size_t i : stage.positions()) {
    const std::uint32_t v = variant(stage.stage, i);
    const BlockKernels& k = kernels(v, plan_.group_micro_batch());
    for (const auto* list : {&k.forward, &k.recompute, &k.backward, &k.weight}) {
      for (const Kernel& kernel : *list) {
        if (!kernel.collective) continue;
        most.activations = std::max(most.activations, summands(*kernel.collective));
      }
    }
    if (sharding_.zero() >= 2 && !sums_beside) {
      gradients(state.scatters(sharding_.cut(block_parameters(v))));
    }
  }
  if (plan_.mode != Mode::training) return most;
  const ParametersByAxes& parameters = stage.parameters_by_axes;
  if (!sharding_.active()) {
    if (!sums_beside) gradients(state.all_reduces(parameters));
  } else {
    if (sharding_.zero() == 1 && !sums_beside) gradients(state.scatters(parameters));
    gradients(state.part_sums(parameters));
  }
  most.gradients = std::max(most.gradients, tied_parameters(stage) * plan_.state_bytes().gradient);
  most.gradients += summands_beside(stage);
  return most;
}

}  // namespace tilewright
