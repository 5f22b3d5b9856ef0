// The tile program: streams, the checks of seal(), and what its messages name.
#include <chrono>
#include <functional>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/program/program.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Instruction message(Opcode op, std::uint32_t table, std::uint64_t bytes,
                    std::uint16_t channel = 0) {
  Instruction i;
  i.op = op;
  i.engine = op == Opcode::send ? Engine::net_send : Engine::net_recv;
  i.cause = Cause::tensor;
  i.operand = table;
  i.channel = channel;
  i.share.total = bytes;
  return i;
}

Instruction compute(std::uint32_t shape, std::uint32_t amount = 1, Engine engine = Engine::matrix) {
  Instruction i;
  i.op = Opcode::compute;
  i.engine = engine;
  i.operand = shape;
  i.amount = amount;
  return i;
}

/// A ring of `tiles` that passes one message of 100 bytes on, `calls` times.
Program ring(std::uint32_t tiles, std::uint32_t calls = 3) {
  Program p;
  p.intern("all-reduce");
  p.channels = {"tensor ring"};
  p.shapes.emplace_back();
  Segment s;
  s.name = "layer.forward";
  s.code = {compute(0), message(Opcode::send, 0, 100), message(Opcode::recv, 1, 100)};
  s.code[1].after[0] = 0;
  p.segments.push_back(s);
  TileGroup g;
  g.name = "stage 0";
  g.peers.resize(2);
  for (std::uint32_t r = 0; r < tiles; ++r) {
    g.tiles.push_back(static_cast<TileId>(r));
    g.peers[0].push_back(static_cast<TileId>((r + 1) % tiles));
    g.peers[1].push_back(static_cast<TileId>((r + tiles - 1) % tiles));
  }
  g.calls.assign(calls, Call{0, 0, 0});
  p.groups.push_back(g);
  return p;
}

/// Two groups of two tiles: tiles 0, 1 send to tiles 2, 3.
Program two_stages(std::uint64_t sent, std::uint64_t expected) {
  Program p;
  p.intern("boundary");
  p.channels = {"pipeline forward"};
  p.segments.resize(2);
  p.segments[0].name = "send.activation";
  p.segments[0].code = {message(Opcode::send, 0, sent)};
  p.segments[1].name = "receive.activation";
  p.segments[1].code = {message(Opcode::recv, 0, expected)};
  p.groups.resize(2);
  for (std::uint32_t g = 0; g < 2; ++g) {
    p.groups[g].name = g == 0 ? "stage 0" : "stage 1";
    p.groups[g].stage = g;
    p.groups[g].calls.assign(4, Call{g, 0, 0});
    for (std::uint32_t r = 0; r < 2; ++r) {
      p.groups[g].tiles.push_back(static_cast<TileId>(2 * g + r));
    }
  }
  p.groups[0].peers = {p.groups[1].tiles};
  p.groups[1].peers = {p.groups[0].tiles};
  return p;
}

std::string error_of(Program program) {
  try {
    program.seal();
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Share, CutsWholeBytesAndSumsToTheTotal) {
  for (const std::uint32_t parts : {1u, 2u, 3u, 7u, 16u}) {
    for (const std::uint64_t total : {0ull, 1ull, 15ull, 16ull, 1000003ull}) {
      for (const std::uint32_t offset : {0u, 1u, parts - 1, 5 * parts + 2}) {
        std::uint64_t sum = 0, least = ~0ull, most = 0;
        for (std::uint32_t r = 0; r < parts; ++r) {
          const std::uint64_t b = Share{total, parts, offset}.bytes(r);
          sum += b;
          least = std::min(least, b);
          most = std::max(most, b);
        }
        EXPECT_EQ(sum, total);
        EXPECT_LE(most - least, 1u);
      }
    }
  }
}

// Ranks of a 2 x 3 x 4 grid, the last axis running fastest: the part follows the place along the
// axis that the stride names, and every part occurs equally often.
TEST(Share, AStrideFollowsOneAxisOfAGridOfRanks) {
  for (std::uint32_t r = 0; r < 2 * 3 * 4; ++r) {
    const std::uint32_t slow = r / 12, middle = r / 4 % 3, fast = r % 4;
    const std::uint64_t tenths[] = {25, 25, 25, 25}, thirds[] = {34, 33, 33}, halves[] = {50, 50};
    EXPECT_EQ((Share{100, 4}.bytes(r)), tenths[fast]);
    EXPECT_EQ((Share{100, 3, 0, 4}.bytes(r)), thirds[middle]);
    EXPECT_EQ((Share{100, 3, 2, 4}.bytes(r)), thirds[(middle + 2) % 3]);
    EXPECT_EQ((Share{100, 2, 0, 12}.bytes(r)), halves[slow]);
  }
}

TEST(Share, RefusesPartsThatItCannotHold) {
  EXPECT_NO_THROW((Share{1, 65535, 65535}));
  EXPECT_THROW((Share{1, 65536}), InputError);
  EXPECT_THROW((Share{1, 2, 65536}), InputError);
}

TEST(Program, InternReturnsTheSameIndexForTheSameName) {
  Program p;
  EXPECT_EQ(p.intern("qkv"), 0);
  EXPECT_EQ(p.intern("softmax"), 1);
  EXPECT_EQ(p.intern("qkv"), 0);
  EXPECT_EQ(p.names.size(), 2u);
}

TEST(Program, SealFillsTheStreamsInProgramOrderAndCanBeRepeated) {
  Program p = ring(4);
  p.segments[0].code.push_back(compute(0));
  for (int i = 0; i < 2; ++i) {
    p.seal();
    const auto& streams = p.segments[0].streams;
    EXPECT_THAT(streams[static_cast<int>(Engine::matrix)], ElementsAre(0u, 3u));
    EXPECT_THAT(streams[static_cast<int>(Engine::net_send)], ElementsAre(1u));
    EXPECT_THAT(streams[static_cast<int>(Engine::net_recv)], ElementsAre(2u));
    EXPECT_THAT(streams[static_cast<int>(Engine::dma_in)], IsEmpty());
  }
}

TEST(Program, AcceptsRingsAndStages) {
  EXPECT_EQ(error_of(ring(2)), "");
  EXPECT_EQ(error_of(ring(5)), "");
  EXPECT_EQ(error_of(two_stages(100, 100)), "");
  EXPECT_EQ(error_of(Program{}), "");
}

TEST(Program, ASizeMismatchNamesBothEnds) {
  EXPECT_THAT(
      error_of(two_stages(100, 99)),
      AllOf(HasSubstr("'pipeline forward'"), HasSubstr("'stage 0' rank 0 (tile 0)"),
            HasSubstr("4 messages of together 400 bytes"), HasSubstr("'stage 1' rank 0 (tile 2)"),
            HasSubstr("4 messages of together 396 bytes"), HasSubstr("send.activation"),
            HasSubstr("receive.activation")));
}

TEST(Program, ANumberMismatchNamesBothEnds) {
  Program p = two_stages(100, 100);
  p.groups[1].calls.pop_back();
  EXPECT_THAT(error_of(p), AllOf(HasSubstr("sends 4 messages"), HasSubstr("expects 3 messages")));
  p.groups[1].calls.clear();
  EXPECT_THAT(error_of(p), AllOf(HasSubstr("sends 4 messages"), HasSubstr("expects none")));
  Program q = two_stages(100, 100);
  q.groups[0].calls.clear();
  EXPECT_THAT(error_of(q), AllOf(HasSubstr("sends none"), HasSubstr("expects 4 messages")));
}

TEST(Program, AWrongPeerIsAMismatch) {
  Program p = two_stages(100, 100);
  std::swap(p.groups[1].peers[0][0], p.groups[1].peers[0][1]);
  EXPECT_THAT(error_of(p), HasSubstr("disagree"));
}

TEST(Program, CountsCallsOfASegmentAsAFactor) {
  // One big message in one segment against the same bytes and number spread over another's calls.
  Program p = two_stages(100, 100);
  p.segments[1].code = {message(Opcode::recv, 0, 100), message(Opcode::recv, 0, 100)};
  p.groups[1].calls.pop_back();
  p.groups[1].calls.pop_back();
  EXPECT_EQ(error_of(p), "");
}

TEST(Program, AgreementOfSharesIsThatOfEveryRankAdded) {
  // Ring steps of an all-reduce: at step s rank r sends part r - s and receives part r - s - 1.
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t n = 2 + random() % 9;
    Program p = ring(n, 1 + random() % 3);
    auto& code = p.segments[0].code;
    code.clear();
    const std::uint64_t total = random() % 1000;
    const std::uint32_t steps = 1 + random() % (2 * n);
    for (std::uint32_t s = 0; s < steps; ++s) {
      Instruction send = message(Opcode::send, 0, total);
      send.share = {total, n, n * 4 - s};
      Instruction recv = message(Opcode::recv, 1, total);
      recv.share = {total, n, n * 4 - s - 1};
      code.push_back(send);
      code.push_back(recv);
    }
    EXPECT_EQ(error_of(p), "") << n << " ranks, " << total << " bytes, " << steps << " steps";
    // One offset off by one: agrees only when every part is equal.
    ++code[0].share.offset;
    EXPECT_EQ(error_of(p).empty(), total % n == 0) << n << " ranks, " << total << " bytes";
  }
}

TEST(Program, ManyPartsAndFewInstructionsNeedNoTable) {
  Program p = two_stages(0, 0);
  p.segments[0].code[0].share = p.segments[1].code[0].share = {100'000, 60'000};
  EXPECT_EQ(error_of(p), "");
  p.segments[1].code[0].share.offset = 59'999;  // rank 0: the last part, one byte less
  EXPECT_THAT(error_of(p), AllOf(HasSubstr("together 8 bytes"), HasSubstr("together 4 bytes")));
}

// A grid of ranks, one group a row, all running one segment; every column is a ring over the rows.
TEST(Program, AgreementOfSharesAcrossGroupsCountsRanksThrough) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const std::uint32_t rows = 2 + random() % 7, columns = 1 + random() % 4;
    Program p = ring(rows);
    auto& code = p.segments[0].code;
    code.clear();
    const std::uint64_t total = random() % 1000;
    const std::uint32_t steps = 1 + random() % (2 * rows);
    for (std::uint32_t s = 0; s < steps; ++s) {
      code.push_back(message(Opcode::send, 0, 0));
      code.back().share = {total, rows, rows * 4 - s, columns};
      code.push_back(message(Opcode::recv, 1, 0));
      code.back().share = {total, rows, rows * 4 - s - 1, columns};
    }
    const auto row = [&](std::uint32_t y) {
      std::vector<TileId> tiles;
      for (std::uint32_t x = 0; x < columns; ++x) {
        tiles.push_back(static_cast<TileId>(y % rows * columns + x));
      }
      return tiles;
    };
    p.groups.assign(rows, p.groups[0]);
    for (std::uint32_t y = 0; y < rows; ++y) {
      p.groups[y].first_rank = y * columns;
      p.groups[y].tiles = row(y);
      p.groups[y].peers = {row(y + 1), row(y + rows - 1)};
    }
    const std::string what =
        std::to_string(rows) + " x " + std::to_string(columns) + ", " + std::to_string(total);
    EXPECT_EQ(error_of(p), "") << what;
    // Rows that all count from 0 send the parts 0, -1 ... and receive the parts -1, -2 ...: the
    // sums agree only when the first sent and the last received are equal.
    for (auto& g : p.groups) g.first_rank = 0;
    const Share first{total, rows}, last{total, rows, rows * 4 - steps};
    EXPECT_EQ(error_of(p).empty(), first.bytes(0) == last.bytes(0)) << what;
  }
}

TEST(Program, AChannelHasOneSourcePerTile) {
  Program p = ring(3);
  auto& g = p.groups[0];
  p.segments[0].code.push_back(message(Opcode::send, 1, 8));
  p.segments[0].code.push_back(message(Opcode::recv, 0, 8));
  EXPECT_THAT(error_of(p), AllOf(HasSubstr("two sources"), HasSubstr("'tensor ring'")));
  p.channels.push_back("tensor ring, other way");
  p.segments[0].code[3].channel = p.segments[0].code[4].channel = 1;
  EXPECT_EQ(error_of(p), "");
  EXPECT_EQ(g.tiles.size(), 3u);
}

/// two_stages() whose first group sends in the background.
Program background_stage() {
  Program p = two_stages(100, 100);
  std::swap(p.groups[0].calls, p.groups[0].background);
  return p;
}

TEST(Program, BackgroundCallsAgreeWithTheirPeers) {
  EXPECT_EQ(error_of(background_stage()), "");
  Program fewer = background_stage();
  fewer.groups[0].background.pop_back();
  EXPECT_THAT(error_of(fewer), AllOf(HasSubstr("sends 3 messages"), HasSubstr("expects 4")));
  Program wrong = background_stage();
  wrong.groups[0].peers[0].pop_back();
  EXPECT_THAT(error_of(wrong), HasSubstr("1 entries for the 2 ranks"));
}

TEST(Program, BackgroundCallsDoNotCompute) {
  Program p = background_stage();
  p.shapes.emplace_back();
  p.segments[0].code.push_back(compute(0));
  EXPECT_THAT(error_of(p), AllOf(HasSubstr("'stage 0'"), HasSubstr("'send.activation'"),
                                 HasSubstr("instruction 1 (matrix compute"),
                                 HasSubstr("a background call does not compute")));
}

// Whichever way the messages of the two lists go: the order in which they meet would be chance.
TEST(Program, AChannelBelongsToOneListOfCalls) {
  Program p = background_stage();
  p.groups[0].calls.assign(2, p.groups[0].background.front());
  p.groups[1].calls.resize(6, p.groups[1].calls.front());
  EXPECT_THAT(error_of(p),
              AllOf(HasSubstr("'stage 0'"), HasSubstr("'send.activation'"),
                    HasSubstr("a background call uses channel 'pipeline forward', and so does "
                              "another call of the group")));
  // The other end may be of either kind.
  Program both = background_stage();
  std::swap(both.groups[1].calls, both.groups[1].background);
  EXPECT_EQ(error_of(both), "");
}

TEST(Program, ACallWaitsForNoMoreCallsThanThereAre) {
  Program p = background_stage();
  p.groups[0].calls.assign(1, Call{1, 0, 0, 4});
  p.segments[1].code.clear();
  p.segments[0].code.clear();
  p.groups[0].background[2].after = 1;
  EXPECT_EQ(error_of(p), "");
  p.groups[0].calls[0].after = 5;
  EXPECT_THAT(error_of(p), HasSubstr("'stage 0', call 0: waits for 5 background calls; the group "
                                     "has 4"));
  p.groups[0].calls[0].after = 0;
  p.groups[0].background[2].after = 2;
  EXPECT_THAT(error_of(p),
              HasSubstr("'stage 0', background call 2: waits for 2 calls; the group has 1"));
  p.groups[0].background[2] = {7, 0, 0};
  EXPECT_THAT(error_of(p), HasSubstr("'stage 0', background call 2: segment 7 does not exist"));
}

struct Fault {
  const char* what;
  std::function<void(Program&)> make;
  const char* expected;
};

TEST(Program, FaultsAreNamedWithTheirPlace) {
  const Fault faults[] = {
      {"forward dependence", [](Program& p) { p.segments[0].code[0].after[1] = 0; },
       "depends on instruction 0"},
      {"engine", [](Program& p) { p.segments[0].code[0].engine = Engine::dma_in; },
       "compute runs on matrix or vector, not on dma_in"},
      {"send engine", [](Program& p) { p.segments[0].code[1].engine = Engine::net_recv; },
       "send runs on net_send"},
      {"allocate engine",
       [](Program& p) {
         p.segments[0].code[0] = Instruction{};
         p.segments[0].code[0].op = Opcode::allocate;
       },
       "allocate runs on dma_in or dma_out"},
      {"shape", [](Program& p) { p.segments[0].code[0].operand = 9; }, "shape 9 does not exist"},
      {"shape engine", [](Program& p) { p.segments[0].code[0].engine = Engine::vector; },
       "shape 0 is for the matrix engine"},
      {"amount 0", [](Program& p) { p.segments[0].code[0].amount = 0; }, "parts 0 to 0"},
      {"amount above the whole", [](Program& p) { p.segments[0].code[0].amount = 2; },
       "parts 0 to 2 are not in 0 .. 1"},
      {"name", [](Program& p) { p.segments[0].code[0].name = 7; }, "name 7"},
      {"channel", [](Program& p) { p.segments[0].code[1].channel = 3; }, "channel 3"},
      {"parts", [](Program& p) { p.segments[0].code[1].share.parts = 0; }, "0 parts"},
      {"stride", [](Program& p) { p.segments[0].code[1].share.stride = 0; }, "stride 0"},
      {"load from the SRAM",
       [](Program& p) {
         Instruction load;
         load.op = Opcode::load;
         load.engine = Engine::dma_in;
         load.space = Space::sram;
         p.segments[0].code.push_back(load);
       },
       "a load goes to dram or host, not to sram"},
      {"host traffic",
       [](Program& p) {
         Instruction store;
         store.op = Opcode::store;
         store.engine = Engine::dma_out;
         store.space = Space::host;
         p.segments[0].code.push_back(store);
       },
       "traffic with the host memory has the cause offload, not memory"},
      {"table", [](Program& p) { p.segments[0].code[1].operand = 2; }, "peer table 2"},
      {"short table", [](Program& p) { p.groups[0].peers[0].pop_back(); },
       "3 entries for the 4 ranks"},
      {"own peer", [](Program& p) { p.groups[0].peers[0][2] = static_cast<TileId>(2); },
       "rank 2 (tile 2) its own peer"},
  };
  for (const Fault& f : faults) {
    Program p = ring(4);
    f.make(p);
    EXPECT_THAT(error_of(p), AllOf(HasSubstr(f.expected), HasSubstr("'stage 0'"),
                                   HasSubstr("'layer.forward'"), HasSubstr("instruction ")))
        << f.what;
  }
}

TEST(Program, FaultsOfGroupsAndShapes) {
  const Fault faults[] = {
      {"foreign peer", [](Program& p) { p.groups[0].peers[0][1] = static_cast<TileId>(77); },
       "tile 77"},
      {"no peer", [](Program& p) { p.groups[0].peers[0][1] = kNoTile; },
       "rank 1 (tile 1) sends none"},
      {"no tiles", [](Program& p) { p.groups[0].tiles.clear(); }, "has no tiles"},
      {"tile twice", [](Program& p) { p.groups[0].tiles[1] = p.groups[0].tiles[0]; },
       "tile 0 is in group 'stage 0' and in group 'stage 0'"},
      {"segment", [](Program& p) { p.groups[0].calls[1].segment = 5; }, "call 1: segment 5"},
      {"first_rank", [](Program& p) { p.groups[0].first_rank = kNone - 1; },
       "first_rank 4294967294 and 4 tiles exceed 2^32"},
      {"format", [](Program& p) { p.shapes[0].format = 5; }, "shape 0: format 5"},
      {"denominator", [](Program& p) { p.shapes[0].denominator = 0; }, "denominator is 0"},
      {"negative", [](Program& p) { p.shapes[0].flop = -1; }, "not negative"},
      {"infinite", [](Program& p) { p.shapes[0].sram_bytes = 1.0 / 0.0; }, "finite"},
      {"written", [](Program& p) { p.shapes[0].sram_written = 1; }, "part of sram_bytes"},
      {"engine", [](Program& p) { p.shapes[0].engine = Engine::dma_in; }, "matrix and vector"},
  };
  for (const Fault& f : faults) {
    Program p = ring(4);
    f.make(p);
    EXPECT_THAT(error_of(p), HasSubstr(f.expected)) << f.what;
  }
}

TEST(Program, SealIsCheapForLongRunsAndLargeRings) {
  // 4096 ranks, a whole ring all-reduce in one segment, a million calls.
  const std::uint32_t n = 4096;
  Program p = ring(n, 1'000'000);
  auto& code = p.segments[0].code;
  code.clear();
  for (std::uint32_t s = 0; s < 2 * (n - 1); ++s) {
    code.push_back(message(Opcode::send, 0, 0));
    code.back().share = {1'000'003, n, 2 * n - s % n};
    code.push_back(message(Opcode::recv, 1, 0));
    code.back().share = {1'000'003, n, 2 * n - s % n - 1};
  }
  const auto start = std::chrono::steady_clock::now();
  p.seal();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  EXPECT_LT(took.count(), 2.0);  // walking every rank of every instruction would be 10^8 steps
}

TEST(Program, NamesOfTheEnumerations) {
  EXPECT_EQ(to_string(Engine::net_recv), "net_recv");
  EXPECT_EQ(to_string(Opcode::allocate), "allocate");
  EXPECT_EQ(to_string(Phase::gradient_sync), "gradient_sync");
  EXPECT_EQ(to_string(Cause::pipeline), "pipeline");
  EXPECT_EQ(to_string(Cause::resharding), "resharding");
}

}  // namespace
}  // namespace tilewright
