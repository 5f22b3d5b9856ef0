#include <algorithm>

#include <fmt/format.h>

#include <tilewright/plan/plan.h>

namespace tilewright {

const char* to_string(PlacedAxis axis) {
  switch (axis) {
    case PlacedAxis::tensor:
      return "tensor";
    case PlacedAxis::context:
      return "context";
    case PlacedAxis::expert:
      return "expert";
    case PlacedAxis::data:
      return "data";
    case PlacedAxis::pipeline:
      return "pipeline";
  }
  return "?";
}

int PlanConfig::degree(PlacedAxis axis) const {
  switch (axis) {
    case PlacedAxis::tensor:
      return tensor;
    case PlacedAxis::context:
      return context;
    case PlacedAxis::expert:
      return expert;
    case PlacedAxis::data:
      return replicas();
    case PlacedAxis::pipeline:
      return pipeline;
  }
  return 1;
}

std::vector<PlacedAxis> PlanConfig::axis_order() const {
  std::vector<PlacedAxis> order = placement_order;
  for (const PlacedAxis axis : kRankOrder) {
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  }
  return order;
}

std::string PlanConfig::degrees_text() const {
  std::string text = fmt::format("pipeline {} × tensor {} × data {}", pipeline, tensor, data);
  if (context > 1) text += fmt::format(" × context {}", context);
  return text;
}

StateBytes PlanConfig::state_bytes() const {
  StateBytes bytes;
  const bool mixed = precision != DType::fp32;
  bytes.weight = bytes_of(precision);
  bytes.gradient = mode == Mode::inference ? 0 : fp32_gradients ? 4 : bytes.weight;
  if (mode == Mode::training) {
    const int master = mixed ? 4 : 0;
    if (optimizer == OptimizerKind::adam) bytes.optimizer = master + 8;
    if (optimizer == OptimizerKind::sgd) bytes.optimizer = master;
  }
  return bytes;
}

std::int64_t PlanConfig::replica_batch(int replica) const {
  return global_batch / replicas() + (replica < global_batch % replicas() ? 1 : 0);
}

std::vector<std::int64_t> PlanConfig::micro_batches(int replica) const {
  const std::int64_t batch = replica_batch(replica), micro = group_micro_batch();
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(batch / micro), micro);
  if (batch % micro != 0) sizes.push_back(batch % micro);
  return sizes;
}

std::size_t PlanConfig::micro_batch_count(int replica) const {
  const std::int64_t micro = group_micro_batch();
  return static_cast<std::size_t>((replica_batch(replica) + micro - 1) / micro);
}

int PlanConfig::chunks() const {
  switch (schedule) {
    case ScheduleKind::interleaved:
      return interleaved_chunks;
    case ScheduleKind::zb_v:
      return 2;
    case ScheduleKind::file:
      return own_schedule->chunks;
    default:
      return 1;
  }
}

bool PlanConfig::splits_backward() const {
  if (schedule == ScheduleKind::file) return own_schedule->split_backward;
  return schedule == ScheduleKind::zb_h1 || schedule == ScheduleKind::zb_h2 ||
         schedule == ScheduleKind::zb_v;
}

Schedule PlanConfig::replica_schedule(int replica) const {
  if (schedule == ScheduleKind::file) return *own_schedule;
  const auto m = static_cast<std::uint32_t>(micro_batch_count(replica));
  return mode == Mode::inference ? make_streaming(pipeline, m, chunks())
                                 : make_schedule(schedule, pipeline, m, chunks());
}

}  // namespace tilewright
