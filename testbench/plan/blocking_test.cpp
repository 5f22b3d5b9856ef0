#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include <tilewright/plan/blocking.h>

namespace tilewright {
namespace {

/// DRAM is all that costs: 1 byte per second, engines and SRAM for free.
const BlockingRates kDramBound{0, 1, 1e18};

Blocking blocked(const Gemm& g, const GemmOperands& o, std::int64_t sram) {
  return block_gemm(g, o, sram, kDramBound);
}
double seconds(const Blocking& b) {
  return streamed_seconds(0, static_cast<double>(b.a_traffic + b.b_traffic + b.c_read),
                          static_cast<double>(b.c_write), static_cast<double>(b.fill), 0,
                          static_cast<double>(b.blocks), kDramBound);
}

TEST(Blocking, OperandsThatFitMoveOnce) {
  const Gemm g{1, 256, 128, 64};
  const Blocking b = blocked(g, {}, 1 << 20);
  ASSERT_TRUE(b.feasible);
  EXPECT_EQ(b.a_traffic, 256 * 64 * 2);
  EXPECT_EQ(b.b_traffic, 64 * 128 * 2);
  EXPECT_EQ(b.c_write, 256 * 128 * 2);
  EXPECT_EQ(b.c_read, 0);
  // Enough steps that loads hide behind computation.
  EXPECT_GE(b.blocks, 8);
}

TEST(Blocking, ResidentOperandsMoveNothing) {
  GemmOperands o;
  o.a_resident = o.b_resident = o.c_resident = true;
  const Blocking b = blocked({1, 512, 512, 512}, o, 4096);
  ASSERT_TRUE(b.feasible);
  EXPECT_EQ(b.dram_bytes(), 0);
  EXPECT_EQ(b.fill, 0);
}

TEST(Blocking, AccumulationReadsTheResultOnce) {
  GemmOperands o;
  o.accumulate = true;
  const Blocking b = blocked({1, 64, 64, 64}, o, 1 << 20);
  EXPECT_EQ(b.c_read, 64 * 64 * 2);
  EXPECT_EQ(b.c_write, 64 * 64 * 2);
}

TEST(Blocking, TooSmallAnSramIsInfeasible) {
  EXPECT_FALSE(blocked({1, 64, 64, 64}, {}, 500).feasible);
  // 1 x 1 x 64: two buffers of 128 bytes for each operand, an accumulator, a result.
  EXPECT_TRUE(blocked({1, 64, 64, 128}, {}, 2 * 128 + 2 * 128 + 4 + 2).feasible);
}

/// The least traffic over every block size, loop order and the depths the model allows.
std::int64_t brute_force(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t sram) {
  std::int64_t best = -1;
  const auto div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  for (std::int64_t mb = 1; mb <= m; ++mb) {
    for (std::int64_t nb = 1; nb <= n; ++nb) {
      for (const std::int64_t kb : {std::min<std::int64_t>(k, 64), k}) {
        const bool one_k = kb == k;
        const std::int64_t need = mb * nb * 6 + (one_k && mb == m ? 1 : 2) * mb * kb * 2 +
                                  (one_k && nb == n ? 1 : 2) * kb * nb * 2;
        if (need > sram) continue;
        const std::int64_t a = m * k * 2, b = k * n * 2, c = m * n * 2;
        std::int64_t traffic = a * div(n, nb) + b * div(m, mb);
        if (one_k) traffic = std::min(a + b * div(m, mb), a * div(n, nb) + b);
        if (best < 0 || traffic + c < best) best = traffic + c;
      }
    }
  }
  return best;
}

TEST(Blocking, AgreesWithBruteForceOnSmallShapes) {
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    const std::int64_t m = 8 + random() % 120, n = 8 + random() % 120, k = 8 + random() % 200;
    const std::int64_t sram = 1024 + random() % 60000;
    const std::int64_t best = brute_force(m, n, k, sram);
    const Blocking b = blocked({1, m, n, k}, {}, sram);
    ASSERT_EQ(b.feasible, best >= 0);
    if (!b.feasible) continue;
    // The grid of block sizes and the weight of the fill cost at most this; spilled partial sums,
    // which the brute force leaves out, may do better.
    EXPECT_LE(static_cast<double>(b.dram_bytes()), 1.2 * static_cast<double>(best))
        << m << "x" << n << "x" << k << " in " << sram;
    EXPECT_GE(b.dram_bytes(), 2 * (m * k + k * n + m * n));
  }
}

TEST(Blocking, MoreSramIsNeverSlowerAndNeverBeatsTheBound) {
  for (const Gemm g :
       {Gemm{1, 4096, 1152, 6144}, Gemm{1, 384, 6144, 4096}, Gemm{6, 2048, 128, 2048}}) {
    double before = 0;
    std::int64_t moved = 0;
    for (std::int64_t sram = 16 << 10; sram <= 64 << 20; sram += sram / 3) {
      const Blocking b = blocked(g, {}, sram);
      ASSERT_TRUE(b.feasible);
      const double now = seconds(b) + 0.02 * static_cast<double>(b.dram_bytes());
      if (before > 0) {
        EXPECT_LE(now, before) << sram;
      }
      before = now;
      moved = b.dram_bytes();
      // Hong and Kung: at least 2 m n k / sqrt(capacity) elements cross.
      const double bound = 2.0 * g.m * g.n * g.k / std::sqrt(sram / 2.0) * 2.0;
      EXPECT_GE(static_cast<double>(b.dram_bytes()) / g.batch,
                std::min(bound, 2.0 * (g.m * g.k + g.k * g.n + g.m * g.n)) * 0.999);
      EXPECT_LE(b.footprint, sram);
    }
    EXPECT_EQ(moved, 2 * g.batch * (g.m * g.k + g.k * g.n + g.m * g.n));
  }
}

}  // namespace
}  // namespace tilewright
