// Joules by hand, and what must hold for any run: sums, zeros, monotony, power over time.
#include <functional>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <support/script.h>

#include <tilewright/observe/power.h>
#include <tilewright/observe/result.h>
#include <tilewright/program/work.h>

namespace tilewright::test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr double kPico = 1e-12;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

/// fp16 0.75 pJ/FLOP and 2 pJ per element; SRAM 1 and 2 pJ/B, DRAM 30 and 40, host 100 and 200;
/// links 5 + 1 pJ/B on the die, 20 + 1 between dies; 1 W a tile, 0.5 W a DRAM controller, 0.25 W a
/// host's.
EnergyConfig coefficients() {
  const auto per_byte = [](double pj) { return EnergyPerByte(pj * kPico); };
  EnergyConfig e;
  e.matrix["fp16"] = EnergyPerFlop(0.75 * kPico);
  e.vector["fp16"] = Joules(2 * kPico);
  e.sram = {per_byte(1), per_byte(2)};
  e.dram = {per_byte(30), per_byte(40)};
  e.host = {per_byte(100), per_byte(200)};
  e.links = {{per_byte(5), per_byte(1)}, {per_byte(20), per_byte(1)}};
  e.idle = {Watts(1), Watts(0.5), Watts(0.25), Watts(0)};
  return e;
}

/// Two dies of one tile each in a row; DRAM at the left one, host memory at the right one.
MachineConfig machine() {
  MachineConfig m = mesh(1, 1);
  m.dies_x = 2;
  m.dram.sites = {{0, 0}};
  m.host = m.dram;
  m.host.sites = {{1, 0}};
  m.energy = coefficients();
  return m;
}

struct Measured {
  Measured(const MachineConfig& m, Script& s, bool with_power = false) {
    s.streams();
    auto* platform = new Platform("machine", m, s.program, {});
    std::unique_ptr<Power> watch;
    if (with_power) watch = std::make_unique<Power>(m, s.program, *platform);
    platform->run();
    run = platform->statistics();
    if (watch) {
      std::ostringstream out;
      watch->write_csv(out, run.end);
      power = out.str();
    }
    summarise(m, run, result);
    summarise_energy(m, s.program, run, result);
  }
  Joules of(const std::string& category) const {
    const EnergyResult& e = *result.energy;
    for (std::size_t c = 0; c < e.categories.size(); ++c) {
      if (e.categories[c] == category) return e.joules[c];
    }
    throw InternalError("no category " + category);
  }
  RunStatistics run;
  Result result;
  std::string power;
};

/// A GEMM in two pieces, a vector operation, a load and a store on tile 0.
Script one_gemm() {
  Script s;
  const auto gemm = s.matrix_shape(8000, 600, 2);
  s.program.shapes[gemm].sram_written = 200;
  const auto norm = s.vector_shape(100);
  const auto segment = s.segment("gemm", [&](Code& c) {
    const auto l = c.load(1000);
    c.compute(Engine::matrix, gemm, 1, {l});
    const auto m = c.compute(Engine::matrix, gemm, 1, {l});
    c[m].begin = 1;
    const auto v = c.compute(Engine::vector, norm, 1, {m});
    c.store(500, {v});
  });
  s.group("A", {tile(0)}, segment);
  return s;
}

/// Everything there is: the above, messages between the tiles and from a tile to itself, loads and
/// stores over the link, both memories.
Script everything() {
  Script s = one_gemm();
  s.program.groups.clear();
  const auto wire = s.channel("wire"), self = s.channel("self");
  const auto work = s.segment("left", [&](Code& c) {
    const auto l = c.memory(Opcode::load, Engine::dma_in, 70'001, Space::host);
    const auto m = c.compute(Engine::matrix, 0, 2, {l});
    c.send(wire, 0, {30'000}, {m});
    c.send(self, 1, {4'000}, {m});
    c.recv(self, 1, {4'000});
    c.store(9'000, {m});
  });
  const auto right = s.segment("right", [&](Code& c) {
    const auto r = c.recv(wire, 0, {30'000});
    const auto l = c.load(60'000, {r});
    c[l].head = 10'000;
    const auto v = c.compute(Engine::vector, 1, 1, {l | kHead});
    c.memory(Opcode::store, Engine::dma_out, 50'000, Space::host, {v});
  });
  s.group("left", {tile(0)}, work, 2).peers = {{tile(1)}, {tile(0)}};
  s.group("right", {tile(1)}, right, 2).peers = {{tile(0)}};
  return s;
}

TEST(Energy, OneGemmOnOneTileByHand) {
  Script s = one_gemm();
  const Measured r(machine(), s);
  EXPECT_DOUBLE_EQ(r.of("matrix").value(), 6000 * kPico);
  EXPECT_DOUBLE_EQ(r.of("vector").value(), 200 * kPico);
  // Read: 400 by the engines, 500 stored; written: 200 by the engines, 1000 loaded.
  EXPECT_DOUBLE_EQ(r.of("sram").value(), (900 + 2 * 1200) * kPico);
  EXPECT_DOUBLE_EQ(r.of("dram").value(), (30 * 1000 + 40 * 500) * kPico);
  EXPECT_EQ(r.of("host").value(), 0);
  EXPECT_EQ(r.of("links on-die").value(), 0);
  EXPECT_EQ(r.of("links die-to-die").value(), 0);
  const double seconds = static_cast<double>(r.run.end) * kPico;
  EXPECT_NEAR(r.of("static tiles").value(), 2 * seconds, 1e-20);
  EXPECT_NEAR(r.of("static dram").value(), 0.5 * seconds, 1e-20);
  EXPECT_NEAR(r.of("static host").value(), 0.25 * seconds, 1e-20);
  EXPECT_EQ(r.of("static switches").value(), 0);
  EXPECT_NEAR(r.result.energy->total.value(), 59'500 * kPico + 2.75 * seconds, 1e-20);
  EXPECT_THAT(r.result.notes, IsEmpty());
}

TEST(Energy, MessagesTakeSramAtBothEndsAndEveryLink) {
  MachineConfig m = mesh(2, 1);
  m.dies_x = 2;  // a row of four tiles: on the die, between dies, on the die
  m.energy = coefficients();
  Script s = one_message(tile(0), tile(3), 1000, 1000);
  const Measured r(m, s);
  EXPECT_DOUBLE_EQ(r.of("sram").value(), 3000 * kPico);
  EXPECT_DOUBLE_EQ(r.of("links on-die").value(), 2 * 6000 * kPico);
  EXPECT_DOUBLE_EQ(r.of("links die-to-die").value(), 21'000 * kPico);
  EXPECT_EQ(r.of("dram").value(), 0);
  EXPECT_EQ(r.of("matrix").value(), 0);
}

TEST(Energy, SparseOperandsMultiplyLess) {
  MachineConfig m = machine();
  m.matrix.sparsity = {{"fp16", 2}};
  Script s = one_gemm();
  EXPECT_DOUBLE_EQ(Measured(m, s).of("matrix").value(), 3000 * kPico);
}

TEST(Energy, WhatTilesDoIsWhatTheHardwareCounts) {
  Script s = everything();
  const Measured r(machine(), s);
  const ProgramWork work = count_work(s.program);
  std::uint64_t dram_read = 0, dram_written = 0, host_read = 0, host_written = 0;
  for (std::uint32_t t = 0; t < 2; ++t) {
    const TileWork& w = work.tiles[tile(t)];
    const TileStatistics& counted = r.run.tiles[tile(t)];
    EXPECT_EQ(std::accumulate(w.flop.begin(), w.flop.end(), 0.0), counted.flop);
    EXPECT_EQ(w.sent, counted.bytes_sent);
    EXPECT_EQ(w.received, counted.bytes_received);
    dram_read += w.dram_read;
    dram_written += w.dram_written;
    host_read += w.host_read;
    host_written += w.host_written;
  }
  EXPECT_EQ(dram_read, r.run.dram[DramId{0}].bytes_read);
  EXPECT_EQ(dram_written, r.run.dram[DramId{0}].bytes_written);
  EXPECT_EQ(host_read, r.run.host[DramId{0}].bytes_read);
  EXPECT_EQ(host_written, r.run.host[DramId{0}].bytes_written);
}

TEST(Energy, StagesAndTheRestSumToCategoriesAndTheseToTheTotal) {
  Script s = everything();
  const EnergyResult e = *Measured(machine(), s).result.energy;
  ASSERT_EQ(e.stages.size(), 2u);
  Joules total(0);
  for (std::size_t c = 0; c < e.categories.size(); ++c) {
    EXPECT_EQ(e.stages[0].joules[c] + e.stages[1].joules[c] + e.shared[c], e.joules[c]);
    total += e.joules[c];
  }
  EXPECT_EQ(total, e.total);
  // The tiles are all in stages; links and controllers in none.
  EXPECT_EQ(e.shared[EnergyModel::kMatrix], Joules(0));
  EXPECT_EQ(e.shared[EnergyModel::kDram], Joules(0));
  EXPECT_NEAR((e.shared[EnergyModel::kFirstLink + 1] / e.joules[EnergyModel::kFirstLink + 1]), 1,
              0);
}

TEST(Energy, NoTrafficTakesStaticPowerOnly) {
  MachineConfig m = machine();
  Script s;
  const auto gemm = s.matrix_shape(0), delay = s.vector_shape(1000);
  m.energy->vector.clear();
  const auto segment = s.segment("nothing", [&](Code& c) {
    c.compute(Engine::matrix, gemm);
    c.compute(Engine::vector, delay);
  });
  s.group("A", {tile(0)}, segment);
  const Measured r(m, s);
  EXPECT_EQ(r.run.end, 1000u);
  const EnergyResult& e = *r.result.energy;
  for (std::size_t c = 0; c < EnergyModel(m).idle_tiles(); ++c) {
    EXPECT_EQ(e.joules[c].value(), 0) << e.categories[c];
  }
  EXPECT_NEAR(e.total.value(), 2.75e-9, 1e-20);
}

/// Each coefficient raised raises its category and nothing else.
TEST(Energy, GrowsWithEveryCoefficient) {
  using Change = std::function<void(EnergyConfig&)>;
  const std::vector<std::pair<std::string, Change>> changes{
      {"matrix", [](EnergyConfig& e) { e.matrix["fp16"] = EnergyPerFlop(1e-12); }},
      {"vector", [](EnergyConfig& e) { e.vector["fp16"] = Joules(3e-12); }},
      {"sram", [](EnergyConfig& e) { e.sram.read = EnergyPerByte(2e-12); }},
      {"sram", [](EnergyConfig& e) { e.sram.write = EnergyPerByte(3e-12); }},
      {"dram", [](EnergyConfig& e) { e.dram.read = EnergyPerByte(31e-12); }},
      {"dram", [](EnergyConfig& e) { e.dram.write = EnergyPerByte(41e-12); }},
      {"host", [](EnergyConfig& e) { e.host.read = EnergyPerByte(101e-12); }},
      {"host", [](EnergyConfig& e) { e.host.write = EnergyPerByte(201e-12); }},
      {"links die-to-die", [](EnergyConfig& e) { e.links[1].wire = EnergyPerByte(21e-12); }},
      {"links die-to-die", [](EnergyConfig& e) { e.links[1].router = EnergyPerByte(2e-12); }},
      {"static tiles", [](EnergyConfig& e) { e.idle.tile = Watts(2); }},
      {"static dram", [](EnergyConfig& e) { e.idle.dram = Watts(1); }},
      {"static host", [](EnergyConfig& e) { e.idle.host = Watts(1); }}};
  Script s = everything();
  const MachineConfig m = machine();
  const Measured base(m, s);
  for (const auto& [category, change] : changes) {
    MachineConfig changed = m;
    change(*changed.energy);
    Result r;
    summarise_energy(changed, s.program, base.run, r);
    for (std::size_t c = 0; c < r.energy->categories.size(); ++c) {
      const Joules before = base.result.energy->joules[c], now = r.energy->joules[c];
      if (r.energy->categories[c] == category) {
        EXPECT_GT(now, before) << category;
      } else {
        EXPECT_EQ(now, before) << category << ' ' << r.energy->categories[c];
      }
    }
  }
}

TEST(Energy, TrafficWithoutACoefficientIsNoted) {
  MachineConfig m = machine();
  m.energy = EnergyConfig{};
  m.energy->links.resize(2);
  Script s = everything();
  const Measured r(m, s);
  EXPECT_EQ(r.result.energy->total.value(), 0);
  for (const char* key : {"energy.matrix.fp16", "energy.vector.fp16", "energy.sram.read",
                          "energy.sram.write", "energy.dram.read", "energy.dram.write",
                          "energy.host.read", "energy.host.write", "energy.links.die-to-die"}) {
    EXPECT_THAT(r.result.notes, Contains(HasSubstr(std::string(key) + " is zero or not given")));
  }
  EXPECT_EQ(r.result.notes.size(), 9u);  // none for links on the die, which carry nothing
}

TEST(Energy, ReportsHaveItOnlyWhenTheMachineDoes) {
  Script s = everything();
  Measured r(machine(), s);
  r.result.samples = 4;
  const auto j = nlohmann::json::parse(json_report(r.result));
  EXPECT_EQ(j["energy"]["total_j"].get<double>(), r.result.energy->total.value());
  EXPECT_EQ(j["energy"]["per_sample_j"].get<double>(), r.result.energy->total.value() / 4);
  EXPECT_TRUE(j["energy"]["per_token_j"].is_null());
  double sum = 0;
  for (const auto& [category, joules] : j["energy"]["categories_j"].items()) {
    sum += joules.get<double>();
  }
  EXPECT_NEAR(sum, j["energy"]["total_j"].get<double>(), 1e-12 * sum);
  EXPECT_EQ(j["energy"]["stages"].size(), 2u);
  const std::string text = text_report(r.result);
  EXPECT_THAT(text, HasSubstr("\nEnergy: " + to_string(r.result.energy->total) + ", "));
  EXPECT_THAT(text, HasSubstr("  links, die-to-die "));
  EXPECT_THAT(text, Not(HasSubstr("  links, on-die ")));

  Result without = r.result;
  without.energy.reset();
  EXPECT_THAT(text_report(without), Not(HasSubstr("nergy")));
  EXPECT_THAT(json_report(without), Not(HasSubstr("nergy")));
  MachineConfig m = machine();
  m.energy.reset();
  summarise_energy(m, s.program, r.run, without);
  EXPECT_FALSE(without.energy);
}

struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<double>> rows;
};

Table table(const std::string& csv) {
  const auto cells = [](const std::string& line) {
    std::vector<std::string> list;
    std::istringstream in(line);
    for (std::string cell; std::getline(in, cell, ',');) list.push_back(cell);
    return list;
  };
  Table t;
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  t.columns = cells(line);
  while (std::getline(lines, line)) {
    t.rows.emplace_back();
    for (const std::string& cell : cells(line)) t.rows.back().push_back(std::stod(cell));
  }
  return t;
}

// What the watcher spreads over time is what the counters say in the end, category by category.
TEST(Power, SumsToTheEnergyOfTheRun) {
  Script s = everything();
  const Measured r(machine(), s, true);
  const EnergyResult& e = *r.result.energy;
  const Table t = table(r.power);
  ASSERT_EQ(t.columns.size(), 2 + e.categories.size() + 1);
  EXPECT_EQ(t.columns[2], "matrix_w");
  EXPECT_EQ(t.columns.back(), "total_w");
  ASSERT_GT(t.rows.size(), 32u);
  EXPECT_LE(t.rows.size(), 128u);
  std::vector<double> joules(t.columns.size());
  double time = 0;
  for (const auto& row : t.rows) {
    ASSERT_EQ(row.size(), t.columns.size());
    EXPECT_DOUBLE_EQ(row[0], time);
    double watts = 0;
    for (std::size_t c = 2; c < row.size(); ++c) {
      joules[c] += row[c] * (row[1] - row[0]);
      if (c + 1 < row.size()) watts += row[c];
    }
    EXPECT_DOUBLE_EQ(watts, row.back());
    time = row[1];
  }
  EXPECT_DOUBLE_EQ(time, to_seconds(r.run.end).value());
  for (std::size_t c = 0; c < e.categories.size(); ++c) {
    EXPECT_NEAR(joules[c + 2], e.joules[c].value(), 1e-9 * e.total.value()) << e.categories[c];
  }
  EXPECT_NEAR(joules.back(), e.total.value(), 1e-9 * e.total.value());
}

TEST(Power, FallsInTheIntervalsInWhichThingsHappen) {
  MachineConfig m = machine();
  m.energy->idle = {};
  Script s;
  const auto gemm = s.matrix_shape(4000), norm = s.vector_shape(2000);
  const auto segment = s.segment("two", [&](Code& c) {
    const auto g = c.compute(Engine::matrix, gemm);
    c.compute(Engine::vector, norm, 1, {g});
  });
  s.group("A", {tile(0)}, segment);
  // 1 FLOP and 1 element per ps: 0.75 W for 4 ns, then 2 W for 2 ns.
  const Table t = table(Measured(m, s, true).power);
  ASSERT_EQ(t.rows.size(), 6u);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(t.rows[i][2], i < 4 ? 0.75 : 0, 1e-9) << i;
    EXPECT_NEAR(t.rows[i][3], i < 4 ? 0 : 2, 1e-9) << i;
  }
}

TEST(Power, NeedsAnEnergySection) {
  MachineConfig m = machine();
  m.energy.reset();
  Script s = one_gemm();
  s.streams();
  auto* platform = new Platform("machine", m, s.program, {});
  EXPECT_THROW(Power(m, s.program, *platform), InputError);
}

}  // namespace
}  // namespace tilewright::test
