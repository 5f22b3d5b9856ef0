// Builds the kernels of one block: its operators in the layouts that the plan's cuts ask for, with
// the collectives between them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/plan/kernels.h>

#include "kernel_list.h"

namespace tilewright {

/// A tensor as it is stored somewhere: under which name, in which layouts.
struct Stored {
  std::string name;
  TensorClass cls = TensorClass::temporary;
  Layouts layouts{};
};

class KernelBuilder {
 public:
  KernelBuilder(const Block& block, const KernelOptions& options);

  BlockKernels build();

 private:
  // --- recomputation ---

  /// Divides what backward reads into what is kept and what is rebuilt, and finds the operators
  /// that rebuild it.
  void choose_rebuilt();

  // --- sizes ---

  /// What special functions take longer than other passes, as elements × passes.
  double special_elements(const Operator& op, int special) const {
    return Operator::vector_elements(local(op)) * special * (o_.special_passes - 1);
  }
  Extents local(const Operator& op) const { return o_.splits.local(op, o_.samples); }

  /// Notes the size of a tensor before any cut, as its first mention shows it.
  void measure(const Operator& op, const Operand& operand);
  std::int64_t whole(const std::string& tensor) const;
  std::int64_t bytes(const std::string& tensor, const Layouts& layouts) const;
  /// Of these, what a window reaches beside a rank's own part: the tokens right before it, which
  /// the first ranks take from the last ones, for all run the same instructions.
  std::int64_t halo_bytes(const std::string& tensor, Layouts layouts) const;

  static AxisSet bit(std::size_t axis) { return AxisSet{1} << axis; }

  /// Whether every rank of the tensor axis, the first, holds all of a tensor, and keeps it together
  /// with others.
  bool common(const Layouts& layouts) const {
    return o_.sharers > 1 && axes_.front().degree > 1 && layouts.front() == Layout::replicated;
  }
  /// A tensor in these layouts; `sized_as` names its size.
  Access access(const std::string& name, TensorClass cls, const std::string& sized_as,
                const Layouts& layouts) const {
    return {name, cls, bytes(sized_as, layouts), common(layouts)};
  }

  TensorClass class_of(const std::string& name, const std::set<std::string>& saving) const;

  Gemm gemm_of(const Operator& op) const;
  /// A pass of a convolution; nothing where each pixel is its own window, which is a GEMM.
  std::optional<Convolution> convolution_of(const Operator& op, ConvolutionPass pass) const;
  /// Makes the newest kernel's GEMM that of a pass, `plain` where the operator is a GEMM.
  void multiply(Kernel& k, const Operator& op, ConvolutionPass pass, const Gemm& plain) const;

  static Layouts without_partial(Layouts layouts);
  static bool is_sum(Layout l) { return l == Layout::partial || l == Layout::halo_sum; }
  static bool has_partial(const Layouts& layouts) {
    return std::any_of(layouts.begin(), layouts.end(), is_sum);
  }

  TensorClass weight_class(const Operator& op) const;
  Access weight(const Operator& op) const;
  Access weight_gradient(const Operator& op) const;
  /// Bytes of the embedding table's rows one rank touches in a pass: one row per token whose row it
  /// holds.
  std::int64_t rows_touched(const Operator& op, int element_bytes) const;

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
               Phase phase, const std::string& sized_as) const;

  /// Completes a partial sum: everywhere, or scattered where it is needed so.
  void complete(KernelList& list, Holdings& held, const std::string& tensor, const Layouts& needed,
                Phase phase, const std::string& sized_as) const;

  void move(KernelList& list, Phase phase, const Collective& how, const Stored& from,
            const Stored& to, const std::string& sized_as) const;

  /// A norm or softmax whose normalised dimension is cut: every rank reduces its part to two
  /// numbers per row, which are summed before the rows are normalised (or their gradients worked
  /// out). A batch norm always makes two numbers per column first, in training: of all samples and
  /// pixels of a micro-batch, replicas each of their own. Takes what that needs off `passes`, and
  /// returns the numbers, or no tensor.
  Access share_statistics(KernelList& list, const Operator& op, const std::vector<Access>& inputs,
                          int& passes, Phase phase) const;

  /// A vector operator joins the newest kernel, which makes `tensor`, or gets one of its own.
  void continue_or_open(KernelList& list, const Operator& op, const std::string& tensor,
                        const std::string& name, Phase phase) const;
  void join_or_open(KernelList& list, bool joins, const std::string& name, Phase phase) const;

  // --- image rows ---

  /// Rows of an image that windows reach beside a rank's own, when the ranks of an axis share them.
  struct Edge {
    std::size_t axis = 0;
    std::int64_t uncut = 0;  // bytes of the image where the axis does not cut it
    std::int64_t bytes = 0;  // of the rows beside a rank's own
  };
  std::optional<Edge> edge_of(const Operator& op, const Operand& image) const;
  /// Brings the rows beside `own`; returns them, or no tensor. What the sample brings is read where
  /// it is.
  Access fetch_edge(KernelList& list, const Operator& op, const Operand& image, const Access& own,
                    Phase phase) const;
  /// The newest kernel makes `sum`, a gradient, and the part of it that belongs to the rows beside,
  /// which goes back and is added there.
  void return_edge(KernelList& list, const Edge& edge, const Access& sum) const;

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

  void find_attention();

  /// How keys and values go from rank to rank of an axis: all the way round, or as far as a window
  /// reaches.
  struct Ring {
    std::size_t axis = 0;
    bool window = false;
    int blocks = 1;           // that a rank works on, its own first
    std::int64_t tokens = 1;  // of a rank
    std::int64_t before = 0;  // tokens before its own that a window reaches
    /// Bytes of a block, of which a rank's own has `own`: the last one that a window reaches is
    /// cut.
    std::int64_t part(std::int64_t own, int block) const;
  };
  /// A rank's work on one block: so many keys per query, and 1/ways of the softmax.
  struct RingBlock {
    std::int64_t keys = 0;
    double ways = 1;
  };
  RingBlock ring_block(const std::optional<Ring>& ring, int block) const;
  /// `products` GEMMs of rows × keys × head size as one: blocks of `stays` keep their result while
  /// the others stream past, and the rows × keys matrix between the products is made on the way.
  Gemm attention_gemm(Dim stays, int products, std::int64_t keys) const;

  /// The ring of the outermost axis over which keys and values would be gathered.
  std::optional<Ring> find_ring(const Holdings& held) const;
  /// With the tokens left cut over its axis.
  static Layouts ring_layouts(Layouts layouts, const std::optional<Ring>& ring);
  /// Sends a block that has come `step` ranks on to the next; returns the one that arrives.
  Access pass_on(KernelList& list, Phase phase, const std::string& tensor, const Access& block,
                 const Ring& ring, int step) const;
  /// The gradient of a tensor that goes round a ring.
  struct RingSum {
    std::string tensor;
    std::int64_t bytes = 0;  // of a rank's own block
    Ring ring;
    Access arrived{};  // the sum that has come from the rank before, if any
    /// A rank's own part, by the order in which it works on the blocks.
    Access summand(int block) const {
      const std::string name = "d." + tensor + (block > 0 ? ".ring" + std::to_string(block) : "");
      return {name, TensorClass::temporary, ring.part(bytes, block)};
    }
  };
  void pass_sum(KernelList& list, RingSum& sum, int block) const;

  /// Query rows stay with their result; keys and values stream past.
  void attention_forward(KernelList& list, Holdings& held, Phase phase) const;

  // --- forward ---

  /// Every element of the result needs its own of the input alone, at most its whole row.
  bool pointwise(const Operator& op) const {
    const bool whole_columns = op.kind == OpKind::batch_norm && o_.training;
    return op.kind != OpKind::permutation && op.kind != OpKind::pool && !whole_columns;
  }

  /// The forward pass, or what runs again of it; it leaves the tensors in `saving` for backward.
  KernelList run_forward(Phase phase, const std::set<std::string>& saving);

  /// A norm that every GEMM reading its result works out itself as it loads: no kernel makes it,
  /// and it is written only to be kept. Rows are whole, and nothing stands between.
  bool normalised_on_load(const Operator& op, Phase phase) const;
  /// Such a norm: what it reads, elements × passes, and its result where that is to be kept.
  struct LoadedNorm {
    const Operator* norm = nullptr;
    Access input, result;
    double elements = 0;
  };
  static void normalise(Kernel& k, const LoadedNorm& norm);

  /// The results of an operator as the newest kernel writes them.
  void produce_results(KernelList& list, Holdings& held, const Operator& op, Phase phase,
                       const std::set<std::string>& saving) const;

  /// Masks of an operator that leaves partial sums are drawn once the sum is complete.
  Layouts resolved(Layouts layouts) const;

  /// Completes what is still partial, hands the output over in the boundary's layout, and notes
  /// where every tensor ended up.
  void finish_forward(KernelList& list, Holdings& held, Phase phase);

  /// A tensor that was reduce-scattered or exchanged keeps the tensor's own name; what it was
  /// before gets others.
  static void rename_moved(KernelList& list, const Holdings& held);

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
  Access saved(Backward& b, const Operator& op, const Operand& operand) const;

  /// What is there already of a gradient, in the layouts of a new contribution. Fetched before the
  /// contributing kernel opens, so that the kernel can add it; a partial sum is added when
  /// complete.
  std::optional<Access> existing(Backward& b, const std::string& activation,
                                 const Layouts& layouts) const;
  /// Adds the newest kernel's contribution to the gradient of `activation`.
  void contribute(Backward& b, const std::string& activation, const Layouts& layouts,
                  const std::optional<Access>& before, const std::optional<Edge>& edge = {}) const;
  /// The newest kernel's contribution is a partial sum beside another gradient: it is completed,
  /// then added.
  void add_partial(Backward& b, const std::string& activation, const Layouts& layouts,
                   const std::optional<Edge>& edge) const;
  static void drop_copies(Holdings& held, const std::string& tensor);

  /// Layouts of the gradient that an operator computes for one of its inputs: cut where the input
  /// is, partial where the operator's cut runs over what that gradient sums over.
  Layouts input_gradient_layouts(const Operator& op, const Operand& in, DimSet summed) const;

  /// The same of a vector operator, which sums over every dimension its input lacks.
  Layouts broadcast_gradient_layouts(const Operator& op, const Operand& in) const;

  /// The gradients of an operator's results in the layouts its forward left them, sums completed.
  std::vector<Access> result_gradients(Backward& b, const Operator& op) const;

  void gemm_backward(Backward& b, const Operator& op) const;

  void batched_backward(Backward& b, const Operator& op) const;

  /// Keys and values stay with their gradients; queries, the result's gradient and the queries'
  /// gradient, which is read and written, stream past.
  void attention_backward(Backward& b) const;

  /// What a vector operator's backward reads of the saved activations.
  void fetch_saved(KernelList& list, Holdings& held, const Operator& op,
                   std::vector<Access>& reads) const;

  /// The rows of the table that the tokens name take their gradients.
  void embedding_backward(Backward& b, const Operator& op) const;

  void vector_backward(Backward& b, const Operator& op) const;

  /// d(input) = d(result), or is added to what is there already by a kernel of its own, which the
  /// decoder's residuals never need.
  void pass_through(Backward& b, const Operand& in, const std::string& result) const;

  Backward run_backward(BlockKernels& r) const;

  template <class F>
  static void for_each_access(Kernel& k, F f) {
    if (!k.a.tensor.empty()) f(k.a);
    if (!k.b.tensor.empty()) f(k.b);
    for (Access& r : k.reads) f(r);
    for (Access& w : k.writes) f(w);
  }

  /// Notes what the weight gradients read of the passes before them, and keeps it with the saved
  /// activations, together with the gradients that pass between blocks.
  void hold(Backward& b, BlockKernels& r) const;

  const Block& block_;
  const KernelOptions& o_;
  const std::vector<GroupAxis>& axes_;
  // Tensors that backward reads, the block's input among them; those that stay in memory until
  // then, and those that are made again. Ordered: the stash is listed the same way every time.
  std::set<std::string> saved_, kept_, rebuilt_;
  std::set<std::string> again_;  // operators that run again
  Attention attention_;
  const Operator* scores_ = nullptr;  // fused or not
  std::string input_, output_, logits_;
  std::string handed_over_;  // the output in the boundary's layouts, as forward names it
  std::map<std::string, std::int64_t> whole_;
  std::map<std::string, Layouts> home_;  // where forward leaves each tensor
};

}  // namespace tilewright
