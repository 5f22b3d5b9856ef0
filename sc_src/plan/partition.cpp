#include <algorithm>

#include <tilewright/base/integer.h>
#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

std::string to_string(Layout layout) {
  switch (layout) {
    case Layout::replicated:
      return "replicated";
    case Layout::partial:
      return "partial";
    case Layout::batch:
      return "batch";
    case Layout::token:
      return "token";
    case Layout::feature:
      return "feature";
    case Layout::key:
      return "key";
    case Layout::expert:
      return "expert";
    case Layout::halo:
      return "halo";
    case Layout::halo_sum:
      return "halo_sum";
  }
  return "?";
}

std::int64_t operand_elements(const Operand& operand, const Extents& extents) {
  std::int64_t elements = 1;
  for (int d = 0; d < kDims; ++d) {
    if (operand.dims.has(static_cast<Dim>(d))) elements *= extents.size[d];
  }
  // Whole denominators first: the product with a numerator might not fit.
  return elements / operand.denominator * operand.numerator +
         ceil_div(elements % operand.denominator * operand.numerator, operand.denominator);
}

std::int64_t operand_bytes(const Operand& operand, const Extents& extents, DType precision) {
  return operand_elements(operand, extents) * bytes_of(operand.storage, precision);
}

Splits::Splits(std::vector<GroupAxis> axes) : axes_(std::move(axes)) {}

std::optional<std::size_t> Splits::find(const std::string& name) const {
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].name == name) return a;
  }
  return {};
}

int Splits::ranks() const {
  int n = 1;
  for (const GroupAxis& a : axes_) n *= a.outer || a.copies ? 1 : a.degree;
  return n;
}

void Splits::set(OpRole role, std::size_t axis, std::optional<Dim> dim) {
  by_role_[static_cast<std::size_t>(role)][axis] = dim;
}

void Splits::set_all(std::size_t axis, std::optional<Dim> dim) {
  for (auto& cuts : by_role_) cuts[axis] = dim;
}

std::optional<Dim> Splits::cut(OpRole role, std::size_t axis) const {
  return by_role_[static_cast<std::size_t>(role)][axis];
}

Partition Splits::of(const Operator& op) const {
  Partition p;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].degree > 1) p.cut[a] = by_role_[static_cast<std::size_t>(op.role)][a];
  }
  return p;
}

int Splits::degree(const Partition& partition, Dim dim) const {
  int n = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (partition.cut[a] == dim && !axes_[a].outer) n *= axes_[a].degree;
  }
  return n;
}

Extents Splits::local(const Operator& op, std::int64_t samples) const {
  const Partition p = of(op);
  Extents whole = op.extents;
  whole[Dim::batch] = samples;
  Extents local;
  for (int d = 0; d < kDims; ++d) {
    local.size[d] = ceil_div(whole.size[d], degree(p, static_cast<Dim>(d)));
  }
  return local;
}

std::int64_t Splits::local_parameters(const Operator& op) const {
  const Extents of_rank = local(op, 1);
  std::int64_t in_operands = 0, held = 0;
  for (const Operand& w : op.weights) {
    in_operands += operand_elements(w, op.extents);
    held += operand_elements(w, of_rank);
  }
  // Parameters that no operand shows follow the output features.
  const std::int64_t rest = std::max<std::int64_t>(0, op.parameters - in_operands);
  return held + ceil_div(rest, degree(of(op), Dim::col));
}

AxisSet Splits::summed_gradients(const Operator& op) const {
  AxisSet set = 0;
  if (op.weights.empty()) return set;
  const Partition p = of(op);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (p.cut[a] && !op.weights.front().dims.has(*p.cut[a])) set |= AxisSet{1} << a;
  }
  return set;
}

void Splits::copy_key_values(std::size_t axis, int copies, std::int64_t query_heads) {
  GroupAxis shared = axes_[axis];
  shared.name = "key/value copies";
  shared.degree = copies;
  shared.copies = true;
  query_heads_ = query_heads / axes_[axis].degree;
  axes_.push_back(shared);
}

std::map<AxisSet, std::int64_t> Splits::parameters_by_axes(const Operator& op) const {
  std::map<AxisSet, std::int64_t> result;
  std::int64_t own = op.weights.empty() ? 0 : local_parameters(op);
  const AxisSet summed = summed_gradients(op);
  if (op.role == OpRole::qkv && query_heads_ > 0) {
    const std::int64_t copied = own / (query_heads_ + 2) * 2;
    result[summed | AxisSet{1} << (axes_.size() - 1)] = copied;
    own -= copied;
  }
  if (own > 0) result[summed] += own;
  return result;
}

/// The axis of the tensor that a cut of `cut` divides; nothing when the operand does not have it.
std::optional<Layout> Splits::layout_of(const Operator& op, const Operand& operand, Dim cut) const {
  if (!operand.dims.has(cut)) return {};
  switch (cut) {
    case Dim::batch:
      return Layout::batch;
    case Dim::head:
      return Layout::feature;
    case Dim::row:
      return Layout::token;
    case Dim::col:
      // The columns of the scores are key tokens: of K as it is read, of the scores as written.
      if (op.role == OpRole::scores) {
        return operand.dims.has(Dim::row) ? Layout::key : Layout::token;
      }
      return op.role == OpRole::softmax ? Layout::key : Layout::feature;
    case Dim::red:
      if (op.role == OpRole::context) {
        return operand.dims.has(Dim::row) ? Layout::key : Layout::token;
      }
      return Layout::feature;
    case Dim::expert:
      return Layout::expert;
  }
  return {};
}

Layout Splits::window_layout(const Operator& op) const {
  if (op.role != OpRole::scores && op.role != OpRole::context) return Layout::replicated;
  const Partition p = of(op);
  const std::int64_t tokens = op.extents[Dim::row];
  const std::int64_t window = op.extents[op.role == OpRole::scores ? Dim::col : Dim::red];
  const std::int64_t own = ceil_div(tokens, degree(p, Dim::row));
  if (own + window - 1 >= tokens) return Layout::replicated;
  return window > 1 ? Layout::halo : Layout::token;
}

Layouts Splits::input_layouts(const Operator& op, const Operand& operand) const {
  Layouts result{};
  const Partition p = of(op);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (!p.cut[a]) continue;
    const bool of_queries = p.cut[a] == Dim::row && !operand.dims.has(Dim::row);
    result[a] = of_queries ? window_layout(op)
                           : layout_of(op, operand, *p.cut[a]).value_or(Layout::replicated);
  }
  return result;
}

Layouts Splits::output_layouts(const Operator& op, const Operand& operand) const {
  Layouts result{};
  const Partition p = of(op);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    // A cut that the result does not show was summed over.
    if (p.cut[a]) result[a] = layout_of(op, operand, *p.cut[a]).value_or(Layout::partial);
  }
  return result;
}

int Splits::pieces(const Layouts& layouts) const {
  int n = 1;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (axes_[a].outer || layouts[a] == Layout::replicated || layouts[a] == Layout::partial)
      continue;
    n *= axes_[a].degree;
  }
  return n;
}

}  // namespace tilewright
