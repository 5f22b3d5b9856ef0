// What calls take and give back of activation memory.
#include <string>

#include <gtest/gtest.h>

#include <tilewright/plan/activation_memory.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

DecoderConfig gpt(bool dropout) {
  DecoderConfig c;
  c.name = "gpt";
  c.layers = 2;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.vocab = 128;
  c.sequence = c.max_positions = 32;
  c.dropout = dropout;
  return c;
}

BlockKernels kernels(const Graph& graph, const Block& block, bool split, bool recompute) {
  const Splits splits = make_splits(PlanConfig{}, graph);
  KernelOptions o{splits, boundary_layouts(graph, splits)};
  o.samples = 3;
  o.split_backward = split;
  o.dropped.all = recompute;
  return make_kernels(block, o);
}

constexpr Handover kHandovers[] = {Handover::none, Handover::at_once, Handover::message,
                                   Handover::parked};

/// What the neighbours of a block take for it, or give back of it.
std::int64_t across(const Schedule& s, const BlockKernels& k, Handover below, Handover above) {
  std::int64_t bytes = 0;
  // The activation that comes in parked, and the one that goes out.
  if (below == Handover::parked) bytes += k.input_bytes;
  if (above == Handover::parked) bytes -= k.output_bytes;
  const auto local = [](Handover h) { return h == Handover::parked || h == Handover::at_once; };
  const std::int64_t in = k.output_gradient.empty() ? 0 : k.output_bytes;
  const std::int64_t out = k.input_gradient.empty() ? 0 : k.input_bytes;
  if (s.split_backward) {
    bytes += (local(above) ? in : 0) - (local(below) ? out : 0);
  } else {
    bytes += (above == Handover::parked ? in : 0) - (below == Handover::parked ? out : 0);
  }
  return bytes;
}

TEST(ActivationMemory, WhatIsTakenIsGivenBack) {
  for (const bool dropout : {false, true}) {
    const Graph graph = build_graph(gpt(dropout));
    for (const Block& block : graph.blocks) {
      for (const bool split : {false, true}) {
        for (const bool recompute : {false, true}) {
          const BlockKernels k = kernels(graph, block, split, recompute);
          Schedule s;
          s.split_backward = split;
          for (const Handover below : kHandovers) {
            for (const Handover above : kHandovers) {
              std::int64_t taken = across(s, k, below, above);
              for (int phase = 0; phase <= (split ? 2 : 1); ++phase) {
                const CallMemory m = call_memory(k, s, static_cast<SlotPhase>(phase), below, above);
                for (int kind = 0; kind < kKeptKinds; ++kind) {
                  taken += m.taken[static_cast<std::size_t>(kind)];
                  taken -= m.given[static_cast<std::size_t>(kind)];
                  EXPECT_GE(m.taken[static_cast<std::size_t>(kind)], 0);
                  EXPECT_GE(m.given[static_cast<std::size_t>(kind)], 0);
                }
              }
              EXPECT_EQ(taken, 0) << block.name << ", split " << split << ", recompute "
                                  << recompute;
            }
          }
        }
      }
    }
  }
}

TEST(ActivationMemory, PeakOfAnOrder) {
  // A slot of two calls: 5 bytes each forward, and what a backward call takes besides.
  const auto call = [](std::int64_t taken, std::int64_t given) {
    CallMemory m;
    m.taken[static_cast<std::size_t>(Kept::stash)] = taken;
    m.given[static_cast<std::size_t>(Kept::stash)] = given;
    return m;
  };
  const SlotMemory forward({call(5, 0), call(5, 0)}), backward({call(3, 8), call(1, 6)});
  EXPECT_EQ(forward.highest_saved, 10);
  EXPECT_EQ(backward.highest_saved, 3);
  const auto memory = [&](const Slot& slot) -> const SlotMemory& {
    return slot.phase == SlotPhase::forward ? forward : backward;
  };
  const auto peak = [&](ScheduleKind kind) {
    return saved_bytes(peak_kept(make_schedule(kind, 2, 4).orders[0], memory));
  };
  EXPECT_EQ(peak(ScheduleKind::gpipe), 4 * 10 + 3);
  EXPECT_EQ(peak(ScheduleKind::one_f_one_b), 2 * 10 + 3);
}

TEST(ActivationMemory, HandoversOfAVAndOfRounds) {
  const Schedule v = make_schedule(ScheduleKind::zb_v, 3, 3);
  const Schedule round = make_schedule(ScheduleKind::interleaved, 3, 3, 2);
  EXPECT_EQ(handover(v, -1), Handover::none);
  EXPECT_EQ(handover(v, 1), Handover::message);
  EXPECT_EQ(handover(v, 2), Handover::parked);
  EXPECT_EQ(handover(v, 5), Handover::none);
  EXPECT_EQ(handover(round, 2), Handover::message);
}

}  // namespace
}  // namespace tilewright
