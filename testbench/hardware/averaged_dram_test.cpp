// Banked memories with averaged streams: held against the exact model.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/mix_rates.h>
#include <tilewright/machine/machine.h>

namespace tilewright {
namespace {

DramConfig memory(const std::string& name, DramStreams streams) {
  DramConfig d;
  d.model = "banked";
  d.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/" + name + ".yaml", "memory"));
  d.streams = streams;
  return d;
}

/// When the last of `rounds` requests of `bytes` of every requester is complete, each issued when
/// the requester's last one was. Their addresses are drawn.
Picoseconds makespan(const DramConfig& config, int readers, int writers, std::uint64_t bytes,
                     int rounds, unsigned seed = 1) {
  const auto model = make_dram_model(config);
  std::mt19937_64 random(seed);
  const auto capacity = static_cast<std::uint64_t>(config.part.capacity().value());
  std::vector<int> left(static_cast<std::size_t>(readers + writers), rounds);
  Picoseconds now = 0;
  const auto issue = [&](std::uint32_t r) {
    --left[r];
    const std::uint64_t address = random() % (capacity / 64) * 64;
    model->add(now, r, address, bytes, static_cast<int>(r) >= readers, r);
  };
  for (std::uint32_t r = 0; r < left.size(); ++r) issue(r);
  for (int done = 0; done < rounds * (readers + writers);) {
    now = std::max(now, model->next());
    DramModel::Completion c;
    std::vector<std::uint32_t> again;
    while (model->pop(now, c)) {
      EXPECT_LE(c.first_byte, now);
      ++done;
      if (left[c.token] > 0) again.push_back(c.token);
    }
    for (const std::uint32_t r : again) issue(r);
  }
  return now;
}

TEST(AveragedDram, ALoneReaderMovesAtTheRateOfTheExactModel) {
  const DramConfig d = memory("ddr4-3200", DramStreams::averaged);
  MixRates rates(d.part);
  const std::uint64_t bytes = 64 << 20;
  // Latency, then bytes at the rate.
  const double expected =
      d.part.latency().value() * 1e12 + static_cast<double>(bytes) / rates.of(1, 0).read;
  EXPECT_NEAR(static_cast<double>(makespan(d, 1, 0, bytes, 1)), expected, 2);
  const Picoseconds exact = makespan(memory("ddr4-3200", DramStreams::exact), 1, 0, bytes, 1);
  EXPECT_NEAR(expected / static_cast<double>(exact), 1, 0.01);
}

// One draw of addresses may lie a fifth off the mean: requests that stay in one bank with others,
// or in none. The mean over draws is what is averaged.
TEST(AveragedDram, MixesTakeAboutTheMeanTimeOfTheExactModel) {
  const struct { int readers, writers; } mixes[] = {{2, 0}, {0, 2}, {1, 1}, {4, 0}, {3, 2}, {8, 4}};
  constexpr unsigned kSeeds = 6;
  constexpr std::uint64_t bytes = 256 << 10;  // on one channel, against queues of 2 KiB
  for (const char* name : {"ddr4-3200", "hbm2-2.0"}) {
    DramConfig exact = memory(name, DramStreams::exact);
    exact.part.channels = 1;  // they are alike
    DramConfig averaged = exact;
    averaged.streams = DramStreams::averaged;
    double all_exact = 0, all_averaged = 0;
    for (const auto& mix : mixes) {
      double e = 0;
      for (unsigned seed = 1; seed <= kSeeds; ++seed) {
        e += static_cast<double>(makespan(exact, mix.readers, mix.writers, bytes, 4, seed));
      }
      const double a =
          kSeeds * static_cast<double>(makespan(averaged, mix.readers, mix.writers, bytes, 4));
      EXPECT_NEAR(a / e, 1, 0.1) << name << ", " << mix.readers << " readers, " << mix.writers
                                 << " writers";
      all_exact += e;
      all_averaged += a;
    }
    EXPECT_NEAR(all_averaged / all_exact, 1, 0.05) << name;
  }
}

TEST(AveragedDram, NoMixIsFasterThanTheDataBus) {
  const DramConfig d = memory("hbm2-2.0", DramStreams::averaged);
  MixRates rates(d.part);
  const double peak = d.part.bandwidth().value() * 1e-12;
  for (std::size_t r = 0; r <= 4; ++r) {
    for (std::size_t w = 0; w <= 4; ++w) {
      const MixRates::Rates mix = rates.of(r, w);
      EXPECT_LE(mix.read * static_cast<double>(r) + mix.write * static_cast<double>(w), peak);
      EXPECT_EQ(mix.read > 0, r > 0);
      EXPECT_EQ(mix.write > 0, w > 0);
      // Turns are equal: so are the rates of readers and writers.
      if (r > 0 && w > 0) EXPECT_NEAR(mix.read / mix.write, 1, 0.05) << r << ", " << w;
    }
  }
  // More of a kind than the queues hold share what so many get.
  EXPECT_DOUBLE_EQ(rates.of(64, 0).read, rates.of(32, 0).read / 2);
}

}  // namespace
}  // namespace tilewright
