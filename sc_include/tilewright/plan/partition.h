// How operators are split over the ranks of a tile group, and where that leaves their tensors.
//
// The ranks of a stage are laid out over axes: tensor (one to three), context, expert, data. Each
// operator names, per axis, the dimension it cuts, or none; a tensor then has a layout per axis,
// and where producer and consumer disagree a collective converts one into the other. A weight whose
// operator cuts something the weight does not have (samples, tokens) is held by every rank of the
// axis, and its gradient is a sum over it. Megatron's tensor parallelism, sequence and context
// parallelism, data and expert parallelism and every per-operator mixture are assignments in this
// vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/program/program.h>
#include <tilewright/workload/dtype.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

struct PlanConfig;

/// One axis of the ranks of a stage.
struct GroupAxis {
  std::string name;  ///< "tensor", "tensor_x", "context", "expert", "data"
  int degree = 1;
  Cause cause = Cause::tensor;  ///< on whose behalf its collectives run
  int stride = 1;               ///< between ranks of the stage that are neighbours on this axis
  /// Replicas with micro-batches of their own: extents are already one replica's.
  bool outer = false;
  /// Not an axis of its own: neighbours on another one that hold copies of the same key/value head.
  bool copies = false;
};
constexpr int kMaxAxes = 7;
/// A set of axes, by bit.
using AxisSet = std::uint32_t;

/// Per axis, the dimension an operator cuts.
struct Partition {
  std::array<std::optional<Dim>, kMaxAxes> cut;
};

/// How a tensor lies over one axis.
enum class Layout : std::uint8_t {
  replicated,  ///< every rank holds all of it
  partial,     ///< every rank holds a summand of all of it
  batch,       ///< cut by sample
  token,       ///< cut by token
  feature,     ///< cut by feature, or by attention head
  key,         ///< attention scores cut by key token
  expert,      ///< routed tokens cut by expert
  halo,        ///< cut by token, each part with the tokens before it that a window reaches
  halo_sum,    ///< every rank holds a summand of its halo
};
std::string to_string(Layout layout);
using Layouts = std::array<Layout, kMaxAxes>;

/// The split of every operator of a model.
class Splits {
 public:
  explicit Splits(std::vector<GroupAxis> axes);

  const std::vector<GroupAxis>& axes() const { return axes_; }
  /// The axis of that name, or nothing.
  std::optional<std::size_t> find(const std::string& name) const;
  /// Ranks of a tile group: one replica's.
  int ranks() const;
  void set(OpRole role, std::size_t axis, std::optional<Dim> dim);
  void set_all(std::size_t axis, std::optional<Dim> dim);
  std::optional<Dim> cut(OpRole role, std::size_t axis) const;

  Partition of(const Operator& op) const;
  int degree(const Partition& partition, Dim dim) const;

  /// The extents one rank works on for `samples` samples; what does not divide is rounded up.
  Extents local(const Operator& op, std::int64_t samples) const;
  /// Parameters one rank holds of an operator, biases included.
  std::int64_t local_parameters(const Operator& op) const;
  /// The same by the axes over which their gradients are summands.
  std::map<AxisSet, std::int64_t> parameters_by_axes(const Operator& op) const;
  /// The axes over which the gradients of the operator's weights are summands: its cut there is of
  /// a dimension that the weights do not have.
  AxisSet summed_gradients(const Operator& op) const;

  /// Each rank of `axis` holds the projections of one key and one value head, `copies` consecutive
  /// ranks the same: gradients are summed over these.
  void copy_key_values(std::size_t axis, int copies, std::int64_t query_heads);

  /// Layouts of an operand as the operator needs it (inputs) or leaves it (outputs).
  Layouts input_layouts(const Operator& op, const Operand& operand) const;
  Layouts output_layouts(const Operator& op, const Operand& operand) const;
  /// Ways a tensor with these layouts is cut.
  int pieces(const Layouts& layouts) const;

 private:
  /// Of keys or values along an axis that cuts the tokens of the queries.
  Layout window_layout(const Operator& op) const;
  std::optional<Layout> layout_of(const Operator& op, const Operand& operand, Dim cut) const;

  std::vector<GroupAxis> axes_;
  std::array<std::array<std::optional<Dim>, kMaxAxes>, kOpRoles> by_role_{};
  std::int64_t query_heads_ = 0;  // of a rank, where it holds copies of key/value heads
};

/// The axes of a plan, innermost first; degrees of 1 included.
std::vector<GroupAxis> make_axes(const PlanConfig& plan);

/// The splits of a plan: its preset's, with the user's own cuts on top. `megatron` (arXiv
/// 1909.08053): QKV, up projection, head and loss by output feature, attention by head, output and
/// down projection and the vocabulary-parallel embedding by the reduced dimension, and with
/// sequence parallelism (arXiv 2205.05198) the norms and residuals between them by token; a second
/// tensor axis the other way round, a third by token. Convolutions alternate between output and
/// input channels, or are cut by group. `accpar` as accpar.h says. Context-parallel
/// ranks cut every operator by token, data-parallel ones by sample, but for experts, whose axis
/// cuts those. Where `uneven: pad` copies key/value heads, a last axis is of these copies.
Splits make_splits(const PlanConfig& plan, const Graph& graph);

/// Elements and bytes of an operand within `extents`. Weights have no batch.
std::int64_t operand_elements(const Operand& operand, const Extents& extents);
std::int64_t operand_bytes(const Operand& operand, const Extents& extents, DType precision);

}  // namespace tilewright
