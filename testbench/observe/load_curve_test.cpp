// The load-latency curve: every result with packets is drawn where it belongs.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/observe/load_curve.h>

namespace tilewright {
namespace {

using testing::HasSubstr;

LoadResult result(double offered, double mean, std::uint64_t p99, std::uint64_t packets = 100) {
  LoadResult r;
  r.offered = r.accepted = offered;
  r.latency_mean = mean;
  r.latency_p99 = p99;
  r.packets = packets;
  return r;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// 560 pixels wide from 60 on, 330 high from 370 up; five times the least mean is 100 cycles.
TEST(LoadCurve, DrawsMeanAndTailOfEveryLoad) {
  const std::string svg = load_curve("uniform", {result(0.1, 20, 30), result(0.2, 50, 90),
                                                 result(0.3, 0, 0, 0), result(0.4, 900, 2000)});
  EXPECT_EQ(count(svg, "<circle"), 6u);  // the load without packets is left out
  EXPECT_THAT(svg, HasSubstr("cx=\"200\" cy=\"304\" r=\"3\" fill=\"#1f6fb4\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"340\" cy=\"73\" r=\"3\" fill=\"#c0504d\""));
  EXPECT_THAT(svg, HasSubstr("cx=\"620\" cy=\"40\" r=\"3\" fill=\"#1f6fb4\""));  // at the edge
  EXPECT_THAT(svg, HasSubstr("<title>load 0.2: mean 50 cycles, 0.2 accepted</title>"));
  EXPECT_THAT(svg, HasSubstr(">uniform</text>"));
  EXPECT_THAT(svg, HasSubstr("</svg>\n"));
}

TEST(LoadCurve, OfNothingIsEmptyAxes) {
  EXPECT_EQ(count(load_curve("none", {result(0.1, 0, 0, 0)}), "<circle"), 0u);
  EXPECT_EQ(count(load_curve("none", {}), "<circle"), 0u);
}

}  // namespace
}  // namespace tilewright
