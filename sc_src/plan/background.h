// Data-parallel traffic beside the computation: gradient buckets, ZeRO's gathers and scatters.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <tilewright/plan/sharding.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// A call of a group as far as weights and gradients are concerned.
struct StateUse {
  std::size_t position = 0;  ///< of the block in the model's chain
  bool reads_weights = true;
  bool makes_gradients = false;  ///< it leaves the block's weight gradients
};

/// What one background call does.
struct StateMove {
  enum class Kind : std::uint8_t { all_reduce, scatter, gather };
  Kind kind = Kind::all_reduce;
  ParametersByAxes parameters;
  std::size_t call = 0;     ///< of the group, that it belongs to; the bucket's last
  std::uint32_t after = 0;  ///< calls of the group that it starts after
};

struct BackgroundPlan {
  std::vector<StateMove> moves;      ///< in order
  std::vector<std::uint32_t> after;  ///< by call of the group: how many moves it starts after
};

/// The blocks that are gathered, or whose gradients wait to be scattered, at one time.
constexpr std::int64_t gathered_blocks(int prefetch) { return std::int64_t{prefetch} + 1; }
constexpr std::int64_t kScatteredBlocks = 2;

/// Plans the moves of one group. Up to stage 1 gradients go in buckets of whole blocks, at least
/// `bucket` bytes each, once the last call that adds to any of them is complete. From stage 2 on
/// every call's gradients are scattered behind it, and a call that makes gradients waits for the
/// scatter of all but the last one before. At stage 3 a block's weights are gathered `prefetch`
/// calls ahead of every use. `parameters` tells what a position holds of its own. O(n log n).
BackgroundPlan plan_background(const std::vector<StateUse>& calls, const Sharding& sharding,
                               std::int64_t bucket, int prefetch, int gradient_bytes,
                               const std::function<ParametersByAxes(std::size_t)>& parameters);

}  // namespace tilewright
