// A small training job for tests that count what moves.
#pragma once

#include <cstdint>

#include <tilewright/plan/plan.h>
#include <tilewright/workload/decoder.h>

namespace tilewright::test {

constexpr std::int64_t kSequence = 64, kHidden = 128, kLayers = 4, kBatch = 2, kMicroBatches = 3;
/// Bytes of an activation of one micro-batch of one replica.
constexpr std::int64_t kActivation = kBatch * kSequence * kHidden * 2;

/// Layers and nothing else: no embedding, no head.
inline DecoderConfig trunk() {
  DecoderConfig c;
  c.name = "trunk";
  c.layers = kLayers;
  c.hidden = kHidden;
  c.heads = c.kv_heads = 8;
  c.head_dim = 16;
  c.ffn = 4 * kHidden;
  c.vocab = 0;
  c.sequence = c.max_positions = kSequence;
  return c;
}

/// One rank.
inline PlanConfig plan() {
  PlanConfig p;
  p.name = "test";
  p.micro_batch = kBatch;
  p.global_batch = kBatch * kMicroBatches;
  return p;
}

}  // namespace tilewright::test
