#include <algorithm>
#include <map>
#include <set>

#include <tilewright/base/error.h>
#include <tilewright/plan/kernels.h>

#include "chunks.h"
#include "kernel_list.h"

namespace tilewright {
namespace {

const char* name_of(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_reduce:
      return "all_reduce";
    case CollectiveKind::reduce_scatter:
      return "reduce_scatter";
    case CollectiveKind::all_gather:
      return "all_gather";
    case CollectiveKind::all_to_all:
      return "all_to_all";
  }
  return "?";
}

/// A tensor as it is stored somewhere: under which name, in which layouts.
struct Stored {
  std::string name;
  TensorClass cls = TensorClass::temporary;
  Layouts layouts{};
};

class Builder {
 public:
  Builder(const Block& block, const KernelOptions& options)
      : block_(block), o_(options), axes_(options.splits.axes()) {
    for (const Operator& op : block.operators) {
      for (const Operand& s : op.saved) saved_.insert(s.tensor);
    }
    if (o_.fuse_attention) find_attention();
    const Operator& first = block.operators.front();
    if (first.kind != OpKind::embedding) input_ = first.inputs.front().tensor;
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

  BlockKernels build() {
    BlockKernels r;
    r.input = input_;

    KernelList forward = run_forward(Phase::forward, kept_);
    r.output = handed_over_;
    if (!input_.empty()) r.input_bytes = bytes(input_, o_.boundary);
    if (!output_.empty()) r.output_bytes = bytes(output_, o_.boundary);
    r.temporaries = forward.temporaries({handed_over_});
    r.forward = std::move(forward.kernels);
    if (!o_.training) {
      r.temporaries += r.input_bytes;
      return r;
    }

    if (!input_.empty()) r.stash.push_back({input_, r.input_bytes});
    for (const std::string& name : kept_) r.stash.push_back({name, bytes(name, home_.at(name))});
    for (const std::string& name : rebuilt_) {
      r.rebuilt.push_back({name, bytes(name, home_.at(name))});
    }
    if (!rebuilt_.empty()) {
      KernelList again = run_forward(Phase::recompute, rebuilt_);
      r.temporaries = std::max(r.temporaries, again.temporaries({}));
      r.recompute = std::move(again.kernels);
    }
    Backward b = run_backward(r);
    if (o_.split_backward) hold(b, r);
    std::set<std::string> read_later{r.input_gradient};
    for (const SizedTensor& t : r.held_gradients) read_later.insert(t.name);
    b.list.drop_internal(read_later);
    const std::int64_t incoming = output_.empty() || o_.split_backward ? 0 : r.output_bytes;
    r.temporaries = std::max({r.temporaries, incoming + b.list.temporaries({r.input_gradient}),
                              b.weight.temporaries({})});
    r.backward = std::move(b.list.kernels);
    r.weight = std::move(b.weight.kernels);
    return r;
  }

 private:
  // --- recomputation ---

  /// Divides what backward reads into what is kept and what is rebuilt, and finds the operators
  /// that rebuild it.
  void choose_rebuilt() {
    std::map<std::string, const Operator*> maker;
    std::set<std::string> masks;
    for (const Operator& op : block_.operators) {
      for (const Operand& out : op.outputs) {
        maker[out.tensor] = &op;
        if (out.storage == Storage::mask) masks.insert(out.tensor);
      }
    }
    const bool all = o_.dropped.all && block_.is_layer();
    std::set<std::string> dropped;
    for (const std::string& name : saved_) {
      if (name == input_) continue;
      const bool drop = o_.dropped.all
                            ? all || masks.count(name) > 0
                            : o_.dropped.roles.test(static_cast<std::size_t>(maker.at(name)->role));
      (drop ? dropped : kept_).insert(name);
    }

    // From what is to be rebuilt back to what is kept. A mask is drawn again from its seed, and
    // needs no operator for that.
    std::vector<std::string> wanted;
    for (const std::string& name : dropped) {
      if (masks.count(name) == 0) wanted.push_back(name);
    }
    while (!wanted.empty()) {
      const auto made = maker.find(wanted.back());
      wanted.pop_back();
      if (made == maker.end() || !again_.insert(made->second->name).second) continue;
      for (const Operand& in : made->second->inputs) {
        if (kept_.count(in.tensor) == 0) wanted.push_back(in.tensor);
      }
    }
    if (all) {
      for (const Operator& op : block_.operators) again_.insert(op.name);
    }
    for (const std::string& name : dropped) {
      if (again_.count(maker.at(name)->name) > 0) {
        rebuilt_.insert(name);
      } else {
        saved_.erase(name);  // a mask, drawn again where it is read
      }
    }
  }

  // --- sizes ---

  Extents local(const Operator& op) const { return o_.splits.local(op, o_.samples); }

  /// Notes the size of a tensor before any cut, as its first mention shows it.
  void measure(const Operator& op, const Operand& operand) {
    Extents whole = op.extents;
    whole[Dim::batch] = o_.samples;
    whole_.emplace(operand.tensor, operand_bytes(operand, whole, o_.precision));
  }
  std::int64_t whole(const std::string& tensor) const {
    const auto it = whole_.find(tensor);
    if (it == whole_.end()) {
      throw InternalError("block '" + block_.name + "' reads '" + tensor + "', which nobody makes");
    }
    return it->second;
  }
  std::int64_t bytes(const std::string& tensor, const Layouts& layouts) const {
    const std::int64_t pieces = o_.splits.pieces(layouts);
    return (whole(tensor) + pieces - 1) / pieces;
  }

  static AxisSet bit(std::size_t axis) { return AxisSet{1} << axis; }

  TensorClass class_of(const std::string& name, const std::set<std::string>& saving) const {
    const bool kept = o_.training && (name == input_ || saving.count(name) > 0);
    return kept ? TensorClass::saved : TensorClass::temporary;
  }

  Gemm gemm_of(const Operator& op) const {
    const Extents e = local(op);
    Gemm g;
    if (op.kind == OpKind::gemm) {
      g.batch = e[Dim::expert];  // each with its own weights
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

  static Layouts without_partial(Layouts layouts) {
    for (Layout& l : layouts) {
      if (l == Layout::partial) l = Layout::replicated;
    }
    return layouts;
  }
  static bool has_partial(const Layouts& layouts) {
    return std::find(layouts.begin(), layouts.end(), Layout::partial) != layouts.end();
  }

  Access weight(const Operator& op) const {
    return {op.weights.front().tensor, TensorClass::weight,
            operand_elements(op.weights.front(), local(op)) * o_.state.weight};
  }
  Access weight_gradient(const Operator& op) const {
    return {"d." + op.weights.front().tensor, TensorClass::gradient,
            operand_elements(op.weights.front(), local(op)) * o_.state.gradient};
  }
  /// Bytes of the embedding table's rows one rank touches in a pass: one row per token whose row it
  /// holds.
  std::int64_t rows_touched(const Operator& op, int element_bytes) const {
    const Extents e = local(op);
    const std::int64_t table = operand_elements(op.weights.front(), e) * element_bytes;
    const std::int64_t parts = o_.splits.degree(o_.splits.of(op), Dim::red);
    const std::int64_t tokens = (e[Dim::batch] * e[Dim::row] + parts - 1) / parts;
    return std::min(table, tokens * e[Dim::col] * element_bytes);
  }

  // --- layouts ---

  /// What is stored of a tensor in one pass, and copies of it in other layouts.
  struct Holdings {
    std::map<std::string, Stored> primary;
    std::map<std::pair<std::string, Layouts>, Stored> copies;
    std::set<std::string> fixed;  // stay as they are: every conversion makes a copy
  };

  /// Makes `tensor` available in `needed`, inserting collectives, and returns it. A partial sum is
  /// completed and an exchange made for good, for they leave no more to hold; a gather makes a copy
  /// beside what it gathers. `sized_as` names the size. What every rank
  /// holds is cut without moving anything, and first, so that no byte moves to a rank that has it
  /// or does not need it.
  Access fetch(KernelList& list, Holdings& held, const std::string& tensor, const Layouts& needed,
               Phase phase, const std::string& sized_as) const {
    complete(list, held, tensor, needed, phase, sized_as);
    Stored at = held.primary.at(tensor);
    const auto copy = held.copies.find({tensor, needed});
    if (copy != held.copies.end()) {
      return {copy->second.name, copy->second.cls, bytes(sized_as, needed)};
    }
    const bool stays = held.fixed.count(tensor) > 0;
    AxisSet exchanged = 0, gathered = 0;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (at.layouts[a] == needed[a]) continue;
      if (at.layouts[a] == Layout::replicated) {
        at.layouts[a] = needed[a];
      } else {
        (needed[a] == Layout::replicated ? gathered : exchanged) |= bit(a);
      }
    }
    const auto convert = [&](CollectiveKind kind, AxisSet axes) {
      Stored next = at;
      Layouts uncut = at.layouts;
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        if ((axes & bit(a)) == 0) continue;
        uncut[a] = Layout::replicated;
        next.layouts[a] = needed[a];
        next.name += "." + to_string(needed[a]);
        if (a > 0) next.name += "@" + axes_[a].name;
      }
      if (kind == CollectiveKind::all_gather || gathered != 0 || stays) {
        next.cls = TensorClass::temporary;
      }
      move(list, phase, {kind, axes, bytes(sized_as, uncut)}, at, next, sized_as);
      at = next;
    };
    if (exchanged != 0) convert(CollectiveKind::all_to_all, exchanged);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if ((gathered & bit(a)) != 0) convert(CollectiveKind::all_gather, bit(a));
    }
    if (gathered != 0 || (exchanged != 0 && stays)) {
      held.copies[{tensor, needed}] = at;
    } else if (exchanged != 0) {
      held.primary[tensor] = at;
    }
    return {at.name, at.cls, bytes(sized_as, needed)};
  }

  /// Completes a partial sum: everywhere, or scattered where it is needed so.
  void complete(KernelList& list, Holdings& held, const std::string& tensor, const Layouts& needed,
                Phase phase, const std::string& sized_as) const {
    Stored at = held.primary.at(tensor);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (at.layouts[a] != Layout::partial || needed[a] == Layout::partial) continue;
      Stored next = at;
      next.layouts[a] = needed[a];
      Layouts uncut = at.layouts;
      uncut[a] = Layout::replicated;
      const bool scatters = needed[a] != Layout::replicated;
      if (scatters) next.name += ".sum";
      move(list, phase,
           {scatters ? CollectiveKind::reduce_scatter : CollectiveKind::all_reduce, bit(a),
            bytes(sized_as, uncut)},
           at, next, sized_as);
      held.primary[tensor] = at = next;
    }
  }

  void move(KernelList& list, Phase phase, const Collective& how, const Stored& from,
            const Stored& to, const std::string& sized_as) const {
    list.collective(from.name + "." + name_of(how.kind), phase, how,
                    {from.name, from.cls, bytes(sized_as, from.layouts)},
                    {to.name, to.cls, bytes(sized_as, to.layouts)});
  }

  /// A norm or softmax whose normalised dimension is cut: every rank reduces its part to two
  /// numbers per row, which are summed before the rows are normalised (or their gradients worked
  /// out). Returns the passes over the elements that are left.
  int share_statistics(KernelList& list, const Operator& op, const std::vector<Access>& inputs,
                       int passes, Phase phase) const {
    if (op.kind != OpKind::norm && op.kind != OpKind::softmax) return passes;
    const Partition p = o_.splits.of(op);
    const int reducing = passes / 2;
    Access statistics{op.name + (phase == Phase::backward ? ".grad" : "") + ".statistics"};
    const auto e = local(op);
    statistics.bytes =
        2 * bytes_of(Storage::fp32, o_.precision) * e[Dim::batch] * e[Dim::head] * e[Dim::row];
    bool shared = false;
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (p.cut[a] != Dim::col) continue;
      if (!shared) {
        continue_or_open(list, op, inputs.front().tensor, statistics.tensor, phase);
        for (const Access& in : inputs) list.read(in);
        list.kernels.back().vector_elements += Operator::vector_elements(e) * reducing;
        list.produce(statistics);
        shared = true;
      }
      list.collective(statistics.tensor + "." + name_of(CollectiveKind::all_reduce), phase,
                      {CollectiveKind::all_reduce, bit(a), statistics.bytes}, statistics,
                      statistics);
    }
    return shared ? passes - reducing : passes;
  }

  static void continue_or_open(KernelList& list, const Operator& op, const std::string& tensor,
                               const std::string& name, Phase phase) {
    if (pointwise(op) && list.can_extend(tensor)) {
      list.kernels.back().name += "+" + name;
    } else {
      list.open(name, phase);
    }
  }

  // --- fused attention ---

  /// The operators of an attention core that is one kernel.
  struct Attention {
    const Operator* scores = nullptr;
    const Operator* softmax = nullptr;
    const Operator* context = nullptr;
    bool holds(const Operator& op) const {
      return &op == scores || &op == softmax || &op == context;
    }
  };

  void find_attention() {
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

  /// `products` GEMMs of rows × keys × head size as one: blocks of `stays` keep their result while
  /// the others stream past, and the rows × keys matrix between the products is made on the way.
  Gemm attention_gemm(Dim stays, int products) const {
    const Extents e = local(*attention_.scores);
    Gemm g;
    g.batch = e[Dim::batch] * e[Dim::head];
    g.m = e[stays];
    g.n = products * e[Dim::red];
    g.k = e[stays == Dim::row ? Dim::col : Dim::row];
    g.flop_scale = attention_.scores->flop_scale;
    return g;
  }

  /// Query rows stay with their result; keys and values stream past.
  void attention_forward(KernelList& list, Holdings& held, Phase phase) const {
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

  // --- forward ---

  /// Every element of the result needs its own of the input alone, at most its whole row.
  static bool pointwise(const Operator& op) { return op.kind != OpKind::permutation; }

  /// The forward pass, or what runs again of it; it leaves the tensors in `saving` for backward.
  KernelList run_forward(Phase phase, const std::set<std::string>& saving) {
    const bool first = phase == Phase::forward;
    KernelList list;
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
        // Token ids: read where they are.
        if (in.storage == Storage::index && held.primary.count(in.tensor) == 0) {
          inputs.push_back({in.tensor, TensorClass::temporary, bytes(in.tensor, needed)});
        } else {
          inputs.push_back(fetch(list, held, in.tensor, needed, phase, in.tensor));
        }
      }
      int passes = op.forward_passes;
      if (op.on_matrix_engine()) {
        Kernel& k = list.open(op.name, phase);
        k.matrix = true;
        k.gemm = gemm_of(op);
        k.a = inputs[0];
        k.b = op.kind == OpKind::gemm ? weight(op) : inputs[1];
      } else {
        passes = share_statistics(list, op, inputs, passes, phase);
        continue_or_open(list, op, inputs.front().tensor, op.name, phase);
        for (const Access& in : inputs) list.read(in);
        if (op.kind == OpKind::embedding) {
          list.read(
              {op.weights.front().tensor, TensorClass::weight, rows_touched(op, o_.state.weight)});
        }
      }
      list.kernels.back().vector_elements += Operator::vector_elements(local(op)) * passes;
      produce_results(list, held, op, phase, saving);
    }
    finish_forward(list, held, phase);
    std::set<std::string> kept{handed_over_};
    if (!o_.training && output_.empty()) kept.insert(logits_);
    kept.insert(saving.begin(), saving.end());
    rename_moved(list, held);
    list.drop_internal(kept);
    return list;
  }

  /// The results of an operator as the newest kernel writes them.
  void produce_results(KernelList& list, Holdings& held, const Operator& op, Phase phase,
                       const std::set<std::string>& saving) const {
    for (const Operand& out : op.outputs) {
      // No dropout in inference; a mask that is drawn again is not kept.
      const bool kept = o_.training && saved_.count(out.tensor) > 0;
      if (out.storage == Storage::mask && !kept) continue;
      if (phase == Phase::recompute && kept_.count(out.tensor) > 0) continue;
      Layouts layouts = o_.splits.output_layouts(op, out);
      if (out.storage == Storage::mask) layouts = resolved(layouts);
      const Stored stored{out.tensor, class_of(out.tensor, saving), layouts};
      held.primary[out.tensor] = stored;
      list.produce({stored.name, stored.cls, bytes(out.tensor, layouts)});
    }
  }

  /// Masks of an operator that leaves partial sums are drawn once the sum is complete.
  Layouts resolved(Layouts layouts) const {
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (layouts[a] == Layout::partial) layouts[a] = o_.boundary[a];
    }
    return layouts;
  }

  /// Completes what is still partial, hands the output over in the boundary's layout, and notes
  /// where every tensor ended up.
  void finish_forward(KernelList& list, Holdings& held, Phase phase) {
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

  /// A tensor that was reduce-scattered or exchanged keeps the tensor's own name; what it was
  /// before gets others.
  static void rename_moved(KernelList& list, const Holdings& held) {
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

  // --- backward ---

  /// The pass that works out gradients: what is held of activations and of their gradients.
  struct Backward {
    KernelList list;
    Holdings saved;      // saved activations, by name
    Holdings gradients;  // gradients, by the activation they belong to
    // Weight gradients, when they are apart: what is gathered for them is gathered then.
    KernelList weight;
    Holdings saved_for_weight;
  };
  KernelList& weight_list(Backward& b) const { return o_.split_backward ? b.weight : b.list; }
  Holdings& weight_saved(Backward& b) const {
    return o_.split_backward ? b.saved_for_weight : b.saved;
  }

  bool has_gradient(const Backward& b, const std::string& activation) const {
    return b.gradients.primary.count(activation) > 0;
  }
  /// The gradient of an activation, in the layouts an operator's backward needs.
  Access gradient(Backward& b, const std::string& activation, const Layouts& needed) const {
    return fetch(b.list, b.gradients, activation, needed, Phase::backward, activation);
  }
  Access saved(Backward& b, const Operator& op, const Operand& operand) const {
    return fetch(b.list, b.saved, operand.tensor, o_.splits.input_layouts(op, operand),
                 Phase::backward, operand.tensor);
  }

  /// What is there already of a gradient, in the layouts of a new contribution. Fetched before the
  /// contributing kernel opens, so that the kernel can add it; a partial sum is added when
  /// complete.
  std::optional<Access> existing(Backward& b, const std::string& activation,
                                 const Layouts& layouts) const {
    if (!has_gradient(b, activation) || has_partial(layouts)) return {};
    return gradient(b, activation, layouts);
  }
  /// Adds the newest kernel's contribution to the gradient of `activation`.
  void contribute(Backward& b, const std::string& activation, const Layouts& layouts,
                  const std::optional<Access>& before) const {
    if (!before && has_gradient(b, activation)) {
      add_partial(b, activation, layouts);
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
    b.list.produce({name, TensorClass::temporary, bytes(activation, layouts)});
    b.gradients.primary[activation] = {name, TensorClass::temporary, layouts};
    drop_copies(b.gradients, activation);
  }
  /// The newest kernel's contribution is a partial sum beside another gradient: it is completed,
  /// then added.
  void add_partial(Backward& b, const std::string& activation, const Layouts& layouts) const {
    const std::string name = "d." + activation + ".part";
    b.list.produce({name, TensorClass::temporary, bytes(activation, layouts)});
    Holdings part;
    part.primary[name] = {name, TensorClass::temporary, layouts};
    const Layouts sum = without_partial(layouts);
    const Access own = fetch(b.list, part, name, sum, Phase::backward, activation);
    const Access other = gradient(b, activation, sum);
    b.list.open("sum.d." + activation, Phase::backward);
    b.list.read(own);
    contribute(b, activation, sum, other);
  }
  static void drop_copies(Holdings& held, const std::string& tensor) {
    for (auto it = held.copies.begin(); it != held.copies.end();) {
      it = it->first.first == tensor ? held.copies.erase(it) : std::next(it);
    }
  }

  /// Layouts of the gradient that an operator computes for one of its inputs: cut where the input
  /// is, partial where the operator's cut runs over what that gradient sums over.
  Layouts input_gradient_layouts(const Operator& op, const Operand& in, DimSet summed) const {
    Layouts l = o_.splits.input_layouts(op, in);
    const Partition p = o_.splits.of(op);
    for (std::size_t a = 0; a < axes_.size(); ++a) {
      if (p.cut[a] && l[a] == Layout::replicated && summed.has(*p.cut[a])) l[a] = Layout::partial;
    }
    return l;
  }

  /// The same of a vector operator, which sums over every dimension its input lacks.
  Layouts broadcast_gradient_layouts(const Operator& op, const Operand& in) const {
    return input_gradient_layouts(
        op, in, DimSet(Dim::batch, Dim::head, Dim::row, Dim::col, Dim::red, Dim::expert));
  }

  /// The gradients of an operator's results in the layouts its forward left them, sums completed.
  std::vector<Access> result_gradients(Backward& b, const Operator& op) const {
    std::vector<Access> result;
    for (const Operand& out : op.outputs) {
      if (!has_gradient(b, out.tensor)) continue;
      result.push_back(gradient(b, out.tensor, without_partial(o_.splits.output_layouts(op, out))));
    }
    return result;
  }

  void gemm_backward(Backward& b, const Operator& op) const {
    const std::vector<Access> results = result_gradients(b, op);
    if (results.empty()) return;
    // The gradients of a fused projection's results are one operand: the first carries the bytes of
    // all, the others are named so that the kernel waits for them too.
    Access dy{results.front().tensor, TensorClass::temporary, 0};
    std::vector<Access> others;
    for (const Access& d : results) {
      dy.bytes += d.bytes;
      if (d.tensor != dy.tensor) others.push_back({d.tensor, d.cls, 0});
    }
    const Gemm g = gemm_of(op);
    const Operand& input = op.inputs.front();
    KernelList& weights = weight_list(b);
    const Access x = fetch(weights, weight_saved(b), input.tensor,
                           o_.splits.input_layouts(op, input), Phase::backward, input.tensor);

    Kernel& w = weights.open(op.name + ".wgrad", Phase::backward);
    w.matrix = true;
    w.gemm = {g.batch, g.k, g.n, g.m, g.flop_scale};
    w.a = x;
    w.b = dy;
    w.reads = others;
    w.accumulate = (o_.splits.summed_gradients(op) & o_.scattered) == 0;
    w.vector_elements = Operator::vector_elements(local(op)) * op.backward_passes;
    weights.produce(weight_gradient(op));

    // Second, so that the operator below can take its gradient on the way out.
    const Layouts layouts = input_gradient_layouts(op, input, DimSet(Dim::col));
    const auto before = existing(b, input.tensor, layouts);
    Kernel& d = b.list.open(op.name + ".dgrad", Phase::backward);
    d.matrix = true;
    d.gemm = {g.batch, g.m, g.k, g.n, g.flop_scale};
    d.a = dy;
    d.b = weight(op);
    d.reads = others;
    contribute(b, input.tensor, layouts, before);
  }

  void batched_backward(Backward& b, const Operator& op) const {
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

  /// Keys and values stay with their gradients; queries, the result's gradient and the queries'
  /// gradient, which is read and written, stream past.
  void attention_backward(Backward& b) const {
    const Operator &scores = *attention_.scores, &softmax = *attention_.softmax,
                   &context = *attention_.context;
    const Operand &of_q = scores.inputs[0], &of_k = scores.inputs[1], &of_v = context.inputs[1];
    const Access dy = result_gradients(b, context).front();
    const Operand& result = context.outputs.front();
    const Access q = saved(b, scores, of_q), k = saved(b, scores, of_k),
                 v = saved(b, context, of_v),
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

  /// What a vector operator's backward reads of the saved activations.
  void fetch_saved(KernelList& list, Holdings& held, const Operator& op,
                   std::vector<Access>& reads) const {
    for (const Operand& s : op.saved) {
      if (saved_.count(s.tensor) == 0) continue;
      Layouts layouts = o_.splits.input_layouts(op, s);
      if (s.storage == Storage::mask) layouts = resolved(o_.splits.output_layouts(op, s));
      reads.push_back(fetch(list, held, s.tensor, layouts, Phase::backward, s.tensor));
    }
  }

  /// The rows of the table that the tokens name take their gradients.
  void embedding_backward(Backward& b, const Operator& op) const {
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

  void vector_backward(Backward& b, const Operator& op) const {
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
      if (in.storage == Storage::index) continue;
      before[i] = existing(b, in.tensor, broadcast_gradient_layouts(op, in));
    }
    if (starts) {
      b.list.open(op.name + ".grad", Phase::backward);
    } else {
      passes = share_statistics(b.list, op, reads, passes, Phase::backward);
      continue_or_open(b.list, op, results.front().tensor, op.name + ".grad", Phase::backward);
    }
    for (const Access& a : reads) b.list.read(a);
    b.list.kernels.back().vector_elements += Operator::vector_elements(local(op)) * passes;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const Operand& in = op.inputs[i];
      if (in.storage == Storage::index) continue;
      if (i < own) {
        contribute(b, in.tensor, broadcast_gradient_layouts(op, in), before[i]);
      } else {
        pass_through(b, in, result);
      }
    }
  }

  /// d(input) = d(result), or is added to what is there already by a kernel of its own, which the
  /// decoder's residuals never need.
  void pass_through(Backward& b, const Operand& in, const std::string& result) const {
    if (in.storage == Storage::index) return;
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

  Backward run_backward(BlockKernels& r) const {
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
      } else if (op->kind == OpKind::gemm) {
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

  template <class F>
  static void for_each_access(Kernel& k, F f) {
    if (!k.a.tensor.empty()) f(k.a);
    if (!k.b.tensor.empty()) f(k.b);
    for (Access& r : k.reads) f(r);
    for (Access& w : k.writes) f(w);
  }

  /// Notes what the weight gradients read of the passes before them, and keeps it with the saved
  /// activations, together with the gradients that pass between blocks.
  void hold(Backward& b, BlockKernels& r) const {
    std::set<std::string> made;  // by the weight gradients' own kernels
    for (const Kernel& k : b.weight.kernels) {
      for (const Access& w : k.writes) made.insert(w.tensor);
    }
    std::map<std::string, std::int64_t> sizes;  // of gradients
    for (const Kernel& k : b.list.kernels) {
      for (const Access& w : k.writes) sizes[w.tensor] = w.bytes;
    }
    sizes[r.output_gradient] = r.output_bytes;
    std::set<std::string> held;
    const auto hold_once = [&](const Access& a) {
      if (made.count(a.tensor) > 0 || !held.insert(a.tensor).second) return;
      if (a.cls == TensorClass::saved) {
        r.held_activations.push_back({a.tensor, bytes(a.tensor, home_.at(a.tensor))});
      } else {
        r.held_gradients.push_back({a.tensor, sizes.at(a.tensor)});
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

  const Block& block_;
  const KernelOptions& o_;
  const std::vector<GroupAxis>& axes_;
  // Tensors that backward reads, the block's input among them; those that stay in memory until
  // then, and those that are made again. Ordered: the stash is listed the same way every time.
  std::set<std::string> saved_, kept_, rebuilt_;
  std::set<std::string> again_;  // operators that run again
  Attention attention_;
  std::string input_, output_, logits_;
  std::string handed_over_;  // the output in the boundary's layouts, as forward names it
  std::map<std::string, std::int64_t> whole_;
  std::map<std::string, Layouts> home_;  // where forward leaves each tensor
};

std::int64_t total(const std::vector<SizedTensor>& tensors) {
  std::int64_t sum = 0;
  for (const SizedTensor& t : tensors) sum += t.bytes;
  return sum;
}

}  // namespace

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
  }
  return "?";
}

std::int64_t BlockKernels::stash_bytes() const { return total(stash); }
std::int64_t BlockKernels::rebuilt_bytes() const { return total(rebuilt); }

Layouts boundary_layouts(const Graph& graph, const Splits& splits) {
  for (const Block& block : graph.blocks) {
    if (!block.is_layer()) continue;
    const Operator& first = block.operators.front();
    return splits.input_layouts(first, first.inputs.front());
  }
  return {};
}

BlockKernels make_kernels(const Block& block, const KernelOptions& options) {
  BlockKernels result = Builder(block, options).build();
  if (options.tensor_chunks > 1) {
    AxisSet axes = 0;
    for (std::size_t a = 0; a < options.splits.axes().size(); ++a) {
      if (options.splits.axes()[a].cause == Cause::tensor) axes |= AxisSet{1} << a;
    }
    chunk_sums(result, axes, options.tensor_chunks);
  }
  return result;
}

}  // namespace tilewright
