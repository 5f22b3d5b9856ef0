// An attention core as one kernel: scores, softmax and context never leave the SRAM.
#include "kernel_builder.h"

namespace tilewright {

void KernelBuilder::find_attention() {
  for (const Operator& op : block_.operators) {
    if (op.role == OpRole::scores) attention_.scores = &op;
    if (op.role == OpRole::softmax) attention_.softmax = &op;
    if (op.role == OpRole::context) attention_.context = &op;
  }
  if (attention_.scores == nullptr) return;
  // Inside the kernel alone; backward makes them again there.
  for (const Operator* op : {attention_.scores, attention_.softmax}) {
    for (const Operand& out : op->outputs) saved_.erase(out.tensor);
  }
}

Gemm KernelBuilder::attention_gemm(Dim stays, int products, const RingBlock& block) const {
  const Extents e = local(*attention_.scores);
  Gemm g;
  g.batch = e[Dim::batch] * e[Dim::head];
  g.m = stays == Dim::row ? e[Dim::row] : block.of(e[Dim::col]);
  g.n = products * e[Dim::red];
  g.k = stays == Dim::row ? block.of(e[Dim::col]) : e[Dim::row];
  g.flop_scale = attention_.scores->flop_scale;
  return g;
}

std::optional<std::size_t> KernelBuilder::ring_axis(const Holdings& held) const {
  if (!o_.ring_attention) return {};
  const auto gathered = [&](const Operator& op, const Operand& in, std::size_t a) {
    return held.primary.at(in.tensor).layouts[a] == Layout::token &&
           o_.splits.input_layouts(op, in)[a] == Layout::replicated;
  };
  for (std::size_t a = axes_.size(); a-- > 0;) {
    if (axes_[a].degree > 1 && gathered(*attention_.scores, attention_.scores->inputs[1], a) &&
        gathered(*attention_.context, attention_.context->inputs[1], a)) {
      return a;
    }
  }
  return {};
}

Layouts KernelBuilder::ring_layouts(Layouts layouts, const std::optional<std::size_t>& ring) {
  if (ring) layouts[*ring] = Layout::token;
  return layouts;
}

void KernelBuilder::attention_forward(KernelList& list, Holdings& held, Phase phase) const {
  const Operator &scores = *attention_.scores, &context = *attention_.context;
  const Operand &of_k = scores.inputs[1], &of_v = context.inputs[1];
  const auto ring = ring_axis(held);
  const auto read = [&](const Operator& op, const Operand& in,
                        const std::optional<std::size_t>& block_axis) {
    return fetch(list, held, in.tensor, ring_layouts(o_.splits.input_layouts(op, in), block_axis),
                 phase, in.tensor);
  };
  const Access q = read(scores, scores.inputs[0], {});
  Access k = read(scores, of_k, ring), v = read(context, of_v, ring);
  const double elements =
      Operator::vector_elements(local(*attention_.softmax)) * attention_.softmax->forward_passes +
      special_elements(*attention_.softmax, attention_.softmax->forward_special);
  const int blocks = ring ? axes_[*ring].degree : 1;
  Access so_far;  // of the result, as accumulated
  for (int i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const Access next_k = last ? Access{} : pass_on(list, phase, of_k.tensor, k, *ring, i);
    const Access next_v = last ? Access{} : pass_on(list, phase, of_v.tensor, v, *ring, i);
    Kernel& kernel = list.open("attention", phase);
    kernel.matrix = true;
    kernel.gemm = attention_gemm(Dim::row, 2, {i, blocks});
    kernel.b = {k.tensor, k.cls, k.bytes + v.bytes};
    kernel.reads = {q, {v.tensor, v.cls, 0}};
    kernel.vector_elements = elements / blocks;
    list.read(so_far);
    if (last) break;
    const Operand& result = context.outputs.front();
    so_far = {result.tensor + ".sum" + std::to_string(i), TensorClass::temporary,
              bytes(result.tensor, o_.splits.output_layouts(context, result)) /
                  bytes_of(o_.precision) * bytes_of(Storage::fp32, o_.precision)};
    list.produce(so_far);
    k = next_k;
    v = next_v;
  }
}

void KernelBuilder::attention_backward(Backward& b) const {
  const Operator &scores = *attention_.scores, &softmax = *attention_.softmax,
                 &context = *attention_.context;
  const Operand &of_q = scores.inputs[0], &of_k = scores.inputs[1], &of_v = context.inputs[1];
  const auto ring = has_gradient(b, of_k.tensor) || has_gradient(b, of_v.tensor)
                        ? std::nullopt
                        : ring_axis(b.saved);
  const auto block_of = [&](const Operator& op, const Operand& in) {
    return fetch(b.list, b.saved, in.tensor, ring_layouts(o_.splits.input_layouts(op, in), ring),
                 Phase::backward, in.tensor);
  };
  const Access dy = result_gradients(b, context).front();
  const Operand& result = context.outputs.front();
  const Access q = saved(b, scores, of_q);
  Access k = block_of(scores, of_k), v = block_of(context, of_v);
  const Access y = fetch(b.list, b.saved, result.tensor,
                         without_partial(o_.splits.output_layouts(context, result)),
                         Phase::backward, result.tensor);
  const Layouts q_layouts = input_gradient_layouts(scores, of_q, DimSet(Dim::col)),
                k_layouts =
                    ring_layouts(input_gradient_layouts(scores, of_k, DimSet(Dim::row)), ring),
                v_layouts =
                    ring_layouts(input_gradient_layouts(context, of_v, DimSet(Dim::row)), ring);
  const auto q_before = existing(b, of_q.tensor, q_layouts),
             k_before = existing(b, of_k.tensor, k_layouts),
             v_before = existing(b, of_v.tensor, v_layouts);
  // The probabilities again from the rows' statistics, and dropped again.
  const int again = softmax.outputs.back().storage == Storage::mask ? 2 : 1;
  const double elements =
      Operator::vector_elements(local(softmax)) * (softmax.backward_passes + again) +
      special_elements(softmax, softmax.backward_special + 1);
  const int blocks = ring ? axes_[*ring].degree : 1;
  RingSum k_sum{of_k.tensor, bytes(of_k.tensor, k_layouts)},
      v_sum{of_v.tensor, bytes(of_v.tensor, v_layouts)};
  for (int i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const Access next_k =
        last ? Access{} : pass_on(b.list, Phase::backward, of_k.tensor, k, *ring, i);
    const Access next_v =
        last ? Access{} : pass_on(b.list, Phase::backward, of_v.tensor, v, *ring, i);
    Kernel& kernel = b.list.open("attention.grad", Phase::backward);
    kernel.matrix = true;
    kernel.gemm = attention_gemm(Dim::col, 5, {i, blocks});
    kernel.b = {q.tensor, q.cls, q.bytes + dy.bytes + 2 * bytes(of_q.tensor, q_layouts)};
    kernel.reads = {k, v, y, {dy.tensor, dy.cls, 0}};
    kernel.vector_elements = elements / blocks;
    if (last) contribute(b, of_q.tensor, q_layouts, q_before);
    if (!ring) {
      contribute(b, of_k.tensor, k_layouts, k_before);
      contribute(b, of_v.tensor, v_layouts, v_before);
      return;
    }
    for (RingSum* sum : {&k_sum, &v_sum}) b.list.produce(sum->summand(i));
    for (RingSum* sum : {&k_sum, &v_sum}) {
      if (i > 0) pass_sum(b.list, *sum, *ring, i);
    }
    k = next_k;
    v = next_v;
  }
  b.gradients.primary[of_k.tensor] = {k_sum.summand(0).tensor, TensorClass::temporary, k_layouts};
  b.gradients.primary[of_v.tensor] = {v_sum.summand(0).tensor, TensorClass::temporary, v_layouts};
}

/// Rank r's block i is block r - i. Its gradient goes from rank to rank in their order, each adds
/// its own part, and the last is the rank that keeps the block: to that one it is block 0, whose
/// part it worked out first.
void KernelBuilder::pass_sum(KernelList& list, RingSum& sum, std::size_t axis, int i) const {
  const bool home = i + 1 == axes_[axis].degree;
  // On its way a sum is never stored.
  const Access arrives =
      home ? sum.summand(0) : Access{sum.summand(i).tensor + ".sum", TensorClass::temporary, 0};
  list.collective("d." + sum.tensor + ".ring", Phase::backward,
                  {CollectiveKind::ring_step, bit(axis), sum.bytes * axes_[axis].degree, home, i},
                  sum.summand(i), arrives);
  if (!sum.arrived.tensor.empty()) list.kernels.back().reads.push_back(sum.arrived);
  sum.arrived = arrives;
}

}  // namespace tilewright
