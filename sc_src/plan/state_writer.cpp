#include "state_writer.h"

namespace tilewright {

std::vector<std::size_t> StateWriter::list(AxisSet axes) const {
  std::vector<std::size_t> result;
  for (std::size_t a = 0; a < splits_.axes().size(); ++a) {
    if ((axes >> a & 1u) != 0) result.push_back(a);
  }
  return result;
}

void StateWriter::run(SegmentWriter& w, const std::vector<Step>& steps, const std::string& tensor,
                      TensorClass from, TensorClass to, std::int64_t bytes, Phase phase,
                      bool accumulate, bool background) const {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const GroupAxis& axis = splits_.axes()[steps[i].axis];
    CollectiveRun run;
    run.phase = phase;
    run.background = background;
    // Ranks of whatever axis that hold the same weights are data-parallel to each other.
    run.cause = axis.cause == Cause::tensor ? Cause::tensor : Cause::data;
    Collective what;
    what.kind = steps[i].kind;
    what.axes = AxisSet{1} << steps[i].axis;
    what.accumulate = accumulate && i + 1 == steps.size();
    const std::int64_t part = (bytes + axis.degree - 1) / axis.degree;
    std::int64_t after = bytes;
    switch (what.kind) {
      case CollectiveKind::reduce_scatter:
        run.name = "reduce_scatter";
        what.bytes = bytes;
        after = part;
        break;
      case CollectiveKind::all_gather:
        run.name = "all_gather";
        what.bytes = after = bytes * axis.degree;
        break;
      default:
        run.name = "all_reduce";
        what.bytes = bytes;
        break;
    }
    run.name = axis.name + " " + tensor + " " + run.name;
    w.collective(run, what, {tensor, i == 0 ? from : to, bytes}, {tensor, to, after});
    bytes = after;
  }
}

void StateWriter::all_reduce(SegmentWriter& w, const ParametersByAxes& parameters,
                             bool background) const {
  for (const auto& [axes, n] : parameters) {
    const std::vector<std::size_t> over = list(axes);
    if (over.empty()) continue;
    std::vector<Step> steps;
    for (std::size_t i = 0; i + 1 < over.size(); ++i) {
      steps.push_back({CollectiveKind::reduce_scatter, over[i]});
    }
    steps.push_back({CollectiveKind::all_reduce, over.back()});
    for (std::size_t i = over.size() - 1; i > 0; --i) {
      steps.push_back({CollectiveKind::all_gather, over[i - 1]});
    }
    run(w, steps, gradients(), TensorClass::gradient, TensorClass::gradient, n * state_.gradient,
        Phase::gradient_sync, false, background);
  }
}

void StateWriter::scatter(SegmentWriter& w, const ParametersByAxes& parameters, bool accumulate,
                          bool background) const {
  for (const auto& [axes, n] : parameters) {
    std::vector<Step> steps;
    for (const std::size_t a : list(sharding_.cut(axes))) {
      steps.push_back({CollectiveKind::reduce_scatter, a});
    }
    run(w, steps, gradients(), TensorClass::gradient, TensorClass::gradient, n * state_.gradient,
        Phase::gradient_sync, accumulate, background);
  }
}

void StateWriter::all_reduce_parts(SegmentWriter& w, const ParametersByAxes& parameters) const {
  for (const auto& [axes, n] : parameters) {
    const std::int64_t ways = sharding_.ways(axes);
    std::vector<Step> steps;
    for (const std::size_t a : list(axes & ~sharding_.cut(axes))) {
      steps.push_back({CollectiveKind::all_reduce, a});
    }
    run(w, steps, gradients(), TensorClass::gradient, TensorClass::gradient,
        (n + ways - 1) / ways * state_.gradient, Phase::gradient_sync, false, false);
  }
}

std::vector<StateWriter::Step> StateWriter::gathers(AxisSet axes) const {
  const std::vector<std::size_t> over = list(sharding_.cut(axes));
  std::vector<Step> steps;
  for (auto a = over.rbegin(); a != over.rend(); ++a) {
    steps.push_back({CollectiveKind::all_gather, *a});
  }
  return steps;
}

void StateWriter::gather(SegmentWriter& w, const ParametersByAxes& parameters) const {
  for (const auto& [axes, n] : parameters) {
    const std::int64_t ways = sharding_.ways(axes);
    run(w, gathers(axes), gathered(), TensorClass::weight, TensorClass::weight,
        (n + ways - 1) / ways * state_.weight, Phase::optimizer, false, false);
  }
}

void StateWriter::fetch(SegmentWriter& w, const ParametersByAxes& parameters, Phase phase,
                        bool background, const Residency& residency) const {
  for (const auto& [axes, n] : parameters) {
    if (sharding_.zero() >= 3 && sharding_.cut(axes) != 0) {
      const std::int64_t ways = sharding_.ways(axes);
      run(w, gathers(axes), gathered(), TensorClass::weight, TensorClass::fetched,
          (n + ways - 1) / ways * state_.weight, phase, false, background);
    } else {
      w.copy("fetch weights", phase, residency.space(TensorClass::weight),
             residency.space(TensorClass::fetched), n * state_.weight);
    }
  }
}

}  // namespace tilewright
