// AccPar's choice of a partition (Song et al., HPCA 2020, arXiv 1910.02342).
#pragma once

#include <cstdint>
#include <vector>

#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

/// The basic types: what of Y[M,N] = X[M,K] · W[K,N] is cut.
enum class AccParType : std::uint8_t {
  batch,   ///< I: M. Weight gradients are partial sums
  input,   ///< II: K. Results are partial sums
  output,  ///< III: N. Input gradients are partial sums
};
constexpr int kAccParTypes = 3;

/// A matrix operator as the recursion sees it, in elements that one group works on.
struct AccParLayer {
  double weights = 0;  ///< gradient elements to sum, spread over the micro-batches of an iteration
  double input = 0, output = 0;  ///< activations of a micro-batch
  bool by_batch = true;          ///< type I is possible
};

/// Elements that pass a rank's link for a layer of this type on `ranks` ranks: the all-reduce of
/// its partial sums, 2·(p−1)/p of them.
double accpar_within(const AccParLayer& layer, AccParType type, int ranks);
/// Elements that each rank receives when the activation between two layers, and its gradient on the
/// way back, change from the layout one has it in to the one the other needs.
double accpar_between(double elements, AccParType from, AccParType to, int ranks);

/// The types of the least total, by recursion over the chain: the least total up to a layer of one
/// type is that layer's own cost plus the least over the types of the layer before. With `ring` the
/// last layer passes on to the first, as a repeated block does.
std::vector<AccParType> accpar_types(const std::vector<AccParLayer>& chain, int ranks, bool ring);

/// Sets the cuts of every operator on one axis by the recursion; what is not a GEMM with weights
/// follows the one before it.
void accpar(Splits& splits, std::size_t axis, const Graph& graph, const PlanConfig& plan);

}  // namespace tilewright
