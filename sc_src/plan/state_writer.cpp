#include "state_writer.h"

namespace tilewright {
namespace {

template <class F>
std::vector<Collective> each(const ParametersByAxes& parameters, F collectives) {
  std::vector<Collective> all;
  for (const auto& [axes, n] : parameters) {
    for (const Collective& c : collectives(axes, n)) all.push_back(c);
  }
  return all;
}

}  // namespace

std::vector<std::size_t> StateWriter::list(AxisSet axes) const {
  std::vector<std::size_t> result;
  for (std::size_t a = 0; a < splits_.axes().size(); ++a) {
    if ((axes >> a & 1u) != 0) result.push_back(a);
  }
  return result;
}

std::vector<Collective> StateWriter::chain(const std::vector<Step>& steps,
                                           std::int64_t bytes) const {
  std::vector<Collective> result;
  for (const Step& step : steps) {
    const std::int64_t degree = splits_.axes()[step.axis].degree;
    if (step.kind == CollectiveKind::all_gather) bytes *= degree;
    Collective what;
    what.kind = step.kind;
    what.axes = AxisSet{1} << step.axis;
    what.bytes = bytes;
    result.push_back(what);
    if (step.kind == CollectiveKind::reduce_scatter) bytes = (bytes + degree - 1) / degree;
  }
  return result;
}

void StateWriter::run(SegmentWriter& w, const std::vector<Collective>& chain,
                      const std::string& tensor, TensorClass from, TensorClass to, Phase phase,
                      bool accumulate, bool background) const {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    Collective what = chain[i];
    const GroupAxis& axis = splits_.axes()[static_cast<std::size_t>(__builtin_ctz(what.axes))];
    CollectiveRun run;
    run.phase = phase;
    run.background = background;
    // Ranks of whatever axis that hold the same weights are data-parallel to each other.
    run.cause = axis.cause == Cause::tensor ? Cause::tensor : Cause::data;
    run.name = axis.name + " " + tensor + " " + to_string(what.kind);
    what.accumulate = accumulate && i + 1 == chain.size();
    const std::int64_t part = (what.bytes + axis.degree - 1) / axis.degree;
    const std::int64_t before = what.kind == CollectiveKind::all_gather ? part : what.bytes;
    const std::int64_t after = what.kind == CollectiveKind::reduce_scatter ? part : what.bytes;
    w.collective(run, what, {tensor, i == 0 ? from : to, before}, {tensor, to, after});
  }
}

std::vector<Collective> StateWriter::all_reduce(AxisSet axes, std::int64_t parameters) const {
  const std::vector<std::size_t> over = list(axes);
  if (over.empty()) return {};
  std::vector<Step> steps;
  for (std::size_t i = 0; i + 1 < over.size(); ++i) {
    steps.push_back({CollectiveKind::reduce_scatter, over[i]});
  }
  steps.push_back({CollectiveKind::all_reduce, over.back()});
  for (std::size_t i = over.size() - 1; i > 0; --i) {
    steps.push_back({CollectiveKind::all_gather, over[i - 1]});
  }
  return chain(steps, parameters * state_.gradient);
}

std::vector<Collective> StateWriter::scatter(AxisSet axes, std::int64_t parameters) const {
  std::vector<Step> steps;
  for (const std::size_t a : list(sharding_.cut(axes))) {
    steps.push_back({CollectiveKind::reduce_scatter, a});
  }
  return chain(steps, parameters * state_.gradient);
}

std::vector<Collective> StateWriter::part_sum(AxisSet axes, std::int64_t parameters) const {
  const std::int64_t ways = sharding_.ways(axes);
  std::vector<Step> steps;
  for (const std::size_t a : list(axes & ~sharding_.cut(axes))) {
    steps.push_back({CollectiveKind::all_reduce, a});
  }
  return chain(steps, (parameters + ways - 1) / ways * state_.gradient);
}

std::vector<Collective> StateWriter::gather(AxisSet axes, std::int64_t parameters) const {
  const std::vector<std::size_t> over = list(sharding_.cut(axes));
  const std::int64_t ways = sharding_.ways(axes);
  std::vector<Step> steps;
  for (auto a = over.rbegin(); a != over.rend(); ++a) {
    steps.push_back({CollectiveKind::all_gather, *a});
  }
  return chain(steps, (parameters + ways - 1) / ways * state_.weight);
}

std::vector<Collective> StateWriter::all_reduces(const ParametersByAxes& parameters) const {
  return each(parameters, [&](AxisSet axes, std::int64_t n) { return all_reduce(axes, n); });
}

std::vector<Collective> StateWriter::scatters(const ParametersByAxes& parameters) const {
  return each(parameters, [&](AxisSet axes, std::int64_t n) { return scatter(axes, n); });
}

std::vector<Collective> StateWriter::part_sums(const ParametersByAxes& parameters) const {
  return each(parameters, [&](AxisSet axes, std::int64_t n) { return part_sum(axes, n); });
}

std::vector<Collective> StateWriter::gathers(const ParametersByAxes& parameters) const {
  return each(parameters, [&](AxisSet axes, std::int64_t n) { return gather(axes, n); });
}

void StateWriter::all_reduce(SegmentWriter& w, const ParametersByAxes& parameters,
                             bool background) const {
  for (const auto& [axes, n] : parameters) {
    run(w, all_reduce(axes, n), gradients(), TensorClass::gradient, TensorClass::gradient,
        Phase::gradient_sync, false, background);
  }
}

void StateWriter::scatter(SegmentWriter& w, const ParametersByAxes& parameters, bool accumulate,
                          bool background) const {
  for (const auto& [axes, n] : parameters) {
    run(w, scatter(axes, n), gradients(), TensorClass::gradient, TensorClass::gradient,
        Phase::gradient_sync, accumulate, background);
  }
}

void StateWriter::all_reduce_parts(SegmentWriter& w, const ParametersByAxes& parameters) const {
  for (const auto& [axes, n] : parameters) {
    run(w, part_sum(axes, n), gradients(), TensorClass::gradient, TensorClass::gradient,
        Phase::gradient_sync, false, false);
  }
}

void StateWriter::gather(SegmentWriter& w, const ParametersByAxes& parameters) const {
  for (const auto& [axes, n] : parameters) {
    run(w, gather(axes, n), gathered(), TensorClass::weight, TensorClass::weight, Phase::optimizer,
        false, false);
  }
}

void StateWriter::fetch(SegmentWriter& w, const ParametersByAxes& parameters, Phase phase,
                        bool background, const Residency& residency) const {
  for (const auto& [axes, n] : parameters) {
    if (sharding_.zero() >= 3 && sharding_.cut(axes) != 0) {
      run(w, gather(axes, n), gathered(), TensorClass::weight, TensorClass::fetched, phase, false,
          background);
    } else {
      w.copy("fetch weights", phase, residency.space(TensorClass::weight),
             residency.space(TensorClass::fetched), n * state_.weight);
    }
  }
}

}  // namespace tilewright
