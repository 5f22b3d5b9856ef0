// Programs as text: the round trip is exact, and every fault is named with its line.
#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/program/text.h>

#include "pair.h"
#include "support/program_equal.h"

namespace tilewright {
namespace {

using test::error_of;
using test::kPair;
using test::pair;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

void expect_round_trip(const Program& program) {
  const std::string text = program_text(program);
  const Program again = parse_program(text);
  EXPECT_EQ(test::difference(program, again), "");
  EXPECT_EQ(program_text(again), text);
}

TEST(ProgramText, ReadsWhatPeopleWrite) {
  const Program p = pair();
  EXPECT_THAT(p.names, testing::ElementsAre("fp16", "fc", "result"));
  ASSERT_EQ(p.shapes.size(), 1u);
  EXPECT_EQ(p.shapes[0].flop, 2 * 8 * 4 * 2);
  const auto& code = p.segments[0].code;
  ASSERT_EQ(code.size(), 4u);
  EXPECT_EQ(code[0].engine, Engine::dma_in);
  EXPECT_EQ(code[1].after, (Dependences{0, kNone, kNone, kNone}));
  EXPECT_EQ(code[3].after, (Dependences{1, 2, kNone, kNone}));
  EXPECT_EQ(code[3].share.total, 4096u);
  EXPECT_EQ(code[3].cause, Cause::pipeline);
  ASSERT_EQ(p.groups[0].calls.size(), 4u);
  EXPECT_EQ(p.groups[0].calls[3].micro_batch, 3u);
  EXPECT_EQ(p.groups[0].calls[3].layer, 2u);
  EXPECT_EQ(p.groups[1].stage, 1u);
  EXPECT_EQ(p.groups[1].dram_resident, 1048576u);
}

TEST(ProgramText, WritesWhatPeopleRead) {
  EXPECT_EQ(program_text(pair()), R"(# A tile program; docs/program.md describes the format.
tilewright-program 1

names "fp16" "fc" "result"

channel 0: "wire"

shape 0: matrix format="fp16" parts=2 batch=1 m=8 n=4 k=2 flop=128 sram_bytes=0

segment 0: "producer"
  0: load "fc" bytes=64 phase=forward cause=memory
  1: compute "fc" shape=0 engine=matrix amount=1 phase=forward after=0
  2: compute "fc" shape=0 engine=matrix amount=1 phase=forward after=0
  3: send "result" channel="wire" peers=0 bytes=4096 phase=forward cause=pipeline after=1,2

segment 1: "consumer"
  0: recv "result" channel="wire" peers=0 bytes=4096 phase=forward cause=pipeline
  1: store "result" bytes=4096 phase=forward cause=memory after=0

group "left" stage=0 sram_bytes=0 dram_bytes=0
  tiles 0
  peers 0: 1
  call "producer" micro_batch=0..3 layer=2

group "right" stage=1 sram_bytes=0 dram_bytes=1048576
  tiles 1
  peers 0: 0
  call "consumer" micro_batch=0..3 layer=0
)");
}

TEST(ProgramText, RoundTripOfAHandWrittenProgram) { expect_round_trip(pair()); }

TEST(ProgramText, LineEndsAndBlanksDoNotMatter) {
  std::string dos;
  for (const char c : std::string(kPair)) {
    if (c == '\n') dos += "  # remark\r";
    dos += c;
  }
  dos.pop_back();  // no line end at the end
  EXPECT_EQ(test::difference(pair(), parse_program(dos)), "");
}

TEST(ProgramText, NamesOfAnyContentSurvive) {
  Program p = pair();
  p.names[1] = "a \"b\" \\ # = 3: \n\t\r\x01 µ";
  p.names[2] = "7";
  p.names.push_back("");
  p.channels[0] = "none";
  p.segments[0].name = "same";
  p.segments[1].name = "same";  // called by number then
  p.groups[0].name = "";
  p.seal();
  EXPECT_THAT(program_text(p), HasSubstr("call 0 micro_batch=0..3 layer=2  # \"same\"\n"));
  expect_round_trip(p);
}

TEST(ProgramText, EqualNamesAreReferredToByNumber) {
  Program p = pair();
  p.names.push_back("fc");
  p.segments[0].code[2].name = 3;
  p.seal();
  EXPECT_THAT(program_text(p), HasSubstr("  2: compute 3 shape=0"));
  expect_round_trip(p);
}

TEST(ProgramText, SharesDependencesAndCalls) {
  Program p = pair();
  auto& send = p.segments[0].code[3];
  auto& recv = p.segments[1].code[0];
  send.share = recv.share = {4097, 3, 2};
  send.after_previous = true;
  send.after = {kNone, 1, kNone, kNone};
  p.groups[0].peers.push_back({kNoTile, static_cast<TileId>(3)});
  p.groups[0].peers.emplace_back();
  auto& calls = p.groups[0].calls;
  calls = {{0, 0, 5}, {0, 0, 4}, {0, 0, 3}, {0, kNoMicroBatch, 0}};
  p.seal();
  EXPECT_THAT(program_text(p),
              AllOf(HasSubstr("bytes=4097/3+2"), HasSubstr("after=previous,none,1\n"),
                    HasSubstr("  peers 1: none 3\n  peers 2:\n"),
                    HasSubstr("  call \"producer\" micro_batch=0 layer=5..3\n"
                              "  call \"producer\" micro_batch=none layer=0\n")));
  expect_round_trip(p);
  calls.assign(4, Call{0, 1, 1});
  p.seal();
  EXPECT_THAT(program_text(p), HasSubstr("micro_batch=1 layer=1 times=4\n"));
  expect_round_trip(p);
}

TEST(ProgramText, HostMemoryIsASpace) {
  const Program p = parse_program(R"(tilewright-program 1
segment s
  allocate x space=host bytes=1GiB
  load x bytes=9 space=host
  store x bytes=9 space=dram cause=offload
group g host_bytes=4KiB
  tiles 0
  call s
)");
  const auto& code = p.segments[0].code;
  EXPECT_EQ(code[0].space, Space::host);
  EXPECT_EQ(code[1].space, Space::host);
  EXPECT_EQ(code[1].cause, Cause::offload);  // no other is possible
  EXPECT_EQ(code[2].space, Space::dram);
  EXPECT_EQ(p.groups[0].host_resident, 4096u);
  EXPECT_THAT(program_text(p),
              AllOf(HasSubstr("load \"x\" space=host bytes=9 phase=forward cause=offload\n"),
                    HasSubstr("store \"x\" bytes=9 phase=forward cause=offload\n"),
                    HasSubstr("dram_bytes=0 host_bytes=4096\n")));
  expect_round_trip(p);
}

TEST(ProgramText, BackgroundCallsAndWhatTheyWaitFor) {
  const Program p = parse_program(R"(tilewright-program 1
channel ring
segment layer
  allocate x space=sram bytes=1
segment bucket
  send x channel=ring peers=0 bytes=9 cause=data
  recv x channel=ring peers=0 bytes=9 cause=data
group pair
  tiles 0 1
  peers 1 0
  call layer layer=7..0 after=0
  background bucket layer=7..1 after=2..8
  background bucket micro_batch=none after=8 times=2
  call layer after=9
)");
  const TileGroup& g = p.groups[0];
  ASSERT_EQ(g.calls.size(), 9u);
  ASSERT_EQ(g.background.size(), 9u);
  EXPECT_EQ(g.calls[7].after, 0u);
  EXPECT_EQ(g.calls[8].after, 9u);
  EXPECT_EQ(g.background[6].layer, 1u);
  EXPECT_EQ(g.background[6].after, 8u);
  EXPECT_EQ(g.background[8].micro_batch, kNoMicroBatch);
  EXPECT_THAT(program_text(p),
              HasSubstr("  call \"layer\" micro_batch=0 layer=7..0\n"
                        "  call \"layer\" micro_batch=0 layer=0 after=9\n"
                        "  background \"bucket\" micro_batch=0 layer=7..1 after=2..8\n"
                        "  background \"bucket\" micro_batch=none layer=0 after=8 times=2\n"));
  expect_round_trip(p);
}

TEST(ProgramText, HeadsPartsAndStreamedStores) {
  const Program p = parse_program(R"(tilewright-program 1
shape s: matrix format=fp16 parts=8 m=1 n=1 k=1
segment s
  w: load x bytes=1MiB head=64KiB
     compute x shape=s amount=3 after=w.head
  c: compute x shape=s begin=3 after=w
     store x bytes=1MiB until=c after=0.head
)");
  const auto& code = p.segments[0].code;
  EXPECT_EQ(code[0].head, 65536u);
  EXPECT_EQ(code[1].after[0], 0 | kHead);
  EXPECT_EQ(code[2].begin, 3u);
  EXPECT_EQ(code[2].amount, 5u);  // what is left
  EXPECT_EQ(code[3].until, 2u);
  EXPECT_THAT(program_text(p),
              AllOf(HasSubstr(" bytes=1048576 head=65536 "), HasSubstr(" begin=3 amount=5 "),
                    HasSubstr(" until=2 "), HasSubstr(" after=0.head\n")));
  expect_round_trip(p);
}

TEST(ProgramText, TileRunsAreRanges) {
  Program p;
  p.names = {"x"};
  TileGroup g;
  g.name = "g";
  for (const std::uint32_t t : {0, 1, 2, 3, 9, 8, 7, 20, 21, 30}) {
    g.tiles.push_back(static_cast<TileId>(t));
  }
  p.groups.push_back(g);
  p.seal();
  EXPECT_THAT(program_text(p), HasSubstr("  tiles 0..3 9..7 20 21 30\n"));
  expect_round_trip(p);
}

/// A random program that seals: pairs of groups with matching sends and receives.
Program random_program(unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random() % n); };
  Program p;
  for (std::uint32_t i = 0; i < 1 + below(6); ++i)
    p.names.push_back("n" + std::to_string(below(5)));
  p.channels = {"a", "b b", "a", "x", "y", "z"};
  for (std::uint32_t i = 0; i < 2 + below(4); ++i) {
    ComputeShape s;
    s.engine = below(2) == 0 ? Engine::matrix : Engine::vector;
    s.format = below(p.names.size());
    s.denominator = 1 + below(9);
    s.sram_bytes =
        std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(below(40)) - 60);
    s.sram_written = below(2) == 0 ? 0 : s.sram_bytes / 4;
    if (below(3) == 0) s.dma_in = s.sram_bytes / 3, s.dma_out = 7;
    if (s.engine == Engine::matrix) {
      s.batch = 1 + below(5);
      s.m = below(100);
      s.n = below(100);
      s.k = below(1'000'000);
      s.flop = below(2) ? 2.0 * s.batch * s.m * s.n * s.k : 1e17 / (1 + below(77));
    } else {
      s.elements = static_cast<double>(below(1'000'000)) / 3;
    }
    p.shapes.push_back(s);
  }
  const std::uint32_t ranks = 1 + below(4);
  for (std::uint32_t pair = 0; pair < 3; ++pair) {
    const std::uint16_t channel = static_cast<std::uint16_t>(pair);
    Segment out, in;
    out.name = "s" + std::to_string(below(3));
    in.name = "s" + std::to_string(below(3));
    const auto add = [&](Segment& s, Instruction i) {
      i.name = static_cast<std::uint16_t>(below(p.names.size()));
      i.phase = static_cast<Phase>(below(kPhases));
      i.after_previous = below(3) == 0;
      for (auto& a : i.after) {
        if (s.code.empty() || below(2)) continue;
        a = below(s.code.size());
        if (s.code[a].head > 0 && below(2)) a |= kHead;
      }
      if (i.op == Opcode::store && !s.code.empty() && below(2)) {
        const std::uint32_t until = below(s.code.size());  // one store ends with an instruction
        const auto taken = [&](const Instruction& other) { return other.until == until; };
        if (std::none_of(s.code.begin(), s.code.end(), taken)) i.until = until;
      }
      s.code.push_back(i);
    };
    for (std::uint32_t n = 0; n < below(12); ++n) {
      Instruction i;
      i.operand = below(p.shapes.size());
      i.engine = p.shapes[i.operand].engine;
      i.begin = below(p.shapes[i.operand].denominator);
      i.amount = 1 + below(p.shapes[i.operand].denominator - i.begin);
      add(out, i);
      i = {};
      i.op = static_cast<Opcode>(static_cast<int>(Opcode::load) + below(2));
      i.engine = i.op == Opcode::load ? Engine::dma_in : Engine::dma_out;
      i.cause = static_cast<Cause>(below(kCauses));
      i.share = {random(), 1 + below(3), below(9), 1 + below(3)};
      if (i.cause == Cause::offload && below(2)) i.space = Space::host;
      if (i.op == Opcode::load && below(2)) i.head = i.share.total / (2 + below(9));
      add(below(2) ? out : in, i);
      i = {};
      i.op = below(2) ? Opcode::allocate : Opcode::release;
      i.engine = below(2) ? Engine::dma_in : Engine::dma_out;
      i.space = static_cast<Space>(below(3));
      i.share.total = random() >> below(60);
      add(in, i);
      i = {};
      i.op = Opcode::send;
      i.engine = Engine::net_send;
      i.channel = channel;
      i.share = {below(100000), 1 + below(3), below(5), 1 + below(3)};
      i.cause = static_cast<Cause>(below(kCauses));
      add(out, i);
      i.op = Opcode::recv;
      i.engine = Engine::net_recv;
      add(in, i);
    }
    TileGroup from, to;
    from.name = "from";
    to.name = "to";
    from.stage = below(9);
    from.sram_resident = random();
    to.dram_resident = below(100);
    to.host_resident = below(3);
    from.first_rank = to.first_rank = below(2) ? below(99) : 0;
    from.peers.resize(1);
    to.peers.resize(1 + below(2));
    for (std::uint32_t r = 0; r < ranks; ++r) {
      from.tiles.push_back(static_cast<TileId>(pair * 100 + r));
      to.tiles.push_back(static_cast<TileId>(pair * 100 + 50 + r));
    }
    from.peers[0] = to.tiles;
    to.peers[0] = from.tiles;
    const auto segment = static_cast<std::uint32_t>(p.segments.size());
    p.segments.push_back(out);
    p.segments.push_back(in);
    Segment beside, opposite;  // of the background
    beside.name = opposite.name = "beside";
    for (std::uint32_t n = 0; n < below(4); ++n) {
      Instruction i;
      i.op = Opcode::send;
      i.engine = Engine::net_send;
      i.channel = static_cast<std::uint16_t>(3 + pair);
      i.share = {below(100000)};
      i.cause = static_cast<Cause>(below(kCauses));
      add(beside, i);
      i.op = Opcode::recv;
      i.engine = Engine::net_recv;
      add(opposite, i);
    }
    p.segments.push_back(beside);
    p.segments.push_back(opposite);
    for (std::uint32_t n = 0; n < below(6); ++n) {
      from.background.push_back({segment + 2, below(3), below(3)});
      to.background.push_back({segment + 3, below(3), below(3)});
    }
    const auto after = [&](const std::vector<Call>& others) {
      return below(2) ? below(others.size() + 1) : 0;
    };
    for (std::uint32_t n = 0; n < below(30); ++n) {
      const std::uint32_t micro = below(9) == 0 ? kNoMicroBatch : below(3);
      from.calls.push_back({segment, micro, below(3), after(from.background)});
      to.calls.push_back({segment + 1, kNone - below(2), kNone - below(3), after(to.background)});
    }
    for (Call& call : from.background) call.after = after(from.calls);
    p.groups.push_back(from);
    p.groups.push_back(to);
  }
  p.seal();
  return p;
}

TEST(ProgramText, RoundTripOfRandomPrograms) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    expect_round_trip(random_program(seed));
    if (HasFailure()) return;
  }
}

TEST(ProgramText, TheReaderSurvivesDamage) {
  // Whatever the damage: a program or an InputError that names the file, nothing else.
  const std::string whole = program_text(random_program(7));
  std::mt19937 random(1);
  for (int n = 0; n < 3000; ++n) {
    std::string text = whole;
    for (unsigned k = 0; k < 1 + random() % 3; ++k) {
      const std::size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 8);
          break;
        case 1:
          text[at] = "0 1\"=:,./+#\nx\\-"[random() % 15];
          break;
        default:
          text.insert(at, text.substr(random() % text.size(), random() % 12));
      }
    }
    const std::string error = error_of(text);
    if (error != "no error") {
      EXPECT_THAT(error, StartsWith("p.twp"));
    }
  }
}

TEST(ProgramText, TheWriterRefusesWhatTheTextCannotCarry) {
  Program p = pair();
  p.segments[0].code[0].channel = 3;
  EXPECT_THROW(
      {
        try {
          program_text(p);
        } catch (const InputError& e) {
          EXPECT_STREQ(e.what(),
                       "program: segment 'producer', instruction 0 (load): has channel=3, which it "
                       "does not use; as text it would be lost");
          throw;
        }
      },
      InputError);
}

}  // namespace
}  // namespace tilewright
