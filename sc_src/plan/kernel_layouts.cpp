// Sizes of tensors on a rank, and the collectives that bring them from layout to layout.
#include <algorithm>

#include <tilewright/base/error.h>

#include "kernel_builder.h"

namespace tilewright {

void KernelBuilder::measure(const Operator& op, const Operand& operand) {
  Extents whole = op.extents;
  whole[Dim::batch] = o_.samples;
  whole_.emplace(operand.tensor, operand_bytes(operand, whole, o_.precision));
}

std::int64_t KernelBuilder::whole(const std::string& tensor) const {
  const auto it = whole_.find(tensor);
  if (it == whole_.end()) {
    throw InternalError("block '" + block_.name + "' reads '" + tensor + "', which nobody makes");
  }
  return it->second;
}

std::int64_t KernelBuilder::bytes(const std::string& tensor, const Layouts& layouts) const {
  const std::int64_t pieces = o_.splits.pieces(layouts);
  return (whole(tensor) + pieces - 1) / pieces + halo_bytes(tensor, layouts);
}

std::int64_t KernelBuilder::halo_bytes(const std::string& tensor, Layouts layouts) const {
  bool halo = false;
  for (Layout& l : layouts) {
    if (l != Layout::halo && l != Layout::halo_sum) continue;
    halo = true;
    l = Layout::replicated;
  }
  if (!halo) return 0;
  // Of all tokens, as the other axes cut them; the product might not fit.
  const std::int64_t all = bytes(tensor, layouts), tokens = scores_->extents[Dim::row];
  const std::int64_t before = scores_->extents[Dim::col] - 1;
  return all / tokens * before + (all % tokens * before + tokens - 1) / tokens;
}

TensorClass KernelBuilder::class_of(const std::string& name,
                                    const std::set<std::string>& saving) const {
  const bool kept = o_.training && (name == input_ || saving.count(name) > 0);
  return kept ? TensorClass::saved : TensorClass::temporary;
}

Gemm KernelBuilder::gemm_of(const Operator& op) const {
  const Extents e = local(op);
  Gemm g;
  if (op.multiplies_weights()) {
    g.batch = e[Dim::expert] * e[Dim::head];  // each with its own weights
    g.m = e[Dim::batch] * e[Dim::row];
  } else {
    g.batch = e[Dim::batch] * e[Dim::head];
    g.m = e[Dim::row];
  }
  g.n = e[Dim::col];
  g.k = e[Dim::red];
  g.flop_scale = op.flop_scale;
  return g;
}

std::optional<Convolution> KernelBuilder::convolution_of(const Operator& op,
                                                         ConvolutionPass pass) const {
  if (op.kind != OpKind::convolution) return {};
  const Window& window = *op.window;
  if (window.taps() == 1 && window.height.stride == 1 && window.width.stride == 1) return {};
  const Extents e = local(op);
  Convolution c;
  c.pass = pass;
  c.window = window;
  if (const std::int64_t parts = o_.splits.degree(o_.splits.of(op), Dim::row); parts > 1) {
    // A rank's rows of the result, and those of the image that their windows reach; the padding
    // of the first and the last rank counts as rows.
    Window::Side& rows = c.window.height;
    rows.out = (rows.out + parts - 1) / parts;
    rows.in = std::min(rows.in, (rows.out - 1) * rows.stride + rows.kernel);
    rows.padding = 0;
  }
  c.samples = e[Dim::batch];
  c.groups = e[Dim::head];
  c.in_channels = (e[Dim::red] + window.taps() - 1) / window.taps();
  c.out_channels = e[Dim::col];
  return c;
}

void KernelBuilder::multiply(Kernel& k, const Operator& op, ConvolutionPass pass,
                             const Gemm& plain) const {
  k.matrix = true;
  k.convolution = convolution_of(op, pass);
  k.gemm = k.convolution ? k.convolution->gemm() : plain;
}

Layouts KernelBuilder::without_partial(Layouts layouts) {
  for (Layout& l : layouts) {
    if (l == Layout::partial) l = Layout::replicated;
    if (l == Layout::halo_sum) l = Layout::token;
  }
  return layouts;
}

TensorClass KernelBuilder::weight_class(const Operator& op) const {
  const bool gathered = (o_.splits.summed_gradients(op) & o_.gathered) != 0;
  return gathered || o_.fetch_weights ? TensorClass::fetched : TensorClass::weight;
}

Access KernelBuilder::weight(const Operator& op) const {
  return {op.weights.front().tensor, weight_class(op),
          operand_elements(op.weights.front(), local(op)) * o_.state.weight};
}

Access KernelBuilder::weight_gradient(const Operator& op) const {
  return {"d." + op.weights.front().tensor, TensorClass::gradient,
          operand_elements(op.weights.front(), local(op)) * o_.state.gradient};
}

std::int64_t KernelBuilder::rows_touched(const Operator& op, int element_bytes) const {
  const Extents e = local(op);
  const std::int64_t table = operand_elements(op.weights.front(), e) * element_bytes;
  const std::int64_t parts = o_.splits.degree(o_.splits.of(op), Dim::red);
  const std::int64_t tokens = (e[Dim::batch] * e[Dim::row] + parts - 1) / parts;
  return std::min(table, tokens * e[Dim::col] * element_bytes);
}

Access KernelBuilder::fetch(KernelList& list, Holdings& held, const std::string& tensor,
                            const Layouts& needed, Phase phase, const std::string& sized_as) const {
  complete(list, held, tensor, needed, phase, sized_as);
  Stored at = held.primary.at(tensor);
  const auto copy = held.copies.find({tensor, needed});
  if (copy != held.copies.end()) {
    return access(copy->second.name, copy->second.cls, sized_as, needed);
  }
  if (common(at.layouts) && !common(needed)) {
    throw InputError(o_.where_multicast + ": block '" + block_.name + "' cuts '" + tensor +
                     "', which every tensor rank holds and which they keep together; wanted: cuts "
                     "of its operators that read all of it, or multicast: false");
  }
  const bool stays = held.fixed.count(tensor) > 0;
  AxisSet exchanged = 0, gathered = 0, reaching = 0;
  const auto halos = std::count(needed.begin(), needed.end(), Layout::halo);
  Layouts parts = needed;  // without what a window reaches beside them
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (at.layouts[a] == Layout::replicated) {
      // Over several axes a halo is no part of what is whole over one.
      at.layouts[a] = needed[a] == Layout::halo && halos > 1 ? Layout::token : needed[a];
    }
    if (at.layouts[a] == needed[a]) continue;
    if (needed[a] == Layout::halo) {
      parts[a] = Layout::token;
      reaching |= bit(a);
      if (at.layouts[a] == Layout::token) continue;
    }
    (needed[a] == Layout::replicated ? gathered : exchanged) |= bit(a);
  }
  const bool copied = gathered != 0 || reaching != 0;
  const auto convert = [&](CollectiveKind kind, AxisSet axes, const Layouts& into) {
    Stored next = at;
    Layouts uncut = at.layouts;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if ((axes & bit(a)) == 0) continue;
      uncut[a] = Layout::replicated;
      next.layouts[a] = into[a];
      next.name += "." + to_string(into[a]);
      if (a > 0) next.name += "@" + axes_[a].name;
    }
    if (copied || stays) next.cls = TensorClass::temporary;
    Collective how{kind, axes, bytes(sized_as, uncut)};
    how.halo = halo_bytes(sized_as, next.layouts);
    move(list, phase, how, at, next, sized_as);
    at = next;
  };
  if (exchanged != 0) convert(CollectiveKind::all_to_all, exchanged, parts);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((gathered & bit(a)) != 0) convert(CollectiveKind::all_gather, bit(a), parts);
  }
  if (reaching != 0) convert(CollectiveKind::halo, reaching, needed);
  if (copied || (exchanged != 0 && stays)) {
    held.copies[{tensor, needed}] = at;
  } else if (exchanged != 0) {
    held.primary[tensor] = at;
  }
  return access(at.name, at.cls, sized_as, needed);
}

void KernelBuilder::complete(KernelList& list, Holdings& held, const std::string& tensor,
                             const Layouts& needed, Phase phase,
                             const std::string& sized_as) const {
  Stored at = held.primary.at(tensor);
  const auto sums = [&](std::size_t a) {
    return is_sum(at.layouts[a]) && needed[a] != at.layouts[a];
  };
  bool any = false;
  for (std::size_t a = 0; a < axes_.size(); ++a) any |= sums(a);
  // Of what all ranks hold only the part that is needed is summed.
  for (std::size_t a = 0; any && a < axes_.size(); ++a) {
    const bool cuts = needed[a] != Layout::halo && !is_sum(needed[a]);
    if (at.layouts[a] == Layout::replicated && cuts) at.layouts[a] = needed[a];
  }
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (!sums(a)) continue;
    const bool of_halo = at.layouts[a] == Layout::halo_sum;
    Stored next = at;
    next.layouts[a] = of_halo ? Layout::token : needed[a];
    Layouts uncut = at.layouts;
    uncut[a] = Layout::replicated;
    AxisSet over = bit(a);
    for (std::size_t b = a + 1; of_halo && b < axes_.size(); ++b) {
      if (at.layouts[b] != Layout::halo_sum) continue;
      next.layouts[b] = Layout::token;
      uncut[b] = Layout::replicated;
      over |= bit(b);
    }
    const bool scatters = next.layouts[a] != Layout::replicated;
    if (scatters) next.name += ".sum";
    Collective how{of_halo    ? CollectiveKind::halo_sum
                   : scatters ? CollectiveKind::reduce_scatter
                              : CollectiveKind::all_reduce,
                   over, bytes(sized_as, uncut)};
    how.halo = halo_bytes(sized_as, at.layouts);
    move(list, phase, how, at, next, sized_as);
    held.primary[tensor] = at = next;
  }
}

std::optional<KernelBuilder::Edge> KernelBuilder::edge_of(const Operator& op,
                                                          const Operand& image) const {
  if (!op.window) return {};
  const Window::Side& rows = op.window->height;
  const std::int64_t beside = rows.kernel - rows.stride;
  if (beside <= 0) return {};
  const Partition p = o_.splits.of(op);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (p.cut[a] != Dim::row) continue;
    Layouts uncut = o_.splits.input_layouts(op, image);
    uncut[a] = Layout::replicated;
    const std::int64_t all = bytes(image.tensor, uncut);
    return Edge{a, all, (all * beside + rows.in - 1) / rows.in};
  }
  return {};
}

Access KernelBuilder::fetch_edge(KernelList& list, const Operator& op, const Operand& image,
                                 const Access& own, Phase phase) const {
  const auto edge = edge_of(op, image);
  if (!edge || image.storage == Storage::pixel) return {};
  const Access sent{own.tensor, own.cls, edge->bytes};
  const Access come{own.tensor + ".edge", TensorClass::temporary, edge->bytes};
  list.collective(own.tensor + "." + to_string(CollectiveKind::halo), phase,
                  {CollectiveKind::halo, bit(edge->axis), edge->uncut, false, 0, edge->bytes}, sent,
                  come);
  return come;
}

void KernelBuilder::return_edge(KernelList& list, const Edge& edge, const Access& sum) const {
  const Access sent{sum.tensor + ".edge", TensorClass::temporary, edge.bytes};
  list.produce(sent);
  list.collective(sum.tensor + "." + to_string(CollectiveKind::halo_sum), Phase::backward,
                  {CollectiveKind::halo_sum, bit(edge.axis), edge.uncut, true, 0, edge.bytes}, sent,
                  {sum.tensor, sum.cls, edge.bytes});
}

Access KernelBuilder::pass_on(KernelList& list, Phase phase, const std::string& tensor,
                              const Access& block, const Ring& ring, int step) const {
  Collective how{CollectiveKind::ring_step, bit(ring.axis), block.bytes * axes_[ring.axis].degree,
                 false, step};
  Access sent = block;
  if (ring.window) {
    how.kind = CollectiveKind::halo;
    sent.bytes = how.halo = ring.part(block.bytes, step + 1);
  }
  const Access next{tensor + ".ring" + std::to_string(step + 1), TensorClass::temporary,
                    sent.bytes};
  list.collective(tensor + "." + to_string(how.kind), phase, how, sent, next);
  return next;
}

void KernelBuilder::move(KernelList& list, Phase phase, const Collective& how, const Stored& from,
                         const Stored& to, const std::string& sized_as) const {
  list.collective(from.name + "." + to_string(how.kind), phase, how,
                  access(from.name, from.cls, sized_as, from.layouts),
                  access(to.name, to.cls, sized_as, to.layouts));
}

Access KernelBuilder::share_statistics(KernelList& list, const Operator& op,
                                       const std::vector<Access>& inputs, int& passes,
                                       Phase phase) const {
  const bool by_column = op.kind == OpKind::batch_norm;
  if (op.kind != OpKind::norm && op.kind != OpKind::softmax && !by_column) return {};
  const int reducing = by_column ? kBatchStatisticsPasses : passes / 2;
  if (by_column && !o_.training) {
    passes -= reducing;  // inference normalises with what training left
    return {};
  }
  const Partition p = o_.splits.of(op);
  AxisSet summed = 0;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const bool of_a_column = p.cut[a] == Dim::batch || p.cut[a] == Dim::row;
    if (by_column ? of_a_column && !axes_[a].outer : p.cut[a] == Dim::col) summed |= bit(a);
  }
  if (summed == 0 && !by_column) return {};
  const auto e = local(op);
  Access statistics{op.name + (phase == Phase::backward ? ".grad" : "") + ".statistics"};
  statistics.bytes = 2 * bytes_of(Storage::fp32, o_.precision) *
                     (by_column ? e[Dim::col] : e[Dim::batch] * e[Dim::head] * e[Dim::row]);
  join_or_open(list, list.can_extend(inputs.front().tensor), statistics.tensor, phase);
  for (const Access& in : inputs) list.read(in);
  list.kernels.back().vector_elements += Operator::vector_elements(e) * reducing;
  list.produce(statistics);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if ((summed & bit(a)) == 0) continue;
    list.collective(statistics.tensor + "." + to_string(CollectiveKind::all_reduce), phase,
                    {CollectiveKind::all_reduce, bit(a), statistics.bytes}, statistics, statistics);
  }
  passes -= reducing;
  return statistics;
}

void KernelBuilder::continue_or_open(KernelList& list, const Operator& op,
                                     const std::string& tensor, const std::string& name,
                                     Phase phase) const {
  join_or_open(list, pointwise(op) && list.can_extend(tensor), name, phase);
}

void KernelBuilder::join_or_open(KernelList& list, bool joins, const std::string& name,
                                 Phase phase) const {
  if (o_.fuse_pointwise && joins) {
    list.kernels.back().name += "+" + name;
  } else {
    list.open(name, phase);
  }
}

}  // namespace tilewright
