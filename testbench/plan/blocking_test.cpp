#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <tilewright/plan/blocking.h>

namespace tilewright {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();
/// DRAM is all that costs: 1 byte per second, engines and SRAM for free.
const StreamRates kDramBound{1, kFree, 0, {}};

Blocking blocked(const Gemm& g, const GemmOperands& o, std::int64_t sram) {
  return block_gemm(g, o, sram, 0, kDramBound);
}

double seconds(const Gemm& g, const GemmOperands& o, std::int64_t sram, double engine_seconds,
               const StreamRates& rates) {
  const Blocking b = block_gemm(g, o, sram, engine_seconds, rates);
  const std::int64_t operands = b.a_traffic + b.b_traffic, load = operands + b.c_read;
  const SramBytes beside = rates.sram.contention ? transfers(load, b.c_write) : SramBytes{};
  Stream stream{engine_seconds, load, b.c_write, b.sram + beside, pipelining(g, o)};
  if (b.in_place) {
    stream.load = operands;
    stream.store = 0;
    stream.alone = b.c_read + b.c_write;
  }
  return streamed_seconds(stream, rates);
}

std::int64_t compulsory(const Gemm& g) { return 2 * g.batch * (g.m * g.k + g.k * g.n + g.m * g.n); }

/// Bytes that no order of the products gets below, to the leading order: among operands that take T
/// bytes of SRAM together, 2 an element of A or B and `sum` one of C, at most (T/3)^1.5 / √(4·sum)
/// products are possible (Loomis and Whitney), so that at least 2·m·n·k·√(4·sum / SRAM) bytes of A
/// and B are read (Hong and Kung 1981; the constant as in Smith et al. 2019, arXiv 1702.02017). All
/// of C is written, `accumulate` reads it as well. With sums of 2 bytes that is the well-known
/// 2·m·n·k / √(elements of SRAM) elements.
double io_bound(const Gemm& g, const GemmOperands& o, std::int64_t sram) {
  const double products = static_cast<double>(g.batch) * static_cast<double>(g.m) *
                          static_cast<double>(g.n) * static_cast<double>(g.k);
  return 2 * products * std::sqrt(4.0 * o.sum_bytes / static_cast<double>(sram)) +
         2.0 * static_cast<double>(g.batch * g.m * g.n) * (o.accumulate ? 2 : 1);
}

TEST(Blocking, OperandsThatFitMoveOnce) {
  const Gemm g{1, 256, 128, 64};
  const Blocking b = blocked(g, {}, 1 << 20);
  ASSERT_TRUE(b.feasible);
  EXPECT_EQ(b.a_traffic, 256 * 64 * 2);
  EXPECT_EQ(b.b_traffic, 64 * 128 * 2);
  EXPECT_EQ(b.c_write, 256 * 128 * 2);
  EXPECT_EQ(b.c_read, 0);
}

TEST(Blocking, ResidentOperandsMoveNothing) {
  GemmOperands o;
  o.a_resident = o.b_resident = o.c_resident = true;
  const Gemm g{1, 512, 512, 512};
  const Blocking b = blocked(g, o, 4096);
  ASSERT_TRUE(b.feasible);
  EXPECT_EQ(b.dram_bytes(), 0);
  EXPECT_EQ(b.a_buffers + b.b_buffers, 0);
  EXPECT_EQ(pipelining(g, o).fill, 0);
}

TEST(Blocking, AccumulationReadsTheResultOnce) {
  GemmOperands o;
  o.accumulate = true;
  const Blocking b = blocked({1, 64, 64, 64}, o, 1 << 20);
  EXPECT_EQ(b.c_read, 64 * 64 * 2);
  EXPECT_EQ(b.c_write, 64 * 64 * 2);
}

TEST(Blocking, OperandsThatTheBatchSharesCountAsTheyAre) {
  const Gemm g{4, 64, 64, 64};
  GemmOperands o;
  o.b_total = 2 * 64 * 64 * 2;      // two sets of keys for four heads
  o.c_total = 4 * 64 * 64 * 2 + 7;  // something leaves with the result
  const Blocking b = blocked(g, o, 1 << 20);
  EXPECT_EQ(b.a_traffic, 4 * 64 * 64 * 2);
  EXPECT_EQ(b.b_traffic, 2 * 64 * 64 * 2);
  EXPECT_EQ(b.c_write, 4 * 64 * 64 * 2 + 7);
}

TEST(Blocking, TooSmallAnSramIsInfeasible) {
  // 1 x 1 x 32: two buffers of 64 bytes for each operand, and a sum that becomes the result.
  EXPECT_EQ(smallest_footprint(2, 4), 260);
  EXPECT_FALSE(blocked({1, 64, 64, 128}, {}, 259).feasible);
  EXPECT_TRUE(blocked({1, 64, 64, 128}, {}, 260).feasible);
  GemmOperands o;
  o.sum_bytes = 2;
  EXPECT_FALSE(blocked({1, 64, 64, 128}, o, 257).feasible);
  EXPECT_TRUE(blocked({1, 64, 64, 128}, o, smallest_footprint(2, 2)).feasible);
}

TEST(Blocking, ResultsHaveAPlaceOfTheirOwnWhereTheEnginesWouldWaitForThemToLeave) {
  // 64 KiB: blocks of about 120 x 120 in place, of about 98 x 98 beside results of 2 bytes.
  const Gemm g{1, 960, 960, 2000};
  const std::int64_t sram = 64 << 10;
  const Blocking in_place = block_gemm(g, {}, sram, 0, kDramBound);
  ASSERT_TRUE(in_place.in_place);
  EXPECT_LE(in_place.block_m * in_place.block_n * 4, sram);
  // Engines that take longer than all traffic: nothing may hold them up.
  const Blocking apart = block_gemm(g, {}, sram, 1e9, kDramBound);
  EXPECT_FALSE(apart.in_place);
  EXPECT_GT(apart.dram_bytes(), in_place.dram_bytes());
  EXPECT_LE(apart.block_m * apart.block_n * 6, sram);
  // A latency that exceeds what the larger blocks save.
  StreamRates far = kDramBound;
  far.latency = static_cast<double>(apart.dram_bytes());
  EXPECT_FALSE(block_gemm(g, {}, sram, 0, far).in_place);
  // What is resident is made where it stays.
  GemmOperands o;
  o.c_resident = true;
  EXPECT_FALSE(blocked(g, o, sram).in_place);
  // What the results are added to comes as they leave.
  o = {};
  o.accumulate = true;
  const Blocking sum = blocked(g, o, sram);
  EXPECT_TRUE(sum.in_place);
  EXPECT_EQ(sum.c_read, sum.c_write);
  EXPECT_EQ(sum.block_m, in_place.block_m);
}

TEST(Blocking, SecondsOfAStream) {
  // 100 bytes in, 60 out, in 10 steps; 20 seconds of engines; 20 and 10 bytes of SRAM.
  const Stream s{20, 100, 60, {20, 10}, {10, 10}};
  SramConfig slow;
  slow.bandwidth = Bandwidth(1);
  SramConfig writes;
  writes.write = Bandwidth(0.4);
  EXPECT_DOUBLE_EQ(streamed_seconds(s, {100, kFree, 7, {}}), 0.1 + 20 + 0.06);
  EXPECT_DOUBLE_EQ(streamed_seconds(s, {1, kFree, 7, {}}), 154 + 2 + 6);
  EXPECT_DOUBLE_EQ(streamed_seconds(s, {100, kFree, 7, slow}), 0.1 + 30 + 0.06);
  EXPECT_DOUBLE_EQ(streamed_seconds(s, {100, kFree, 7, writes}), 0.1 + 25 + 0.06);
  // Over slow links loads follow what the controller has taken of the stores, which still arrive.
  EXPECT_DOUBLE_EQ(streamed_seconds(s, {100, 1, 7, {}}), 0.54 + 100 + 2 + 6);
  // What moves alone comes last, after a latency.
  Stream after = s;
  after.store = 0;
  after.alone = 60;
  EXPECT_DOUBLE_EQ(streamed_seconds(after, {100, kFree, 7, {}}), 0.1 + 20 + 0.6 + 7);
  EXPECT_DOUBLE_EQ(streamed_seconds(after, {1, kFree, 7, {}}), 100 + 2 + 60 + 7);
}

TEST(Blocking, SlicesFollowWhatMustBeMovedAtLeast) {
  // 2 MiB + 4 MiB read, 8 MiB written, in slices of 128 KiB.
  const Gemm g{1, 2048, 2048, 512};
  EXPECT_EQ(pipelining(g, {}).steps, (2 + 2 + 8) * 8);
  EXPECT_EQ(pipelining(g, {}).fill, (4 << 20) / 96 + 1);
  // What is small moves in 16 slices.
  EXPECT_EQ(pipelining({1, 16, 16, 16}, {}).steps, 16);
  EXPECT_EQ(pipelining({1, 16, 16, 16}, {}).fill, 2 * 512 / 16);
}

/// The least traffic over every block size and loop order without spilled sums, at the depths that
/// the model allows; -1 when nothing fits.
std::int64_t brute_force(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t sum,
                         std::int64_t sram) {
  std::int64_t best = -1;
  const auto div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  for (std::int64_t mb = 1; mb <= m; ++mb) {
    for (std::int64_t nb = 1; nb <= n; ++nb) {
      for (const std::int64_t kb : {std::min<std::int64_t>(k, 32), k}) {
        const bool one_k = kb == k;
        const std::int64_t need = mb * nb * sum + (one_k && mb == m ? 1 : 2) * mb * kb * 2 +
                                  (one_k && nb == n ? 1 : 2) * kb * nb * 2;
        if (need > sram) continue;
        const std::int64_t a = m * k * 2, b = k * n * 2, c = m * n * 2;
        std::int64_t traffic = a * div(n, nb) + b * div(m, mb);
        if (one_k) traffic = std::min(a + b * div(m, mb), a * div(n, nb) + b);
        if (one_k && (mb == m || nb == n)) traffic = a + b;
        if (best < 0 || traffic + c < best) best = traffic + c;
      }
    }
  }
  return best;
}

TEST(Blocking, AgreesWithBruteForceOnSmallShapes) {
  std::mt19937 random(7);
  int equal = 0, feasible = 0;
  for (int i = 0; i < 120; ++i) {
    const std::int64_t m = 8 + random() % 120, n = 8 + random() % 120, k = 8 + random() % 200;
    const std::int64_t sram = 512 + random() % 60000;
    GemmOperands o;
    o.sum_bytes = i % 2 == 0 ? 4 : 2;
    const std::int64_t best = brute_force(m, n, k, o.sum_bytes, sram);
    const Blocking b = blocked({1, m, n, k}, o, sram);
    ASSERT_EQ(b.feasible, best >= 0);
    if (!b.feasible) continue;
    // The grid of block widths may miss the best; spilled sums, which the brute force leaves out,
    // may beat it.
    EXPECT_LE(static_cast<double>(b.dram_bytes()), 1.01 * static_cast<double>(best))
        << m << "x" << n << "x" << k << " in " << sram;
    EXPECT_GE(b.dram_bytes(), compulsory({1, m, n, k}));
    equal += b.dram_bytes() == best ? 1 : 0;
    ++feasible;
  }
  EXPECT_GE(equal, feasible * 9 / 10);
}

TEST(Blocking, ReachesCompulsoryTrafficWhenOperandsFit) {
  std::mt19937 random(11);
  for (int i = 0; i < 300; ++i) {
    const auto extent = [&] { return static_cast<std::int64_t>(1 + random() % 3000); };
    const Gemm g{1 + static_cast<std::int64_t>(random() % 3), extent(), extent(), extent()};
    // Single operands, double-buffered when the next batch element's replace them.
    const std::int64_t buffers = g.batch == 1 ? 1 : 2;
    const std::int64_t fit = 4 * g.m * g.n + buffers * 2 * (g.m * g.k + g.k * g.n);
    EXPECT_EQ(blocked(g, {}, fit).dram_bytes(), compulsory(g)) << i;
    // Whatever else costs time: bytes decide among equals only. Engines that are to be kept busy
    // want a place for the result beside the sums.
    const std::int64_t apart = fit + 2 * g.m * g.n;
    EXPECT_EQ(block_gemm(g, {}, apart, 1e9, kDramBound).dram_bytes(), compulsory(g)) << i;
  }
}

TEST(Blocking, StaysWithinATenthOfTheIoLowerBoundWhenOperandsDoNotFit) {
  std::mt19937 random(5);
  double worst = 0;
  for (int i = 0; i < 1000; ++i) {
    GemmOperands o;
    o.sum_bytes = i % 2 == 0 ? 4 : 2;
    o.accumulate = i % 8 < 2;
    // Where an element of C takes little, the 64 bytes of every row of A and B take more beside it.
    const double sram =
        (o.sum_bytes == 4 ? 1 << 20 : 2 << 20) * std::pow(32.0, random() / 4294967296.0);
    // Every extent is several times the side of the largest square block, so that the bound on a
    // block's reuse is what counts, and not the operands themselves or a fraction of a block.
    const double side = std::sqrt(sram / o.sum_bytes);
    const auto extent = [&](double from, double to) {
      return static_cast<std::int64_t>(side * from * std::pow(to / from, random() / 4294967296.0));
    };
    const Gemm g{1, extent(8, 40), extent(8, 40), extent(4, 40)};
    const auto bytes = static_cast<std::int64_t>(sram);
    const double ratio =
        static_cast<double>(blocked(g, o, bytes).dram_bytes()) / io_bound(g, o, bytes);
    EXPECT_GE(ratio, 1 - 1e-9) << g.m << "x" << g.n << "x" << g.k << " in " << bytes;
    EXPECT_LE(ratio, 1.1) << g.m << "x" << g.n << "x" << g.k << " in " << bytes << ", sums of "
                          << o.sum_bytes;
    worst = std::max(worst, ratio);
  }
  RecordProperty("worst_percent", static_cast<int>(std::lround(100 * worst)));
}

TEST(Blocking, MoreOfAnythingIsNeverSlower) {
  std::mt19937 random(3);
  const auto scale = [&](double low, double high) {
    return low * std::pow(high / low, random() / 4294967296.0);
  };
  for (int i = 0; i < 2000; ++i) {
    const auto extent = [&] { return static_cast<std::int64_t>(scale(1, 6000)); };
    const Gemm g{static_cast<std::int64_t>(scale(1, 9)), extent(), extent(), extent()};
    GemmOperands o;
    o.a_resident = random() % 4 == 0;
    o.b_resident = random() % 4 == 0;
    o.c_resident = random() % 4 == 0;
    o.accumulate = random() % 4 == 0;
    o.c_bytes = random() % 2 == 0 ? 2 : 4;
    const auto sram = static_cast<std::int64_t>(scale(2e3, 3e7));
    const double engine = g.flop() / scale(1e11, 1e14);
    o.sum_bytes = random() % 2 == 0 ? 2 : 4;
    StreamRates rates{scale(1e9, 1e12), scale(1e9, 1e12), scale(1e-8, 1e-5), {}};
    rates.sram.read = Bandwidth(scale(1e10, 1e13));
    rates.sram.write = Bandwidth(scale(1e10, 1e13));
    rates.sram.contention = random() % 4 == 0;
    if (!block_gemm(g, o, sram, engine, rates).feasible) continue;
    const double before = seconds(g, o, sram, engine, rates), more = scale(1.001, 4);
    EXPECT_LE(
        seconds(g, o, static_cast<std::int64_t>(static_cast<double>(sram) * more), engine, rates),
        before)
        << i;
    EXPECT_LE(seconds(g, o, sram, engine / more, rates), before) << i;
    for (double StreamRates::*rate : {&StreamRates::dram, &StreamRates::way}) {
      StreamRates better = rates;
      better.*rate *= more;
      EXPECT_LE(seconds(g, o, sram, engine, better), before) << i;
    }
    for (Bandwidth SramConfig::*rate : {&SramConfig::read, &SramConfig::write}) {
      StreamRates better = rates;
      better.sram.*rate = better.sram.*rate * more;
      EXPECT_LE(seconds(g, o, sram, engine, better), before) << i;
    }
  }
}

TEST(Blocking, WhatIsAskedAgainIsNotSearchedAgain) {
  BlockingCache cache;
  const Gemm g{1, 2000, 3000, 1000};
  const auto ask = [&](const Gemm& gemm, const GemmOperands& o, const StreamRates& rates) {
    const Blocking& b = cache.find(gemm, o, 1 << 20, 1e3, rates);
    EXPECT_EQ(b.dram_bytes(), block_gemm(gemm, o, 1 << 20, 1e3, rates).dram_bytes());
    return cache.searches();
  };
  EXPECT_EQ(ask(g, {}, kDramBound), 1u);
  EXPECT_EQ(ask(g, {}, kDramBound), 1u);
  EXPECT_EQ(ask({1, 3000, 2000, 1000}, {}, kDramBound), 2u);
  GemmOperands o;
  o.b_resident = true;
  EXPECT_EQ(ask(g, o, kDramBound), 3u);
  StreamRates faster = kDramBound;
  faster.dram = 2;
  EXPECT_EQ(ask(g, {}, faster), 4u);
  EXPECT_EQ(ask(g, {}, kDramBound), 4u);
  // What others load with the tile costs the DRAM nothing: other blocks.
  for (double GemmOperands::*part : {&GemmOperands::a_spared, &GemmOperands::b_spared}) {
    GemmOperands shared;
    shared.*part = 0.75;
    const std::size_t before = cache.searches();
    EXPECT_EQ(ask(g, shared, kDramBound), before + 1);
    EXPECT_NE(cache.find(g, shared, 1 << 20, 1e3, kDramBound).a_traffic,
              cache.find(g, {}, 1 << 20, 1e3, kDramBound).a_traffic);
  }
  StreamRates in_turn = kDramBound;
  in_turn.overlapped = false;
  EXPECT_EQ(ask(g, {}, in_turn), 7u);
}

TEST(Blocking, MoreSramMovesFewerBytesDownToTheCompulsory) {
  for (const Gemm g :
       {Gemm{1, 4096, 1152, 6144}, Gemm{1, 384, 6144, 4096}, Gemm{6, 2048, 128, 2048}}) {
    std::int64_t before = 0;
    for (std::int64_t sram = 16 << 10; sram <= 64 << 20; sram += sram / 3) {
      const Blocking b = blocked(g, {}, sram);
      ASSERT_TRUE(b.feasible);
      if (before > 0) {
        EXPECT_LE(b.dram_bytes(), before) << sram;
      }
      before = b.dram_bytes();
      EXPECT_LE(b.footprint, sram);
    }
    EXPECT_EQ(before, compulsory(g));
  }
}

}  // namespace
}  // namespace tilewright
