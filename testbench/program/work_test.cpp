// How much a program makes its tiles do, against sums by hand.
#include <gtest/gtest.h>

#include <tilewright/program/work.h>

namespace tilewright {
namespace {

Instruction transfer(Opcode op, Share share, Space space = Space::dram) {
  Instruction i;
  i.op = op;
  i.engine = op == Opcode::load ? Engine::dma_in : Engine::dma_out;
  i.share = share;
  i.space = space;
  return i;
}

Instruction message(Opcode op, Share share) {
  Instruction i;
  i.op = op;
  i.engine = op == Opcode::send ? Engine::net_send : Engine::net_recv;
  i.share = share;
  return i;
}

Instruction compute(std::uint32_t shape, std::uint32_t begin, std::uint32_t amount) {
  Instruction i;
  i.op = Opcode::compute;
  i.operand = shape;
  i.begin = begin;
  i.amount = amount;
  return i;
}

/// Two tiles with the ranks 4 and 5, which run one segment three times and another beside it once.
Program program() {
  Program p;
  p.names = {"fp16", "int8", "op"};
  ComputeShape gemm;
  gemm.format = 1;
  gemm.denominator = 4;
  gemm.flop = 800;
  gemm.sram_bytes = 40;
  gemm.sram_written = 8;
  ComputeShape norm;
  norm.engine = Engine::vector;
  norm.elements = 30;
  norm.sram_bytes = 12;
  p.shapes = {gemm, norm};
  Segment s;
  s.code = {transfer(Opcode::load, {100}),
            transfer(Opcode::load, {7, 2, 1}),
            transfer(Opcode::store, {1000}, Space::host),
            compute(0, 0, 1),
            compute(0, 1, 2),
            compute(1, 0, 1)};
  Segment beside;
  beside.code = {message(Opcode::send, {11, 4, 0}), message(Opcode::recv, {20})};
  p.segments = {s, beside};
  TileGroup g;
  g.first_rank = 4;
  g.tiles = {static_cast<TileId>(2), static_cast<TileId>(1)};
  g.calls.assign(3, Call{0, 0, 0});
  g.background.assign(1, Call{1, 0, 0});
  p.groups = {g};
  return p;
}

TEST(Work, SumsTheInstructionsOfAllCalls) {
  const ProgramWork work = count_work(program());
  ASSERT_EQ(work.formats, (std::vector<std::string>{"int8", "fp16"}));
  ASSERT_EQ(work.tiles.size(), 3u);
  const TileWork& t = work.tiles[static_cast<TileId>(2)];  // rank 4
  EXPECT_EQ(t.flop, (std::vector<double>{3 * 600, 0}));
  EXPECT_EQ(t.elements, (std::vector<double>{0, 3 * 30}));
  EXPECT_EQ(t.engines_read, 3 * (24 + 12));
  EXPECT_EQ(t.engines_wrote, 3 * 6);
  EXPECT_EQ(t.dram_read, 3u * (100 + 3));  // part (4 + 1) mod 2 of 7 bytes is the smaller one
  EXPECT_EQ(t.host_written, 3000u);
  EXPECT_EQ(t.sent, 3u);  // part 0 of 11 bytes in 4
  EXPECT_EQ(t.received, 20u);
  EXPECT_EQ(t.sram_read(), 108 + 3000 + 3);
  EXPECT_EQ(t.sram_written(), 18 + 309 + 20);
}

TEST(Work, DependsOnTheRankWhereSharesDo) {
  const ProgramWork work = count_work(program());
  const TileWork& t = work.tiles[static_cast<TileId>(1)];  // rank 5
  EXPECT_EQ(t.dram_read, 3u * (100 + 4));
  EXPECT_EQ(t.sent, 3u);
  EXPECT_EQ(t.flop, work.tiles[static_cast<TileId>(2)].flop);
  EXPECT_TRUE(work.tiles[static_cast<TileId>(0)].flop.empty());
}

}  // namespace
}  // namespace tilewright
