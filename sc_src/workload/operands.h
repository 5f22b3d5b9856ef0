// Pieces that the builders of all models put operators together from.
#pragma once

#include <cstdint>
#include <string>

#include <tilewright/workload/graph.h>

#include "passes.h"

namespace tilewright {

// The projections an operand can have, by the name of the axes it keeps.
constexpr DimSet kTokens(Dim::batch, Dim::row);
constexpr DimSet kFeatures(Dim::batch, Dim::row, Dim::col);
constexpr DimSet kReduced(Dim::batch, Dim::row, Dim::red);
constexpr DimSet kWeight(Dim::col, Dim::red);
constexpr DimSet kColumn(Dim::col);

Operand tensor(std::string name, DimSet dims, Storage storage = Storage::compute);
/// numerator/denominator elements per point.
Operand share(std::string name, DimSet dims, std::int64_t numerator, std::int64_t denominator,
              Storage storage = Storage::compute);

/// An operator named after its role, without operands.
Operator make_operator(OpKind kind, OpRole role, std::int64_t rows, std::int64_t columns,
                       Passes passes);
/// The cross entropy of "logits" and "targets".
Operator loss_operator(std::int64_t rows, std::int64_t classes);

/// Adds a weight with `repeat` elements per point, and its parameters.
void add_weight(Operator& op, const std::string& name, DimSet dims, std::int64_t repeat = 1);
/// Adds a mask or a choice, which is written once and read again by the backward pass.
void add_for_backward(Operator& op, const std::string& name, DimSet dims, Storage storage);
/// A dropout mask.
inline void add_mask(Operator& op, const std::string& name, DimSet dims) {
  add_for_backward(op, name, dims, Storage::mask);
}

}  // namespace tilewright
