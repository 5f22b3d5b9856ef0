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

Gemm KernelBuilder::attention_gemm(Dim stays, int products) const {
  const Extents e = local(*attention_.scores);
  Gemm g;
  g.batch = e[Dim::batch] * e[Dim::head];
  g.m = e[stays];
  g.n = products * e[Dim::red];
  g.k = e[stays == Dim::row ? Dim::col : Dim::row];
  g.flop_scale = attention_.scores->flop_scale;
  return g;
}

void KernelBuilder::attention_forward(KernelList& list, Holdings& held, Phase phase) const {
  const auto read = [&](const Operator& op, const Operand& in) {
    return fetch(list, held, in.tensor, o_.splits.input_layouts(op, in), phase, in.tensor);
  };
  const Operator &scores = *attention_.scores, &context = *attention_.context;
  const Access q = read(scores, scores.inputs[0]), k = read(scores, scores.inputs[1]),
               v = read(context, context.inputs[1]);
  Kernel& kernel = list.open("attention", phase);
  kernel.matrix = true;
  kernel.gemm = attention_gemm(Dim::row, 2);
  kernel.b = {k.tensor, k.cls, k.bytes + v.bytes};
  kernel.reads = {q, {v.tensor, v.cls, 0}};
  kernel.vector_elements =
      Operator::vector_elements(local(*attention_.softmax)) * attention_.softmax->forward_passes;
}

void KernelBuilder::attention_backward(Backward& b) const {
  const Operator &scores = *attention_.scores, &softmax = *attention_.softmax,
                 &context = *attention_.context;
  const Operand &of_q = scores.inputs[0], &of_k = scores.inputs[1], &of_v = context.inputs[1];
  const Access dy = result_gradients(b, context).front();
  const Operand& result = context.outputs.front();
  const Access q = saved(b, scores, of_q), k = saved(b, scores, of_k), v = saved(b, context, of_v),
               y = fetch(b.list, b.saved, result.tensor,
                         without_partial(o_.splits.output_layouts(context, result)),
                         Phase::backward, result.tensor);
  const Layouts q_layouts = input_gradient_layouts(scores, of_q, DimSet(Dim::col)),
                k_layouts = input_gradient_layouts(scores, of_k, DimSet(Dim::row)),
                v_layouts = input_gradient_layouts(context, of_v, DimSet(Dim::row));
  const auto q_before = existing(b, of_q.tensor, q_layouts),
             k_before = existing(b, of_k.tensor, k_layouts),
             v_before = existing(b, of_v.tensor, v_layouts);
  Kernel& kernel = b.list.open("attention.grad", Phase::backward);
  kernel.matrix = true;
  kernel.gemm = attention_gemm(Dim::col, 5);
  kernel.b = {q.tensor, q.cls, q.bytes + dy.bytes + 2 * bytes(of_q.tensor, q_layouts)};
  kernel.reads = {k, v, y, {dy.tensor, dy.cls, 0}};
  // The probabilities again from the rows' statistics, and dropped again.
  const int again = softmax.outputs.back().storage == Storage::mask ? 2 : 1;
  kernel.vector_elements =
      Operator::vector_elements(local(softmax)) * (softmax.backward_passes + again);
  contribute(b, of_q.tensor, q_layouts, q_before);
  contribute(b, of_k.tensor, k_layouts, k_before);
  contribute(b, of_v.tensor, v_layouts, v_before);
}

}  // namespace tilewright
