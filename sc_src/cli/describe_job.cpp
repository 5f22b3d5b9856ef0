#include <set>
#include <string>

#include <fmt/format.h>

#include <tilewright/plan/lower.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

std::string bytes_text(std::int64_t bytes) { return to_string(Bytes(static_cast<double>(bytes))); }

const char* name_of(Space space) {
  return space == Space::sram ? "SRAM" : space == Space::dram ? "DRAM" : "host";
}

std::string layers_text(const StagePlan& s) {
  return fmt::format("{}{}{}", s.embedding ? "E " : "", s.layers_text(), s.head ? " H" : "");
}

Json stage_json(const StagePlan& s) {
  Json memory = Json::array();
  for (const MemoryItem& item : s.memory) {
    memory.push_back(
        {{"what", item.name}, {"bytes", item.bytes}, {"where", to_string(item.space)}});
  }
  return {{"stage", s.stage},
          {"first_layer", s.chunks.front().first_layer},
          {"layers", s.layers},
          {"embedding", s.embedding},
          {"head", s.head},
          {"parameters", s.parameters},
          {"parameters_per_tile", s.local_parameters},
          {"micro_batches_in_flight", s.in_flight},
          {"sram_bytes_per_tile", s.sram_bytes()},
          {"dram_bytes_per_tile", s.dram_bytes()},
          {"host_bytes_per_tile", s.host_bytes()},
          {"messages_waiting_at_most_bytes", s.waiting},
          {"memory_per_tile", memory}};
}

/// The memory plan: a line per stage, and what takes the memory of the fullest.
void describe_memory(Description& out, const LoweredPlan& lowered, bool host) {
  const auto all = [](const StagePlan& s) {
    return s.sram_bytes() + s.dram_bytes() + s.host_bytes();
  };
  out.text += "\n  Memory of a tile, by stage (E embedding, H head)\n";
  out.text += fmt::format("    {:>5}  {:>9}  {:>9}  {:>11}  {:>11}{}\n", "stage", "layers",
                          "in flight", "SRAM", "DRAM", host ? fmt::format("  {:>11}", "host") : "");
  const StagePlan* fullest = &lowered.stages.front();
  for (const StagePlan& s : lowered.stages) {
    out.text += fmt::format("    {:>5}  {:>9}  {:>9}  {:>11}  {:>11}{}\n", s.stage, layers_text(s),
                            s.in_flight, bytes_text(s.sram_bytes()), bytes_text(s.dram_bytes()),
                            host ? fmt::format("  {:>11}", bytes_text(s.host_bytes())) : "");
    out.json["job"]["stages"].push_back(stage_json(s));
    if (all(s) > all(*fullest)) fullest = &s;
  }
  out.text += fmt::format("    Stage {}: {} of SRAM for working buffers, and\n", fullest->stage,
                          bytes_text(fullest->sram_working));
  for (const MemoryItem& item : fullest->memory) {
    out.text += fmt::format("      {:>11}  {}  {}\n", bytes_text(item.bytes), name_of(item.space),
                            item.name);
  }
}

/// Every operator's cut over every axis of more than one rank.
void describe_cuts(Description& out, const Graph& graph, const Splits& splits) {
  std::vector<std::size_t> axes;
  std::string heading = fmt::format("{:<22}", "operator");
  for (std::size_t a = 0; a < splits.axes().size(); ++a) {
    if (splits.axes()[a].degree == 1 || splits.axes()[a].copies) continue;
    axes.push_back(a);
    heading += fmt::format("{:>12}", splits.axes()[a].name);
  }
  if (axes.empty()) return;
  out.text += "\n  Cuts, by axis\n    " + heading + '\n';
  std::set<std::string> seen;  // layers of different kinds share operators
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (!seen.insert(op.name).second) continue;
      std::string line = fmt::format("{:<22}", op.name);
      for (const std::size_t a : axes) {
        const auto cut = splits.cut(op.role, a);
        const std::string name = cut ? to_string(*cut) : "none";
        line += fmt::format("{:>12}", name);
        out.json["job"]["cuts"][op.name][splits.axes()[a].name] = name;
      }
      out.text += "    " + line + '\n';
    }
  }
}

}  // namespace

void describe_job(Description& out, const Inputs& inputs) {
  const PlanConfig& p = inputs.plan->config;
  const MachineConfig& m = inputs.platform->machine;
  const LoweredPlan lowered = lower(inputs.model->graph, p, m);
  const Placement& placement = lowered.placement;

  out.heading(fmt::format("{} with plan {} on {}", inputs.model->graph.model, p.name, m.name));
  out.line("tiles", fmt::format("{} used, {} idle, {} spare", grouped(p.ranks()),
                                grouped(m.usable_tiles() - p.ranks()), m.spare.size()));
  out.line("tensor group", placement.block_width > 0
                               ? fmt::format("rectangles of {} x {} tiles", placement.block_width,
                                             placement.block_height)
                               : std::string("consecutive tiles of the snake"));
  out.line("compute bound", to_string(Seconds(lowered.compute_bound)) +
                                ", matrix work of the busiest stage at peak rate");
  out.line("pipeline bound",
           to_string(Seconds(lowered.pipeline_bound)) + ", the schedule with that work alone");
  out.json["job"] = Json{{"tiles_used", p.ranks()},
                         {"tiles_idle", m.usable_tiles() - p.ranks()},
                         {"tiles_spare", static_cast<int>(m.spare.size())},
                         {"block_width", placement.block_width},
                         {"block_height", placement.block_height},
                         {"compute_bound_s", lowered.compute_bound},
                         {"pipeline_bound_s", lowered.pipeline_bound}};
  describe_cuts(out, inputs.model->graph, make_splits(p, inputs.model->graph));
  describe_memory(out, lowered, !m.host.sites.empty());
}

}  // namespace tilewright::cli
