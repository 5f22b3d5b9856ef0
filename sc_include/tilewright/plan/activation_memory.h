// What activations and their gradients take of a tile's memory, call by call.
//
// A call is one pass of one micro-batch through one block. The memory plan sums what calls take and
// give back along a stage's order; the programs take and give back the same.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include <tilewright/plan/kernels.h>
#include <tilewright/plan/schedule.h>

namespace tilewright {

/// How what a block makes reaches the block after it (forward) or before it (backward).
enum class Handover : std::uint8_t {
  none,     ///< there is no such block
  at_once,  ///< the tile's next call takes it
  message,  ///< another tile takes it
  parked,   ///< a later call of the tile takes it: consecutive virtual stages on one stage
};

/// Between virtual stages v and v + 1.
Handover handover(const Schedule& schedule, int v);

/// What activation memory is kept for. All but `parked` is of TensorClass::saved.
enum class Kept : std::uint8_t {
  stash,     ///< activations, from the forward to the backward or weight slot
  rebuilt,   ///< the same where they are recomputed, from the backward slot on
  gradient,  ///< with split backward: gradients that a weight slot reads or that pass between
             ///< blocks
  parked,    ///< other tensors between two virtual stages of a tile (TensorClass::temporary)
};
constexpr int kKeptKinds = 4;
using KeptBytes = std::array<std::int64_t, kKeptKinds>;
std::int64_t saved_bytes(const KeptBytes& kept);
std::int64_t parked_bytes(const KeptBytes& kept);

/// What a call takes when it starts, and gives back when it ends.
struct CallMemory {
  KeptBytes taken{}, given{};
};

/// `below` and `above`: how the block hands over to the one before and after it in the chain.
CallMemory call_memory(const BlockKernels& kernels, const Schedule& schedule, SlotPhase phase,
                       Handover below, Handover above);

/// The calls of a slot, and what they come to.
struct SlotMemory {
  explicit SlotMemory(std::vector<CallMemory> calls);
  std::vector<CallMemory> calls;
  KeptBytes net{};  ///< taken less given, all calls
  /// The most above what was kept before the slot, at any time in it.
  std::int64_t highest_saved = 0, highest_parked = 0;
};

/// What a stage keeps when it keeps most, running its order: stash, rebuilt and gradient at the
/// time when their sum is largest; parked at its own largest.
KeptBytes peak_kept(const StageOrder& order,
                    const std::function<const SlotMemory&(const Slot&)>& slot_memory);

/// The largest sum of what is kept of TensorClass::saved and of the messages that are received
/// ahead meanwhile, `waiting` being waiting_messages().next of the stage.
std::int64_t peak_kept_and_waiting(const StageOrder& order,
                                   const std::function<const SlotMemory&(const Slot&)>& slot_memory,
                                   const std::vector<std::int64_t>& waiting);

}  // namespace tilewright
