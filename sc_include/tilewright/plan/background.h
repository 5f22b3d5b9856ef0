// What moves beside the computation: gradient buckets, ZeRO's gathers and scatters, what lives in
// the host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tilewright/plan/activation_memory.h>
#include <tilewright/plan/sharding.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// A call of a group as far as its weights, gradients and kept activations are concerned.
struct StateUse {
  std::size_t position = 0;  ///< of the block in the model's chain
  bool reads_weights = true;
  bool makes_gradients = false;  ///< it leaves the block's weight gradients
  std::int64_t leaves = 0;       ///< bytes of activations that move to the host memory behind it
  /// That come back ahead of it, and the call that they moved out behind.
  std::int64_t returns = 0;
  std::size_t left_by = 0;
};

/// What one background call does. Of those that may start at one time the first kind goes first.
struct StateMove {
  enum class Kind : std::uint8_t { gather, stash_out, stash_in, scatter, all_reduce };
  Kind kind = Kind::all_reduce;
  ParametersByAxes parameters;  ///< of gathers and sums
  std::int64_t bytes = 0;       ///< of a stash
  std::size_t call = 0;         ///< of the group, that it belongs to; the bucket's last
  std::uint32_t after = 0;      ///< calls of the group that it starts after
};

struct BackgroundPlan {
  std::vector<StateMove> moves;      ///< in order
  std::vector<std::uint32_t> after;  ///< by call of the group: how many moves it starts after
};

/// What of a plan runs beside the computation.
struct BackgroundChoice {
  bool sums = false;     ///< sums of gradients
  bool gathers = false;  ///< weights from other ranks or the host memory
  std::int64_t bucket = 0;
  int prefetch = 1;
  int gradient_bytes = 2;
};

/// The blocks that are gathered, or whose gradients wait to be scattered, at one time.
constexpr std::int64_t gathered_blocks(int prefetch) { return std::int64_t{prefetch} + 1; }
constexpr std::int64_t kScatteredBlocks = 2;
/// The forward calls whose activations are not in the host memory yet, the newest included.
constexpr std::int64_t kLeavingBlocks = 2;

/// Plans the moves of one group. Up to ZeRO 1 gradients go in buckets of whole blocks, at least
/// `bucket` bytes each, once the last call that adds to any of them is complete. From stage 2 on
/// every call's gradients are scattered behind it, and a call that makes gradients waits for the
/// scatter of all but the last one before. Weights are gathered `prefetch` calls ahead of every
/// use. A stash moves out behind the call that leaves it, and a call that leaves one waits for all
/// but the last one before; it moves in `prefetch` calls ahead of the call it returns for.
/// `parameters` tells what a position holds of its own, `gathered` what of its weights is gathered.
/// O(n log n).
BackgroundPlan plan_background(const std::vector<StateUse>& calls, const Sharding& sharding,
                               const BackgroundChoice& choice,
                               const std::function<ParametersByAxes(std::size_t)>& parameters,
                               const std::function<ParametersByAxes(std::size_t)>& gathered);

/// What a stage keeps of activations when it keeps most, some of them in the host memory at times.
struct KeptPeak {
  KeptBytes near{};       ///< as peak_kept(), however slow the background is
  std::int64_t host = 0;  ///< the most at one time
  /// The most that is saved near and in messages that are received ahead, together.
  std::int64_t with_messages = 0;
  std::int64_t waiting = 0;  ///< the most that can wait in messages, received or not
};
/// `memory`: what each call of the group takes and gives back; `waiting`: bytes of messages that
/// are received ahead while it runs. O(n).
KeptPeak peak_kept_beside(const std::vector<CallMemory>& memory,
                          const std::vector<std::int64_t>& waiting,
                          const BackgroundPlan& background);

}  // namespace tilewright
