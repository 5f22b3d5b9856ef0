// Loads of links over time, and who causes them: a run small enough to follow by hand.
#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/observe/link_loads.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

/// Tile 0 sends 3000 bytes and then 1000 to tile 2, by tile 1, which sends 500 to tile 2 after
/// them. 1 byte per ps, hops of 2 ns.
struct Watched {
  Watched() : machine(mesh(3, 1)) {
    script.name("reduce");  // of all messages
    const std::uint16_t a = script.channel("a"), b = script.channel("b");
    const auto send = script.segment("send", [&](Code& c) {
      c.send(a, 0, {3000}, {}, Cause::tensor);
      c.send(a, 0, {1000}, {}, Cause::data);
    });
    const auto late = script.matrix_shape(10000);
    const auto pass = script.segment("pass", [&](Code& c) {
      const auto wait = c.compute(Engine::matrix, late);
      c.send(b, 0, {500}, {wait}, Cause::tensor);
    });
    const auto receive = script.segment("receive", [&](Code& c) {
      c.recv(a, 0, {3000}, {}, Cause::tensor);
      c.recv(a, 0, {1000}, {}, Cause::data);
      c.recv(b, 1, {500}, {}, Cause::tensor);
    });
    script.group("A", {tile(0)}, send).peers = {{tile(2)}};
    script.group("B", {tile(1)}, pass).peers = {{tile(2)}};
    script.group("C", {tile(2)}, receive).peers = {{tile(0)}, {tile(1)}};
    script.streams();
    platform = new Platform("machine", machine, script.program, {});
    loads = new LinkLoads(machine, script.program, *platform);
    platform->run();
  }
  MachineConfig machine;
  Script script;
  Platform* platform;
  LinkLoads* loads;
};

TEST(LinkLoads, CsvHoldsEveryIntervalOfEveryUsedLink) {
  Watched w;
  const Picoseconds end = w.platform->statistics().end;
  EXPECT_EQ(end, 12500u);  // 10000 + 500 + 2000
  std::ostringstream out;
  w.loads->write_csv(out, end);
  std::istringstream lines(out.str());
  std::vector<std::string> rows;
  for (std::string line; std::getline(lines, line);) rows.push_back(line);
  ASSERT_EQ(rows.size(), 3u);
  // Intervals of 1 ns; the last one is cut off by the end.
  EXPECT_EQ(rows[0],
            "from,to,kind,bytes,busy,0,1e-09,2e-09,3e-09,4e-09,5e-09,6e-09,7e-09,8e-09,9e-09,1e-08,"
            "1.1e-08,1.2e-08");
  EXPECT_EQ(rows[1], "\"(0,0)\",\"(1,0)\",on-die,4000,0.32,1,1,1,1,0,0,0,0,0,0,0,0,0");
  EXPECT_EQ(rows[2], "\"(1,0)\",\"(2,0)\",on-die,4500,0.36,0,0,1,1,1,1,0,0,0,0,0.5,0,0");
}

TEST(LinkLoads, TheHottestLinkNamesItsFlows) {
  Watched w;
  const HottestLink h = w.loads->hottest(w.platform->statistics().end);
  EXPECT_EQ(h.from, "(1,0)");
  EXPECT_EQ(h.to, "(2,0)");
  EXPECT_DOUBLE_EQ(h.busy, 4500.0 / 12500);
  EXPECT_EQ(h.by_cause[static_cast<std::size_t>(Cause::tensor)], Bytes(3500));
  EXPECT_EQ(h.by_cause[static_cast<std::size_t>(Cause::data)], Bytes(1000));
  ASSERT_EQ(h.flows.size(), 3u);
  EXPECT_EQ(h.all_flows, 3u);
  EXPECT_EQ(h.flows[0].from, "(0,0)");
  EXPECT_EQ(h.flows[0].to, "(2,0)");
  EXPECT_EQ(h.flows[0].cause, Cause::tensor);
  EXPECT_EQ(h.flows[0].name, "reduce");
  EXPECT_EQ(h.flows[0].bytes, Bytes(3000));
  EXPECT_EQ(h.flows[2].from, "(1,0)");
}

// Long runs have wider intervals: at most 128, and the busy time stays the same.
TEST(LinkLoads, IntervalsGrowWithTheRun) {
  MachineConfig m = mesh(2, 1);
  Script s = one_message(tile(0), tile(1), 10'000'000, 10'000'000);
  s.streams();
  auto* platform = new Platform("machine", m, s.program, {});
  auto* loads = new LinkLoads(m, s.program, *platform);
  platform->run();
  const Picoseconds end = platform->statistics().end;
  std::ostringstream out;
  loads->write_csv(out, end);
  const std::string header = out.str().substr(0, out.str().find('\n'));
  const auto columns = std::count(header.begin(), header.end(), ',') - 4;
  EXPECT_GE(columns, 64);
  EXPECT_LE(columns, 128);
  EXPECT_THAT(out.str(), HasSubstr(",10000000,0.9998,1,1,1"));
}

TEST(HeatMap, DrawsEveryTileAndLinkOnce) {
  Watched w;
  const std::string svg = heat_map(w.machine, w.platform->statistics());
  const auto count = [&svg](const std::string& what) {
    int n = 0;
    for (std::size_t at = svg.find(what); at != std::string::npos; at = svg.find(what, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("<title>tile ("), 3);
  EXPECT_EQ(count(" to ("), 4);
  EXPECT_THAT(svg, HasSubstr("<title>(1,0) to (2,0): busy 36.0 %"));
  EXPECT_THAT(svg, HasSubstr("0 % to 36.0 %</text>\n</svg>\n"));
}

TEST(HeatMap, NeedsAMesh) {
  MachineConfig m = mesh(2, 1);
  m.fabric.emplace();
  EXPECT_THROW(heat_map(m, RunStatistics()), InputError);
}

}  // namespace
}  // namespace tilewright::test
