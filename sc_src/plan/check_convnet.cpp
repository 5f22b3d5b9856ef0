#include "check_convnet.h"

#include <algorithm>
#include <optional>

#include "plan_error.h"

namespace tilewright {
namespace {

/// Features of plans that are about tokens.
void check_features(const PlanConfig& plan, const Graph& graph) {
  const auto refuse = [&](const std::string& where, const char* key, const char* message) {
    fail(plan, where, key, fmt::format("model '{}' is of images: {}", graph.model, message));
  };
  if (plan.sequence > 0) {
    refuse(plan.where_sequence, "sequence", "a sample has no tokens; wanted: no sequence");
  }
  if (plan.sequence_parallel) {
    refuse(plan.where_partition, "parallelism.sequence_parallel",
           "there are no tokens to divide; wanted: false");
  }
  if (plan.fuse_attention || plan.fuse_norm) {
    refuse(plan.where_fusion, "fusion",
           "there is no attention, and no norm that a multiplication takes along; allowed: "
           "pointwise, none");
  }
  if (plan.overlap.ring_attention) {
    refuse(plan.where_fusion, "overlap.ring_attention", "there is no attention; wanted: false");
  }
  if (plan.tensor_shape.size() > 1) {
    refuse(plan.where_tensor, "parallelism.tensor_shape",
           "channels are divided over one tensor axis; wanted: one degree");
  }
  if (plan.partition == PartitionPreset::accpar) {
    refuse(plan.where_partition, "partition",
           "AccPar's types belong to one kind of layer, and the layers of a convolutional network "
           "differ; allowed: megatron, deepspeed-zero1 to 3, fsdp");
  }
}

/// Ranks that share an image hold whole rows of it, equal ones of every size that it has.
void check_rows(const PlanConfig& plan, const Graph& graph, const Operator& op, int parts) {
  if (!op.window) return;
  const bool context = plan.context > 1;
  const Window::Side& rows = op.window->height;
  for (const std::int64_t n : {rows.in, rows.out}) {
    if (n % parts == 0) continue;
    fail(plan, context ? plan.where_context : plan.where_partition,
         context ? "parallelism.context" : "partition",
         fmt::format("operator '{}' of model '{}' has images of {} rows, which {} ranks do not "
                     "divide; wanted: fewer ranks, or an image whose every size has equal parts",
                     op.name, graph.model, n, parts));
  }
}

void check_cut(const PlanConfig& plan, const Graph& graph, const Operator& op, Dim cut, int parts) {
  const auto refuse = [&](const std::string& message) {
    fail(plan, plan.where_partition, "partition",
         fmt::format("operator '{}' of model '{}' {}", op.name, graph.model, message));
  };
  if (cut == Dim::row) return check_rows(plan, graph, op, parts);
  if (op.kind != OpKind::convolution) return;
  const std::int64_t groups = op.extents[Dim::head];
  if (cut == Dim::head ? groups == 1 : groups > 1 && cut != Dim::batch) {
    refuse(groups == 1 ? "has no groups to divide; wanted: col or red"
                       : fmt::format("has {} groups, whose channels stay together; wanted: head, "
                                     "which divides the groups",
                                     groups));
  }
  const std::int64_t channels = op.extents[Dim::red] / op.window->taps();
  if (cut == Dim::red && channels % parts != 0 && plan.uneven == Uneven::refuse) {
    refuse(
        fmt::format("is cut in {} parts, which do not divide its {} input channels; wanted: a "
                    "divisor, or 'uneven: pad'",
                    parts, channels));
  }
}

}  // namespace

void check_convnet(const PlanConfig& plan, const Graph& graph, const Splits& splits) {
  if (!graph.of_images()) return;
  check_features(plan, graph);
  for (const Block& block : graph.blocks) {
    for (const Operator& op : block.operators) {
      const Partition p = splits.of(op);
      const bool by_row = std::count(p.cut.begin(), p.cut.end(), Dim::row) > 0;
      if (plan.multicast && by_row) {
        fail(plan, plan.where_multicast, "multicast",
             "ranks that share an image pass on single rows of it, which tensor ranks do not keep "
             "together; wanted: false");
      }
      if (std::count(p.cut.begin(), p.cut.end(), Dim::row) > 1) {
        fail(plan, plan.where_partition, "partition",
             fmt::format("operator '{}' of model '{}' is cut by row over two axes; the rows of an "
                         "image are divided over one",
                         op.name, graph.model));
      }
      for (const std::optional<Dim>& cut : p.cut) {
        if (cut) check_cut(plan, graph, op, *cut, splits.degree(p, *cut));
      }
    }
  }
}

}  // namespace tilewright
