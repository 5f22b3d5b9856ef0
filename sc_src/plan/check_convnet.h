// What a plan may ask of a convolutional network.
#pragma once

#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

/// Refuses what has no meaning for images (tokens, attention), and cuts that no convolution can
/// have. Throws InputError. A model of tokens passes.
void check_convnet(const PlanConfig& plan, const Graph& graph, const Splits& splits);

}  // namespace tilewright
