// The RTL matrix engine by itself: its numbers against a reference, its cycles against the
// `systolic` model.
#include "gemm_engine.h"

#include <functional>
#include <memory>
#include <ostream>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/process.h>
#include <tilewright/machine/compute_model.h>

namespace tilewright::rtl {
namespace {

/// Calls `work` from a thread.
class Caller : public sc_core::sc_module {
 public:
  Caller(const sc_core::sc_module_name& name, std::function<void()> work)
      : sc_core::sc_module(name), work_(std::move(work)) {
    TILEWRIGHT_HAS_PROCESS(Caller);
    SC_THREAD(call);
  }

 private:
  void call() { work_(); }
  std::function<void()> work_;
};

Gemm random_gemm(std::uint32_t m, std::uint32_t n, std::uint32_t k, std::mt19937& random) {
  Gemm g;
  g.m = m;
  g.n = n;
  g.k = k;
  g.a.resize(std::size_t{m} * k);
  g.b.resize(std::size_t{k} * n);
  for (auto& x : g.a) x = static_cast<std::int8_t>(random());
  for (auto& x : g.b) x = static_cast<std::int8_t>(random());
  return g;
}

std::vector<std::int32_t> product(const Gemm& g) {
  std::vector<std::int32_t> c(std::size_t{g.m} * g.n);
  for (std::uint32_t i = 0; i < g.m; ++i) {
    for (std::uint32_t j = 0; j < g.n; ++j) {
      for (std::uint32_t l = 0; l < g.k; ++l) {
        c[i * g.n + j] += g.a[i * g.k + l] * g.b[l * g.n + j];
      }
    }
  }
  return c;
}

struct Shape {
  std::uint32_t m, n, k;
};
// Below, at and above the array's extents, divisible by them or not, shallow and deep.
const std::vector<Shape> kShapes{
    {1, 1, 1},    {1, 1, 2},    {2, 1, 1},   {1, 2, 1},    {4, 6, 5},    {8, 8, 8},
    {8, 8, 1},    {8, 8, 2},    {8, 8, 7},   {8, 8, 9},    {8, 8, 64},   {7, 8, 8},
    {8, 7, 8},    {9, 8, 8},    {8, 9, 8},   {16, 16, 16}, {17, 15, 16}, {15, 17, 3},
    {1, 64, 16},  {64, 1, 16},  {3, 50, 4},  {50, 3, 4},   {24, 24, 24}, {23, 25, 11},
    {32, 32, 32}, {33, 31, 37}, {31, 33, 5}, {40, 8, 100}, {8, 40, 100}, {12, 18, 1},
    {13, 19, 2},  {48, 48, 6},  {5, 5, 200}, {64, 64, 8},  {61, 59, 13}, {2, 3, 255},
};

struct Case {
  bool large;  // 8 x 8, else 4 x 6
  bool pipelined;
};
void PrintTo(const Case& c, std::ostream* out) {
  *out << (c.large ? "8x8" : "4x6") << (c.pipelined ? "Pipelined" : "FoldByFold");
}

class GemmEngineTest : public testing::TestWithParam<Case> {};

TEST_P(GemmEngineTest, AgreesWithTheReferenceAndTheModel) {
  ASSERT_GE(kShapes.size(), 30u);
  constexpr Picoseconds kPeriod = 1001;  // odd: the clock's halves differ
  const auto engine = GetParam().large ? make_gemm_engine_8x8("engine", kPeriod)
                                       : make_gemm_engine_4x6("engine", kPeriod);
  SystolicConfig config;
  config.rows = engine->rows();
  config.columns = engine->columns();
  config.pipelined_folds = GetParam().pipelined;
  const SystolicArray model(config);
  EXPECT_EQ(config.rows * config.columns, GetParam().large ? 64 : 24);
  std::size_t done = 0;
  Caller caller("caller", [&] {
    std::mt19937 random(7);
    for (const Shape& s : kShapes) {
      Gemm g = random_gemm(s.m, s.n, s.k, random);
      const sc_core::sc_time begun = sc_core::sc_time_stamp();
      const std::uint64_t cycles = engine->run(g, GetParam().pipelined);
      const GemmShape shape{1, s.m, s.n, s.k, 0};
      EXPECT_EQ(static_cast<double>(cycles), model.cycles(shape))
          << s.m << " x " << s.n << " x " << s.k;
      EXPECT_EQ((sc_core::sc_time_stamp() - begun).value(), cycles * kPeriod);
      EXPECT_EQ(g.c, product(g)) << s.m << " x " << s.n << " x " << s.k;
      ++done;
    }
  });
  sc_core::sc_start();
  EXPECT_EQ(done, kShapes.size());
}
INSTANTIATE_TEST_SUITE_P(Rtl, GemmEngineTest,
                         testing::Values(Case{true, true}, Case{true, false}, Case{false, true},
                                         Case{false, false}),
                         testing::PrintToStringParamName());

// -128 × -128 summed often needs every bit of the product, and a sum that wraps.
TEST(GemmEngineTest, ExtremeOperands) {
  const auto engine = make_gemm_engine_8x8("engine", 1000);
  Caller caller("caller", [&] {
    Gemm g;
    g.m = g.n = 2;
    g.k = 300;
    g.a.assign(600, -128);
    g.b.assign(600, -128);
    for (std::uint32_t l = 0; l < g.k; ++l) g.b[2 * l + 1] = 127;
    engine->run(g, true);
    EXPECT_EQ(g.c,
              (std::vector<std::int32_t>{300 * 16384, -300 * 16256, 300 * 16384, -300 * 16256}));
  });
  sc_core::sc_start();
}

// The clock stands when there is nothing to do: the simulation ends by itself.
TEST(GemmEngineTest, TheClockRunsOnlyWhenNeeded) {
  const auto engine = make_gemm_engine_8x8("engine", 1000);
  Caller caller("caller", [&] {
    std::mt19937 random(1);
    Gemm g = random_gemm(8, 8, 8, random);
    sc_core::wait(sc_core::sc_time(1, sc_core::SC_MS));
    engine->run(g, true);
  });
  sc_core::sc_start();
  EXPECT_EQ(sc_core::sc_time_stamp().value(), 1000000000u + (8 + 8 + 8 - 2) * 1000u);
}

}  // namespace
}  // namespace tilewright::rtl
