// The backward pass of a block: gradients of inputs and of weights, together or apart.
#include "kernel_builder.h"

namespace tilewright {

Access KernelBuilder::saved(Backward& b, const Operator& op, const Operand& operand) const {
  return fetch(b.list, b.saved, operand.tensor, o_.splits.input_layouts(op, operand),
               Phase::backward, operand.tensor);
}

std::optional<Access> KernelBuilder::existing(Backward& b, const std::string& activation,
                                              const Layouts& layouts) const {
  if (!has_gradient(b, activation) || has_partial(layouts)) return {};
  return gradient(b, activation, layouts);
}

void KernelBuilder::contribute(Backward& b, const std::string& activation, const Layouts& layouts,
                               const std::optional<Access>& before,
                               const std::optional<Edge>& edge) const {
  if (!before && has_gradient(b, activation)) {
    add_partial(b, activation, layouts, edge);
    return;
  }
  // A new tensor, so that a kernel never reads what it writes.
  const std::string name =
      before ? b.gradients.primary.at(activation).name + "'" : "d." + activation;
  if (before) {
    b.list.read(*before);
    b.list.kernels.back().vector_elements +=
        static_cast<double>(before->bytes) / bytes_of(o_.precision);
  }
  const Access sum = access(name, TensorClass::temporary, activation, layouts);
  b.list.produce(sum);
  if (edge) return_edge(b.list, *edge, sum);
  b.gradients.primary[activation] = {name, TensorClass::temporary, layouts};
  drop_copies(b.gradients, activation);
}

void KernelBuilder::add_partial(Backward& b, const std::string& activation, const Layouts& layouts,
                                const std::optional<Edge>& edge) const {
  const std::string name = "d." + activation + ".part";
  const Access made = access(name, TensorClass::temporary, activation, layouts);
  b.list.produce(made);
  if (edge) return_edge(b.list, *edge, made);
  Holdings part;
  part.primary[name] = {name, TensorClass::temporary, layouts};
  const Layouts sum = without_partial(layouts);
  const Access own = fetch(b.list, part, name, sum, Phase::backward, activation);
  const Access other = gradient(b, activation, sum);
  b.list.open("sum.d." + activation, Phase::backward);
  b.list.read(own);
  contribute(b, activation, sum, other);
}

void KernelBuilder::drop_copies(Holdings& held, const std::string& tensor) {
  for (auto it = held.copies.begin(); it != held.copies.end();) {
    it = it->first.first == tensor ? held.copies.erase(it) : std::next(it);
  }
}

Layouts KernelBuilder::input_gradient_layouts(const Operator& op, const Operand& in,
                                              DimSet summed) const {
  Layouts l = o_.splits.input_layouts(op, in);
  const Partition p = o_.splits.of(op);
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (!p.cut[a] || !summed.has(*p.cut[a])) continue;
    if (l[a] == Layout::replicated) l[a] = Layout::partial;
    if (l[a] == Layout::halo) l[a] = Layout::halo_sum;
  }
  return l;
}

Layouts KernelBuilder::broadcast_gradient_layouts(const Operator& op, const Operand& in) const {
  return input_gradient_layouts(
      op, in, DimSet(Dim::batch, Dim::head, Dim::row, Dim::col, Dim::red, Dim::expert));
}

std::vector<Access> KernelBuilder::result_gradients(Backward& b, const Operator& op) const {
  std::vector<Access> result;
  for (const Operand& out : op.outputs) {
    if (!has_gradient(b, out.tensor)) continue;
    result.push_back(gradient(b, out.tensor, without_partial(o_.splits.output_layouts(op, out))));
  }
  return result;
}

void KernelBuilder::gemm_backward(Backward& b, const Operator& op) const {
  const std::vector<Access> results = result_gradients(b, op);
  if (results.empty()) return;
  // The gradients of a fused projection's results are one operand: the first carries the bytes of
  // all, the others are named so that the kernel waits for them too.
  Access dy{results.front().tensor, TensorClass::temporary, 0, results.front().common};
  std::vector<Access> others;
  for (const Access& d : results) {
    dy.bytes += d.bytes;
    if (d.tensor != dy.tensor) others.push_back({d.tensor, d.cls, 0});
  }
  const Gemm g = gemm_of(op);
  const Operand& input = op.inputs.front();
  KernelList& weights = weight_list(b);
  const Access x = fetch(weights, weight_saved(b), input.tensor, o_.splits.input_layouts(op, input),
                         Phase::backward, input.tensor);

  const Access beside = fetch_edge(weights, op, input, x, Phase::backward);
  Kernel& w = weights.open(op.name + ".wgrad", Phase::backward);
  multiply(w, op, ConvolutionPass::weight_gradient, {g.batch, g.k, g.n, g.m, g.flop_scale});
  w.a = x;
  w.b = dy;
  w.reads = others;
  weights.read({beside.tensor, beside.cls, 0});
  w.accumulate = (o_.splits.summed_gradients(op) & o_.scattered) == 0;
  w.vector_elements = Operator::vector_elements(local(op)) * op.backward_passes;
  weights.produce(weight_gradient(op));

  if (!differentiable(input.storage)) return;
  // Second, so that the operator below can take its gradient on the way out.
  const Layouts layouts = input_gradient_layouts(op, input, DimSet(Dim::col));
  const auto before = existing(b, input.tensor, layouts);
  Kernel& d = b.list.open(op.name + ".dgrad", Phase::backward);
  multiply(d, op, ConvolutionPass::input_gradient, {g.batch, g.m, g.k, g.n, g.flop_scale});
  d.a = dy;
  d.b = weight(op);
  d.reads = others;
  contribute(b, input.tensor, layouts, before, edge_of(op, input));
}

void KernelBuilder::batched_backward(Backward& b, const Operator& op) const {
  const Gemm g = gemm_of(op);
  const Access dy = result_gradients(b, op).front();
  const Operand &first = op.inputs[0], &second = op.inputs[1];
  const Access x = saved(b, op, first), y = saved(b, op, second);
  const Layouts of_second = input_gradient_layouts(op, second, DimSet(Dim::row));
  const Layouts of_first = input_gradient_layouts(op, first, DimSet(Dim::col));

  auto before = existing(b, second.tensor, of_second);
  Kernel& s = b.list.open(op.name + ".dgrad." + second.tensor, Phase::backward);
  s.matrix = true;
  s.gemm = {g.batch, g.n, g.k, g.m, g.flop_scale};
  s.a = dy;
  s.b = x;
  contribute(b, second.tensor, of_second, before);

  before = existing(b, first.tensor, of_first);
  Kernel& f = b.list.open(op.name + ".dgrad." + first.tensor, Phase::backward);
  f.matrix = true;
  f.gemm = {g.batch, g.m, g.k, g.n, g.flop_scale};
  f.a = dy;
  f.b = y;
  contribute(b, first.tensor, of_first, before);
}

void KernelBuilder::fetch_saved(KernelList& list, Holdings& held, const Operator& op,
                                std::vector<Access>& reads) const {
  for (const Operand& s : op.saved) {
    if (saved_.count(s.tensor) == 0) continue;
    Layouts layouts = o_.splits.input_layouts(op, s);
    if (s.storage == Storage::mask) layouts = resolved(o_.splits.output_layouts(op, s));
    reads.push_back(fetch(list, held, s.tensor, layouts, Phase::backward, s.tensor));
  }
}

void KernelBuilder::embedding_backward(Backward& b, const Operator& op) const {
  std::vector<Access> reads = result_gradients(b, op);
  if (reads.empty()) return;
  KernelList& weights = weight_list(b);
  const std::string first = reads.front().tensor;
  fetch_saved(weights, weight_saved(b), op, reads);
  continue_or_open(weights, op, first, op.name + ".grad", Phase::backward);
  for (const Access& a : reads) weights.read(a);
  weights.kernels.back().vector_elements +=
      Operator::vector_elements(local(op)) * op.backward_passes;
  const Access rows{"d." + op.weights.front().tensor, TensorClass::gradient,
                    rows_touched(op, o_.state.gradient)};
  weights.read(rows);
  weights.kernels.back().writes.push_back(rows);
}

void KernelBuilder::vector_backward(Backward& b, const Operator& op) const {
  const bool starts = op.kind == OpKind::loss;
  const std::vector<Access> results = result_gradients(b, op);
  if (results.empty() && !starts) return;
  // A summand takes the result's gradient; the pass that adds gradients up again belongs to the
  // kernel where they meet (contribute).
  const std::size_t own = op.inputs.size() - static_cast<std::size_t>(op.summands);
  int passes = op.backward_passes - (op.summands > 0 ? 1 : 0);
  const std::string result = op.outputs.front().tensor;
  if (passes <= 0 && !starts) {
    for (const Operand& in : op.inputs) pass_through(b, in, result);
    return;
  }
  // Everything is fetched before the kernel opens.
  std::vector<Access> reads = results;
  fetch_saved(b.list, b.saved, op, reads);
  std::vector<std::optional<Access>> before(op.inputs.size());
  for (std::size_t i = 0; i < own; ++i) {
    const Operand& in = op.inputs[i];
    if (!differentiable(in.storage)) continue;
    before[i] = existing(b, in.tensor, broadcast_gradient_layouts(op, in));
  }
  if (starts) {
    b.list.open(op.name + ".grad", Phase::backward);
  } else {
    reads.push_back(share_statistics(b.list, op, reads, passes, Phase::backward));
    continue_or_open(b.list, op, results.front().tensor, op.name + ".grad", Phase::backward);
  }
  for (const Access& a : reads) b.list.read(a);
  b.list.kernels.back().vector_elements +=
      Operator::vector_elements(local(op)) * passes + special_elements(op, op.backward_special);
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    const Operand& in = op.inputs[i];
    if (!differentiable(in.storage)) continue;
    if (i < own) {
      contribute(b, in.tensor, broadcast_gradient_layouts(op, in), before[i], edge_of(op, in));
    } else {
      pass_through(b, in, result);
    }
  }
}

void KernelBuilder::pass_through(Backward& b, const Operand& in, const std::string& result) const {
  if (!differentiable(in.storage)) return;
  const Stored d = b.gradients.primary.at(result);
  if (!has_gradient(b, in.tensor)) {
    b.gradients.primary[in.tensor] = d;
    return;
  }
  const Access other = gradient(b, in.tensor, without_partial(d.layouts));
  const Access own = gradient(b, result, without_partial(d.layouts));
  b.list.open("sum.d." + in.tensor, Phase::backward);
  b.list.read(own);
  contribute(b, in.tensor, without_partial(d.layouts), other);
}

KernelBuilder::Backward KernelBuilder::run_backward(BlockKernels& r) const {
  Backward b;
  for (const std::string& name : saved_) {
    b.saved.primary[name] = {name, TensorClass::saved, home_.at(name)};
  }
  b.saved_for_weight = b.saved;
  if (!output_.empty()) {
    r.output_gradient = "d." + output_ + ".in";
    b.gradients.primary[output_] = {r.output_gradient, TensorClass::temporary, o_.boundary};
  }
  for (auto op = block_.operators.rbegin(); op != block_.operators.rend(); ++op) {
    if (attention_.holds(*op)) {
      if (&*op == attention_.context) attention_backward(b);
    } else if (op->multiplies_weights()) {
      gemm_backward(b, *op);
    } else if (op->kind == OpKind::batched_gemm) {
      batched_backward(b, *op);
    } else if (op->kind == OpKind::embedding) {
      embedding_backward(b, *op);
    } else {
      vector_backward(b, *op);
    }
  }
  if (!input_.empty()) r.input_gradient = gradient(b, input_, o_.boundary).tensor;
  return b;
}

void KernelBuilder::hold(Backward& b, BlockKernels& r) const {
  std::set<std::string> made;  // by the weight gradients' own kernels
  for (const Kernel& k : b.weight.kernels) {
    for (const Access& w : k.writes) made.insert(w.tensor);
  }
  std::map<std::string, SizedTensor> sizes;  // of gradients
  for (const Kernel& k : b.list.kernels) {
    for (const Access& w : k.writes) {
      // What is added to an edge of a tensor is less than all of it.
      SizedTensor& size = sizes[w.tensor];
      if (w.bytes >= size.bytes) size = {w.tensor, w.bytes, w.common};
    }
  }
  sizes[r.output_gradient] = {r.output_gradient, r.output_bytes, r.common_boundary};
  std::set<std::string> held;
  const auto hold_once = [&](const Access& a) {
    if (made.count(a.tensor) > 0 || !held.insert(a.tensor).second) return;
    if (a.cls == TensorClass::saved) {
      const Layouts& home = home_.at(a.tensor);
      r.held_activations.push_back({a.tensor, bytes(a.tensor, home), common(home)});
    } else {
      r.held_gradients.push_back(sizes.at(a.tensor));
    }
  };
  for (Kernel& k : b.weight.kernels) for_each_access(k, hold_once);
  held.insert({r.output_gradient, r.input_gradient});
  for (KernelList* list : {&b.list, &b.weight}) {
    for (Kernel& k : list->kernels) {
      for_each_access(k, [&](Access& a) {
        if (held.count(a.tensor) > 0) a.cls = TensorClass::saved;
      });
    }
  }
}

}  // namespace tilewright
