// Writes what the ranks that hold the same weights exchange: sums of gradients, gathers of weights.
#pragma once

#include <tilewright/plan/sharding.h>

#include "segment_writer.h"

namespace tilewright {

class StateWriter {
 public:
  StateWriter(const Splits& splits, const Sharding& sharding, const StateBytes& state)
      : splits_(splits), sharding_(sharding), state_(state) {}

  /// Sums gradients over all their axes, and leaves the whole sum with every rank: reduce-scatter
  /// over one axis inside the other, an all-reduce over the last, all-gathers back.
  void all_reduce(SegmentWriter& w, const ParametersByAxes& parameters, bool background) const;
  /// Sums gradients over the axes that state is cut over, and leaves each rank its part. With
  /// `accumulate` the part is added to that of earlier micro-batches.
  void scatter(SegmentWriter& w, const ParametersByAxes& parameters, bool accumulate,
               bool background) const;
  /// Sums the parts over the axes that state is not cut over.
  void all_reduce_parts(SegmentWriter& w, const ParametersByAxes& parameters) const;
  /// Gathers the weights that other ranks keep, after the update.
  void gather(SegmentWriter& w, const ParametersByAxes& parameters) const;
  /// Gathers the weights of a pass; those that no other rank keeps are copied from `weights`, the
  /// host memory.
  void fetch(SegmentWriter& w, const ParametersByAxes& parameters, Phase phase, bool background,
             const Residency& residency) const;

  /// The collectives of these, in order.
  std::vector<Collective> all_reduces(const ParametersByAxes& parameters) const;
  std::vector<Collective> scatters(const ParametersByAxes& parameters) const;
  std::vector<Collective> part_sums(const ParametersByAxes& parameters) const;
  std::vector<Collective> gathers(const ParametersByAxes& parameters) const;

  /// Names of the tensors of these steps.
  static std::string gradients() { return "gradient"; }
  static std::string gathered() { return "gathered weights"; }

 private:
  struct Step {
    CollectiveKind kind;
    std::size_t axis;
  };
  /// One after another, of a tensor of so many bytes before the first.
  std::vector<Collective> chain(const std::vector<Step>& steps, std::int64_t bytes) const;
  void run(SegmentWriter& w, const std::vector<Collective>& chain, const std::string& tensor,
           TensorClass from, TensorClass to, Phase phase, bool accumulate, bool background) const;
  std::vector<Collective> all_reduce(AxisSet axes, std::int64_t parameters) const;
  std::vector<Collective> scatter(AxisSet axes, std::int64_t parameters) const;
  std::vector<Collective> part_sum(AxisSet axes, std::int64_t parameters) const;
  std::vector<Collective> gather(AxisSet axes, std::int64_t parameters) const;
  std::vector<std::size_t> list(AxisSet axes) const;

  const Splits& splits_;
  const Sharding& sharding_;
  const StateBytes state_;
};

}  // namespace tilewright
