// Every fault in a program text is named with its file, line and word, and what is allowed.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pair.h"

namespace tilewright {
namespace {

using test::error_of;
using test::kPair;
using test::with;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Fault {
  const char* from;
  const char* to;
  const char* message;
};

class ProgramTextFault : public testing::TestWithParam<Fault> {};

TEST_P(ProgramTextFault, IsNamed) {
  const Fault& f = GetParam();
  EXPECT_EQ(error_of(with(kPair, f.from, f.to)), f.message);
}

INSTANTIATE_TEST_SUITE_P(
    All, ProgramTextFault,
    testing::Values(
        Fault{"tilewright-program 1", "machine: x",
              "p.twp:1: 'machine:': not a tile program: its first line must be 'tilewright-program "
              "1'"},
        Fault{"tilewright-program 1", "tilewright-program 2",
              "p.twp:1: '2': unknown version of the format; this Tilewright reads "
              "'tilewright-program 1'"},
        Fault{"channel wire", "chanel wire",
              "p.twp:2: 'chanel': not a statement; allowed are background, call, channel, group, "
              "names, peers, "
              "segment, shape, tiles, compute, load, store, send, recv, allocate, release; did you "
              "mean 'channel'?"},
        Fault{"channel wire", "channel", "p.twp:2: 'channel': a name is missing behind it"},
        Fault{"channel wire", "channel the wire",
              "p.twp:2: 'wire': nothing is expected here; quote a name that holds blanks"},
        Fault{"channel wire", "channel 1: wire",
              "p.twp:2: '1:': this is channel 0; allowed are '0:', a label that is no number, or "
              "none"},
        Fault{"channel wire", "channel \"wire", "p.twp:2: '\"wire': the closing quote is missing"},
        Fault{"channel wire", "channel \"w\\ire\"",
              "p.twp:2: '\\i': not an escape; allowed are \\\" \\\\ \\n \\t \\r and \\xNN"},
        Fault{"fc: matrix", "fc: tensor",
              "p.twp:3: 'tensor': a shape is for the engine 'matrix' or 'vector'"},
        Fault{"m=8 ", "", "p.twp:3: 'matrix': m is missing"},
        Fault{"m=8 ", "m=8.5 ",
              "p.twp:3: 'm=8.5': '8.5' is not a whole number from 0 to 9223372036854775807"},
        Fault{"m=8 ", "m=8 flop=many ",
              "p.twp:3: 'flop=many': flop is not a finite number of at least 0, such as 1.5e9"},
        Fault{"m=8 ", "m=8 m=9 ", "p.twp:3: 'm=9': the key is given twice"},
        Fault{"parts=2", "part=2",
              "p.twp:3: 'part=2': unknown key; 'matrix' takes format, parts, batch, m, n, k, flop, "
              "sram_bytes, sram_written, dma_in, dma_out; did you mean 'parts'?"},
        Fault{"parts=2", "parts=0",
              "p.twp:3: 'parts=0': '0' is not a whole number from 1 to 4294967295"},
        Fault{"shape=fc amount=1 after=weights", "shape=fcc amount=1",
              "p.twp:6: 'shape=fcc': there is no shape 'fcc' before this line; known: fc, and the "
              "numbers 0 to 0; did you mean 'fc'?"},
        Fault{"shape=fc amount=1 after=weights", "shape=1 amount=1",
              "p.twp:6: 'shape=1': shape 1 does not exist; shapes before this line are 0 to 0"},
        Fault{"shape=fc amount=1 after=weights", "amount=1",
              "p.twp:6: 'compute': shape is missing"},
        Fault{"shape=fc amount=1", "shape=fc amount=3",
              "p.twp:6: 'amount=3': '3' is not a whole number from 1 to 2"},
        Fault{"shape=fc amount=1", "shape=fc engine=vector",
              "p.twp:6: 'engine=vector': engine is not one of: matrix"},
        Fault{"bytes=64", "", "p.twp:5: 'load': bytes is missing"},
        Fault{
            "bytes=64", "bytes=64kb",
            "p.twp:5: 'bytes=64kb': '64kb' is not a number of bytes; allowed are whole numbers, or "
            "with a unit up to 8PiB: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB"},
        Fault{"bytes=64", "bytes=64 channel=wire",
              "p.twp:5: 'channel=wire': unknown key; 'load' takes space, bytes, head, shared, "
              "phase, cause, "
              "after"},
        Fault{"bytes=64", "bytes=64 space=sram",
              "p.twp:5: 'space=sram': space is not one of: dram, host; did you mean "
              "'dram'?"},
        Fault{"bytes=64", "bytes=64 space=host cause=memory",
              "p.twp:5: 'cause=memory': cause is not one of: offload"},
        Fault{"bytes=64", "64", "p.twp:5: '64': a word of the form key=value is expected here"},
        Fault{"bytes=64", "bytes=64/0+1",
              "p.twp:5: 'bytes=64/0+1': '0' is not a whole number from 1 to 65535"},
        Fault{"bytes=64", "bytes=64/2+65536",
              "p.twp:5: 'bytes=64/2+65536': '65536' is not a whole number from 0 to 65535"},
        Fault{"bytes=64", "bytes=64/2+1@0",
              "p.twp:5: 'bytes=64/2+1@0': '0' is not a whole number from 1 to 4294967295"},
        Fault{"bytes=64", "bytes=64/2@2+1",
              "p.twp:5: 'bytes=64/2@2+1': '2+1' is not a whole number from 1 to 4294967295"},
        Fault{"bytes=64", "bytes=64 phase=foward",
              "p.twp:5: 'phase=foward': phase is not one of: forward, backward, recompute, "
              "gradient_sync, optimizer; did you mean 'forward'?"},
        Fault{"shape=fc amount=1", "shape=fc begin=1 amount=2",
              "p.twp:6: 'amount=2': '2' is not a whole number from 1 to 1"},
        Fault{"after=first,2", "after=weights.head",
              "p.twp:8: 'after=weights.head': 'weights.head': only a load with head= has a head"},
        Fault{"after=first,2", "after=weights.tail",
              "p.twp:8: 'after=weights.tail': 'weights.tail': only '.head' may follow an "
              "instruction"},
        Fault{
            "after=first,2", "after=first,3",
            "p.twp:8: 'after=first,3': instruction 3 does not exist; instructions before this line "
            "are 0 to 2"},
        Fault{"after=first,2", "after=0,first,2,1,0",
              "p.twp:8: 'after=0,first,2,1,0': an instruction waits for at most four others, and "
              "'previous'"},
        Fault{
            "channel=wire peers=0 bytes=4KiB", "channel=wired peers=0 bytes=4KiB",
            "p.twp:8: 'channel=wired': there is no channel 'wired' before this line; known: wire, "
            "and the numbers 0 to 0; did you mean 'wire'?"},
        Fault{"first:   compute", "weights: compute",
              "p.twp:6: 'weights:': another instruction has this label or name"},
        Fault{
            "first:   compute", "previous: compute",
            "p.twp:6: 'previous:': not allowed as a label: 'previous', 'none', and words with any "
            "of , . / + :"},
        Fault{"segment producer\n", "",
              "p.twp:4: 'weights:': an instruction stands below its 'segment' line, before any "
              "'group'"},
        Fault{"group left\n", "", "p.twp:12: 'tiles': this stands below a 'group' line"},
        Fault{"dram_bytes=1MiB", "first_rank=4294967295",
              "p.twp:16: 'first_rank=4294967295': '4294967295' is not a whole number from 0 to "
              "4278190079"},
        Fault{"  tiles 0\n", "  tiles a\n",
              "p.twp:13: 'a': not a tile; allowed are tile numbers, ranges such as 0..15, and "
              "'none'"},
        Fault{"  tiles 0\n", "  tiles 0\n  tiles 2\n",
              "p.twp:14: 'tiles': the group has its tiles already"},
        Fault{"  tiles 0\n", "  tiles 0..99999999\n",
              "p.twp:13: '0..99999999': more than 16777216 "
              "tiles"},
        Fault{"  peers 1\n", "  peers 1: 1\n",
              "p.twp:14: '1:': the group's next peer table is '0:'; tables come in order"},
        Fault{"call producer micro_batch=0..3 layer=2", "call producer micro_batch=0..3 layer=0..2",
              "p.twp:15: 'call': micro_batch runs over 4 values and layer over 3; the runs of one "
              "call must be equally long"},
        Fault{"call producer micro_batch=0..3 layer=2",
              "call producer micro_batch=0..3 layer=2 after=0..1",
              "p.twp:15: 'call': micro_batch runs over 4 values and after over 2; the runs of one "
              "call must be equally long"},
        Fault{"call producer micro_batch=0..3", "background producer micro=0..3",
              "p.twp:15: 'micro=0..3': unknown key; 'background' takes micro_batch, layer, after, "
              "times"},
        Fault{"call producer micro_batch=0..3", "call producers micro_batch=0..3",
              "p.twp:15: 'producers': there is no segment 'producers' before this line; known: "
              "producer, consumer, and the numbers 0 to 1; did you mean 'producer'?"},
        Fault{"call producer micro_batch=0..3", "call producer micro_batch=x..3",
              "p.twp:15: 'micro_batch=x..3': 'x' is not a whole number from 0 to 4294967294"},
        Fault{"call producer micro_batch=0..3", "call producer times=99999999",
              "p.twp:15: 'times=99999999': '99999999' is not a whole number from 1 to 16777216"},
        Fault{"segment consumer", "segment producer",
              "p.twp:15: 'producer': several segments are called 'producer'; write the segment's "
              "number"}));

TEST(ProgramText, WhatOnlyTheWholeShowsNamesTheFile) {
  EXPECT_THAT(error_of(with(kPair, "micro_batch=0..3\n", "micro_batch=0..2\n")),
              AllOf(StartsWith("p.twp: program: sends and receives disagree on channel 'wire'"),
                    HasSubstr("group 'left'"), HasSubstr("segment 'consumer' instruction 0")));
  EXPECT_THAT(error_of(""), StartsWith("p.twp: not a tile program"));
}

TEST(ProgramText, MissingFilesAreNamed) {
  try {
    load_program("/no/such/program");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_STREQ(e.what(), "cannot read '/no/such/program': No such file or directory");
  }
}

}  // namespace
}  // namespace tilewright
