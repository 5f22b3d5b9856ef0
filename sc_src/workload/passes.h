// How many vector instructions each kind of operator issues per element.
//
// One pass = one elementary instruction over the operator's elements: an add, multiply,
// multiply-add, compare or select, or a special function (exp, tanh, reciprocal, root) of a·x + b.
// Work per row (the root of a variance, the one-hot of a target) is not counted, nor is the drawing
// of random numbers. docs/workload.md repeats the table for users; the tests compare the two ends.
#pragma once

#include <tilewright/base/error.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {

struct Passes {
  int forward = 0;
  int backward = 0;
  int forward_special = 0;  ///< of these, special functions
  int backward_special = 0;
};

constexpr Passes operator+(Passes a, Passes b) {
  return {a.forward + b.forward, a.backward + b.backward, a.forward_special + b.forward_special,
          a.backward_special + b.backward_special};
}

/// Forward: add; backward: the gradients of the two branches meet in one add.
constexpr Passes kAddPasses{1, 1};
/// Forward: add; backward: the bias gradient sums the columns.
constexpr Passes kBiasPasses{1, 1};
/// Forward and backward: one multiply by the scaled mask.
constexpr Passes kDropoutPasses{1, 1};
/// Forward: copy the row; backward: add the gradient into it.
constexpr Passes kLookUpPasses{1, 1};
/// Forward: maximum, exponential of the scaled difference, sum, divide. Backward: Σ p·dp,
/// subtract, multiply by p.
constexpr Passes kSoftmaxPasses{4, 3, 1, 0};
/// A rotation is a multiply and a multiply-add per element; the gradient is the inverse rotation.
constexpr Passes kRotaryPasses{2, 2};
/// Forward: widen to fp32, maximum, exponential, sum. Backward: probability from the saved logits,
/// scale.
constexpr Passes kLossPasses{4, 2, 1, 1};

/// Forward: copy the row to each of its experts; backward: sum what comes back from them.
constexpr Passes kDispatchPasses{1, 1};
/// Forward: multiply-add of every expert's result by its gate. Backward: the gate times the
/// result's gradient, and their row sums of products for the gates.
constexpr Passes kCombinePasses{1, 2};
/// What a gate adds to a sum: nothing forward (multiply-add); backward as in kCombinePasses.
constexpr Passes kSharedGatePasses{0, 2};

/// Forward: sum, sum of squares, multiply-add of what they make of a column. Backward: Σ dy,
/// Σ dy·x, two multiply-adds. Inference has the multiply-add alone.
constexpr Passes kBatchNormPasses{kBatchStatisticsPasses + 1, kBatchStatisticsPasses + 2};
/// Forward: add; backward: a share of the gradient for every pixel.
constexpr Passes kMeanPoolPasses{1, 1};

constexpr Passes largest_pool_passes(int taps, int fresh) {
  // Forward: compare each pixel of the window with the largest so far, whose number is kept with
  // it. Backward: zero the pixels of the image, `fresh` for each window, and add to the largest.
  return {taps, fresh + 1};
}

constexpr Passes gate_passes(int top_k) {
  // Softmax over the experts, and a maximum for each one chosen. The gradient of the chosen is
  // spread over all before the softmax's own.
  return kSoftmaxPasses + Passes{top_k, 1};
}

constexpr Passes norm_passes(NormKind kind) {
  // Layer norm forward: sum, subtract the mean, sum of squares, multiply by 1/σ, gain and bias.
  // Backward: recompute the normalised input, multiply by the gain, two row sums, the gradients of
  // gain and bias, two multiply-adds for the input. RMS norm has no mean and no bias: forward loses
  // the sum and the subtraction, backward one row sum and the bias gradient.
  return kind == NormKind::layer_norm ? Passes{5, 8} : Passes{3, 6};
}

constexpr Passes activation_passes(ActivationKind kind, bool gated) {
  // GELU (tanh form): square, multiply-add, multiply, tanh, multiply-add, multiply; its gradient
  // repeats the first four and needs seven more. SiLU: exponential, add, reciprocal, multiply; the
  // gradient repeats the first three and needs four more. A gate multiplies once; its gradient
  // remakes the activation (one multiply) and multiplies once towards either branch.
  const Passes own = kind == ActivationKind::gelu   ? Passes{6, 11, 1, 1}
                     : kind == ActivationKind::silu ? Passes{4, 7, 2, 2}
                                                    : Passes{1, 1};
  return gated ? own + Passes{1, 3} : own;
}

}  // namespace tilewright
