// Counts of single operators and blocks, worked by hand.
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/workload/graph.h>

namespace tilewright {
namespace {

Operator gemm(std::int64_t row, std::int64_t col, std::int64_t red) {
  Operator op;
  op.kind = OpKind::gemm;
  op.extents[Dim::row] = row;
  op.extents[Dim::col] = col;
  op.extents[Dim::red] = red;
  return op;
}

TEST(DType, BytesAndNames) {
  EXPECT_EQ(bytes_of(DType::fp32), 4);
  EXPECT_EQ(bytes_of(DType::bf16), 2);
  EXPECT_EQ(bytes_of(DType::int8), 1);
  EXPECT_EQ(to_string(DType::fp32), "fp32");
  EXPECT_EQ(to_string(DType::fp16), "fp16");
  EXPECT_EQ(to_string(DType::bf16), "bf16");
  EXPECT_EQ(to_string(DType::fp8), "fp8");
  EXPECT_EQ(to_string(DType::int8), "int8");
}

TEST(Storage, BytesDependOnPrecisionOnlyWhereComputedIn) {
  EXPECT_EQ(bytes_of(Storage::compute, DType::fp8), 1);
  EXPECT_EQ(bytes_of(Storage::compute, DType::fp16), 2);
  EXPECT_EQ(bytes_of(Storage::mask, DType::fp16), 1);
  EXPECT_EQ(bytes_of(Storage::fp32, DType::fp8), 4);
  EXPECT_EQ(bytes_of(Storage::index, DType::fp8), 4);
}

TEST(Operand, ElementsAreTheProjectionTimesTheFraction) {
  Extents e;
  e[Dim::batch] = 2;
  e[Dim::head] = 8;
  e[Dim::row] = 5;
  e[Dim::col] = 7;
  e[Dim::red] = 3;
  EXPECT_EQ((Operand{"s", DimSet(Dim::batch, Dim::head, Dim::row, Dim::col)}.elements(e)), 560);
  EXPECT_EQ((Operand{"w", DimSet(Dim::col, Dim::red)}.elements(e)), 21);
  // 2 of 8 heads: 2·2·7·3
  const DimSet keys(Dim::batch, Dim::head, Dim::col, Dim::red);
  EXPECT_EQ((Operand{"k", keys, Storage::compute, 2, 8}.elements(e)), 84);
  // No dimension at all: the numerator alone, under any split.
  EXPECT_EQ((Operand{"g", DimSet(), Storage::compute, 16, 1}.elements(e)), 16);
}

TEST(Operator, GemmFlop) {
  const Operator op = gemm(4, 6, 10);
  EXPECT_TRUE(op.on_matrix_engine());
  EXPECT_EQ(op.forward_flop(), Flop(480));
  EXPECT_EQ(op.input_gradient_flop(), Flop(480));
  EXPECT_EQ(op.weight_gradient_flop(), Flop(480));
}

TEST(Operator, BatchedGemmHasTwoInputGradientsAndNoWeights) {
  Operator op = gemm(4, 6, 10);
  op.kind = OpKind::batched_gemm;
  op.extents[Dim::head] = 3;
  EXPECT_EQ(op.forward_flop(), Flop(1440));
  EXPECT_EQ(op.input_gradient_flop(), Flop(2880));
  EXPECT_EQ(op.weight_gradient_flop(), Flop(0));
  op.flop_scale = 0.5;
  EXPECT_EQ(op.forward_flop(), Flop(720));
  EXPECT_EQ(op.input_gradient_flop(), Flop(1440));
}

TEST(Operator, OnlyMatrixWorkCountsAsFlop) {
  for (OpKind kind :
       {OpKind::norm, OpKind::softmax, OpKind::elementwise, OpKind::embedding, OpKind::loss}) {
    Operator op = gemm(4, 6, 10);
    op.kind = kind;
    EXPECT_FALSE(op.on_matrix_engine());
    EXPECT_EQ(op.forward_flop() + op.input_gradient_flop() + op.weight_gradient_flop(), Flop(0));
  }
}

TEST(Operator, SizesBeyond64BitsDoNotWrap) {
  const Operator op = gemm(std::int64_t{1} << 31, std::int64_t{1} << 31, std::int64_t{1} << 31);
  EXPECT_DOUBLE_EQ(op.forward_flop().value(), 0x1p94);
}

TEST(Operator, VectorElementsLeaveTheReductionOut) {
  Extents e;
  e[Dim::batch] = 2;
  e[Dim::head] = 3;
  e[Dim::row] = 5;
  e[Dim::col] = 7;
  e[Dim::red] = 1000;
  EXPECT_EQ(Operator::vector_elements(e), 210);
}

TEST(Block, SavedBytesCountEachTensorOnce) {
  Operator a = gemm(4, 6, 10);
  a.saved = {Operand{"x", DimSet(Dim::row, Dim::red)},
             Operand{"m", DimSet(Dim::row, Dim::col), Storage::mask}};
  Operator b = gemm(4, 6, 10);
  b.saved = {Operand{"x", DimSet(Dim::row, Dim::red)}};
  const Block block{"layer", {a, b}};
  EXPECT_EQ(block.saved_bytes(DType::fp16), Bytes(4 * 10 * 2 + 4 * 6));
  EXPECT_EQ(block.saved_bytes(DType::fp32), Bytes(4 * 10 * 4 + 4 * 6));
}

TEST(Block, FindNamesWhatIsAbsent) {
  Operator op = gemm(4, 6, 10);
  op.role = OpRole::mlp_up;
  const Block block{"layer", {op}};
  EXPECT_EQ(block.find(OpRole::mlp_up).extents[Dim::col], 6);
  try {
    block.find(OpRole::loss);
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_STREQ(e.what(), "block 'layer' has no operator 'loss'");
  }
}

TEST(Graph, SumsOverTheChain) {
  Operator small = gemm(1, 2, 3);  // 12 FLOP
  small.parameters = 6;
  Operator large = gemm(10, 2, 3);  // 120 FLOP
  large.parameters = 7;
  Graph g;
  g.blocks = {Block{"embedding", {small}}, Block{"layer", {large}}};
  g.chain = {0, 1, 1, 1};
  EXPECT_EQ(g.layers(), 3);
  EXPECT_EQ(g.parameters(), 6 + 3 * 7);
  EXPECT_EQ(g.forward_flop(), Flop(12 + 3 * 120));
  EXPECT_EQ(g.training_flop(), Flop(3 * (12 + 3 * 120)));
  EXPECT_EQ(&g.block(3), &g.blocks[1]);
}

}  // namespace
}  // namespace tilewright
