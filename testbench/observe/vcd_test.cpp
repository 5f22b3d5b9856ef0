// The format: what is written when, by hand.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/vcd.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/vcd.h>
#include <tilewright/observe/version.h>

namespace tilewright::test {
namespace {

using testing::HasSubstr;

constexpr Picoseconds kForever = VcdWriter::kForever;

std::string number(std::uint64_t value) { return "number " + std::to_string(value); }

TEST(Vcd, ByHand) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  auto& busy = vcd.wire("tiles.t0_0.matrix", "busy", 1, 0);
  auto& bytes = vcd.wire("tiles.t0_0.sram", "used", 8);
  auto& what = vcd.text("tiles.t1_0", "state", number);
  vcd.set(busy, 0, 1);
  vcd.set(what, 5, 7);
  vcd.set(bytes, 5, 10);
  vcd.pass(6);
  vcd.set(busy, 12, 0);
  vcd.finish(20);
  EXPECT_EQ(out.str(), std::string("$version Tilewright ") + kVersion + R"( $end
$timescale 1 ps $end
$scope module tiles $end
$scope module t0_0 $end
$scope module matrix $end
$var wire 1 ! busy $end
$upscope $end
$scope module sram $end
$var wire 8 " used [7:0] $end
$upscope $end
$upscope $end
$scope module t1_0 $end
$var string 1 # state $end
$upscope $end
$upscope $end
$enddefinitions $end
#0
$dumpvars
1!
bz "
s- #
$end
#5
snumber_7 #
b1010 "
#12
0!
#20
)");
}

TEST(Vcd, ChangesMayBeNotedAheadAndOutOfOrder) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  auto& queue = vcd.wire("link", "queue", 32, 0);
  auto& busy = vcd.wire("link", "busy", 1, 0);
  vcd.add(busy, 10, 1);  // two claims that meet: busy from 10 to 30
  vcd.add(busy, 20, -1);
  vcd.add(queue, 5, 1);
  vcd.add(busy, 20, 1);
  vcd.add(busy, 30, -1);
  vcd.add(queue, 3, 1);
  vcd.add(queue, 20, -2);
  vcd.finish(40);
  const VcdFile file = VcdFile::parse(out.str());
  EXPECT_EQ(file.history("link.busy"), "0 0, 10 1, 30 0");
  EXPECT_EQ(file.history("link.queue"), "0 0, 3 1, 5 2, 20 0");
  EXPECT_EQ(file.end, 40u);
}

TEST(Vcd, OnlyTheLastValueOfAnInstantAndNoneThatStays) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  auto& a = vcd.wire("x", "a", 4, 1);
  auto& b = vcd.wire("x", "b", 4, 1);
  vcd.set(a, 7, 2);
  vcd.set(a, 7, 1);
  vcd.set(b, 7, 3);
  vcd.set(b, 7, 4);
  vcd.pass(8);
  vcd.set(b, 9, 4);
  vcd.finish(9);
  const VcdFile file = VcdFile::parse(out.str());
  EXPECT_EQ(file.history("x.a"), "0 1");
  EXPECT_EQ(file.history("x.b"), "0 1, 7 4");
}

TEST(Vcd, AWindowBeginsWithTheValuesThatHoldThere) {
  std::ostringstream out;
  VcdWriter vcd(out, 100, 200);
  auto& a = vcd.wire("x", "a", 8, 1);
  auto& b = vcd.wire("x", "b", 8);
  vcd.set(a, 50, 2);
  vcd.set(b, 100, 3);
  vcd.pass(120);
  vcd.set(a, 150, 4);
  vcd.set(b, 200, 5);
  vcd.set(a, 201, 6);
  vcd.finish(300);
  const VcdFile file = VcdFile::parse(out.str());
  EXPECT_EQ(file.history("x.a"), "100 2, 150 4");
  EXPECT_EQ(file.history("x.b"), "100 3, 200 5");
  EXPECT_EQ(file.begin, 100u);
  EXPECT_EQ(file.end, 200u);
}

TEST(Vcd, AWindowBehindTheEndHoldsItsBeginning) {
  std::ostringstream out;
  VcdWriter vcd(out, 100, 200);
  auto& a = vcd.wire("x", "a", 8);
  vcd.set(a, 50, 2);
  vcd.finish(60);
  EXPECT_EQ(VcdFile::parse(out.str()).history("x.a"), "100 2");
}

TEST(Vcd, ThousandsOfSignalsHaveDifferentIdentifiers) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  for (int i = 0; i < 10000; ++i)
    vcd.wire("x", "s" + std::to_string(i), 16, static_cast<std::uint64_t>(i));
  vcd.finish(1);
  const VcdFile file = VcdFile::parse(out.str());  // refuses an identifier that is used twice
  EXPECT_EQ(file.signals.size(), 10000u);
  EXPECT_EQ(file.at("x.s9999", 0), "9999");
}

TEST(Vcd, WideValues) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  vcd.wire("x", "most", 64, VcdWriter::kNothing - 1);
  vcd.wire("x", "none", 64, 0);
  vcd.finish(1);
  EXPECT_EQ(VcdFile::parse(out.str()).at("x.most", 0), "18446744073709551614");
  EXPECT_EQ(VcdFile::parse(out.str()).at("x.none", 0), "0");
}

TEST(Vcd, AStreamThatRefusesIsAnError) {
  std::ostringstream out;
  VcdWriter vcd(out, 0, kForever);
  vcd.wire("x", "a", 8);
  out.setstate(std::ios::badbit);
  try {
    vcd.finish(10);
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("cannot write the waves"));
  }
}

TEST(Vcd, TheParserRefusesWhatIsWrong) {
  const std::string head =
      "$timescale 1 ps $end $scope module m $end $var wire 1 ! a $end $upscope $end "
      "$enddefinitions $end ";
  EXPECT_NO_THROW(VcdFile::parse(head + "#0 $dumpvars 0! $end #5 1!"));
  for (const char* wrong :
       {"#0 $dumpvars $end", "#0 $dumpvars 0! $end #5 0!", "#0 $dumpvars 0! $end #0 1!",
        "#0 $dumpvars 0! $end 1\"", "#0 $dumpvars 2! $end", "0!"}) {
    EXPECT_THROW(VcdFile::parse(head + wrong), std::runtime_error) << wrong;
  }
}

}  // namespace
}  // namespace tilewright::test
