// An attention core as one kernel: scores, softmax and context never leave the SRAM.
#include "kernel_builder.h"

namespace tilewright {

void KernelBuilder::find_attention() {
  for (const Operator& op : block_.operators) {
    if (op.role == OpRole::scores) scores_ = &op;
    if (!o_.fuse_attention) continue;
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

Gemm KernelBuilder::attention_gemm(Dim stays, int products, std::int64_t keys) const {
  const Extents e = local(*attention_.scores);
  Gemm g;
  g.batch = e[Dim::batch] * e[Dim::head];
  g.m = stays == Dim::row ? e[Dim::row] : keys;
  g.n = products * e[Dim::red];
  g.k = stays == Dim::row ? keys : e[Dim::row];
  g.flop_scale = attention_.scores->flop_scale;
  return g;
}

std::int64_t KernelBuilder::Ring::part(std::int64_t own, int block) const {
  if (!window || block == 0 || block + 1 < blocks) return own;
  const std::int64_t last = before - (blocks - 2) * tokens;
  return (own * last + tokens - 1) / tokens;
}

KernelBuilder::RingBlock KernelBuilder::ring_block(const std::optional<Ring>& ring,
                                                   int block) const {
  const std::int64_t keys = local(*attention_.scores)[Dim::col];
  if (!ring) return {keys, 1};
  if (!ring->window) {
    const int n = ring->blocks;
    return {keys * (block + 1) / n - keys * block / n, static_cast<double>(n)};
  }
  // Keys per query in this block and those before it. The query of a rank's token j sees
  // max(0, reach - j) of them: reach + ... + (reach - tokens + 1), or reach + ... + 1, together.
  const auto from = [&](int first) -> std::int64_t {
    if (first == 0) return keys;
    if (first == ring->blocks) return 0;
    const std::int64_t tokens = ring->tokens, reach = ring->before - (first - 1) * tokens;
    const std::int64_t queries = std::min(tokens, reach);
    return (queries * (2 * reach - queries + 1) / 2 + tokens - 1) / tokens;
  };
  const std::int64_t own = from(block) - from(block + 1);
  return {own, static_cast<double>(keys) / static_cast<double>(own)};
}

std::optional<KernelBuilder::Ring> KernelBuilder::find_ring(const Holdings& held) const {
  if (!o_.ring_attention) return {};
  const Operator& scores = *attention_.scores;
  const auto gathered = [&](const Operator& op, const Operand& in, std::size_t a) {
    const Layout needed = o_.splits.input_layouts(op, in)[a];
    return held.primary.at(in.tensor).layouts[a] == Layout::token &&
           (needed == Layout::replicated || needed == Layout::halo);
  };
  for (std::size_t a = axes_.size(); a-- > 0;) {
    if (axes_[a].degree == 1 || !gathered(scores, scores.inputs[1], a) ||
        !gathered(*attention_.context, attention_.context->inputs[1], a)) {
      continue;
    }
    Ring ring{a, false, axes_[a].degree};
    if (o_.splits.input_layouts(scores, scores.inputs[1])[a] == Layout::halo) {
      ring.window = true;
      ring.tokens = local(scores)[Dim::row];
      ring.before = scores.extents[Dim::col] - 1;
      ring.blocks = 1 + static_cast<int>((ring.before + ring.tokens - 1) / ring.tokens);
    }
    // Fewer keys than blocks leave some without work: gathered.
    if (!ring.window && local(scores)[Dim::col] < ring.blocks) return {};
    return ring;
  }
  return {};
}

Layouts KernelBuilder::ring_layouts(Layouts layouts, const std::optional<Ring>& ring) {
  if (ring) layouts[ring->axis] = Layout::token;
  return layouts;
}

void KernelBuilder::attention_forward(KernelList& list, Holdings& held, Phase phase) const {
  const Operator &scores = *attention_.scores, &context = *attention_.context;
  const Operand &of_k = scores.inputs[1], &of_v = context.inputs[1];
  const auto ring = find_ring(held);
  const auto read = [&](const Operator& op, const Operand& in, const std::optional<Ring>& over) {
    return fetch(list, held, in.tensor, ring_layouts(o_.splits.input_layouts(op, in), over), phase,
                 in.tensor);
  };
  const Access q = read(scores, scores.inputs[0], {});
  Access k = read(scores, of_k, ring), v = read(context, of_v, ring);
  const double elements =
      Operator::vector_elements(local(*attention_.softmax)) * attention_.softmax->forward_passes +
      special_elements(*attention_.softmax, attention_.softmax->forward_special);
  const int blocks = ring ? ring->blocks : 1;
  Access so_far;  // of the result, as accumulated
  for (int i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const Access next_k = last ? Access{} : pass_on(list, phase, of_k.tensor, k, *ring, i);
    const Access next_v = last ? Access{} : pass_on(list, phase, of_v.tensor, v, *ring, i);
    Kernel& kernel = list.open("attention", phase);
    kernel.matrix = true;
    const RingBlock block = ring_block(ring, i);
    kernel.gemm = attention_gemm(Dim::row, 2, block.keys);
    kernel.b = {k.tensor, k.cls, k.bytes + v.bytes, k.common && v.common};
    kernel.reads = {q, {v.tensor, v.cls, 0}};
    kernel.vector_elements = elements / block.ways;
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
                        : find_ring(b.saved);
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
  const int blocks = ring ? ring->blocks : 1;
  const Ring way = ring.value_or(Ring{});
  RingSum k_sum{of_k.tensor, bytes(of_k.tensor, k_layouts), way},
      v_sum{of_v.tensor, bytes(of_v.tensor, v_layouts), way};
  for (int i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const Access next_k =
        last ? Access{} : pass_on(b.list, Phase::backward, of_k.tensor, k, *ring, i);
    const Access next_v =
        last ? Access{} : pass_on(b.list, Phase::backward, of_v.tensor, v, *ring, i);
    Kernel& kernel = b.list.open("attention.grad", Phase::backward);
    kernel.matrix = true;
    const RingBlock block = ring_block(ring, i);
    kernel.gemm = attention_gemm(Dim::col, 5, block.keys);
    kernel.b = {q.tensor, q.cls, q.bytes + dy.bytes + 2 * bytes(of_q.tensor, q_layouts)};
    kernel.reads = {k, v, y, {dy.tensor, dy.cls, 0}};
    kernel.vector_elements = elements / block.ways;
    if (last) contribute(b, of_q.tensor, q_layouts, q_before);
    if (!ring) {
      contribute(b, of_k.tensor, k_layouts, k_before);
      contribute(b, of_v.tensor, v_layouts, v_before);
      return;
    }
    for (RingSum* sum : {&k_sum, &v_sum}) b.list.produce(sum->summand(i));
    for (RingSum* sum : {&k_sum, &v_sum}) {
      if (i > 0 && !ring->window) pass_sum(b.list, *sum, i);
    }
    k = next_k;
    v = next_v;
  }
  // The way back from as far as a window reaches begins with the farthest block.
  for (int i = blocks - 1; i > 0 && ring->window; --i) {
    for (RingSum* sum : {&k_sum, &v_sum}) pass_sum(b.list, *sum, i);
  }
  b.gradients.primary[of_k.tensor] = {k_sum.summand(0).tensor, TensorClass::temporary, k_layouts};
  b.gradients.primary[of_v.tensor] = {v_sum.summand(0).tensor, TensorClass::temporary, v_layouts};
}

/// Rank r's block i is block r - i. Its gradient goes from rank to rank in their order, each adds
/// its own part, and the last is the rank that keeps the block: to that one it is block 0, whose
/// part it worked out first. Of a window's halo it goes back: block i of a rank is block i - 1 of
/// the rank before, and from block 1 it comes home.
void KernelBuilder::pass_sum(KernelList& list, RingSum& sum, int i) const {
  const Ring& ring = sum.ring;
  const bool home = ring.window ? i == 1 : i + 1 == ring.blocks;
  // On its way a sum is never stored.
  const Access arrives =
      home ? sum.summand(0) : Access{sum.summand(i).tensor + ".sum", TensorClass::temporary, 0};
  Collective how{CollectiveKind::ring_step, bit(ring.axis), sum.bytes * axes_[ring.axis].degree,
                 home, i};
  if (ring.window) {
    how.kind = CollectiveKind::halo_sum;
    how.halo = sum.summand(i).bytes;
  }
  list.collective("d." + sum.tensor + ".ring", Phase::backward, how, sum.summand(i), arrives);
  if (!sum.arrived.tensor.empty()) list.kernels.back().reads.push_back(sum.arrived);
  sum.arrived = arrives;
}

}  // namespace tilewright
