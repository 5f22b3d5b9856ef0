// From the operators of a block to the kernels a tile runs: forward, recomputation, backward.
//
// A kernel is one matrix operator with the pointwise operators that can consume its result on the
// way out (bias, activation, softmax), or a run of vector operators. Tensors that live only inside
// a kernel never leave the SRAM; the others are its reads and writes. Where an operator needs a
// tensor in another layout than it has, a collective stands between the kernels.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/plan/blocking.h>
#include <tilewright/plan/collective.h>
#include <tilewright/plan/convolution_blocking.h>
#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>
#include <tilewright/plan/recomputation.h>
#include <tilewright/program/program.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

/// What a tensor is to the memory plan: classes are resident in SRAM, or not, as a whole.
enum class TensorClass : std::uint8_t {
  weight,
  gradient,
  optimizer,
  saved,
  temporary,
  fetched,  ///< weights for one pass: gathered from other ranks, or read from the host memory
};
constexpr int kTensorClasses = 6;
std::string to_string(TensorClass c);

/// A tensor read or written by a kernel, on one rank.
struct Access {
  std::string tensor;
  TensorClass cls = TensorClass::temporary;
  std::int64_t bytes = 0;
  bool common = false;  ///< every rank of the tensor axis holds the same, whole
};

/// A conversion of reads[0] into writes[0] over one axis of the ranks; an all_to_all over all axes
/// whose cut changes, so that each byte moves once.
struct Collective {
  CollectiveKind kind = CollectiveKind::all_reduce;
  AxisSet axes = 0;
  std::int64_t bytes = 0;   ///< of the tensor where none of the axes cuts it
  bool accumulate = false;  ///< the result is added to what is stored (a reduce_scatter's)
  int step = 0;             ///< of a ring_step: ranks that the part has come already
  std::int64_t halo = 0;    ///< of a halo or halo_sum: bytes beside a rank's own part
};

struct Kernel {
  std::string name;  ///< "mlp_up", "mlp_up.dgrad", "mlp_up.wgrad", "mlp_down.out.all_reduce"
  Phase phase = Phase::forward;
  /// Matrix part; a and b are its operands (read in blocks), absent for a vector kernel. A matrix
  /// kernel without `a` makes it itself, block by block (fused attention).
  bool matrix = false;
  Gemm gemm;
  /// Where the GEMM stands for a convolution whose windows overlap or skip pixels.
  std::optional<Convolution> convolution;
  Access a, b;
  bool accumulate = false;  ///< the result is added to what is stored (weight gradients)
  /// `a` is normalised as it is loaded. Under this name it is among the writes if it is kept.
  std::string normalised;
  /// Elements × passes of the vector engine, a special pass for KernelOptions::special_passes.
  double vector_elements = 0;
  std::vector<Access> reads;   ///< streamed once, besides a and b
  std::vector<Access> writes;  ///< streamed once
  /// Then there is no engine work, one read and one write. A ring_step may read a second summand.
  std::optional<Collective> collective;
};

/// A rank's part of what `sharers` ranks keep together: equal parts, of whole bytes.
constexpr std::int64_t kept_part(std::int64_t bytes, int sharers) {
  return (bytes + sharers - 1) / sharers;
}

/// A tensor with its size on one rank.
struct SizedTensor {
  std::string name;
  std::int64_t bytes = 0;
  bool common = false;  ///< Access::common
};

/// Everything a block does for one micro-batch on one rank.
struct BlockKernels {
  std::vector<Kernel> forward;    ///< first pass
  std::vector<Kernel> recompute;  ///< what runs again of the forward pass, before backward
  std::vector<Kernel> backward;
  std::vector<Kernel> weight;  ///< weight gradients, when they are apart from `backward`
  std::string input, output;   ///< names of the block's input and output activation, "" if none
  std::string input_gradient, output_gradient;
  std::int64_t input_bytes = 0, output_bytes = 0;
  std::vector<SizedTensor>
      stash;  ///< kept per micro-batch from forward to backward (input included)
  std::vector<SizedTensor> rebuilt;  ///< produced by recomputation, alive during backward
  /// When weight gradients are apart: what they read, kept until then. Of the activations, and of
  /// gradients (output_gradient among them if they read it).
  std::vector<SizedTensor> held_activations, held_gradients;
  std::int64_t temporaries = 0;  ///< peak bytes of other tensors alive between kernels
  /// The same where KernelOptions::sharers ranks keep what is common together.
  std::int64_t shared_temporaries = 0;
  bool common_boundary = false;  ///< of the activations that pass between blocks: Access::common
  std::int64_t stash_bytes() const;
  std::int64_t rebuilt_bytes() const;
  /// With the sizes of what is kept from call to call as `sharers` ranks keep it together: of
  /// saved tensors, and of those that pass between blocks.
  BlockKernels kept_together(int sharers, bool saved, bool boundary) const;
};

struct KernelOptions {
  Splits splits;
  Layouts boundary{};  ///< of the activation that passes between blocks
  std::int64_t samples = 1;
  DType precision = DType::fp16;
  StateBytes state{};
  double special_passes = 1;  ///< other passes that one of a special function takes as long as
  bool training = true;
  /// Weight gradients are added to what earlier micro-batches left, but for those summed over these
  /// axes, which are scattered micro-batch by micro-batch (ZeRO 2 and 3).
  AxisSet scattered = 0;
  /// Weights that are summed over these axes are gathered for every pass (ZeRO 3).
  AxisSet gathered = 0;
  bool fetch_weights = false;  ///< all weights are read from the host memory for every pass
  /// Sums over the tensor axes run beside the GEMMs that make them, and gathers beside those that
  /// read them, in so many chunks.
  int tensor_chunks = 1;
  Dropped dropped{};
  bool fuse_attention = false;  ///< scores, softmax and context in one kernel
  bool fuse_norm = false;       ///< norms in the GEMMs that read their result
  bool fuse_pointwise = true;   ///< pointwise operators in the kernel that makes their input
  /// Ranks of the tensor axis that keep together what all of them hold; 1: each keeps its own.
  int sharers = 1;
  std::string where_multicast = "multicast";  ///< what asks for sharers, for errors
  bool ring_attention = false;  ///< that works on keys and values block by block as they arrive
  /// Weight gradients run later than the backward pass. The gradients that they read, and those
  /// that pass between blocks, are then kept per micro-batch, like saved activations.
  bool split_backward = false;
};

/// The layouts in which a graph's blocks hand their activation over: what the first operator of a
/// layer needs.
Layouts boundary_layouts(const Graph& graph, const Splits& splits);

/// Builds the kernels of a block. Pure; O(operators²) with a few operators.
BlockKernels make_kernels(const Block& block, const KernelOptions& options);

}  // namespace tilewright
