// The drawing: every operator stands where its figures say, and under its roofs.
#include <cmath>
#include <limits>
#include <regex>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/observe/roofline.h>

namespace tilewright {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// 1 TFLOP/s and 100 Gelem/s, 10 GB/s of DRAM, 500 GB/s of SRAM: ridges at 100 and 2 FLOP per byte.
Roofline machine() {
  Roofline r;
  r.title = "a < b";
  r.format = "fp16";
  r.matrix_peak = 1e12;
  r.vector_peak = 100e9;
  r.dram_bandwidth = 10e9;
  r.sram_bandwidth = 500e9;
  return r;
}

RooflineOperator op(const std::string& name, double operations, double dram, double sram,
                    double seconds) {
  RooflineOperator o;
  o.name = name;
  o.phase = "forward";
  o.stages = "0-1";
  o.bound = "matrix";
  o.operations = operations;
  o.dram_bytes = dram;
  o.sram_bytes = sram;
  o.seconds = seconds;
  o.calls = 4;
  return o;
}

TEST(Roofline, TheLowestRoofCounts) {
  const Roofline r = machine();
  EXPECT_EQ(roof(r, op("peak", 1e9, 1e6, 1e6, 1)), 1e12);
  EXPECT_EQ(roof(r, op("dram", 1e9, 1e8, 1e6, 1)), 1e11);
  EXPECT_EQ(roof(r, op("sram", 1e9, 1e6, 1e9, 1)), 5e11);
  EXPECT_EQ(roof(r, op("no traffic", 1e9, 0, 0, 1)), 1e12);
  RooflineOperator vector = op("vector", 1e9, 0, 0, 1);
  vector.matrix = false;
  EXPECT_EQ(roof(r, vector), 1e11);
  Roofline unlimited = r;
  unlimited.sram_bandwidth = kInfinity;
  EXPECT_EQ(roof(unlimited, op("sram", 1e9, 1e6, 1e9, 1)), 1e12);
}

TEST(Roofline, TableHasEveryFigure) {
  Roofline r = machine();
  r.operators = {op("gemm", 1e9, 1e7, 1e8, 0.002), op("inside", 1e9, 0, 1e8, 0.002)};
  const std::string csv = roofline_csv(r);
  EXPECT_THAT(csv,
              HasSubstr("\n\"gemm\",forward,\"0-1\",matrix,1000000000,10000000,100000000,100,10,"
                        "0.002,4,500000000000,1000000000000,0.5,matrix\n"));
  EXPECT_THAT(csv, HasSubstr("\n\"inside\",forward,\"0-1\",matrix,1000000000,0,100000000,inf,10,"));
}

struct Mark {
  double x, y;
  bool filled;
  std::string title;
};

/// The discs of a drawing that belong to operators.
std::vector<Mark> marks(const std::string& svg) {
  const std::regex disc(
      "<circle cx=\"([-0-9.e]+)\" cy=\"([-0-9.e]+)\" r=\"[0-9.]+\" fill=\"([^\"]+)\"[^>]*>"
      "<title>([^<]*)</title>");
  std::vector<Mark> list;
  for (std::sregex_iterator i(svg.begin(), svg.end(), disc), end; i != end; ++i) {
    list.push_back({std::stod((*i)[1]), std::stod((*i)[2]), (*i)[3] != "white", (*i)[4]});
  }
  return list;
}

struct Line {
  double x0, y0, x1, y1;
  double at(double x) const { return y0 + (x - x0) / (x1 - x0) * (y1 - y0); }
};

/// The roofs: the lines of width 2, in the order peak, vector peak, SRAM, DRAM.
std::vector<Line> roofs(const std::string& svg) {
  const std::regex line(
      "<line x1=\"([^\"]+)\" y1=\"([^\"]+)\" x2=\"([^\"]+)\" y2=\"([^\"]+)\" stroke=\"[^\"]+\" "
      "stroke-width=\"2\"");
  std::vector<Line> list;
  for (std::sregex_iterator i(svg.begin(), svg.end(), line), end; i != end; ++i) {
    list.push_back(
        {std::stod((*i)[1]), std::stod((*i)[2]), std::stod((*i)[3]), std::stod((*i)[4])});
  }
  return list;
}

TEST(Roofline, DrawsEveryOperatorUnderItsRoofs) {
  Roofline r = machine();
  for (int i = 0; i < 12; ++i) {
    const double intensity = std::pow(10, i / 3.0 - 0.5);
    RooflineOperator o = op("op" + std::to_string(i), 1e9, 1e9 / intensity, 4e9 / intensity, 1);
    o.seconds = o.operations / roof(r, o);  // on the roof
    if (i % 2 == 1) o.seconds *= 3;         // below
    r.operators.push_back(o);
  }
  const std::string svg = roofline_svg(r);
  const std::vector<Line> lines = roofs(svg);
  ASSERT_EQ(lines.size(), 4u);
  const std::vector<Mark> all = marks(svg);
  ASSERT_EQ(all.size(), 24u);
  int on_the_roof = 0;
  for (const Mark& m : all) {
    const Line& slope = lines[m.filled ? 3 : 2];  // of DRAM, or of SRAM
    const double peak = lines[0].y0;
    const double roof_y = m.x < slope.x1 ? slope.at(m.x) : peak;
    EXPECT_GE(m.y, roof_y - 0.02) << m.title;  // y grows downwards
    EXPECT_GE(m.y, peak - 0.02) << m.title;
    if (m.y < roof_y + 0.02) ++on_the_roof;
  }
  EXPECT_GE(on_the_roof, 6);
  // A third of the roof is as far below it everywhere: both axes are logarithmic.
  const double decade = lines[3].y0 - lines[3].y1;
  EXPECT_GT(decade, 0);
}

TEST(Roofline, PlacesOnLogarithmicAxes) {
  Roofline r = machine();
  r.operators = {op("a", 1e9, 1e9, 1e8, 1), op("b", 1e9, 1e8, 1e8, 0.1),
                 op("c", 1e9, 1e7, 1e8, 0.01)};
  std::vector<Mark> filled;
  for (const Mark& m : marks(roofline_svg(r))) {
    if (m.filled) filled.push_back(m);
  }
  ASSERT_EQ(filled.size(), 3u);  // a, b, c: by the time that they take
  EXPECT_NEAR(filled[1].x - filled[0].x, filled[2].x - filled[1].x, 0.02);
  EXPECT_NEAR(filled[0].y - filled[1].y, filled[1].y - filled[2].y, 0.02);
  EXPECT_GT(filled[1].x, filled[0].x + 50);
  EXPECT_LT(filled[1].y, filled[0].y - 20);
}

TEST(Roofline, NamesAreEscapedAndNothingIsNotDrawn) {
  Roofline r = machine();
  r.operators = {op("x<y", 1e9, 1e7, 1e8, 0.01), op("empty", 0, 1e7, 1e8, 0.01)};
  const std::string svg = roofline_svg(r);
  EXPECT_THAT(svg, HasSubstr(">a &lt; b</text>"));
  EXPECT_THAT(svg, HasSubstr("x&lt;y"));
  EXPECT_THAT(svg, Not(HasSubstr("empty")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_THAT(roofline_svg(Roofline{machine()}), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace tilewright
