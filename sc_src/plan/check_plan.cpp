// Checks a plan against the model and the machine it is to run on.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/plan.h>

namespace tilewright {
namespace {

/// `where` is empty in a plan that was not read from a file.
[[noreturn]] void fail(const PlanConfig& plan, const std::string& where, const std::string& key,
                       const std::string& message) {
  throw InputError(fmt::format(
      "{}: {}", where.empty() ? fmt::format("plan '{}': {}", plan.name, key) : where, message));
}

const Operator* find(const Graph& graph, OpRole role) {
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (op.role == role) return &op;
    }
  }
  return nullptr;
}

/// A width of the model that tensor parallelism cuts.
struct Width {
  std::string name;
  std::int64_t size;
};

std::vector<Width> split_widths(const Graph& graph) {
  std::vector<Width> widths;
  if (const Operator* scores = find(graph, OpRole::scores)) {
    const std::int64_t heads = scores->extents[Dim::head];
    widths.push_back({"attention heads", heads});
    // The graph counts each key once, however many query heads share it: the keys' share of the
    // operator's (head, col) points, times the heads, is what there is per query token.
    std::int64_t kv_heads = heads;
    for (const Operand& in : scores->inputs) {
      if (!in.dims.has(Dim::col) || in.denominator < 1 || scores->extents[Dim::row] < 1) continue;
      const std::int64_t keys = heads * scores->extents[Dim::col] * in.numerator / in.denominator;
      kv_heads = std::min(kv_heads, keys / scores->extents[Dim::row]);
    }
    if (kv_heads != heads && kv_heads > 0) widths.push_back({"key/value heads", kv_heads});
  }
  // Layers with and without experts differ in width, and so do experts and shared experts.
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      const bool expert = op.role == OpRole::expert_down;
      if (!expert && op.role != OpRole::mlp_down) continue;
      const Width width{expert ? "expert width" : "feed-forward width", op.extents[Dim::red]};
      const auto same = [&](const Width& w) {
        return w.name == width.name && w.size == width.size;
      };
      if (std::none_of(widths.begin(), widths.end(), same)) widths.push_back(width);
    }
  }
  return widths;
}

void check_tensor(const PlanConfig& plan, const Graph& graph) {
  const std::vector<Width> widths = split_widths(graph);
  std::string broken;
  std::int64_t common = 0;
  for (const Width& w : widths) {
    common = std::gcd(common, w.size);
    if (w.size % plan.tensor == 0) continue;
    broken += fmt::format("{}{} {} of model '{}'", broken.empty() ? "" : " nor the ", w.size,
                          w.name, graph.model);
  }
  if (broken.empty()) return;
  std::vector<std::int64_t> allowed;
  for (std::int64_t t = 1; t * t <= common; ++t) {
    if (common % t != 0) continue;
    allowed.push_back(t);
    if (t != common / t) allowed.push_back(common / t);
  }
  std::sort(allowed.begin(), allowed.end());
  fail(plan, plan.where_tensor, "parallelism.tensor",
       fmt::format("a tensor degree of {} does not divide the {}; every rank must hold equal whole "
                   "parts; allowed: {}",
                   plan.tensor, broken, fmt::join(allowed, ", ")));
}

void check_stages(const PlanConfig& plan, const Graph& graph) {
  const std::int64_t layers = graph.layers();
  if (plan.pipeline > layers) {
    fail(plan, plan.where_pipeline, "parallelism.pipeline",
         fmt::format("{} pipeline stages need at least one layer each, but model '{}' has {}; "
                     "allowed: 1 to {}",
                     plan.pipeline, graph.model, layers, layers));
  }
  if (plan.stage_layers.empty()) return;
  if (plan.stage_layers.size() != static_cast<std::size_t>(plan.pipeline)) {
    fail(plan, plan.where_stages, "stages",
         fmt::format("{} stages are listed, the pipeline degree is {}", plan.stage_layers.size(),
                     plan.pipeline));
  }
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < plan.stage_layers.size(); ++i) {
    const std::int64_t n = plan.stage_layers[i];
    if (n < 1 || n > layers) {
      fail(plan, plan.where_stages, "stages",
           fmt::format("stage {} has {} layers; allowed: 1 to {}", i, n, layers));
    }
    sum += n;
  }
  if (sum != layers) {
    fail(plan, plan.where_stages, "stages",
         fmt::format("the stages [{}] hold {} layers, model '{}' has {}; their sum must be {}",
                     fmt::join(plan.stage_layers, ", "), sum, graph.model, layers, layers));
  }
}

void check_tiles(const PlanConfig& plan, const MachineConfig& machine) {
  const std::int64_t ranks = std::int64_t{plan.pipeline} * plan.tensor * plan.data;
  const std::int64_t usable = machine.usable_tiles();
  if (ranks <= usable) return;
  std::vector<std::string> choices;  // what one change of a single degree would do
  const auto at_most = [&](const char* name, std::int64_t degree) {
    const std::int64_t most = usable / (ranks / degree);
    if (most >= 1) choices.push_back(fmt::format("{} at most {}", name, most));
  };
  at_most("pipeline", plan.pipeline);
  at_most("tensor", plan.tensor);
  at_most("data", plan.data);
  // Blame the degree that was most likely added last.
  const bool data = plan.data > 1;
  fail(plan, data ? plan.where_data : plan.where_pipeline,
       data ? "parallelism.data" : "parallelism.pipeline",
       fmt::format("pipeline {} × tensor {} × data {} are {} ranks, but machine '{}' has {} usable "
                   "tiles; allowed: pipeline × tensor × data up to {}{}",
                   plan.pipeline, plan.tensor, plan.data, ranks, machine.name, usable, usable,
                   choices.empty() ? "" : fmt::format(" ({})", fmt::join(choices, ", or "))));
}

void check_precision(const PlanConfig& plan, const MachineConfig& machine) {
  const std::string format = to_string(plan.precision);
  if (machine.matrix.peak.count(format) > 0) return;
  std::vector<std::string> supported;
  for (const auto& p : machine.matrix.peak) supported.push_back(p.first);
  fail(plan, plan.where_precision, "precision",
       fmt::format("the matrix engine of machine '{}' does not support {}; supported: {}",
                   machine.name, format, fmt::join(supported, ", ")));
}

void check_batch(const PlanConfig& plan) {
  if (plan.global_batch < plan.data) {
    fail(plan, plan.where_batch, "batch.global",
         fmt::format("the global batch of {} gives some of the {} data replicas no sample; wanted: "
                     "at least {}",
                     plan.global_batch, plan.data, plan.data));
  }
  if (plan.micro_batch < 1 || plan.micro_batch > plan.replica_batch(0)) {
    fail(plan, plan.where_batch, "batch.micro",
         fmt::format("the micro-batch of {} is not within 1 and the replica's batch of {}",
                     plan.micro_batch, plan.replica_batch(0)));
  }
}

}  // namespace

void check_plan(const PlanConfig& plan, const Graph& graph, const MachineConfig& machine) {
  if (plan.pipeline < 1 || plan.tensor < 1 || plan.data < 1) {
    fail(plan, "", "parallelism",
         fmt::format("pipeline {}, tensor {} and data {} must be at least 1", plan.pipeline,
                     plan.tensor, plan.data));
  }
  check_batch(plan);
  if (plan.sequence != 0 && plan.sequence != graph.sequence) {
    fail(plan, plan.where_sequence, "sequence",
         fmt::format("the plan asks for {} tokens, the graph of model '{}' was built for {}",
                     plan.sequence, graph.model, graph.sequence));
  }
  check_tensor(plan, graph);
  check_stages(plan, graph);
  check_tiles(plan, machine);
  check_precision(plan, machine);
}

}  // namespace tilewright
