// The kernels of a block, from outside.
#include <algorithm>

#include <tilewright/plan/kernels.h>

#include "chunks.h"
#include "kernel_builder.h"

namespace tilewright {

namespace {

std::int64_t total(const std::vector<SizedTensor>& tensors) {
  std::int64_t sum = 0;
  for (const SizedTensor& t : tensors) sum += t.bytes;
  return sum;
}

}  // namespace

KernelBuilder::KernelBuilder(const Block& block, const KernelOptions& options)
    : block_(block), o_(options), axes_(options.splits.axes()) {
  for (const Operator& op : block.operators) {
    for (const Operand& s : op.saved) saved_.insert(s.tensor);
  }
  find_attention();
  const Operator& first = block.operators.front();
  const Operand& entering = first.inputs.front();
  if (differentiable(entering.storage)) input_ = entering.tensor;
  const Operator& last = block.operators.back();
  if (last.kind != OpKind::loss) {
    output_ = last.outputs.front().tensor;
  } else {
    logits_ = last.inputs.front().tensor;
  }
  for (const Operator& op : block.operators) {
    for (const Operand& in : op.inputs) measure(op, in);
    for (const Operand& out : op.outputs) measure(op, out);
  }
  if (o_.training) choose_rebuilt();
}

BlockKernels KernelBuilder::build() {
  BlockKernels r;
  r.input = input_;

  KernelList forward = run_forward(Phase::forward, kept_);
  r.output = handed_over_;
  if (!input_.empty()) r.input_bytes = bytes(input_, o_.boundary);
  if (!output_.empty()) r.output_bytes = bytes(output_, o_.boundary);
  r.common_boundary = common(o_.boundary);
  const int together = r.common_boundary ? o_.sharers : 1;  // who keep what passes between blocks
  r.temporaries = forward.temporaries({handed_over_});
  r.shared_temporaries = forward.temporaries({handed_over_}, o_.sharers);
  r.forward = std::move(forward.kernels);
  if (!o_.training) {
    r.temporaries += r.input_bytes;
    r.shared_temporaries += kept_part(r.input_bytes, together);
    return r;
  }

  const auto sized = [&](const std::string& name) -> SizedTensor {
    const Layouts& home = home_.at(name);
    return {name, bytes(name, home), common(home)};
  };
  if (!input_.empty()) r.stash.push_back({input_, r.input_bytes, r.common_boundary});
  for (const std::string& name : kept_) r.stash.push_back(sized(name));
  for (const std::string& name : rebuilt_) r.rebuilt.push_back(sized(name));
  if (!rebuilt_.empty()) {
    KernelList again = run_forward(Phase::recompute, rebuilt_);
    r.temporaries = std::max(r.temporaries, again.temporaries({}));
    r.shared_temporaries = std::max(r.shared_temporaries, again.temporaries({}, o_.sharers));
    r.recompute = std::move(again.kernels);
  }
  Backward b = run_backward(r);
  if (o_.tensor_chunks > 1) b.list.put_off_weight_gradients();
  if (o_.split_backward) hold(b, r);
  std::set<std::string> read_later{r.input_gradient};
  for (const SizedTensor& t : r.held_gradients) read_later.insert(t.name);
  b.list.drop_internal(read_later);
  const std::int64_t incoming = output_.empty() || o_.split_backward ? 0 : r.output_bytes;
  r.temporaries = std::max(
      {r.temporaries, incoming + b.list.temporaries({r.input_gradient}), b.weight.temporaries({})});
  r.shared_temporaries =
      std::max({r.shared_temporaries,
                kept_part(incoming, together) + b.list.temporaries({r.input_gradient}, o_.sharers),
                b.weight.temporaries({}, o_.sharers)});
  r.backward = std::move(b.list.kernels);
  r.weight = std::move(b.weight.kernels);
  return r;
}

std::string to_string(TensorClass c) {
  switch (c) {
    case TensorClass::weight:
      return "weights";
    case TensorClass::gradient:
      return "gradients";
    case TensorClass::optimizer:
      return "optimiser state";
    case TensorClass::saved:
      return "stashed activations";
    case TensorClass::temporary:
      return "temporary activations";
    case TensorClass::fetched:
      return "fetched weights";
  }
  return "?";
}

std::int64_t BlockKernels::stash_bytes() const { return total(stash); }
std::int64_t BlockKernels::rebuilt_bytes() const { return total(rebuilt); }

BlockKernels BlockKernels::kept_together(int sharers, bool saved, bool boundary) const {
  BlockKernels result = *this;
  for (auto* tensors :
       {&result.stash, &result.rebuilt, &result.held_activations, &result.held_gradients}) {
    for (SizedTensor& t : *tensors) {
      if (saved && t.common) t.bytes = kept_part(t.bytes, sharers);
    }
  }
  if (boundary && common_boundary) {
    result.input_bytes = kept_part(input_bytes, sharers);
    result.output_bytes = kept_part(output_bytes, sharers);
  }
  return result;
}

Layouts boundary_layouts(const Graph& graph, const Splits& splits) {
  for (const Block& block : graph.blocks) {
    if (!block.is_layer()) continue;
    const Operator& first = block.operators.front();
    return splits.input_layouts(first, first.inputs.front());
  }
  return {};
}

BlockKernels make_kernels(const Block& block, const KernelOptions& options) {
  BlockKernels result = KernelBuilder(block, options).build();
  if (options.tensor_chunks > 1) {
    AxisSet axes = 0;
    for (std::size_t a = 0; a < options.splits.axes().size(); ++a) {
      if (options.splits.axes()[a].cause == Cause::tensor) axes |= AxisSet{1} << a;
    }
    chunk_transfers(result, axes, options.tensor_chunks);
  }
  return result;
}

}  // namespace tilewright
