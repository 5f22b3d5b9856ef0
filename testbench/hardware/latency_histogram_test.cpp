// Latencies in bins of a logarithmic scale.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/latency_histogram.h>

namespace tilewright {
namespace {

TEST(LatencyHistogram, SmallNumbersAreExact) {
  LatencyHistogram h;
  for (std::uint64_t i = 0; i < 64; ++i) h.add(i);
  EXPECT_EQ(h.bins().size(), 64u);
  EXPECT_EQ(h.percentile(0.5), 31u);
  EXPECT_EQ(h.percentile(1), 63u);
  EXPECT_EQ(h.mean(), 31.5);
}

TEST(LatencyHistogram, BinsTileTheScaleAndAreNarrow) {
  LatencyHistogram h;
  for (std::uint64_t i = 0; i < 5000; ++i) h.add(i);
  std::uint64_t next = 0, count = 0;
  for (const LatencyHistogram::Bin& bin : h.bins()) {
    EXPECT_EQ(bin.first, next);
    EXPECT_LE(static_cast<double>(bin.last - bin.first + 1),
              1 + static_cast<double>(bin.first) / 32);
    if (bin.last < 5000) {
      EXPECT_EQ(bin.count, bin.last - bin.first + 1);
    }
    next = bin.last + 1;
    count += bin.count;
  }
  EXPECT_EQ(count, 5000u);
  EXPECT_GE(next, 5000u);
}

TEST(LatencyHistogram, PercentilesAreTooHighByLessThanABin) {
  LatencyHistogram h;
  for (std::uint64_t i = 1; i <= 1000; ++i) h.add(i * 1000000);
  for (const double share : {0.01, 0.5, 0.95, 0.99}) {
    const double exact = share * 1e9, found = static_cast<double>(h.percentile(share));
    EXPECT_GE(found, exact);
    EXPECT_LE(found, exact * (1 + 1. / 32));
  }
  EXPECT_EQ(h.percentile(1), 1000000000u);
  EXPECT_EQ(h.max(), 1000000000u);
}

TEST(LatencyHistogram, TheLargestNumberHasABin) {
  LatencyHistogram h;
  const auto largest = ~std::uint64_t{0};
  h.add(largest, 3);
  EXPECT_EQ(h.count(), 3u);
  EXPECT_EQ(h.percentile(0.5), largest);
  EXPECT_EQ(h.bins().front().last, largest);
  EXPECT_EQ(LatencyHistogram().percentile(0.5), 0u);
  EXPECT_EQ(LatencyHistogram().mean(), 0);
}

}  // namespace
}  // namespace tilewright
