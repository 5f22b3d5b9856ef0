// Checks a plan against the model and the machine it is to run on.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

#include "check_convnet.h"
#include "key_value_copies.h"
#include "plan_error.h"

namespace tilewright {
namespace {

const Operator* find(const Graph& graph, OpRole role) {
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (op.role == role) return &op;
    }
  }
  return nullptr;
}

/// A width of the model that tensor parallelism cuts, and in how many parts.
struct Width {
  std::string name;
  std::int64_t size;
  int parts;
};

std::vector<Width> split_widths(const Graph& graph, const Splits& splits) {
  std::vector<Width> widths;
  if (const Operator* scores = find(graph, OpRole::scores)) {
    const AttentionHeads heads = attention_heads(graph);
    const int parts = splits.degree(splits.of(*scores), Dim::head);
    widths.push_back({"attention heads", heads.query, parts});
    if (heads.key_value != heads.query && heads.key_value > 0) {
      widths.push_back({"key/value heads", heads.key_value, parts});
    }
  }
  // Layers with and without experts differ in width, and so do experts and shared experts.
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      const bool expert = op.role == OpRole::expert_down;
      if (!expert && op.role != OpRole::mlp_down) continue;
      const Width width{expert ? "expert width" : "feed-forward width", op.extents[Dim::red],
                        splits.degree(splits.of(op), Dim::red)};
      const auto same = [&](const Width& w) {
        return w.name == width.name && w.size == width.size;
      };
      if (std::none_of(widths.begin(), widths.end(), same)) widths.push_back(width);
    }
  }
  return widths;
}

void check_tensor(const PlanConfig& plan, const Graph& graph, const Splits& splits) {
  std::string broken, copies;
  std::int64_t common = 0;
  for (const Width& w : split_widths(graph, splits)) {
    if (w.parts > 1) common = std::gcd(common, w.size);
    if (w.size % w.parts == 0) continue;
    const bool key_values = w.name == "key/value heads";
    const bool copied = key_values && key_value_copies(plan, graph, splits);
    if (copied || (plan.uneven == Uneven::pad && !key_values)) continue;
    if (key_values) {
      copies = fmt::format(
          "; with 'uneven: pad' every rank gets copies of key/value heads where the "
          "degree is a multiple of {} that divides the {} attention heads",
          w.size, attention_heads(graph).query);
    }
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
                   "parts; allowed: {}{}{}",
                   plan.tensor, broken, fmt::join(allowed, ", "),
                   plan.uneven == Uneven::pad || !copies.empty() ? "" : " (or 'uneven: pad')",
                   copies));
}

/// True when one of the operator's operands runs over the dimension.
bool has_dimension(const Operator& op, Dim dim) {
  for (const auto* list : {&op.inputs, &op.weights, &op.outputs}) {
    for (const Operand& o : *list) {
      if (o.dims.has(dim)) return true;
    }
  }
  return false;
}

/// Cuts that the user wrote must be of dimensions that the operators have.
void check_cuts(const PlanConfig& plan, const Graph& graph) {
  for (const OperatorCut& c : plan.cuts) {
    const Operator* op = find(graph, c.role);
    if (op == nullptr) {
      fail(plan, c.where, "partition.operators",
           fmt::format("model '{}' has no operator '{}'", graph.model, to_string(c.role)));
    }
    if (!c.dim || has_dimension(*op, *c.dim)) continue;
    std::string allowed = "none";
    for (int d = 0; d < kDims; ++d) {
      if (has_dimension(*op, static_cast<Dim>(d))) {
        allowed += std::string(", ") + to_string(static_cast<Dim>(d));
      }
    }
    fail(plan, c.where, "partition.operators",
         fmt::format("operator '{}' of model '{}' has no dimension '{}'; allowed: {}",
                     to_string(c.role), graph.model, to_string(*c.dim), allowed));
  }
}

/// Every cut divides what it cuts, but for the vocabulary, which is padded.
void check_extents(const PlanConfig& plan, const Graph& graph, const Splits& splits) {
  if (plan.uneven == Uneven::pad) return;
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      const Partition p = splits.of(op);
      for (int i = 0; i < kDims; ++i) {
        const Dim dim = static_cast<Dim>(i);
        const int parts = splits.degree(p, dim);
        std::int64_t extent = op.extents[dim];
        if (dim == Dim::batch) extent = plan.group_micro_batch();
        const bool vocabulary =
            (op.role == OpRole::embedding && dim == Dim::red) ||
            ((op.role == OpRole::head || op.role == OpRole::loss) && dim == Dim::col);
        if (parts == 1 || extent % parts == 0 || vocabulary || !has_dimension(op, dim)) continue;
        const char* what = dim == Dim::row
                               ? graph.of_images() ? "pixels of an image" : "tokens of a sample"
                           : dim == Dim::batch ? "samples of a micro-batch"
                                               : to_string(dim);
        fail(plan, plan.context > 1 && dim == Dim::row ? plan.where_context : plan.where_partition,
             "partition",
             fmt::format("operator '{}' of model '{}' is cut in {} parts, which do not divide its "
                         "{} {}; wanted: a divisor, or 'uneven: pad'",
                         op.name, graph.model, parts, extent, what));
      }
    }
  }
}

void check_experts(const PlanConfig& plan, const Graph& graph) {
  if (plan.expert == 1) return;
  std::int64_t experts = 0;
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) experts = std::max(experts, op.extents[Dim::expert]);
  }
  if (experts > 1) return;
  fail(plan, plan.where_expert, "parallelism.expert",
       fmt::format("model '{}' has no experts to divide; allowed: 1", graph.model));
}

/// What ZeRO 2 and 3 exchange for every micro-batch, all replicas exchange together.
void check_zero(const PlanConfig& plan) {
  if (plan.zero == 0) return;
  if (plan.mode == Mode::inference) {
    fail(plan, plan.where_zero, "parallelism.zero", "inference has no state to cut; allowed: 0");
  }
  if (plan.zero < 2) return;
  const std::size_t first = plan.micro_batches(0).size();
  const std::size_t last = plan.micro_batches(plan.replicas() - 1).size();
  if (first == last) return;
  fail(plan, plan.where_batch, "batch",
       fmt::format("ZeRO {} needs as many micro-batches in every replica; the global batch of {} "
                   "makes {} in the first and {} in the last",
                   plan.zero, plan.global_batch, first, last));
}

void check_stages(const PlanConfig& plan, const Graph& graph) {
  const std::int64_t layers = graph.layers();
  if (plan.pipeline > layers) {
    fail(plan, plan.where_pipeline, "parallelism.pipeline",
         fmt::format("{} pipeline stages need at least one layer each, but model '{}' has {}; "
                     "allowed: 1 to {}",
                     plan.pipeline, graph.model, layers, layers));
  }
  if (plan.virtual_stages() > layers) {
    fail(plan, plan.where_schedule, "schedule",
         fmt::format("{} stages of {} chunks need at least {} layers, but model '{}' has {}; "
                     "allowed: pipeline × chunks up to {}",
                     plan.pipeline, plan.chunks(), plan.virtual_stages(), graph.model, layers,
                     layers));
  }
  if (plan.stage_layers.empty()) return;
  if (plan.stage_layers.size() != static_cast<std::size_t>(plan.virtual_stages())) {
    fail(plan, plan.where_stages, "stages",
         fmt::format("{} stages are listed, pipeline degree × chunks are {}",
                     plan.stage_layers.size(), plan.virtual_stages()));
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

/// A fused kernel has whole rows of scores, and one set of query rows from scores to result.
void check_fusion(const PlanConfig& plan, const Graph& graph, const Splits& splits) {
  if (plan.overlap.ring_attention && !plan.fuse_attention) {
    fail(plan, plan.where_fusion, "fusion",
         "overlap.ring_attention passes keys and values by a fused attention; wanted: attention, "
         "or no ring_attention");
  }
  const Operator* scores = find(graph, OpRole::scores);
  if (!plan.fuse_attention || scores == nullptr) return;
  for (std::size_t a = 0; a < splits.axes().size(); ++a) {
    const auto cut = splits.of(*scores).cut[a];
    const bool rows = !cut || *cut == Dim::batch || *cut == Dim::head || *cut == Dim::row;
    const bool alike = splits.of(*find(graph, OpRole::softmax)).cut[a] == cut &&
                       splits.of(*find(graph, OpRole::context)).cut[a] == cut;
    if (rows && alike) continue;
    fail(
        plan, plan.where_fusion, "fusion",
        fmt::format("over axis {} scores, softmax and context are cut differently or by key; fused "
                    "attention needs them cut alike, by batch, head or row",
                    splits.axes()[a].name));
  }
}

void check_recomputation(const PlanConfig& plan, const Graph& graph) {
  for (const RecomputationRule& rule : plan.recomputation.rules) {
    if (rule.where.every > graph.layers()) {
      fail(plan, plan.where_recomputation, "recomputation",
           fmt::format(
               "one layer of {} is to be recomputed, but model '{}' has {}; allowed: 1 to {}",
               rule.where.every, graph.model, graph.layers(), graph.layers()));
    }
    for (int r = 0; r < kOpRoles; ++r) {
      const auto role = static_cast<OpRole>(r);
      if (!rule.dropped.roles.test(static_cast<std::size_t>(r)) || find(graph, role)) continue;
      fail(plan, plan.where_recomputation, "recomputation",
           fmt::format("model '{}' has no operator '{}'", graph.model, to_string(role)));
    }
  }
}

/// Where tiles can load together what their ranks hold alike.
void check_multicast(const PlanConfig& plan, const MachineConfig& machine) {
  if (!plan.multicast) return;
  const auto refuse = [&](const std::string& message) {
    fail(plan, plan.where_multicast, "multicast", message + "; wanted: false");
  };
  if (plan.tensor == 1) {
    refuse("tensor ranks load together what all of them hold, and parallelism.tensor is 1");
  }
  if (plan.tensor_shape.size() > 1) {
    refuse("of tensor groups with several axes no data is kept together");
  }
  if (!machine.noc.multicast) {
    refuse(
        fmt::format("the network of machine '{}' copies no data; with noc.multicast: true it "
                    "does",
                    machine.name));
  }
  if (machine.dram.sites.empty()) {
    refuse(fmt::format("machine '{}' has no DRAM to load from", machine.name));
  }
}

void check_offload(const PlanConfig& plan, const Graph& graph, const MachineConfig& machine) {
  if (!plan.offload.any()) return;
  const auto refuse = [&](const char* key, const std::string& message) {
    fail(plan, plan.where_offload, "offload", fmt::format("{}: {}", key, message));
  };
  if (plan.offload.activations && plan.mode == Mode::inference) {
    refuse("activations", "inference keeps none for a backward pass; wanted: none");
  }
  if (plan.offload.optimizer && plan.state_bytes().optimizer == 0) {
    refuse(
        "optimizer",
        plan.mode == Mode::inference
            ? "inference updates no weights; wanted: false"
            : "this optimiser has no state in this precision; wanted: false, or optimizer: adam");
  }
  if (plan.offload.activations && plan.offload.activations->every > graph.layers()) {
    refuse(
        "activations",
        fmt::format("one layer of {} is to be moved, but model '{}' has {}; allowed: 1 to {}",
                    plan.offload.activations->every, graph.model, graph.layers(), graph.layers()));
  }
  if (machine.host.sites.empty()) {
    fail(plan, plan.where_offload, "offload",
         fmt::format("{} would live in the host memory, but machine '{}' has none; wanted: a "
                     "machine with a host section, such as --set host.sites=[[0,0]] with "
                     "host.bandwidth and host.capacity, or no offload",
                     to_string(plan.offload), machine.name));
  }
}

/// A user's own schedule is for one number of stages and of micro-batches.
void check_schedule(const PlanConfig& plan) {
  if (plan.mode == Mode::inference && plan.splits_backward()) {
    fail(plan, plan.where_schedule, "schedule", "inference has no backward pass to split");
  }
  if (plan.schedule == ScheduleKind::interleaved && plan.pipeline == 1) {
    fail(plan, plan.where_schedule, "schedule",
         "one stage has nothing to interleave; wanted: a pipeline degree of at least 2");
  }
  if (plan.schedule != ScheduleKind::file) return;
  const Schedule& s = *plan.own_schedule;
  if (s.stages() != plan.pipeline) {
    fail(plan, plan.where_schedule, "schedule",
         fmt::format("schedule '{}' is for {} stages, the pipeline degree is {}", s.name,
                     s.stages(), plan.pipeline));
  }
  for (const int replica : {0, plan.replicas() - 1}) {
    const std::size_t m = plan.micro_batch_count(replica);
    if (s.micro_batches == m) continue;
    fail(plan, plan.where_schedule, "schedule",
         fmt::format("schedule '{}' is for {} micro-batches, replica {} has {}", s.name,
                     s.micro_batches, replica, m));
  }
}

void check_tiles(const PlanConfig& plan, const MachineConfig& machine) {
  const std::int64_t ranks = std::int64_t{plan.pipeline} * plan.tensor * plan.context * plan.data;
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
  if (plan.context > 1) at_most("context", plan.context);
  // Blame the degree that was most likely added last.
  const bool data = plan.data > 1;
  fail(
      plan, data ? plan.where_data : plan.where_pipeline,
      data ? "parallelism.data" : "parallelism.pipeline",
      fmt::format("{} are {} ranks, but machine '{}' has {} usable tiles; allowed: a product of up "
                  "to {}{}",
                  plan.degrees_text(), ranks, machine.name, usable, usable,
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
  if (plan.expert > 1 && plan.global_batch % plan.data != 0) {
    fail(plan, plan.where_batch, "batch.global",
         fmt::format(
             "the global batch of {} does not divide over {} data-parallel ranks; ranks that "
             "exchange tokens with each other's experts need equal batches",
             plan.global_batch, plan.data));
  }
  const std::int64_t largest = plan.replica_batch(0) / plan.expert;
  if (plan.micro_batch < 1 || plan.micro_batch > largest) {
    fail(plan, plan.where_batch, "batch.micro",
         fmt::format("the micro-batch of {} is not within 1 and the replica's batch of {}",
                     plan.micro_batch, largest));
  }
}

}  // namespace

void check_plan(const PlanConfig& plan, const Graph& graph, const MachineConfig& machine) {
  if (plan.pipeline < 1 || plan.tensor < 1 || plan.data < 1 || plan.context < 1 ||
      plan.expert < 1 || plan.data % plan.expert != 0) {
    fail(
        plan, "", "parallelism",
        fmt::format("pipeline {}, tensor {}, data {}, context {} and expert {} must be at least 1, "
                    "and expert divide data",
                    plan.pipeline, plan.tensor, plan.data, plan.context, plan.expert));
  }
  check_batch(plan);
  const Splits splits = make_splits(plan, graph);
  check_convnet(plan, graph, splits);
  if (plan.sequence != 0 && plan.sequence != graph.sequence) {
    fail(plan, plan.where_sequence, "sequence",
         fmt::format("the plan asks for {} tokens, the graph of model '{}' was built for {}",
                     plan.sequence, graph.model, graph.sequence));
  }
  check_cuts(plan, graph);
  check_experts(plan, graph);
  check_zero(plan);
  check_tensor(plan, graph, splits);
  check_extents(plan, graph, splits);
  check_schedule(plan);
  check_stages(plan, graph);
  check_recomputation(plan, graph);
  check_fusion(plan, graph, splits);
  check_offload(plan, graph, machine);
  check_multicast(plan, machine);
  check_tiles(plan, machine);
  check_precision(plan, machine);
}

}  // namespace tilewright
