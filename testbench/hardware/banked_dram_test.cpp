// The banked DRAM model: held against two other simulators, and against itself.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_model.h>
#include <tilewright/machine/machine.h>

#include "../../sc_src/hardware/banked_model.h"

namespace tilewright {
namespace {

const std::string kMemories = TILEWRIGHT_SOURCE_DIR "/platforms/memories/";

MemoryPart part(const std::string& name) {
  return read_memory_part(Document::load(kMemories + name + ".yaml", "memory"));
}

struct Request {
  std::uint64_t address;
  bool write;
};
using Pattern = std::function<Request(int)>;

struct Outcome {
  double efficiency = 0, mean_ns = 0, median_ns = 0;
};

/// Keeps `outstanding` requests of `bytes` in the model until `count` are done.
Outcome drive(const MemoryPart& p, const Pattern& pattern, int count, int outstanding,
              std::uint64_t bytes) {
  const auto model = make_banked_model(p);
  std::vector<Picoseconds> issued(static_cast<std::size_t>(count));
  std::vector<double> latency;
  std::vector<int> of_token(static_cast<std::size_t>(outstanding));
  int next = 0;
  Picoseconds now = 0;
  const auto issue = [&](std::uint32_t token) {
    const Request r = pattern(next);
    issued[static_cast<std::size_t>(next)] = now;
    of_token[token] = next++;
    model->add(now, 0, r.address, bytes, r.write, token);
  };
  for (int i = 0; i < std::min(outstanding, count); ++i) issue(static_cast<std::uint32_t>(i));
  while (static_cast<int>(latency.size()) < count) {
    now = std::max(now, model->next());
    DramModel::Completion c;
    std::vector<std::uint32_t> free;
    while (model->pop(now, c)) {
      EXPECT_LE(c.first_byte, now);
      const Picoseconds since = issued[static_cast<std::size_t>(of_token[c.token])];
      latency.push_back(static_cast<double>(now - since) * 1e-3);
      free.push_back(c.token);
    }
    for (const std::uint32_t token : free) {
      if (next < count) issue(token);
    }
  }
  Outcome o;
  o.efficiency = static_cast<double>(bytes) * count / (static_cast<double>(now) * 1e-12) /
                 p.bandwidth().value();
  for (const double l : latency) o.mean_ns += l / count;
  std::sort(latency.begin(), latency.end());
  o.median_ns = latency[latency.size() / 2];
  return o;
}

Pattern pattern(const std::string& name, std::uint64_t capacity, std::uint64_t bytes,
                std::uint64_t stagger) {
  const auto n = [](int i) { return static_cast<std::uint64_t>(i); };
  const bool mix = name == "mix21" || name == "rand_mix21";
  const auto write = [mix, name](int i) { return mix ? i % 3 == 2 : name == "seq_write"; };
  if (name.rfind("rand", 0) == 0) {
    return [=, random = std::mt19937_64(1)](int i) mutable {
      return Request{random() % (capacity / bytes) * bytes, write(i)};
    };
  }
  if (name.rfind("streams16", 0) == 0) {
    return [=](int i) {
      return Request{n(i % 16) * (capacity / 16 + stagger) + n(i / 16) * bytes, false};
    };
  }
  return [=](int i) { return Request{n(i) * bytes, write(i)}; };
}

std::vector<AddressField> mapping(std::vector<AddressField> from_row_down) {
  std::reverse(from_row_down.begin(), from_row_down.end());
  return from_row_down;
}

struct Range {
  double low = 1e9, high = 0;
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
};
/// What the two simulators say of one (pattern, mapping, request size, outstanding, stagger).
struct Reference {
  std::string name;
  MemoryPart part;
  int requests = 0;
  std::uint64_t stagger = 0;
  Range efficiency, mean, median;
};
using Key = std::tuple<std::string, std::string, std::string, int, int>;

using F = AddressField;

/// The mappings of the reference by what they interleave lowest. HBM2 was run by one simulator on
/// two stacks that share a channel, which the part here has not: with banks above rows that shows
/// where several banks are used at once (random and staggered patterns, left out).
std::map<Key, Reference> references() {
  std::ifstream in(TILEWRIGHT_SOURCE_DIR "/testbench/reference/dram_ref.csv");
  EXPECT_TRUE(in);
  std::map<Key, Reference> all;
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    std::vector<std::string> f(1);
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ',' && !quoted) {
        f.emplace_back();
      } else {
        f.back() += c;
      }
    }
    const bool hbm = f[1].rfind("HBM2", 0) == 0;
    MemoryPart p = part(hbm ? "hbm2-2.0" : "ddr4-3200");
    p.channels = 1;
    std::string kind;
    std::uint64_t row_set = 0;
    if (f[2].rfind("row-BA-col", 0) == 0) {
      kind = "groups lowest";
      p.mapping = mapping({F::row, F::bank, F::column, F::pseudo, F::group});
      row_set = hbm ? 8192 : 32768;
    } else if (f[2].rfind("row", 0) == 0) {
      kind = "columns lowest";
      p.mapping = mapping({F::row, F::pseudo, F::bank, F::group, F::column});
      row_set = hbm ? 1024 : 8192;
    } else if (!hbm) {
      kind = "banks highest";
      p.mapping = mapping({F::group, F::bank, F::row, F::column});
      row_set = 8192;
    } else if (f[7].rfind("rand", 0) != 0 || f[9] == "1") {
      kind = "banks highest";
      p.mapping = mapping({F::pseudo, F::group, F::bank, F::row, F::column});
    } else {
      continue;
    }
    if (hbm && kind == "banks highest" && f[7].rfind("streams", 0) == 0) continue;
    const int bytes = std::stoi(f[8]), outstanding = std::stoi(f[9]);
    Reference& r = all[{hbm ? "HBM2" : "DDR4", kind, f[7], bytes, outstanding}];
    r.name = (hbm ? "HBM2, " : "DDR4, ") + kind + ", " + f[7] + ", " + f[8] + " B, " + f[9];
    r.part = p;
    r.requests = std::max(r.requests, std::stoi(f[10]));
    // Streams start in banks of their own where the mapping has such banks.
    if (!f[11].empty()) r.stagger = row_set;
    r.efficiency.add(std::stod(f[14]));
    if (!f[15].empty()) r.mean.add(std::stod(f[15]));
    if (!f[16].empty()) r.median.add(std::stod(f[16]));
  }
  return all;
}

TEST(BankedDram, SustainedEfficiencyLiesWithinTheSpreadOfTwoSimulators) {
  int checked = 0;
  for (const auto& [key, r] : references()) {
    const auto& [memory, kind, name, bytes, outstanding] = key;
    if (outstanding == 1) continue;
    // One of the two issues row and column commands of HBM over one bus and changes stacks every
    // 256 B, which shows where only that one was run: sequential reads at other depths than 64.
    if (memory == "HBM2" && name == "seq_read" && outstanding != 64 && outstanding > 4) continue;
    const auto capacity = static_cast<std::uint64_t>(r.part.capacity().value());
    const auto size = static_cast<std::uint64_t>(bytes);
    const Outcome o =
        drive(r.part, pattern(name, capacity, size, r.stagger), r.requests, outstanding, size);
    EXPECT_GE(o.efficiency, r.efficiency.low - 0.03) << r.name;
    EXPECT_LE(o.efficiency, r.efficiency.high + 0.03) << r.name;
    RecordProperty(r.name, std::to_string(o.efficiency));
    ++checked;
  }
  EXPECT_GE(checked, 43);
}

TEST(BankedDram, IdleLatenciesLieWithinTheSpreadOfTwoSimulators) {
  // HBM2 was run with requests of 64 B by one simulator and of 32 B by the other.
  std::map<std::tuple<std::string, std::string, std::string>, Reference> by_pattern;
  for (const auto& [key, r] : references()) {
    const auto& [memory, kind, name, bytes, outstanding] = key;
    if (outstanding != 1) continue;
    const auto capacity = static_cast<std::uint64_t>(r.part.capacity().value());
    const auto size = static_cast<std::uint64_t>(bytes);
    const Outcome o =
        drive(r.part, pattern(name, capacity, size, 0), std::max(r.requests, 3000), 1, size);
    // Alone in its size: within 5 %, or between both sizes.
    Range mean = r.mean, median = r.median;
    for (const auto& [other, s] : references()) {
      if (std::get<0>(other) == memory && std::get<1>(other) == kind &&
          std::get<2>(other) == name && std::get<4>(other) == 1) {
        for (Range* range : {&mean, &median}) {
          const Range& from = range == &mean ? s.mean : s.median;
          range->add(from.low);
          range->add(from.high);
        }
      }
    }
    EXPECT_GE(o.mean_ns, 0.95 * mean.low) << r.name;
    EXPECT_LE(o.mean_ns, 1.05 * mean.high) << r.name;
    EXPECT_GE(o.median_ns, 0.95 * median.low) << r.name;
    EXPECT_LE(o.median_ns, 1.05 * median.high) << r.name;
  }
}

TEST(BankedDram, IdleLatencyIsTheSumOfItsCommands) {
  const MemoryPart p = part("ddr4-3200");
  // Hit: CL and the burst.
  const auto hit = drive(
      p,
      [](int) {
        return Request{0, false};
      },
      50, 1, 64);
  EXPECT_DOUBLE_EQ(hit.median_ns, (22 + 4) * 0.625);
  // Another row of the bank each time: from activate to activate, tRAS and tRP.
  const auto conflict = drive(
      p,
      [](int i) {
        return Request{static_cast<std::uint64_t>(i % 2) << 20, false};
      },
      50, 1, 64);
  EXPECT_DOUBLE_EQ(conflict.median_ns, (52 + 22) * 0.625);
}

/// One block after the other of one tile; completion times.
std::vector<Picoseconds> blocks(const MemoryPart& p, bool remember, bool write,
                                const std::vector<std::uint64_t>& sizes, int* wakes = nullptr,
                                std::uint64_t disturb_every = 0) {
  const auto model = make_banked_model(p, remember);
  std::vector<Picoseconds> times;
  Picoseconds now = 0;
  std::uint64_t address = 640, other = 1u << 30;
  Picoseconds disturb = disturb_every;
  for (const std::uint64_t size : sizes) {
    model->add(now, 0, address, size, write, 0);
    address += size;
    for (bool done = false; !done;) {
      const Picoseconds next = model->next();
      if (disturb_every > 0 && disturb < next) {
        now = disturb;
        disturb += disturb_every;
        model->add(now, 1, other += 8192, 256, false,
                   1 + static_cast<std::uint32_t>(disturb / disturb_every % 64));
        continue;
      }
      now = std::max(now, next);
      if (wakes != nullptr) ++*wakes;
      DramModel::Completion c;
      while (model->pop(now, c)) {
        if (c.token == 0) {
          times.push_back(now);
          times.push_back(c.first_byte);
          done = true;
        }
      }
    }
  }
  return times;
}

TEST(BankedDram, RememberedStreamsAreExact) {
  for (const char* name : {"ddr4-3200", "hbm2-2.0", "lpddr5-6400"}) {
    MemoryPart p = part(name);
    p.channels = std::min<std::int64_t>(p.channels, 2);
    for (const bool write : {false, true}) {
      const std::vector<std::uint64_t> sizes{1'000'000, 64, 6'000'000, 3'000'001, 4096};
      EXPECT_EQ(blocks(p, true, write, sizes), blocks(p, false, write, sizes)) << name;
      const std::vector<std::uint64_t> one{5'000'000};
      EXPECT_EQ(blocks(p, true, write, one, nullptr, 50'000'017),
                blocks(p, false, write, one, nullptr, 50'000'017))
          << name;
    }
  }
  MemoryPart p = part("ddr4-3200");
  for (const auto& m : {mapping({F::row, F::bank, F::group, F::column}),
                        mapping({F::row, F::group, F::bank, F::column}),
                        mapping({F::group, F::bank, F::row, F::column}),
                        mapping({F::row, F::column, F::bank, F::group})}) {
    p.mapping = m;
    p.rows = 64;  // rows wrap
    EXPECT_EQ(blocks(p, true, false, {9'000'000}), blocks(p, false, false, {9'000'000}));
  }
}

TEST(BankedDram, AHundredMegabytesTakeFewEvents) {
  for (const char* name : {"ddr4-3200", "hbm2-2.0", "hbm3-6.4"}) {
    int wakes = 0;
    blocks(part(name), true, false, {100'000'000}, &wakes);
    EXPECT_LE(wakes, 400) << name;
  }
}

TEST(BankedDram, EveryPartStreamsAndNeverExceedsItsPeak) {
  for (const char* name : {"ddr4-3200", "ddr5-4800", "lpddr4-3200", "lpddr5-6400", "gddr6-14",
                           "hbm2-2.0", "hbm2e-3.2", "hbm3-6.4"}) {
    const MemoryPart p = part(name);
    for (const bool write : {false, true}) {
      const double bytes = 100e6;
      const Picoseconds end = blocks(p, true, write, {static_cast<std::uint64_t>(bytes)}).front();
      const double efficiency = bytes / (static_cast<double>(end) * 1e-12) / p.bandwidth().value();
      // All-bank refresh takes up to 9 %.
      EXPECT_GT(efficiency, 0.84) << name << (write ? " write" : " read");
      EXPECT_LE(efficiency,
                1 - 0.99 * static_cast<double>(p.timing.rfc) / static_cast<double>(p.timing.refi))
          << name;
      RecordProperty(std::string(name) + (write ? "_write" : "_read"), std::to_string(efficiency));
    }
  }
}

TEST(BankedDram, TilesShareFairly) {
  const MemoryPart p = part("ddr4-3200");
  const auto model = make_banked_model(p);
  for (std::uint32_t tile = 0; tile < 4; ++tile) {
    model->add(0, tile, std::uint64_t{tile} << 28, 1'000'000, false, tile);
  }
  std::vector<Picoseconds> ends;
  Picoseconds now = 0;
  while (ends.size() < 4) {
    now = std::max(now, model->next());
    DramModel::Completion c;
    while (model->pop(now, c)) ends.push_back(now);
  }
  EXPECT_GT(static_cast<double>(ends.front()), 0.9 * static_cast<double>(ends.back()));
  EXPECT_GT(model->busy(), Picoseconds{156'000'000});  // 4 MB at 25.6 GB/s
}

TEST(BankedDram, WritesAreNotStarvedByReads) {
  const auto model = make_banked_model(part("ddr4-3200"));
  model->add(0, 0, 0, 50'000'000, false, 0);
  model->add(0, 1, std::uint64_t{1} << 30, 64, true, 1);
  Picoseconds now = 0;
  DramModel::Completion c;
  do {
    now = std::max(now, model->next());
  } while (!model->pop(now, c));
  EXPECT_EQ(c.token, 1u);
  EXPECT_LT(now, Picoseconds{10'000'000});
}

}  // namespace
}  // namespace tilewright
