// The partitions that plans name: Megatron's, its two- and three-dimensional forms, AccPar's,
// streaming.
#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

#include "accpar.h"
#include "key_value_copies.h"

namespace tilewright {
namespace {

constexpr OpRole kColumnSplit[] = {
    OpRole::qkv,  OpRole::rotary, OpRole::mlp_up,    OpRole::activation,
    OpRole::head, OpRole::loss,   OpRole::expert_up, OpRole::expert_activation};
constexpr OpRole kByHead[] = {OpRole::scores, OpRole::softmax, OpRole::context};
constexpr OpRole kRowSplit[] = {OpRole::projection, OpRole::mlp_down, OpRole::expert_down,
                                OpRole::embedding};
constexpr OpRole kBetween[] = {OpRole::attention_norm, OpRole::attention_residual, OpRole::mlp_norm,
                               OpRole::mlp_residual, OpRole::final_norm};
/// How tokens find their experts.
constexpr OpRole kRouting[] = {OpRole::router, OpRole::gate, OpRole::dispatch, OpRole::combine,
                               OpRole::shared_sum};
constexpr OpRole kExperts[] = {OpRole::expert_up, OpRole::expert_activation, OpRole::expert_down};

// Convolutions alternate: by output channel, then by input channel; what lies between two of them,
// and all that has a channel of its own, by channel.
constexpr OpRole kByChannel[] = {
    OpRole::stem,     OpRole::stem_norm,     OpRole::stem_act, OpRole::stem_pool,   OpRole::conv1,
    OpRole::norm1,    OpRole::act1,          OpRole::norm2,    OpRole::act2,        OpRole::norm3,
    OpRole::shortcut, OpRole::shortcut_norm, OpRole::residual, OpRole::residual_act};
constexpr OpRole kByInputChannel[] = {OpRole::conv2, OpRole::conv3};

template <std::size_t N>
void set(Splits& s, const OpRole (&roles)[N], std::size_t axis, std::optional<Dim> dim) {
  for (const OpRole role : roles) s.set(role, axis, dim);
}

/// Everything by token, or by image row; a class has no rows.
void by_row(Splits& s, std::size_t axis, const Graph& graph) {
  s.set_all(axis, Dim::row);
  if (!graph.of_images()) return;
  s.set(OpRole::head, axis, {});
  s.set(OpRole::loss, axis, {});
}

/// Groups need no other group's channels.
bool has_groups(const Graph& graph) {
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      if (op.role == OpRole::conv2 && op.extents[Dim::head] > 1) return true;
    }
  }
  return false;
}

/// The first tensor axis: a pair of GEMMs is cut by output feature, then by input feature.
void megatron(Splits& s, std::size_t axis, const Graph& graph, bool sequence_parallel) {
  set(s, kColumnSplit, axis, Dim::col);
  set(s, kByHead, axis, Dim::head);
  set(s, kRowSplit, axis, Dim::red);
  set(s, kByChannel, axis, Dim::col);
  set(s, kByInputChannel, axis, Dim::red);
  if (has_groups(graph)) s.set(OpRole::conv2, axis, Dim::head);
  if (!sequence_parallel) return;
  set(s, kBetween, axis, Dim::row);
  set(s, kRouting, axis, Dim::row);
}

/// The second: every GEMM the other way round, so that weights are cut in both directions and what
/// passes between the pairs is cut by feature.
void crosswise(Splits& s, std::size_t axis) {
  for (const OpRole role : {OpRole::qkv, OpRole::mlp_up, OpRole::expert_up, OpRole::head}) {
    s.set(role, axis, Dim::red);
  }
  for (const OpRole role :
       {OpRole::rotary, OpRole::activation, OpRole::expert_activation, OpRole::loss,
        OpRole::projection, OpRole::mlp_down, OpRole::expert_down, OpRole::embedding}) {
    s.set(role, axis, Dim::col);
  }
  set(s, kByHead, axis, Dim::head);
  set(s, kBetween, axis, Dim::col);
}

}  // namespace

std::vector<GroupAxis> make_axes(const PlanConfig& plan) {
  std::vector<GroupAxis> axes;
  int stride = 1;
  const auto add = [&](const std::string& name, int degree, Cause cause, bool outer = false) {
    axes.push_back({name, degree, cause, stride, outer});
    stride *= degree;
  };
  if (plan.tensor_shape.size() < 2) {
    add("tensor", plan.tensor, Cause::tensor);
  } else {
    const char* names[] = {"tensor_x", "tensor_y", "tensor_z"};
    for (std::size_t i = 0; i < plan.tensor_shape.size(); ++i) {
      add(names[i], plan.tensor_shape[i], Cause::tensor);
    }
  }
  add("context", plan.context, Cause::context);
  add("expert", plan.expert, Cause::expert);
  add("data", plan.replicas(), Cause::data, true);
  return axes;
}

Splits make_splits(const PlanConfig& plan, const Graph& graph) {
  Splits s(make_axes(plan));
  for (std::size_t a = 0; a < s.axes().size(); ++a) {
    const std::string& name = s.axes()[a].name;
    if (name == "context" || name == "tensor_z") {
      by_row(s, a, graph);
    } else if (name == "expert" || name == "data") {
      s.set_all(a, Dim::batch);
      if (name == "expert") set(s, kExperts, a, Dim::expert);
    } else if (plan.partition == PartitionPreset::streaming) {
      by_row(s, a, graph);
    } else if (plan.partition == PartitionPreset::accpar) {
      accpar(s, a, graph, plan);
    } else if (name == "tensor_y") {
      crosswise(s, a);
    } else {
      megatron(s, a, graph, plan.sequence_parallel);
    }
  }
  for (const OperatorCut& c : plan.cuts) {
    if (const auto axis = s.find(c.axis)) s.set(c.role, *axis, c.dim);
  }
  if (const auto copies = key_value_copies(plan, graph, s)) {
    s.copy_key_values(copies->axis, copies->copies, attention_heads(graph).query);
  }
  return s;
}

}  // namespace tilewright
