#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/compute_model.h>
#include <tilewright/plan/lower.h>
#include <tilewright/simulate/simulate.h>

#include "run_platform.h"

namespace tilewright {
namespace {

std::string flops_convention(const Graph& graph) {
  if (graph.of_images()) return "all taps of a window counted, those in the padding too";
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (op.flop_scale != 1) return "causal part of the attention scores counted";
    }
  }
  return "all attention scores counted";
}

void fill_stages(const LoweredPlan& lowered, const RunStatistics& run, Result& result) {
  for (const StagePlan& s : lowered.stages) {
    StageResult r;
    r.stage = s.stage;
    r.first_layer = s.chunks.front().first_layer;
    for (const ChunkPlan& c : s.chunks) r.chunks.push_back({c.first_layer, c.layers});
    r.layers = s.layers;
    r.embedding = s.embedding;
    r.head = s.head;
    r.parameters = s.parameters;
    r.micro_batches_in_flight = s.in_flight;
    std::vector<TileId> tiles;
    for (int replica = 0; replica < lowered.placement.replicas; ++replica) {
      const auto group = lowered.placement.tile_group(s.stage, replica);
      tiles.insert(tiles.end(), group.begin(), group.end());
    }
    summarise_stage(run, tiles, r);
    result.stages.push_back(r);
  }
}

void fill_notes(const MachineConfig& machine, const Graph& graph, const PlanConfig& plan,
                const LoweredPlan& lowered, Result& result) {
  for (const std::string& a : machine.assumptions) result.notes.push_back("assumed: " + a);
  result.notes.insert(result.notes.end(), graph.notes.begin(), graph.notes.end());
  const int idle = machine.usable_tiles() - result.tiles_used;
  if (idle > 0) {
    result.notes.push_back(fmt::format("the plan uses {} of {} usable tiles; {} stay idle",
                                       result.tiles_used, machine.usable_tiles(), idle));
  }
  if (!machine.defects.speed.empty()) {
    result.notes.push_back(
        "the plan's own estimates (stage cuts, blockings, residency) assume engines at full speed");
  }
  const auto micro = plan.micro_batches(0);
  if (micro.back() != plan.group_micro_batch()) {
    result.notes.push_back(fmt::format("{} micro-batches of {} samples and a last one of {}",
                                       micro.size() - 1, plan.group_micro_batch(), micro.back()));
  }
  std::int64_t fewest = lowered.stages.front().layers, most = fewest;
  for (const StagePlan& s : lowered.stages) {
    fewest = std::min(fewest, s.layers);
    most = std::max(most, s.layers);
  }
  if (fewest != most) {
    result.notes.push_back(fmt::format("stages hold between {} and {} layers", fewest, most));
  }
  for (const GroupAxis& axis : make_splits(plan, graph).axes()) {
    if (!axis.copies) continue;
    result.notes.push_back(
        fmt::format("every key/value head is held by {} tensor ranks; hardware FLOPs count the "
                    "copies",
                    axis.degree));
  }
  for (const Block& block : graph.blocks) {
    const Operator& op = block.operators.front();
    if (op.kind != OpKind::embedding) continue;
    const std::int64_t vocabulary = op.extents[Dim::red], t = plan.tensor;
    if (vocabulary % t == 0) continue;
    result.notes.push_back(
        fmt::format("the vocabulary of {} is padded to {} for {} tensor ranks; hardware FLOPs "
                    "count the padding",
                    vocabulary, (vocabulary + t - 1) / t * t, t));
  }
}

/// What the timing model of the engines has to say about the program's operators, once per distinct
/// remark.
void fill_caveats(const MachineConfig& machine, const Program& program, Result& result) {
  constexpr std::size_t kMost = 8;
  const auto model = make_compute_model(machine);
  std::set<std::string> seen;
  for (const ComputeShape& s : program.shapes) {
    if (s.engine != Engine::matrix) continue;
    const std::string remark =
        model->caveat({s.batch, s.m, s.n, s.k, s.flop}, program.names[s.format]);
    if (remark.empty() || !seen.insert(remark).second) continue;
    if (seen.size() <= kMost) result.notes.push_back("extrapolated: GEMM " + remark);
  }
  if (seen.size() > kMost) {
    result.notes.push_back(
        fmt::format("extrapolated: {} more GEMM shapes likewise", seen.size() - kMost));
  }
}

}  // namespace

Result simulate(const MachineConfig& machine, const Graph& graph, const PlanConfig& plan,
                const SimulateOptions& options) {
  options.enter("lower");
  const LoweredPlan lowered = lower(graph, plan, machine);

  Result result;
  const RunStatistics& run = run_platform(machine, lowered.program, options, result);

  options.enter("report");
  result.machine = machine.name;
  result.model = graph.model;
  result.plan = plan.name;
  result.parameters = graph.parameters();
  result.samples = static_cast<double>(plan.global_batch);
  result.tokens = result.samples * static_cast<double>(graph.sequence);
  result.flops_model = Flop(lowered.model_flop);
  result.flops_convention = flops_convention(graph);
  summarise(machine, run, result);
  // Pieces of operators are fractions; their sum over a tile is a whole number of FLOPs again.
  double flop = 0;
  for (const TileStatistics& t : run.tiles) flop += std::round(t.flop);
  result.flops_hardware = Flop(flop);
  const double roof = machine.peak(to_string(plan.precision)).value() * result.tiles_used *
                      result.iteration_time.value();
  result.mfu = roof > 0 ? lowered.model_flop / roof : 0;
  result.hfu = roof > 0 ? flop / roof : 0;
  result.bounds.compute = Seconds(lowered.compute_bound);
  result.bounds.pipeline = Seconds(lowered.pipeline_bound);
  fill_stages(lowered, run, result);
  summarise_stragglers(machine, lowered.program, result);
  summarise_energy(machine, lowered.program, run, result);
  fill_notes(machine, graph, plan, lowered, result);
  fill_caveats(machine, lowered.program, result);
  return result;
}

}  // namespace tilewright
