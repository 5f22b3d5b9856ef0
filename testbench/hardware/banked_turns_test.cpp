// Readers and writers of one banked memory share it evenly.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/dram_model.h>
#include <tilewright/machine/machine.h>

namespace tilewright {
namespace {

/// When each of `readers` + `writers` requests of 1 MiB, all issued at once, is complete.
std::vector<Picoseconds> ends(const std::string& name, int readers, int writers) {
  DramConfig d;
  d.model = "banked";
  d.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/" + name + ".yaml", "memory"));
  d.part.channels = 1;
  const auto model = make_dram_model(d);
  constexpr std::uint64_t kBytes = 1 << 20;
  std::vector<Picoseconds> ends(static_cast<std::size_t>(readers + writers));
  for (std::uint32_t r = 0; r < ends.size(); ++r) {
    model->add(0, r, r * (kBytes + 8192), kBytes, static_cast<int>(r) >= readers, r);
  }
  for (std::size_t done = 0; done < ends.size();) {
    const Picoseconds now = model->next();
    DramModel::Completion c;
    while (model->pop(now, c)) {
      ends[c.token] = now;
      ++done;
    }
  }
  return ends;
}

// A writer that always has more would refill the queue of writes as fast as it is drained: the
// reads would wait until it is done.
TEST(BankedTurns, NeitherReadersNorWritersWaitForTheOthers) {
  for (const char* name : {"ddr4-3200", "hbm2-2.0", "lpddr5-6400", "gddr6-14"}) {
    for (const auto& [readers, writers] : {std::pair(1, 1), {2, 1}, {1, 2}, {4, 3}}) {
      const std::vector<Picoseconds> e = ends(name, readers, writers);
      const auto [first, last] = std::minmax_element(e.begin(), e.end());
      EXPECT_GT(static_cast<double>(*first), 0.8 * static_cast<double>(*last))
          << name << ", " << readers << " readers, " << writers << " writers";
    }
  }
}

// Writes too few to fill their queue wait 2,048 cycles behind reads, and are done then, though the
// reads want other rows of the same bank.
TEST(BankedTurns, LateWritesAreDrainedToTheLast) {
  DramConfig d;
  d.model = "banked";
  d.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/ddr4-3200.yaml", "memory"));
  const auto model = make_dram_model(d);
  const auto burst = static_cast<std::uint64_t>(d.part.burst.value());
  // Whole rows of all banks lie between one row of a bank and the next.
  const std::uint64_t row = burst * static_cast<std::uint64_t>(d.part.columns * d.part.groups *
                                                               d.part.banks * d.part.pseudo);
  model->add(0, 0, 0, 16 * row, false, 0);
  model->add(0, 1, 1000 * row, 4 * burst, true, 1);
  DramModel::Completion c;
  Picoseconds now = 0;
  do {
    now = model->next();
  } while (!model->pop(now, c));
  EXPECT_EQ(c.token, 1u);
  const double cycle = 1e12 / d.part.clock.value();
  EXPECT_GT(static_cast<double>(now), 2048 * cycle);
  EXPECT_LT(static_cast<double>(now), 2048 * cycle + 1e6);
}

}  // namespace
}  // namespace tilewright
