// What is to be computed, with nothing said about where: tensors, operators, blocks, the graph.
//
// An operator is an einsum-like loop nest over six dimensions; each operand is a projection of the
// nest onto some of them. That is all a partition needs: splitting a dimension splits the operands
// that have it, replicates those that do not, and leaves partial sums where it is reduced.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/workload/dtype.h>

namespace tilewright {

/// The loop dimensions. A GEMM is Y[batch,row,col] = Σ_red X[batch,row,red] · W[col,red];
/// attention scores add `head`:
/// S[batch,head,row,col] = Σ_red Q[batch,head,row,red] · K[batch,head,col,red];
/// the experts of a mixture each have rows and weights of their own:
/// Y[batch,expert,row,col] = Σ_red X[batch,expert,row,red] · W[expert,col,red].
/// A convolution is the GEMM of the matrix whose row of a pixel holds the pixel's whole window:
/// Y[batch,head,row,col] = Σ_red X[batch,head,window(row),red] · W[head,col,red].
enum class Dim : std::uint8_t {
  batch,   ///< samples; extent 1 in the graph, the micro-batch when lowered
  head,    ///< attention heads; groups of a convolution
  row,     ///< tokens (query tokens in attention; those of one expert); pixels of a result
  col,     ///< output features, or key tokens in the scores; output channels (of a group)
  red,     ///< the reduced dimension: input features, head size in the scores; input channels (of a
           ///< group) × the kernel's height × width
  expert,  ///< experts of a mixture
};
constexpr int kDims = 6;
const char* to_string(Dim dim);

/// Extents by Dim, 1 where the operator does not have the dimension.
struct Extents {
  std::array<std::int64_t, kDims> size{1, 1, 1, 1, 1, 1};
  std::int64_t& operator[](Dim d) { return size[static_cast<int>(d)]; }
  std::int64_t operator[](Dim d) const { return size[static_cast<int>(d)]; }
};

/// A set of Dims.
class DimSet {
 public:
  constexpr DimSet() = default;
  template <class... D>
  constexpr explicit DimSet(D... dims) : bits_((0u | ... | bit(dims))) {}
  constexpr bool has(Dim d) const { return (bits_ & bit(d)) != 0; }
  constexpr bool operator==(DimSet o) const { return bits_ == o.bits_; }

 private:
  static constexpr std::uint8_t bit(Dim d) {
    return static_cast<std::uint8_t>(1u << static_cast<int>(d));
  }
  std::uint8_t bits_ = 0;
};

/// What an element of a tensor is stored as; the plan's precision turns it into bytes.
enum class Storage : std::uint8_t {
  compute,  ///< the precision the matrix engine works in (fp16, bf16, ...)
  mask,     ///< one byte, drawn at random (dropout masks)
  choice,   ///< one byte: what a pooling or a ReLU chose, for the backward pass
  fp32,     ///< always four bytes (loss logits, statistics)
  index,    ///< four bytes (token ids)
  pixel,    ///< of an image that comes with the sample: as `compute`
};
/// Token ids and images are given: no gradient flows to them.
constexpr bool differentiable(Storage storage) {
  return storage != Storage::index && storage != Storage::pixel;
}

/// Written for the backward pass alone.
constexpr bool serves_backward(Storage storage) {
  return storage == Storage::mask || storage == Storage::choice;
}

/// Bytes of one element when the matrix engine works in `compute`.
int bytes_of(Storage storage, DType compute);

/// One use of a tensor by an operator.
struct Operand {
  /// Unique within the block; equal names are the same tensor. Activations enter a block as "x" and
  /// leave it as "y". Weights are unique within the graph, up to the layer they belong to.
  std::string tensor;
  DimSet dims;
  Storage storage = Storage::compute;
  /// Elements per point of the projection, as a fraction: kv_heads/heads for the K or V that
  /// grouped-query attention reads, the share of the columns for the q, k and v that one fused GEMM
  /// writes, the pixels of an image to those of all windows over it; 1 in most operands.
  std::int64_t numerator = 1;
  std::int64_t denominator = 1;

  /// Elements of the tensor when the operator has these extents, whole or split: the product over
  /// `dims` times the fraction.
  double elements(const Extents& extents) const;
};

enum class OpKind : std::uint8_t {
  gemm,          ///< matrix engine, weights as second operand
  batched_gemm,  ///< matrix engine, both operands activations (attention)
  convolution,   ///< matrix engine, a GEMM over the windows of an image (Operator::window)
  norm,          ///< layer norm or RMS norm
  batch_norm,    ///< by column, with the statistics of all rows of a micro-batch
  pool,          ///< the largest of each window, or the mean of all rows
  softmax,       ///< with scaling, mask and dropout where the model has them
  elementwise,   ///< activation, rotary embedding, residual add, dropout, bias
  permutation,   ///< rows move between tokens and experts: dispatch, combine
  embedding,     ///< table look-up: bytes only, no FLOPs
  loss,          ///< cross entropy over the vocabulary or the classes
};

/// Of the passes of a batch norm, forward and backward, those that make its two sums per column.
constexpr int kBatchStatisticsPasses = 2;

/// The windows that a convolution or a pooling lays over an image, one for each pixel of its
/// result. Pixels are those of one sample; what lies outside the image is zero and never read.
struct Window {
  struct Side {
    std::int64_t in = 1, out = 1;  ///< pixels of the image and of the result
    std::int64_t kernel = 1;
    /// ⌊(in + 2·padding − kernel) / stride⌋ + 1 == out.
    std::int64_t stride = 1, padding = 0;
  };
  Side height, width;
  std::int64_t in_pixels() const { return height.in * width.in; }
  std::int64_t out_pixels() const { return height.out * width.out; }
  std::int64_t taps() const { return height.kernel * width.kernel; }
};

/// The operator's place in the model; partition presets (Megatron, ...) split by it.
enum class OpRole : std::uint8_t {
  embedding,
  attention_norm,
  qkv,
  rotary,
  scores,
  softmax,
  context,
  projection,
  attention_residual,
  mlp_norm,
  mlp_up,
  activation,
  mlp_down,
  mlp_residual,
  final_norm,
  head,
  loss,
  router,
  gate,
  dispatch,
  expert_up,
  expert_activation,
  expert_down,
  combine,
  shared_sum,
  stem,
  stem_norm,
  stem_act,
  stem_pool,
  conv1,
  norm1,
  act1,
  conv2,
  norm2,
  act2,
  conv3,
  norm3,
  shortcut,
  shortcut_norm,
  residual,
  residual_act,
  global_pool,
};
constexpr int kOpRoles = 42;
std::string to_string(OpRole role);

struct Operator {
  std::string name;  ///< unique within the block: "qkv", "mlp_up"
  OpKind kind = OpKind::elementwise;
  OpRole role = OpRole::qkv;
  Extents extents;               ///< per sample (batch = 1)
  std::optional<Window> window;  ///< of a convolution, or of a pooling with windows
  std::vector<Operand> inputs;   ///< activations read
  int summands = 0;              ///< trailing inputs that the result adds as they are: the gradient
                                 ///< of each is the result's; other inputs have one of their own
  std::vector<Operand> weights;  ///< parameters read (no batch, no row)
  std::vector<Operand> outputs;  ///< activations written; the first is the result
  /// Tensors of this block that the backward pass reads: kept from forward, or recomputed.
  std::vector<Operand> saved;
  /// Vector-engine passes over vector_elements(), forward and backward (0 for pure matrix work; a
  /// GEMM's bias add counts one). docs/workload.md gives the figure of each kind.
  int forward_passes = 0;
  int backward_passes = 0;
  /// Of these, passes of special functions (exp, tanh, reciprocal), which an engine may be slower
  /// at.
  int forward_special = 0, backward_special = 0;
  std::int64_t parameters = 0;  ///< owned here; 0 for a weight that another operator owns (tied)
  double flop_scale = 1;        ///< share of the loop nest that is counted (causal attention)
  double occupancy = 1;         ///< share of the rows that are tokens; experts pad to a capacity

  bool on_matrix_engine() const { return kind == OpKind::batched_gemm || multiplies_weights(); }
  /// On the matrix engine with weights as second operand.
  bool multiplies_weights() const { return kind == OpKind::gemm || kind == OpKind::convolution; }
  /// 2 × MAC of the forward operator for one sample, padding left out; 0 off the matrix engine.
  Flop forward_flop() const;
  /// Input gradient (both inputs for batched_gemm, none for an image) and weight gradient, one
  /// sample.
  Flop input_gradient_flop() const;
  Flop weight_gradient_flop() const;
  /// Elements that one vector pass visits: the points of the nest with the reduction left out,
  /// which are the elements of the result (of the logits in the loss). `local` may be a part of the
  /// extents.
  static double vector_elements(const Extents& local);
};

/// A run of operators that a pipeline cut never enters: the embedding or the stem, one layer, or
/// the head.
struct Block {
  std::string name;  ///< "embedding", "layer", "moe_layer", "head"; "stem", "stage1", ...
  std::vector<Operator> operators;
  bool is_layer() const { return name != "embedding" && name != "stem" && name != "head"; }
  std::int64_t parameters() const;
  Flop forward_flop() const;
  /// Input-gradient plus weight-gradient FLOPs.
  Flop backward_flop() const;
  /// Distinct saved tensors of one sample, nothing split or recomputed.
  Bytes saved_bytes(DType compute) const;
  const Operator& find(OpRole role) const;  ///< throws InternalError when absent
};

/// How attention FLOPs are counted: all scores, or the causal half.
enum class AttentionFlops : std::uint8_t { full, causal_half };

/// The operator graph of a model: a chain of blocks, equal ones stored once.
struct Graph {
  std::string model;                 ///< name for reports
  std::int64_t sequence = 0;         ///< tokens per sample the extents were built for; 0: images
  std::int64_t hidden = 0;           ///< width of what passes between blocks; 0: it varies
  std::vector<Block> blocks;         ///< distinct blocks
  std::vector<std::uint32_t> chain;  ///< indices into `blocks`: embedding or stem, layers, head
  std::vector<std::string> notes;    ///< what a report should say of the graph: what it assumes

  bool of_images() const { return sequence == 0; }
  std::int64_t layers() const;      ///< blocks in the chain that are layers
  std::int64_t parameters() const;  ///< tied weights once
  Flop forward_flop() const;        ///< one sample, forward
  Flop training_flop() const;       ///< one sample, forward + backward, no recomputation
  const Block& block(std::size_t position) const { return blocks[chain[position]]; }
};

}  // namespace tilewright
