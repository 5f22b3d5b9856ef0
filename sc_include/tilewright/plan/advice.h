// What would make a plan fit that needs more memory than there is.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <tilewright/machine/machine.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

/// A plan with something changed.
struct PlanChange {
  std::string what;  ///< as plan files say it: "parallelism.zero: 1", "batch.micro: 2"
  std::string kind;  ///< changes of one kind are alternatives: "zero"
  PlanConfig plan;
};

/// The changes that are tried, one thing changed in each: ZeRO stage, offload of each set of
/// classes, fused attention, recomputation, sequence parallelism, prefetch, a schedule that holds
/// less, halved micro-batches, more tensor ranks, more stages. They need not fit or be possible.
std::vector<PlanChange> possible_changes(const PlanConfig& plan, const MachineConfig& machine);

/// A change whose plan fits.
struct Proposal {
  PlanChange change;
  double seconds = 0;  ///< of an iteration, estimate_iteration()
};

/// Closed-form seconds of an iteration of a plan that fits; nothing when it does not, or is refused
/// otherwise. Of the largest replica: the schedule with the time of every slot by its kernels,
/// collectives and messages on idle links, and what moves beside it if that takes longer; then the
/// sums of gradients, the optimiser step and ZeRO's gathers. For comparing plans: it knows no
/// contention, and slots neither overlap nor wait for their messages.
std::optional<double> estimate_iteration(const Graph& graph, const PlanConfig& plan,
                                         const MachineConfig& machine);

/// Of every kind the possible change that fits and takes the least time, the fastest first; of
/// micro-batches also the largest that fits is tried. If no change alone fits, changes together
/// with full recomputation, and if none of those does, with that and micro-batches of 1.
std::vector<Proposal> propose(const Graph& graph, const PlanConfig& plan,
                              const MachineConfig& machine);

}  // namespace tilewright
