// Bytes that each axis of parallelism injects and that links carry, simulated, against closed forms
// (model.md §9).
#include <cstdlib>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>

#include <tilewright/plan/lower.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

#include "support/forked.h"
#include "support/plain_mesh.h"
#include "support/volume_job.h"

namespace tilewright {
namespace {

using namespace test;

constexpr std::int64_t kPasses = kLayers * kMicroBatches;  // of a layer

MachineConfig mesh() { return test::plain_mesh(4, 4); }

/// What all sends of a program come to on links, by the way from tile to tile along x and y.
std::uint64_t bytes_over_hops(const Program& program, const MachineConfig& machine) {
  std::uint64_t sum = 0;
  for (const TileGroup& g : program.groups) {
    for (const std::vector<Call>* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        for (const Instruction& i : program.segments[call.segment].code) {
          if (i.op != Opcode::send) continue;
          for (std::uint32_t r = 0; r < g.tiles.size(); ++r) {
            const TileId from = g.tiles[r], to = g.peers[i.operand][r];
            if (to == kNoTile) continue;
            const int hops = std::abs(machine.x(from) - machine.x(to)) +
                             std::abs(machine.y(from) - machine.y(to));
            sum += static_cast<std::uint64_t>(hops) * i.share.bytes(g.first_rank + r);
          }
        }
      }
    }
  }
  return sum;
}

/// Injected bytes of every cause that has any, "tensor 100, data 200". The links must carry what
/// was injected, once for each hop.
std::string injected(const PlanConfig& plan, const DecoderConfig& model = trunk()) {
  return testing_support::forked([&] {
    const MachineConfig machine = mesh();
    const Graph graph = build_graph(model);
    RunStatistics counted;
    SimulateOptions options = test::checked();
    options.on_statistics = [&counted](const RunStatistics& run) { counted = run; };
    simulate(machine, graph, plan, options);
    std::uint64_t carried = 0;
    for (const LinkStatistics& link : counted.links) carried += link.bytes;
    const std::uint64_t hops = bytes_over_hops(lower(graph, plan, machine).program, machine);
    if (carried != hops) return fmt::format("links carry {} bytes of {}", carried, hops);
    std::string text;
    for (int c = 0; c < kCauses; ++c) {
      const std::uint64_t bytes = counted.bytes_by_cause[static_cast<std::size_t>(c)];
      if (bytes == 0) continue;
      text +=
          fmt::format("{}{} {}", text.empty() ? "" : ", ", to_string(static_cast<Cause>(c)), bytes);
    }
    return text;
  });
}

std::string tensor(std::int64_t bytes) { return fmt::format("tensor {}", bytes); }

/// Parameters of all ranks of a stage together, as they hold them.
std::int64_t held_parameters(const PlanConfig& plan, const DecoderConfig& model = trunk()) {
  const LoweredPlan lowered = lower(build_graph(model), plan, mesh());
  return lowered.stages[0].local_parameters * plan.tensor;
}

TEST(SimulatedVolume, TensorIsFourAllReducesPerLayer) {
  for (const int t : {2, 4, 8}) {
    PlanConfig p = plan();
    p.tensor = t;
    // Every rank sends 2 (t - 1)/t of an activation.
    const std::int64_t all_reduce = 2 * (t - 1) * kActivation;
    EXPECT_EQ(injected(p), tensor(kPasses * 4 * all_reduce));
    p.recomputation = Recomputation::full;  // and the two of the forward pass again
    EXPECT_EQ(injected(p), tensor(kPasses * 6 * all_reduce));
  }
}

TEST(SimulatedVolume, SequenceParallelismIsPairsOfHalves) {
  for (const int t : {2, 4, 8}) {
    PlanConfig p = plan();
    p.tensor = t;
    p.sequence_parallel = true;
    // Four reduce-scatters and four all-gathers, and two gathers again for the weight gradients.
    const std::int64_t half = (t - 1) * kActivation;
    // Gain and bias of two norms see only a part of the tokens: their gradients are summed once.
    const std::int64_t norms = 2 * (t - 1) * kLayers * 4 * kHidden * 2;
    EXPECT_EQ(injected(p), tensor(kPasses * 10 * half + norms));
  }
}

/// All ranks of a layer's pass over tensor axes x and y.
std::int64_t two_dimensional(std::int64_t x, std::int64_t y) {
  // Over x as with one axis, of an activation that y cuts: y groups, each of a y-th.
  const std::int64_t over_x = 4 * 2 * (x - 1) * kActivation;
  // Over y, of what x cuts: forward the sums of QKV (3) and of the up projection (4) are scattered,
  // the inputs of the output (1) and down projection (4) gathered: 12 activations. Backward the
  // gradients of these inputs are scattered (1 + 4), the inputs gathered again for the weight
  // gradients (1 + 4), and the gradients of QKV and up projection gathered (3 + 4): 17.
  const std::int64_t over_y = (12 + 17) * (y - 1) * kActivation;
  // Two norms, forward and backward, sum two fp32 numbers per token over y, on every rank of x.
  const std::int64_t statistics = 2 * 2 * x * 2 * (y - 1) * (2 * 4 * kBatch * kSequence);
  return over_x + over_y + statistics;
}

TEST(SimulatedVolume, TensorOverTwoAxes) {
  for (const auto& [x, y] : {std::pair(2, 2), {4, 2}, {2, 4}}) {
    PlanConfig p = plan();
    p.tensor = x * y;
    p.tensor_shape = {x, y};
    EXPECT_EQ(injected(p), tensor(kPasses * two_dimensional(x, y))) << x << " x " << y;
  }
}

TEST(SimulatedVolume, TensorOverThreeAxes) {
  for (const auto& [x, y, z] : {std::tuple(2, 2, 2), {4, 2, 2}, {2, 2, 4}}) {
    PlanConfig p = plan();
    p.tensor = x * y * z;
    p.tensor_shape = {x, y, z};
    p.placement = PlacementKind::serpentine;
    // z cuts the tokens: x and y move as much in all. Over z keys and values are gathered, forward
    // and backward, and their gradients scattered; gradients of all weights are summed once.
    const std::int64_t over_z = 6 * (z - 1) * kActivation;
    const std::int64_t sums = 2 * (z - 1) * held_parameters(p) / z * 2;
    EXPECT_EQ(injected(p), tensor(kPasses * (two_dimensional(x, y) + over_z) + sums))
        << x << " x " << y << " x " << z;
  }
}

TEST(SimulatedVolume, ContextGathersKeysAndValues) {
  for (const int c : {2, 4}) {
    PlanConfig p = plan();
    p.context = c;
    // Keys and values forward and again backward, and the sums of both gradients. The ranks hold
    // the same weights, whose gradients they sum.
    const std::int64_t keys = kPasses * 6 * (c - 1) * kActivation;
    const std::int64_t sums = 2 * (c - 1) * held_parameters(p) * 2;
    const std::string expected = fmt::format("data {}, context {}", sums, keys);
    EXPECT_EQ(injected(p), expected);
    p.fuse_attention = p.overlap.ring_attention = true;
    EXPECT_EQ(injected(p), expected);
  }
}

TEST(SimulatedVolume, ExpertsAreReachedByFourExchanges) {
  DecoderConfig model = trunk();
  model.experts.count = 8;
  model.experts.top_k = 2;
  model.experts.ffn = 64;
  for (const int e : {2, 4, 8}) {
    PlanConfig p = plan();
    p.data = p.expert = e;
    p.global_batch *= e;
    // Two routes of every token, of which (e - 1)/e leave their rank: there and back, twice.
    const std::int64_t exchange = 2 * kActivation * (e - 1);
    std::int64_t summed = 0;  // all but the experts' weights
    const LoweredPlan lowered = lower(build_graph(model), p, mesh());
    for (const auto& [axes, n] : lowered.stages[0].parameters_by_axes) summed += axes != 0 ? n : 0;
    EXPECT_EQ(injected(p, model),
              fmt::format("data {}, expert {}", 2 * (e - 1) * summed * 2, kPasses * 4 * exchange));
  }
}

TEST(SimulatedVolume, DataByZeroStage) {
  for (const int d : {2, 4}) {
    for (const std::int64_t bucket : {0, 1}) {
      for (const auto& [zero, passes] : {std::pair<int, std::int64_t>(0, 2),
                                         {1, 2},
                                         {2, kMicroBatches + 1},
                                         {3, 3 * kMicroBatches}}) {
        PlanConfig p = plan();
        p.data = d;
        p.global_batch *= d;
        p.zero = zero;
        p.overlap.bucket = bucket;
        // In passes of all parameters round the ranks: a reduce-scatter or an all-gather is one.
        EXPECT_EQ(injected(p), fmt::format("data {}", passes * (d - 1) * held_parameters(p) * 2))
            << "ZeRO " << zero;
      }
    }
  }
}

TEST(SimulatedVolume, PipelineHandsOverWithAndWithoutScatter) {
  for (const int t : {1, 2, 4}) {
    PlanConfig p = plan();
    p.pipeline = 4;
    p.tensor = t;
    const std::int64_t all_reduces = kPasses * 4 * 2 * (t - 1) * kActivation;
    const std::int64_t transfers = 2 * 3 * kMicroBatches;  // three boundaries, both directions
    const auto text = [](std::int64_t tensor, std::int64_t pipeline) {
      return tensor == 0 ? fmt::format("pipeline {}", pipeline)
                         : fmt::format("tensor {}, pipeline {}", tensor, pipeline);
    };
    EXPECT_EQ(injected(p), text(all_reduces, transfers * t * kActivation));
    p.scatter_gather = true;  // each sends a t-th, and those who receive gather
    EXPECT_EQ(injected(p),
              text(all_reduces + transfers * (t - 1) * kActivation, transfers * kActivation));
  }
}

}  // namespace
}  // namespace tilewright
