// What the backward pass needs, against Korthikanti et al. (2205.05198): bytes at two per element.
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "shapes.h"

namespace tilewright {
namespace {

/// Megatron's split: the degree by which each operator divides a dimension.
Dim megatron_dim(OpRole role) {
  switch (role) {
    case OpRole::scores:
    case OpRole::softmax:
    case OpRole::context:
      return Dim::head;
    case OpRole::qkv:
    case OpRole::rotary:
    case OpRole::mlp_up:
    case OpRole::activation:
      return Dim::col;
    case OpRole::projection:
    case OpRole::mlp_down:
      return Dim::red;
    default:
      return Dim::batch;  // extent 1: nothing to split
  }
}

/// Bytes of the distinct saved tensors that one of t devices holds for a micro-batch.
double saved_on_device(const Block& block, std::int64_t micro_batch, std::int64_t t) {
  double bytes = 0;
  std::set<std::string> counted;
  for (const Operator& op : block.operators) {
    Extents local = op.extents;
    const Dim split = megatron_dim(op.role);
    if (split != Dim::batch) {
      EXPECT_EQ(local[split] % t, 0);
      local[split] /= t;
    }
    local[Dim::batch] = micro_batch;
    for (const Operand& tensor : op.saved) {
      if (!counted.insert(tensor.tensor).second) continue;
      bytes += tensor.elements(local) * bytes_of(tensor.storage, DType::fp16);
    }
  }
  return bytes;
}

const Block& layer_of(const Graph& graph) { return graph.block(1); }

TEST(SavedTensors, GptLayerIsSbhTimes34Plus5asOverH) {
  for (std::int64_t b : {1, 4}) {
    const Graph g = build_graph(test::gpt(1, 6144, 64));
    const std::int64_t s = 2048, h = 6144, a = 64;
    const std::int64_t formula = s * b * (34 * h + 5 * a * s);
    EXPECT_EQ(saved_on_device(layer_of(g), b, 1), static_cast<double>(formula));
    EXPECT_EQ(layer_of(g).saved_bytes(DType::fp16) * static_cast<double>(b),
              Bytes(static_cast<double>(formula)));
  }
}

TEST(SavedTensors, TensorParallelIsSbhTimes10Plus24OverTPlus5asOverHt) {
  const Graph g = build_graph(test::gpt(1, 12288, 96));
  const std::int64_t s = 2048, h = 12288, a = 96, b = 2;
  for (std::int64_t t : {1, 2, 8}) {
    const std::int64_t formula = s * b * (10 * h + 24 * h / t + 5 * a * s / t);
    EXPECT_EQ(saved_on_device(layer_of(g), b, t), static_cast<double>(formula)) << t;
  }
}

TEST(SavedTensors, EachTensorOfAGptLayer) {
  const double sbh = 32 * 64, sa = 4.0 * 32 * 32;  // s 32, h 64, 4 heads
  const std::map<std::string, double> expected = {
      {"x", 2 * sbh},
      {"attention_norm.out", 2 * sbh},
      {"q", 2 * sbh},
      {"k", 2 * sbh},
      {"v", 2 * sbh},
      {"p", 2 * sa},
      {"p.mask", sa},
      {"p.dropped", 2 * sa},
      {"context.out", 2 * sbh},
      {"attention_residual.mask", sbh},
      {"x2", 2 * sbh},
      {"mlp_norm.out", 2 * sbh},
      {"mlp_up.out", 8 * sbh},
      {"activation.out", 8 * sbh},
      {"mlp_residual.mask", sbh},
  };
  std::map<std::string, double> found;
  const Graph g = build_graph(test::gpt(1, 64, 4, 32));
  for (const Operator& op : g.block(1).operators) {
    for (const Operand& tensor : op.saved) {
      found[tensor.tensor] = tensor.elements(op.extents) * bytes_of(tensor.storage, DType::fp16);
    }
  }
  EXPECT_EQ(found, expected);
}

TEST(SavedTensors, WithoutDropoutProbabilitiesAreOneTensorAndThereAreNoMasks) {
  DecoderConfig c = test::gpt(1, 64, 4, 32);
  c.dropout = false;
  const double sbh = 32 * 64, sa = 4.0 * 32 * 32;
  const Graph g = build_graph(c);
  EXPECT_EQ(g.block(1).saved_bytes(DType::fp16), Bytes(32 * sbh + 2 * sa));
  for (const Block& block : g.blocks) {
    for (const Operator& op : block.operators) {
      for (const Operand& o : op.outputs) EXPECT_NE(o.storage, Storage::mask) << o.tensor;
    }
  }
  EXPECT_EQ(g.block(0).saved_bytes(DType::fp16), Bytes(0));
}

TEST(SavedTensors, OutsideTheLayers) {
  // Embedding mask sbh; final norm 2sbh, head input 2sbh, fp32 logits 4sbV.
  const Graph g = build_graph(test::gpt(1, 64, 4, 32, 1000));
  EXPECT_EQ(g.block(0).saved_bytes(DType::fp16), Bytes(32 * 64));
  EXPECT_EQ(g.block(2).saved_bytes(DType::fp16), Bytes(4 * 32 * 64 + 4 * 32 * 1000));
  EXPECT_EQ(g.block(2).saved_bytes(DType::fp8), Bytes(2 * 32 * 64 + 4 * 32 * 1000));
}

TEST(SavedTensors, GroupedQueriesAndGate) {
  // s 64, h 128; q 8·16, k and v 2·16 each; probabilities 8·64·64; gate and up 2·320, product 320.
  const Graph g = build_graph(test::small_llama());
  const double per_token = 128 + 128          // norm input, qkv input
                           + 128 + 32 + 32    // q, k, v
                           + 8 * 64           // probabilities
                           + 128 + 128 + 128  // projection input, norm input, up input
                           + 640 + 320;
  EXPECT_EQ(layer_of(g).saved_bytes(DType::bf16), Bytes(2 * 64 * per_token));
}

TEST(SavedTensors, QkNormKeepsItsInput) {
  DecoderConfig c = test::small_llama();
  const Bytes plain = layer_of(build_graph(c)).saved_bytes(DType::bf16);
  c.qk_norm = true;
  EXPECT_EQ(layer_of(build_graph(c)).saved_bytes(DType::bf16) - plain,
            Bytes(2.0 * 64 * (128 + 32)));
}

TEST(SavedTensors, WindowKeepsAllKeysButOnlyItsProbabilities) {
  DecoderConfig c = test::small_llama();
  const Bytes full = layer_of(build_graph(c)).saved_bytes(DType::bf16);
  c.sliding_window = 16;
  EXPECT_EQ(full - layer_of(build_graph(c)).saved_bytes(DType::bf16),
            Bytes(2.0 * 8 * 64 * (64 - 16)));
}

TEST(SavedTensors, ReluNeedsOnlyItsResult) {
  DecoderConfig c = test::gpt(1, 64, 4, 32);
  const Bytes gelu = layer_of(build_graph(c)).saved_bytes(DType::fp16);
  c.activation = ActivationKind::relu;
  EXPECT_EQ(gelu - layer_of(build_graph(c)).saved_bytes(DType::fp16), Bytes(8 * 32 * 64));
}

}  // namespace
}  // namespace tilewright
