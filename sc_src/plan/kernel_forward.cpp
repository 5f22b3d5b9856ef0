// The forward pass of a block, and what of it runs again before backward.
#include "kernel_builder.h"

namespace tilewright {

KernelList KernelBuilder::run_forward(Phase phase, const std::set<std::string>& saving) {
  const bool first = phase == Phase::forward;
  KernelList list;
  std::map<std::string, LoadedNorm> norms;  // by their result
  Holdings held;
  if (!input_.empty()) {
    held.primary[input_] = {input_, class_of(input_, saving), o_.boundary};
  }
  // What the block was given, and what is kept, backward expects where it is.
  held.fixed.insert(input_);
  if (!first) {
    held.fixed.insert(kept_.begin(), kept_.end());
    for (const std::string& name : kept_) {
      held.primary[name] = {name, TensorClass::saved, home_.at(name)};
    }
  }
  for (const Operator& op : block_.operators) {
    if (!o_.training && op.kind == OpKind::loss) continue;  // inference ends with the logits
    if (!first && again_.count(op.name) == 0) continue;
    if (attention_.holds(op)) {
      if (&op != attention_.context) continue;
      attention_forward(list, held, phase);
      produce_results(list, held, op, phase, saving);
      continue;
    }
    // Inputs first: a conversion is a step of its own, before the operator's kernel opens.
    std::vector<Access> inputs;
    for (const Operand& in : op.inputs) {
      const Layouts needed = o_.splits.input_layouts(op, in);
      // What the sample brings is read where it is: token ids, which nobody keeps, and images.
      if (in.storage == Storage::index && held.primary.count(in.tensor) == 0) {
        inputs.push_back(access(in.tensor, TensorClass::temporary, in.tensor, needed));
        continue;
      }
      if (in.storage == Storage::pixel) {
        held.primary[in.tensor] = {in.tensor, class_of(in.tensor, saving), needed};
      }
      inputs.push_back(fetch(list, held, in.tensor, needed, phase, in.tensor));
    }
    if (normalised_on_load(op, phase)) {
      const std::string& out = op.outputs.front().tensor;
      const Stored made{out, class_of(out, saving),
                        o_.splits.output_layouts(op, op.outputs.front())};
      held.primary[out] = made;
      LoadedNorm norm{&op, inputs.front(), {}, 0};
      norm.elements = Operator::vector_elements(local(op)) * op.forward_passes;
      if (made.cls == TensorClass::saved) {
        norm.result = access(out, made.cls, out, made.layouts);
      }
      norms[out] = norm;
      continue;
    }
    // The rows beside a rank's own, of the one input of a convolution or pooling.
    inputs.push_back(fetch_edge(list, op, op.inputs.front(), inputs.front(), phase));
    int passes = op.forward_passes;
    const auto norm = norms.find(op.inputs.front().tensor);
    if (op.on_matrix_engine()) {
      Kernel& k = list.open(op.name, phase);
      multiply(k, op, ConvolutionPass::forward, gemm_of(op));
      k.a = inputs[0];
      k.b = op.multiplies_weights() ? weight(op) : inputs[1];
      // Counted with the image, in whose blocks they are.
      list.read({inputs.back().tensor, inputs.back().cls, 0});
      if (norm != norms.end()) normalise(k, norm->second);
    } else {
      inputs.push_back(share_statistics(list, op, inputs, passes, phase));
      continue_or_open(list, op, inputs.front().tensor, op.name, phase);
      for (const Access& in : inputs) list.read(in);
      if (op.kind == OpKind::embedding) {
        list.read({op.weights.front().tensor, weight_class(op), rows_touched(op, o_.state.weight)});
      }
    }
    list.kernels.back().vector_elements +=
        Operator::vector_elements(local(op)) * passes + special_elements(op, op.forward_special);
    produce_results(list, held, op, phase, saving);
    if (norm == norms.end() || norm->second.result.tensor.empty()) continue;
    // Whoever reads it after this kernel finds it in memory.
    list.produce(norm->second.result);
    norms.erase(norm);
  }
  finish_forward(list, held, phase);
  std::set<std::string> kept{handed_over_};
  if (!o_.training && output_.empty()) kept.insert(logits_);
  kept.insert(saving.begin(), saving.end());
  rename_moved(list, held);
  list.drop_internal(kept);
  return list;
}

bool KernelBuilder::normalised_on_load(const Operator& op, Phase phase) const {
  if (!o_.fuse_norm || op.kind != OpKind::norm) return false;
  const std::string& out = op.outputs.front().tensor;
  if (phase == Phase::recompute && kept_.count(out) > 0) return false;
  const auto cut = o_.splits.of(op).cut;
  if (std::find(cut.begin(), cut.end(), Dim::col) != cut.end()) return false;
  const Layouts made = o_.splits.output_layouts(op, op.outputs.front());
  bool read = false;
  for (const Operator& reader : block_.operators) {
    if (phase == Phase::recompute && again_.count(reader.name) == 0) continue;
    for (const Operand& in : reader.inputs) {
      if (in.tensor != out) continue;
      const bool loads_rows = reader.kind == OpKind::gemm && &in == &reader.inputs.front();
      if (!loads_rows || o_.splits.input_layouts(reader, in) != made) return false;
      read = true;
    }
  }
  return read;
}

/// The GEMM multiplies rows as they are and scales those of its result by their statistics, which
/// come with the rows: gains are part of the weights. That is a pass over the result; the norm's
/// own passes are counted once, however often its rows are loaded.
void KernelBuilder::normalise(Kernel& k, const LoadedNorm& norm) {
  k.name = norm.norm->name + "+" + k.name;
  k.normalised = norm.norm->outputs.front().tensor;
  k.a = norm.input;
  const Gemm& g = k.gemm;
  k.vector_elements += norm.elements + static_cast<double>(g.batch * g.m * g.n);
}

void KernelBuilder::produce_results(KernelList& list, Holdings& held, const Operator& op,
                                    Phase phase, const std::set<std::string>& saving) const {
  for (const Operand& out : op.outputs) {
    // No dropout in inference; a mask that is drawn again is not kept.
    const bool kept = o_.training && saved_.count(out.tensor) > 0;
    if (serves_backward(out.storage) && !kept) continue;
    if (phase == Phase::recompute && kept_.count(out.tensor) > 0) continue;
    Layouts layouts = o_.splits.output_layouts(op, out);
    if (out.storage == Storage::mask) layouts = resolved(layouts);
    const Stored stored{out.tensor, class_of(out.tensor, saving), layouts};
    held.primary[out.tensor] = stored;
    list.produce(access(stored.name, stored.cls, out.tensor, layouts));
  }
}

Layouts KernelBuilder::resolved(Layouts layouts) const {
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (layouts[a] == Layout::partial) layouts[a] = o_.boundary[a];
  }
  return layouts;
}

void KernelBuilder::finish_forward(KernelList& list, Holdings& held, Phase phase) {
  if (held.primary.count(output_) > 0) {
    handed_over_ = fetch(list, held, output_, o_.boundary, phase, output_).tensor;
    if (handed_over_ == held.primary.at(output_).name) handed_over_ = output_;
  }
  std::vector<std::pair<std::string, Layouts>> unfinished;
  for (const auto& [name, stored] : held.primary) {
    if (phase != Phase::forward) {  // backward expects what is rebuilt as it was
      if (rebuilt_.count(name) > 0) unfinished.emplace_back(name, home_.at(name));
    } else if (has_partial(stored.layouts)) {
      unfinished.emplace_back(name, without_partial(stored.layouts));
    }
  }
  for (const auto& [name, whole] : unfinished) fetch(list, held, name, whole, phase, name);
  if (phase != Phase::forward) return;
  for (const auto& [name, stored] : held.primary) home_[name] = stored.layouts;
}

void KernelBuilder::rename_moved(KernelList& list, const Holdings& held) {
  for (const auto& [tensor, stored] : held.primary) {
    if (stored.name == tensor) continue;
    const auto rename = [&, &tensor = tensor, &stored = stored](Access& a) {
      if (a.tensor == stored.name) {
        a.tensor = tensor;
      } else if (a.tensor == tensor ||
                 (a.tensor.size() < stored.name.size() && a.tensor.size() > tensor.size() &&
                  stored.name.compare(0, a.tensor.size(), a.tensor) == 0)) {
        a.tensor += ".before";
        a.cls = TensorClass::temporary;
      }
    };
    for (Kernel& k : list.kernels) {
      rename(k.a);
      rename(k.b);
      for (Access& r : k.reads) rename(r);
      for (Access& w : k.writes) rename(w);
    }
  }
}

}  // namespace tilewright
