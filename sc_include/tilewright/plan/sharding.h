// What of its weights, gradients and optimiser state a rank keeps (ZeRO, arXiv 1910.02054; FSDP).
#pragma once

#include <cstdint>
#include <map>

#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

/// Parameters by the axes over which their gradients are summed.
using ParametersByAxes = std::map<AxisSet, std::int64_t>;

/// Ranks along the axes that sum a gradient hold the same weight. ZeRO lets each of them keep a
/// part of the optimiser state (1), the gradients too (2), the weights too (3). An axis counts when
/// all GEMMs (but those of experts) are summed over it: not the tensor axis, over which sequence
/// parallelism sums the gradients of norms alone.
class Sharding {
 public:
  Sharding(const Graph& graph, const Splits& splits, int zero);

  int zero() const { return zero_; }
  /// Of `axes`, those that state is cut over; the others are summed over in full.
  AxisSet cut(AxisSet axes) const { return axes & axes_; }
  bool active() const { return zero_ > 0 && axes_ != 0; }
  /// Ways in which state is cut.
  std::int64_t ways(AxisSet axes) const;
  /// Axes over which gradients are scattered in every micro-batch: none below stage 2.
  AxisSet scattered() const { return zero_ >= 2 ? axes_ : 0; }
  /// Axes over which weights are gathered for every pass: none below stage 3.
  AxisSet gathered() const { return zero_ >= 3 ? axes_ : 0; }
  /// The parameters that are cut at all.
  ParametersByAxes cut(const ParametersByAxes& parameters) const;

  /// Of what a rank works with, what it keeps; rounded up where it does not divide.
  std::int64_t part(const ParametersByAxes& parameters) const;
  std::int64_t weights(const ParametersByAxes& parameters) const;
  std::int64_t gradients(const ParametersByAxes& parameters) const;
  std::int64_t optimizer(const ParametersByAxes& parameters) const;

 private:
  const std::vector<GroupAxis> group_axes_;
  int zero_;
  AxisSet axes_ = 0;
};

std::int64_t total(const ParametersByAxes& parameters);

}  // namespace tilewright
