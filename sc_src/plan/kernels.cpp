#include <tilewright/plan/kernels.h>

#include <algorithm>
#include <map>
#include <set>

#include <tilewright/base/error.h>

namespace tilewright {
namespace {

/// Builds one list of kernels (forward, recomputation or backward) and the tensors between them.
class KernelList {
 public:
  std::vector<Kernel> kernels;

  Kernel& open(const std::string& name, Phase phase) {
    kernels.emplace_back();
    kernels.back().name = name;
    kernels.back().phase = phase;
    produced_.emplace_back();
    return kernels.back();
  }

  /// True when the newest kernel makes `tensor` and hands it over before any collective.
  bool can_extend(const std::string& tensor) const {
    return !kernels.empty() && kernels.back().all_reduce == 0 && produced_.back().count(tensor) > 0;
  }

  /// Adds a streamed input of the newest kernel unless the kernel made it itself or has it already.
  void read(const Access& access) {
    if (access.tensor.empty() || produced_.back().count(access.tensor) > 0) return;
    Kernel& k = kernels.back();
    for (const Access* operand : {&k.a, &k.b}) {
      if (operand->tensor == access.tensor) return;
    }
    for (const Access& r : k.reads) {
      if (r.tensor == access.tensor) return;
    }
    k.reads.push_back(access);
  }

  void produce(const Access& access) {
    produced_.back().insert(access.tensor);
    kernels.back().writes.push_back(access);
  }

  /// Drops the writes that nobody needs: not read by a later kernel, not in `kept`, not reduced.
  void drop_internal(const std::set<std::string>& kept) {
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      Kernel& k = kernels[i];
      auto needed = [&](const Access& w) {
        if (kept.count(w.tensor) > 0 || w.cls == TensorClass::gradient) return true;
        if (k.all_reduce > 0 && &w == &k.writes.front()) return true;
        return std::any_of(kernels.begin() + static_cast<std::ptrdiff_t>(i) + 1, kernels.end(),
                           [&](const Kernel& later) { return reads(later, w.tensor); });
      };
      std::vector<Access> writes;
      for (const Access& w : k.writes) {
        if (needed(w)) writes.push_back(w);
      }
      k.writes = std::move(writes);
    }
  }

  /// Peak bytes of temporaries alive between kernels: from the kernel that writes one to the last
  /// that reads it (or the end, when `kept`).
  std::int64_t temporaries(const std::set<std::string>& kept) const {
    std::vector<std::int64_t> alive(kernels.size(), 0);
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      for (const Access& w : kernels[i].writes) {
        if (w.cls != TensorClass::temporary) continue;
        std::size_t last = kept.count(w.tensor) > 0 ? kernels.size() - 1 : i;
        for (std::size_t j = i + 1; j < kernels.size(); ++j) {
          if (reads(kernels[j], w.tensor)) last = std::max(last, j);
        }
        for (std::size_t j = i; j <= last; ++j) alive[j] += w.bytes;
      }
    }
    return alive.empty() ? 0 : *std::max_element(alive.begin(), alive.end());
  }

 private:
  static bool reads(const Kernel& k, const std::string& tensor) {
    return k.a.tensor == tensor || k.b.tensor == tensor ||
           std::any_of(k.reads.begin(), k.reads.end(),
                       [&](const Access& r) { return r.tensor == tensor; });
  }

  std::vector<std::set<std::string>> produced_;  // per kernel
};

class Builder {
 public:
  Builder(const Block& block, const KernelOptions& options) : block_(block), o_(options) {
    recompute_ = o_.training && o_.recompute && block.name == "layer";
    // Full recomputation keeps block inputs and seeds: a mask outside the layers is drawn again.
    const bool redraw = o_.training && o_.recompute && !recompute_;
    for (const Operator& op : block.operators) {
      for (const Operand& s : op.saved) {
        if (!redraw || s.storage != Storage::mask) saved_.insert(s.tensor);
      }
    }
    const Operator& first = block.operators.front();
    if (first.kind != OpKind::embedding) input_ = first.inputs.front().tensor;
    const Operator& last = block.operators.back();
    if (last.kind != OpKind::loss) output_ = last.outputs.front().tensor;
  }

  BlockKernels build() {
    BlockKernels r;
    r.input = input_;
    r.output = output_;
    if (!input_.empty()) r.input_bytes = bytes_of_tensor(input_);
    if (!output_.empty()) r.output_bytes = bytes_of_tensor(output_);

    KernelList forward = run_forward(Phase::forward, o_.training && !recompute_);
    r.temporaries = forward.temporaries({output_});
    r.forward = std::move(forward.kernels);
    if (!o_.training) {
      r.temporaries += r.input_bytes;
      return r;
    }

    std::vector<SizedTensor>& kept = recompute_ ? r.rebuilt : r.stash;
    if (!input_.empty()) r.stash.push_back({input_, r.input_bytes});
    for (const std::string& name : saved_) {
      if (name != input_) kept.push_back({name, bytes_of_tensor(name)});
    }
    if (recompute_) {
      KernelList again = run_forward(Phase::recompute, true);
      r.temporaries = std::max(r.temporaries, again.temporaries({}));
      r.recompute = std::move(again.kernels);
    }
    KernelList backward = run_backward(r);
    std::int64_t incoming = output_.empty() ? 0 : r.output_bytes;
    r.temporaries = std::max(r.temporaries, incoming + backward.temporaries({r.input_gradient}));
    r.backward = std::move(backward.kernels);
    return r;
  }

 private:
  Extents local(const Operator& op) const {
    return local_extents(op, megatron_partition(op, o_.tensor), o_.samples);
  }
  std::int64_t bytes(const Operator& op, const Operand& operand) const {
    return local_bytes(operand, local(op), o_.precision);
  }
  /// The size of a tensor as its producer, or for the block's input its first reader, sees it.
  std::int64_t bytes_of_tensor(const std::string& name) const {
    for (const Operator& op : block_.operators) {
      for (const Operand& out : op.outputs) {
        if (out.tensor == name) return bytes(op, out);
      }
    }
    for (const Operator& op : block_.operators) {
      for (const Operand& in : op.inputs) {
        if (in.tensor == name) return bytes(op, in);
      }
    }
    throw InternalError("block '" + block_.name + "' saves '" + name + "', which nobody makes");
  }

  Access activation(const std::string& name, bool saving) const {
    const bool kept = o_.training && (name == input_ || (saving && saved_.count(name) > 0));
    return {name, kept ? TensorClass::saved : TensorClass::temporary, bytes_of_tensor(name)};
  }

  static double points(const Extents& e) {
    return static_cast<double>(e[Dim::batch]) * static_cast<double>(e[Dim::head]) *
           static_cast<double>(e[Dim::row]) * static_cast<double>(e[Dim::col]);
  }

  Gemm gemm_of(const Operator& op) const {
    const Extents e = local(op);
    Gemm g;
    if (op.kind == OpKind::gemm) {
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

  /// True when this operator's reduction runs over a dimension cut over the group.
  static bool leaves_partial_sums(const Operator& op, const Partition& p) {
    if (op.kind == OpKind::gemm || op.kind == OpKind::embedding) return p[Dim::red] > 1;
    if (op.kind == OpKind::loss) return p[Dim::col] > 1;
    return false;
  }

  Access weight(const Operator& op) const {
    return {op.weights.front().tensor, TensorClass::weight,
            local_elements(op.weights.front(), local(op)) * o_.state.weight};
  }
  /// Bytes of the embedding table's rows one rank touches in a pass: one row per token it owns.
  std::int64_t rows_touched(const Operator& op, int element_bytes) const {
    const Extents e = local(op);
    const std::int64_t table = local_elements(op.weights.front(), e) * element_bytes;
    const std::int64_t tokens = (e[Dim::batch] * e[Dim::row] + o_.tensor - 1) / o_.tensor;
    return std::min(table, tokens * e[Dim::col] * element_bytes);
  }

  KernelList run_forward(Phase phase, bool saving) const {
    KernelList list;
    for (const Operator& op : block_.operators) {
      const Partition partition = megatron_partition(op, o_.tensor);
      if (op.on_matrix_engine()) {
        Kernel& k = list.open(op.name, phase);
        k.matrix = true;
        k.gemm = gemm_of(op);
        k.a = activation(op.inputs[0].tensor, saving);
        k.b = op.kind == OpKind::gemm ? weight(op) : activation(op.inputs[1].tensor, saving);
        k.b.bytes = op.kind == OpKind::gemm ? k.b.bytes : bytes(op, op.inputs[1]);
      } else if (!list.can_extend(op.inputs.front().tensor)) {
        list.open(op.name, phase);
      } else {
        list.kernels.back().name += "+" + op.name;
      }
      if (!op.on_matrix_engine()) {
        for (const Operand& in : op.inputs) {
          Access a = activation(in.tensor, saving);
          a.bytes = bytes(op, in);
          list.read(a);
        }
        if (op.kind == OpKind::embedding) {
          list.read({op.weights.front().tensor, TensorClass::weight,
                     rows_touched(op, o_.state.weight)});
        }
      }
      list.kernels.back().vector_elements += points(local(op)) * op.forward_passes;
      for (const Operand& out : op.outputs) {
        // No dropout in inference; a mask that is drawn again is not kept.
        const bool kept = o_.training && saved_.count(out.tensor) > 0;
        if (out.storage == Storage::mask && !kept) continue;
        list.produce(activation(out.tensor, saving));
      }
      if (leaves_partial_sums(op, partition)) {
        list.kernels.back().all_reduce = bytes(op, op.outputs.front());
        // The reduced tensor must come first among the kernel's writes.
        auto& w = list.kernels.back().writes;
        const auto it = std::find_if(w.begin(), w.end(), [&](const Access& a) {
          return a.tensor == op.outputs.front().tensor;
        });
        std::rotate(w.begin(), it, it + 1);
      }
    }
    std::set<std::string> kept{output_};
    if (saving) kept.insert(saved_.begin(), saved_.end());
    list.drop_internal(kept);
    return list;
  }

  // --- backward ---

  /// Gradients known so far: activation -> the tensor that holds its gradient.
  using Gradients = std::map<std::string, Access>;

  void accumulate_into(KernelList& list, Gradients& grads, const std::string& activation_name,
                       std::int64_t size) const {
    const auto existing = grads.find(activation_name);
    if (existing != grads.end()) {
      list.read(existing->second);
      list.kernels.back().vector_elements += static_cast<double>(size) / bytes_of(o_.precision);
    }
    // A second contribution makes a new tensor, so that a kernel never reads what it writes.
    const std::string name = existing == grads.end() ? "d." + activation_name
                                                     : existing->second.tensor + "'";
    const Access d{name, TensorClass::temporary, size};
    list.produce(d);
    grads[activation_name] = d;
  }

  void gemm_backward(KernelList& list, Gradients& grads, const Operator& op) const {
    const Partition partition = megatron_partition(op, o_.tensor);
    const Gemm g = gemm_of(op);
    // The gradients of a fused projection's results are one operand: the first carries the bytes of
    // all, the others are named so that the kernel waits for them too.
    Access dy{"", TensorClass::temporary, 0};
    std::vector<Access> others;
    for (const Operand& out : op.outputs) {
      const auto it = grads.find(out.tensor);
      if (it == grads.end()) continue;
      dy.bytes += it->second.bytes;
      if (dy.tensor.empty()) {
        dy.tensor = it->second.tensor;
      } else {
        others.push_back({it->second.tensor, TensorClass::temporary, 0});
      }
    }
    const Operand& input = op.inputs.front();

    Kernel& w = list.open(op.name + ".wgrad", Phase::backward);
    w.matrix = true;
    w.gemm = {1, g.k, g.n, g.m, g.flop_scale};
    w.a = {input.tensor, TensorClass::saved, bytes(op, input)};
    w.b = dy;
    w.reads = others;
    w.accumulate = true;
    w.vector_elements = points(local(op)) * op.backward_passes;
    list.produce({"d." + op.weights.front().tensor, TensorClass::gradient,
                  local_elements(op.weights.front(), local(op)) * o_.state.gradient});

    // Second, so that the operator below can take its gradient on the way out.
    Kernel& d = list.open(op.name + ".dgrad", Phase::backward);
    d.matrix = true;
    d.gemm = {1, g.m, g.k, g.n, g.flop_scale};
    d.a = dy;
    d.b = weight(op);
    d.reads = others;
    accumulate_into(list, grads, input.tensor, bytes(op, input));
    if (partition[Dim::col] > 1) list.kernels.back().all_reduce = bytes(op, input);
  }

  void batched_backward(KernelList& list, Gradients& grads, const Operator& op) const {
    const Gemm g = gemm_of(op);
    const Access dy = grads.at(op.outputs.front().tensor);
    const Operand &first = op.inputs[0], &second = op.inputs[1];

    Kernel& b = list.open(op.name + ".dgrad." + second.tensor, Phase::backward);
    b.matrix = true;
    b.gemm = {g.batch, g.n, g.k, g.m, g.flop_scale};
    b.a = dy;
    b.b = {first.tensor, TensorClass::saved, bytes(op, first)};
    accumulate_into(list, grads, second.tensor, bytes(op, second));

    Kernel& a = list.open(op.name + ".dgrad." + first.tensor, Phase::backward);
    a.matrix = true;
    a.gemm = {g.batch, g.m, g.k, g.n, g.flop_scale};
    a.a = dy;
    a.b = {second.tensor, TensorClass::saved, bytes(op, second)};
    accumulate_into(list, grads, first.tensor, bytes(op, first));
  }

  void vector_backward(KernelList& list, Gradients& grads, const Operator& op) const {
    std::vector<const Operand*> results;
    for (const Operand& out : op.outputs) {
      if (grads.count(out.tensor) > 0) results.push_back(&out);
    }
    const bool starts = op.kind == OpKind::loss;
    if (results.empty() && !starts) return;
    // One gradient per input where the operator maps inputs to results one to one; a sum hands its
    // result's gradient to every input, and the pass that adds gradients up again belongs to the
    // kernel where they meet (accumulate_into).
    const bool one_to_one = results.size() == op.inputs.size();
    const bool sum = op.kind == OpKind::elementwise && op.inputs.size() > 1 && !one_to_one;
    const int passes = op.backward_passes - (sum ? 1 : 0);
    if (passes <= 0 && !starts) {
      for (const Operand& in : op.inputs) pass_through(list, grads, in, *results.front());
      return;
    }
    const std::string from = starts ? "" : grads.at(results.front()->tensor).tensor;
    if (starts || !list.can_extend(from)) {
      list.open(op.name + ".grad", Phase::backward);
    } else {
      list.kernels.back().name += "+" + op.name + ".grad";
    }
    for (const Operand* result : results) list.read(grads.at(result->tensor));
    for (const Operand& s : op.saved) {
      if (saved_.count(s.tensor) > 0) list.read({s.tensor, TensorClass::saved, bytes(op, s)});
    }
    list.kernels.back().vector_elements += points(local(op)) * passes;
    if (op.kind == OpKind::embedding) {
      const Access rows{"d." + op.weights.front().tensor, TensorClass::gradient,
                        rows_touched(op, o_.state.gradient)};
      list.read(rows);
      list.kernels.back().writes.push_back(rows);
      return;
    }
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Operand& in = op.inputs[i];
      if (in.storage == Storage::index) continue;
      if (i == 0 || one_to_one) {
        accumulate_into(list, grads, in.tensor, bytes(op, in));
      } else {
        pass_through(list, grads, in, *results.front());
      }
    }
  }

  /// d(input) = d(result), or is added to what is there already by a kernel of its own, which the
  /// decoder's residuals never need.
  void pass_through(KernelList& list, Gradients& grads, const Operand& in,
                    const Operand& result) const {
    if (in.storage == Storage::index) return;
    const Access d = grads.at(result.tensor);
    if (grads.count(in.tensor) == 0) {
      grads[in.tensor] = d;
      return;
    }
    list.open("sum.d." + in.tensor, Phase::backward);
    list.read(d);
    accumulate_into(list, grads, in.tensor, d.bytes);
  }

  KernelList run_backward(BlockKernels& r) const {
    KernelList list;
    Gradients grads;
    if (!output_.empty()) {
      r.output_gradient = "d." + output_ + ".in";
      grads[output_] = {r.output_gradient, TensorClass::temporary, r.output_bytes};
    }
    for (auto op = block_.operators.rbegin(); op != block_.operators.rend(); ++op) {
      if (op->kind == OpKind::gemm) {
        gemm_backward(list, grads, *op);
      } else if (op->kind == OpKind::batched_gemm) {
        batched_backward(list, grads, *op);
      } else {
        vector_backward(list, grads, *op);
      }
    }
    if (!input_.empty()) r.input_gradient = grads.at(input_).tensor;
    list.drop_internal({r.input_gradient});
    return list;
  }

  const Block& block_;
  const KernelOptions& o_;
  bool recompute_ = false;
  std::set<std::string> saved_;  // ordered: the stash is listed the same way every time
  std::string input_, output_;
};

std::int64_t total(const std::vector<SizedTensor>& tensors) {
  std::int64_t sum = 0;
  for (const SizedTensor& t : tensors) sum += t.bytes;
  return sum;
}

}  // namespace

std::string to_string(TensorClass c) {
  switch (c) {
    case TensorClass::weight: return "weights";
    case TensorClass::gradient: return "gradients";
    case TensorClass::optimizer: return "optimiser state";
    case TensorClass::saved: return "stashed activations";
    case TensorClass::temporary: return "temporary activations";
  }
  return "?";
}

std::int64_t BlockKernels::stash_bytes() const { return total(stash); }
std::int64_t BlockKernels::rebuilt_bytes() const { return total(rebuilt); }

BlockKernels make_kernels(const Block& block, const KernelOptions& options) {
  return Builder(block, options).build();
}

}  // namespace tilewright
