#include <algorithm>
#include <cstdint>
#include <random>

#include <tilewright/hardware/mix_rates.h>

#include "banked_channel.h"

namespace tilewright {
namespace {

using Cycle = BankedChannel::Cycle;

constexpr std::size_t kMostStreams = 32;  // of a kind: as many as the queues have bursts
constexpr int kDraws = 8, kIntervals = 1;
constexpr Cycle kIntervalWithoutRefresh = 1 << 13;

struct Bursts {
  std::int64_t read = 0, written = 0;
};
Bursts moved(const BankedChannel& channel) {
  return {channel.bursts() - channel.written(), channel.written()};
}

}  // namespace

MixRates::Rates MixRates::of(std::size_t reads, std::size_t writes) {
  const std::size_t r = std::min(reads, kMostStreams), w = std::min(writes, kMostStreams);
  auto known = known_.find({r, w});
  if (known == known_.end()) known = known_.emplace(std::pair(r, w), measure(r, w)).first;
  Rates rates = known->second;
  if (reads > r) rates.read *= static_cast<double>(r) / static_cast<double>(reads);
  if (writes > w) rates.write *= static_cast<double>(w) / static_cast<double>(writes);
  return rates;
}

MixRates::Rates MixRates::measure(std::size_t reads, std::size_t writes) const {
  const std::int64_t total = part_.rows * part_.columns * part_.banks * part_.groups * part_.pseudo;
  const Cycle interval = part_.timing.refi > 0 ? part_.timing.refi : kIntervalWithoutRefresh;
  const auto streams = static_cast<std::int64_t>(reads + writes);
  std::mt19937_64 random(1);
  Bursts sum;
  for (int draw = 0; draw < kDraws; ++draw) {
    BankedChannel channel(part_, nullptr);
    for (std::int64_t s = 0; s < streams; ++s) {
      // A request may be longer than the memory: rows count round.
      const auto at = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(total));
      const auto number = static_cast<std::uint32_t>(s);
      channel.add(0, {at, at + (std::int64_t{1} << 40), number, number,
                      s >= static_cast<std::int64_t>(reads)});
    }
    channel.run(interval);
    const Bursts before = moved(channel);
    channel.run((kIntervals + 1) * interval);
    const Bursts after = moved(channel);
    sum.read += after.read - before.read;
    sum.written += after.written - before.written;
  }
  // Bytes per picosecond of one burst in all cycles.
  const double of_burst = part_.burst.value() * static_cast<double>(part_.channels) *
                          part_.clock.value() * 1e-12 /
                          static_cast<double>(kDraws * kIntervals * interval);
  Rates rates;
  if (reads > 0) {
    rates.read = static_cast<double>(sum.read) * of_burst / static_cast<double>(reads);
  }
  if (writes > 0) {
    rates.write = static_cast<double>(sum.written) * of_burst / static_cast<double>(writes);
  }
  return rates;
}

}  // namespace tilewright
