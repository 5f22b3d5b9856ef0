#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/plan/schedule.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

/// Beyond, a schedule is not worked out for a drawing that would show little of it.
constexpr std::uint64_t kDrawnSlots = std::uint64_t{1} << 22;

const char* name_of(OptimizerKind o) {
  return o == OptimizerKind::none ? "none" : o == OptimizerKind::sgd ? "SGD" : "Adam";
}

/// "20 of 51 and one of 4".
std::string sizes_text(const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) return "none";
  if (sizes.front() == sizes.back()) return fmt::format("{} of {}", sizes.size(), sizes.front());
  return fmt::format("{} of {} and one of {}", sizes.size() - 1, sizes.front(), sizes.back());
}

/// "interleaved, 2 chunks per stage".
std::string schedule_name(const PlanConfig& p) {
  std::string text = to_string(p.schedule);
  if (p.own_schedule) text = fmt::format("{}, of a file", p.own_schedule->name);
  if (p.chunks() > 1) text += fmt::format(", {} chunks per stage", p.chunks());
  return text;
}

std::string indented(const std::string& lines) {
  std::string result;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = lines.find('\n', at);
    result += "    " + lines.substr(at, end - at) + '\n';
    at = end + 1;
  }
  return result;
}

void describe_schedule(Description& out, const PlanConfig& p, std::size_t micro_batches) {
  const auto passes = static_cast<std::uint64_t>(p.virtual_stages()) * micro_batches;
  if (passes * kSlotPhases > kDrawnSlots) return;
  const Schedule schedule = p.replica_schedule(0);
  const std::string orders = draw_orders(schedule), timeline = draw_timeline(schedule);
  out.text +=
      fmt::format("\n  Schedule (F forward, B {}{})\n",
                  schedule.split_backward ? "input gradients, W weight gradients" : "backward",
                  schedule.chunks > 1 ? "; F3.1 is micro-batch 3 in chunk 1" : "");
  out.text += indented(orders);
  out.text += fmt::format(
      "\n  Over time, if stages were equal and {}\n",
      schedule.split_backward ? "F, B and W took as long" : "B took twice as long as F");
  out.text += indented(timeline);
  out.json["plan"]["schedule_drawing"] = timeline;
}

}  // namespace

std::string schedule_file(const PlanConfig& p) {
  const Schedule schedule = p.replica_schedule(0);
  return schedule_text(schedule,
                       fmt::format("{}-of-{}-stages-{}-micro-batches", to_string(p.schedule),
                                   schedule.stages(), schedule.micro_batches));
}

void describe_plan(Description& out, const Inputs::Plan& plan) {
  const PlanConfig& p = plan.config;
  const auto sizes = p.micro_batches(0);
  const StateBytes state = p.state_bytes();
  const bool training = p.mode == Mode::training;

  out.heading(fmt::format("Plan {}", p.name));
  out.line(
      "ranks",
      fmt::format(
          "{} = {} pipeline x {} tensor{}{} x {} data", grouped(p.ranks()), p.pipeline, p.tensor,
          p.tensor_shape.size() > 1 ? fmt::format(" ({})", fmt::join(p.tensor_shape, " x ")) : "",
          p.context > 1 ? fmt::format(" x {} context", p.context) : "", p.data));
  if (p.expert > 1) {
    out.line("experts",
             fmt::format("spread over {} of the {} data-parallel ranks", p.expert, p.data));
  }
  out.line("batch", fmt::format("{} samples per iteration", grouped(p.global_batch)));
  out.line("micro-batches", sizes_text(sizes) + (p.data > 1 ? ", first replica" : ""));
  out.line("mode", training ? "training" : "inference (forward only)");
  out.line("schedule", schedule_name(p));
  out.line("precision", to_string(p.precision));
  if (training) {
    out.line("recomputation", to_string(p.recomputation));
    out.line("optimiser", name_of(p.optimizer));
  }
  if (p.fuse_attention || p.fuse_norm) {
    out.line("fusion", p.fuse_attention && p.fuse_norm ? "attention, norm"
                       : p.fuse_norm                   ? "norm"
                                                       : "attention");
  }
  if (!p.fuse_pointwise) out.line("fusion", "none");
  out.line("state per parameter",
           fmt::format("{} B: {} weight, {} gradient, {} optimiser", state.total(), state.weight,
                       state.gradient, state.optimizer));
  if (p.offload.any()) out.line("in host memory", to_string(p.offload));
  if (p.multicast) out.line("multicast", "of what tensor ranks hold alike");
  if (p.zero > 0) out.line("ZeRO", fmt::format("stage {}", p.zero));
  out.line("placement", p.placement == PlacementKind::block        ? "block"
                        : p.placement == PlacementKind::serpentine ? "serpentine"
                                                                   : "as listed in a file");

  Json& j = out.json["plan"];
  j["name"] = p.name;
  j["ranks"] = p.ranks();
  j["pipeline"] = p.pipeline;
  j["tensor"] = p.tensor;
  j["data"] = p.data;
  j["context"] = p.context;
  j["expert"] = p.expert;
  j["zero"] = p.zero;
  j["offload"] = to_string(p.offload);
  j["global_batch"] = p.global_batch;
  j["micro_batch"] = p.micro_batch;
  j["micro_batches"] = sizes.size();
  j["state_bytes_per_parameter"] = Json{{"weight", state.weight},
                                        {"gradient", state.gradient},
                                        {"optimizer", state.optimizer},
                                        {"total", state.total()}};
  describe_schedule(out, p, sizes.size());
  describe_settings(out, "plan", plan.document, p.files);
}

}  // namespace tilewright::cli
