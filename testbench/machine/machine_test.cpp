// Machine descriptions: what is read, what is refused and with which words, DRAM assignment.
#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/machine.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const char* const kSmall = R"(machine: small
mesh: { dies: [2, 1], tiles_per_die: [3, 2] }
tile:
  matrix: { fp16: 16 TFLOP/s }
  vector: { throughput: 512 Gelem/s }
  sram: { capacity: 3 MiB }
noc: { link_bandwidth: 1024 GB/s, hop_latency: 1 ns }
dram: { bandwidth: 256 GB/s, capacity: 256 GiB, latency: 100 ns, per_die: [[0, 1]] }
)";

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

MachineConfig read(const std::string& text, const std::vector<std::string>& set = {}) {
  const Overrides overrides(set);
  const MachineConfig m = read_machine(Document::parse(text, "platform", overrides, "m.yaml"));
  overrides.finish();
  return m;
}

std::string error_of(const std::string& text, const std::vector<std::string>& set = {}) {
  try {
    read(text, set);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

MachineConfig platform(const std::string& name) {
  return read_machine(Document::load(
      std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/" + name + ".yaml", "platform"));
}

TEST(Machine, ReadsValuesAndDefaults) {
  const MachineConfig m = read(kSmall);
  EXPECT_EQ(m.name, "small");
  EXPECT_EQ(m.width(), 6);
  EXPECT_EQ(m.height(), 2);
  EXPECT_EQ(m.tiles(), 12);
  EXPECT_EQ(m.usable_tiles(), 12);
  EXPECT_EQ(m.matrix.model, "peak");
  EXPECT_EQ(m.peak("fp16").value(), 16e12);
  EXPECT_EQ(m.vector.throughput.value(), 512e9);
  EXPECT_EQ(m.sram.capacity.value(), 3.0 * 1024 * 1024);
  EXPECT_TRUE(m.sram.bandwidth.is_unlimited());
  EXPECT_EQ(m.collective_share, 0);
  EXPECT_EQ(m.noc.die_link.bandwidth.value(), 1024e9);
  EXPECT_EQ(m.noc.die_link.latency.value(), 1e-9);
  EXPECT_EQ(m.noc.routing, "xy");
  EXPECT_EQ(m.noc.switching, "cut-through");
  EXPECT_EQ(m.dram.model, "bandwidth");
  EXPECT_EQ(m.dram.policy, DramPolicy::nearest);
  EXPECT_THAT(m.dram.sites, ElementsAre(Pair(0, 1), Pair(3, 1)));
  EXPECT_THAT(m.assumptions, IsEmpty());
}

TEST(Machine, TheSecondMemoryTierIsOptional) {
  EXPECT_THAT(read(kSmall).host.sites, IsEmpty());
  const std::string text = std::string(kSmall) + R"(host:
  bandwidth: 64 GB/s
  capacity: 1 TiB
  latency: 1 us
  policy: interleaved
  per_die: [[2, 0]]
  sites: [[0, 1]]
assumed: { host.latency: "a PCIe round trip" }
)";
  const MachineConfig m = read(text);
  EXPECT_EQ(m.host.model, "bandwidth");
  EXPECT_EQ(m.host.bandwidth.value(), 64e9);
  EXPECT_EQ(m.host.capacity.value(), 0x1p40);
  EXPECT_EQ(m.host.latency.value(), 1e-6);
  EXPECT_EQ(m.host.policy, DramPolicy::interleaved);
  // On every die, then over the mesh; one of them beside a DRAM controller.
  EXPECT_THAT(m.host.sites, ElementsAre(Pair(2, 0), Pair(5, 0), Pair(0, 1)));
  EXPECT_THAT(m.assumptions, ElementsAre("host.latency: a PCIe round trip"));
  const auto controllers = assign_controllers(m, m.host);
  EXPECT_THAT(controllers[m.tile(0, 0)], ElementsAre(DramId{0}, DramId{2}));
  EXPECT_THAT(controllers[m.tile(4, 1)], ElementsAre(DramId{1}));
  EXPECT_THAT(assign_dram(m)[m.tile(0, 0)], ElementsAre(DramId{0}));

  const auto error = [&](const std::string& from, const std::string& to) {
    return error_of(replaced(text, from, to));
  };
  EXPECT_THAT(error("  capacity: 1 TiB\n", ""), HasSubstr("host.capacity: this key is missing"));
  EXPECT_THAT(error("  policy: inter", "  model: banked\n  policy: inter"),
              HasSubstr("host.model: unknown key"));
  EXPECT_THAT(error("per_die: [[2, 0]]\n  sites: [[0, 1]]", "per_die: []"),
              HasSubstr("no such section for a machine without a second memory tier"));
  EXPECT_THAT(error("sites: [[0, 1]]", "sites: [[5, 0]]"), HasSubstr("one port to this memory"));
  EXPECT_THAT(error("64 GB/s", "1 B/s"), HasSubstr("host.bandwidth"));
  EXPECT_THAT(error("assumed: { host.", "assumed: { host.latenci: x, host."),
              HasSubstr("did you mean 'host.latency'?"));
  EXPECT_THAT(error("host.latency: \"a", "dram.part: \"a"),
              HasSubstr("did you mean 'dram.parts'?"));
}

TEST(Machine, NothingIsAssumedOfAnAbsentHost) {
  EXPECT_THAT(error_of(std::string(kSmall) + "assumed: { host.latency: x }\n"),
              HasSubstr("the machine has no host section"));
}

TEST(Machine, OverridesReachEveryLevel) {
  const MachineConfig m = read(kSmall, {"noc.link_bandwidth=512GB/s", "tile.matrix.bf16=8 TFLOP/s",
                                        "mesh.dies=[1,3]", "dram.policy=interleaved"});
  EXPECT_EQ(m.noc.link.bandwidth.value(), 512e9);
  EXPECT_EQ(m.noc.die_link.bandwidth.value(), 512e9);  // its default follows
  EXPECT_EQ(m.peak("bf16").value(), 8e12);
  EXPECT_EQ(m.height(), 6);
  EXPECT_EQ(m.dram.policy, DramPolicy::interleaved);
}

TEST(Machine, GeometryOfTilesAndDies) {
  const MachineConfig m = read(kSmall);
  for (int y = 0; y < m.height(); ++y) {
    for (int x = 0; x < m.width(); ++x) {
      const TileId t = m.tile(x, y);
      EXPECT_EQ(m.x(t), x);
      EXPECT_EQ(m.y(t), y);
      EXPECT_EQ(m.die(t), x / 3);
    }
  }
  EXPECT_TRUE(m.crosses_die(m.tile(2, 0), m.tile(3, 0)));
  EXPECT_FALSE(m.crosses_die(m.tile(1, 0), m.tile(2, 0)));
  EXPECT_EQ(m.hops(m.tile(0, 0), m.tile(5, 1)), 6);
  // A boundary in y counts as one in x does.
  const MachineConfig tall = read(kSmall, {"mesh.dies=[1,2]"});
  EXPECT_TRUE(tall.crosses_die(tall.tile(0, 1), tall.tile(0, 2)));
  EXPECT_FALSE(tall.crosses_die(tall.tile(0, 0), tall.tile(0, 1)));
}

TEST(Machine, SpareTilesRepeatOnEveryDie) {
  const MachineConfig m = read(replaced(kSmall, "[3, 2]", "[3, 2], spare: [[2, 1], [0, 0]]"));
  EXPECT_THAT(m.spare, ElementsAre(Pair(0, 0), Pair(3, 0), Pair(2, 1), Pair(5, 1)));
  EXPECT_EQ(m.usable_tiles(), 8);
  const auto map = m.spare_map();
  for (int i = 0; i < m.tiles(); ++i) {
    EXPECT_EQ(m.is_spare(static_cast<TileId>(i)), map[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(std::count(map.begin(), map.end(), true), 4);
}

TEST(Machine, DramIsOptional) {
  const std::string text(kSmall);
  const MachineConfig m = read(text.substr(0, text.find("dram:")));
  EXPECT_THAT(m.dram.sites, IsEmpty());
  const auto controllers = assign_dram(m);
  EXPECT_EQ(controllers.size(), 12u);
  for (const auto& c : controllers) EXPECT_THAT(c, IsEmpty());
}

TEST(Machine, AnUnsupportedFormatListsTheSupported) {
  try {
    read(kSmall).peak("fp8");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("'small'"), HasSubstr("'fp8'"), HasSubstr("fp16")));
  }
}

TEST(Machine, AssumptionsNameKeysOfTheSchema) {
  const std::string text =
      std::string(kSmall) + "assumed: { dram.latency: typical, noc.hop_latency: one cycle }\n";
  EXPECT_THAT(read(text).assumptions,
              ElementsAre("dram.latency: typical", "noc.hop_latency: one cycle"));
  // What the user sets is no assumption of the file any more.
  EXPECT_THAT(read(text, {"dram.latency=50ns"}).assumptions,
              ElementsAre("noc.hop_latency: one cycle"));
  EXPECT_THAT(error_of(std::string(kSmall) + "assumed: { dram.latenci: x }\n"),
              AllOf(HasSubstr("m.yaml:9"), HasSubstr("did you mean 'dram.latency'")));
  EXPECT_THAT(error_of(std::string(kSmall) + "assumed: { tile.matrix.fp8: x }\n"),
              HasSubstr("gives no such value"));
}

struct Refusal {
  const char* from;
  const char* to;
  const char* expected;
};

TEST(Machine, RefusalsNamePlaceKeyValueAndWhatIsAllowed) {
  const Refusal refusals[] = {
      {"machine: small", "machine: ''", "m.yaml:1: machine"},
      {"dies: [2, 1]", "dies: [2]", "m.yaml:2: mesh.dies: found 1 integers"},
      {"dies: [2, 1]", "dies: [0, 1]", "m.yaml:2: mesh.dies: 0 is out of range"},
      {"dies: [2, 1]", "dies: [4096, 4096]", "at most 16777216"},
      {", tiles_per_die: [3, 2]", "", "mesh.tiles_per_die: this key is missing"},
      {"[3, 2]", "[3, 2], spare: [[3, 0]]", "[3, 0] lies outside the die of 3 × 2 tiles"},
      {"[3, 2]", "[3, 2], spare: [[-1, 0]]", "[-1, 0] lies outside"},
      {"[3, 2]", "[3, 2], spare: [[1, 0], [1, 0]]", "[1, 0] is given twice"},
      {"[3, 2]", "[1, 2], spare: [[0, 0], [0, 1]]", "all 2 tiles of the die are spare"},
      {"{ fp16: 16 TFLOP/s }", "{}", "no number format has a peak rate"},
      {"fp16: 16 TFLOP/s", "fp16: 16", "m.yaml:4: tile.matrix.fp16"},
      {"fp16: 16 TFLOP/s", "fp15: 16 TFLOP/s, fp8: 1 TFLOP/s", "did you mean"},
      {"fp16: 16", "model: systolik, fp16: 16", "peak"},
      {"{ throughput: 512 Gelem/s }", "{}", "tile.vector.throughput"},
      {"3 MiB", "unlimited", "must be finite"},
      {"3 MiB", "2000 PiB", "out of range"},
      {"1 ns", "2 s", "noc.hop_latency: 2.000 s is out of range"},
      {"1 ns", "0.1 ps", "below the resolution"},
      {"1024 GB/s", "1 B/s", "noc.link_bandwidth: 1.000 B/s is too low"},
      {"link_bandwidth", "link_bandwith", "is missing"},
      {"1 ns }", "1 ns, routing: zz }", "noc.routing"},
      {"1 ns }", "1 ns, switching: wormhole }", "noc.switching"},
      {"1 ns }", "1 ns, hops: 3 }", "unknown key 'hops'"},
      {"256 GiB", "unlimited", "m.yaml:8: dram.capacity"},
      {"256 GB/s", "1 kB/s", "dram.bandwidth: 1.000 kB/s is too low"},
      {"per_die: [[0, 1]]", "per_die: []", "no controller is placed"},
      {"per_die: [[0, 1]]", "per_die: [[3, 0]]", "[3, 0] lies outside the die"},
      {"per_die: [[0, 1]]", "sites: [[6, 0]]", "[6, 0] lies outside the mesh of 6 × 2"},
      {"per_die: [[0, 1]]", "sites: [[1, 0], [1, 0]]", "[1, 0] is given twice"},
      {"per_die: [[0, 1]]", "per_die: [[0, 1]], sites: [[3, 1]]", "cannot share it"},
      {"latency: 100 ns, ", "", "dram.latency"},
      {"latency: 100 ns, ", "latency: 100 ns, policy: closest, ", "nearest"},
  };
  for (const Refusal& r : refusals) {
    EXPECT_THAT(error_of(replaced(kSmall, r.from, r.to)), HasSubstr(r.expected)) << r.to;
  }
  EXPECT_THAT(error_of(kSmall, {"noc.link_bandwith=1 GB/s"}), HasSubstr("noc.link_bandwidth"));
}

TEST(Machine, LatencyTimesDiameterMustFitSimulatedTime) {
  EXPECT_THAT(error_of(kSmall, {"mesh.dies=[1,1]", "mesh.tiles_per_die=[4000000,1]",
                                "noc.hop_latency=1s", "dram.per_die=[[0,0]]"}),
              HasSubstr("overflows simulated time"));
}

std::map<std::uint32_t, int> clients(const MachineConfig& m) {
  std::map<std::uint32_t, int> result;
  const auto controllers = assign_dram(m);
  for (int i = 0; i < m.tiles(); ++i) {
    const TileId t = static_cast<TileId>(i);
    EXPECT_THAT(controllers[t], SizeIs(1));
    const DramId d = controllers[t].front();
    // Nearest indeed.
    const auto hops = [&](DramId id) {
      int least = m.tiles();
      for (const auto& [x, y] : m.dram.ports(id)) least = std::min(least, m.hops(t, m.tile(x, y)));
      return least;
    };
    for (std::uint32_t other = 0; other < m.dram.sites.size(); ++other) {
      EXPECT_LE(hops(d), hops(static_cast<DramId>(other)));
    }
    if (!m.is_spare(t)) ++result[index(d)];
  }
  return result;
}

TEST(AssignDram, NearestBalancesTies) {
  for (const char* sites : {"[[0, 0], [5, 1]]", "[[0, 0], [2, 0]]", "[[1, 0], [1, 1], [4, 0]]"}) {
    const MachineConfig m =
        read(replaced(kSmall, "per_die: [[0, 1]]", std::string("sites: ") + sites));
    int sum = 0;
    for (const auto& c : clients(m)) sum += c.second;
    EXPECT_EQ(sum, m.tiles());
  }
  // A column halfway between two controllers is shared out evenly.
  const MachineConfig m =
      read(kSmall, {"mesh.dies=[1,1]", "mesh.tiles_per_die=[3,4]", "dram.per_die=[[0,0],[2,0]]"});
  EXPECT_THAT(clients(m), ElementsAre(Pair(0, 6), Pair(1, 6)));
}

TEST(AssignDram, InterleavedUsesTheDieOrElseAll) {
  const MachineConfig m =
      read(replaced(kSmall, "per_die: [[0, 1]]", "policy: interleaved, sites: [[1, 0], [2, 1]]"));
  const auto controllers = assign_dram(m);
  const MachineConfig both = read(replaced(
      kSmall, "per_die: [[0, 1]]", "policy: interleaved, per_die: [[0, 0]], sites: [[5, 1]]"));
  const auto own = assign_dram(both);
  for (int i = 0; i < m.tiles(); ++i) {
    const TileId t = static_cast<TileId>(i);
    EXPECT_THAT(controllers[t], ElementsAre(DramId{0}, DramId{1}));
    if (both.die(t) == 0) {
      EXPECT_THAT(own[t], ElementsAre(DramId{0}));
    } else {
      EXPECT_THAT(own[t], ElementsAre(DramId{1}, DramId{2}));
    }
  }
}

// The west side has two tiles, the north side six, of which the corner is the west's.
TEST(AssignDram, ConcentratedEdges) {
  const auto edges = [](const std::string& text) {
    return replaced(kSmall, "per_die: [[0, 1]]", "edges: " + text);
  };
  const MachineConfig m = read(edges("{ north: 2, west: 1 }"));
  EXPECT_THAT(m.dram.sites, ElementsAre(Pair(0, 0), Pair(1, 0), Pair(3, 0)));
  EXPECT_THAT(m.dram.ports(DramId{0}), ElementsAre(Pair(0, 0), Pair(0, 1)));
  EXPECT_THAT(m.dram.ports(DramId{1}), ElementsAre(Pair(1, 0), Pair(2, 0)));
  EXPECT_THAT(m.dram.ports(DramId{2}), ElementsAre(Pair(3, 0), Pair(4, 0), Pair(5, 0)));
  const auto controllers = assign_dram(m);
  EXPECT_THAT(controllers[m.tile(0, 1)], ElementsAre(DramId{0}));
  EXPECT_THAT(controllers[m.tile(2, 1)], ElementsAre(DramId{1}));
  EXPECT_THAT(controllers[m.tile(5, 1)], ElementsAre(DramId{2}));

  // Interleaved: what has a port on the die.
  const MachineConfig spread = read(edges("{ south: 1, east: 1 }, policy: interleaved"));
  EXPECT_THAT(assign_dram(spread)[spread.tile(0, 0)], ElementsAre(DramId{1}));
  EXPECT_THAT(assign_dram(spread)[spread.tile(3, 0)], ElementsAre(DramId{0}, DramId{1}));

  EXPECT_THAT(
      error_of(edges("{ west: 3 }")),
      AllOf(HasSubstr("dram.edges.west"), HasSubstr("3 controllers, but this side has 2 tiles")));
  EXPECT_THAT(error_of(edges("{ left: 1 }")), HasSubstr("left"));
  EXPECT_THAT(error_of(edges("{}")), HasSubstr("no controller is placed"));
}

TEST(Platforms, Tx8Wafer) {
  const MachineConfig m = platform("tx8-wafer");
  EXPECT_EQ(m.tiles(), 320);
  EXPECT_EQ(m.width(), 20);
  EXPECT_EQ(m.height(), 16);
  EXPECT_DOUBLE_EQ(m.peak("fp16").value() * m.tiles(), 5.12e15);
  EXPECT_EQ(m.sram.capacity.value(), 3.0 * (1 << 20));
  EXPECT_EQ(m.noc.link.bandwidth.value(), 1024e9);
  EXPECT_EQ(m.noc.die_link.bandwidth.value(), 256e9);
  EXPECT_THAT(m.dram.sites, SizeIs(80));
  const auto served = clients(m);
  EXPECT_THAT(served, SizeIs(80));
  for (const auto& c : served) EXPECT_EQ(c.second, 4);
  const auto controllers = assign_dram(m);
  for (int i = 0; i < m.tiles(); ++i) {
    const TileId t = static_cast<TileId>(i);
    const auto [x, y] = m.dram.sites[index(controllers[t].front())];
    EXPECT_EQ(m.die(t), m.die(m.tile(x, y))) << "tile " << i << " leaves its die for DRAM";
  }
  EXPECT_FALSE(m.assumptions.empty());
}

TEST(Platforms, Tx8DieIsOneDieOfTheWafer) {
  const MachineConfig die = platform("tx8-die"), wafer = platform("tx8-wafer");
  EXPECT_EQ(die.tiles(), 16);
  EXPECT_EQ(die.matrix.peak.size(), wafer.matrix.peak.size());
  for (const auto& p : die.matrix.peak) EXPECT_EQ(p.second, wafer.peak(p.first));
  EXPECT_EQ(die.vector.throughput, wafer.vector.throughput);
  EXPECT_EQ(die.sram.capacity, wafer.sram.capacity);
  EXPECT_EQ(die.sram.bandwidth, wafer.sram.bandwidth);
  EXPECT_EQ(die.noc.link.bandwidth, wafer.noc.link.bandwidth);
  EXPECT_EQ(die.dram.bandwidth, wafer.dram.bandwidth);
  EXPECT_EQ(die.dram.latency, wafer.dram.latency);
  EXPECT_THAT(die.dram.sites, ElementsAre(Pair(0, 1), Pair(3, 1), Pair(0, 2), Pair(3, 2)));
}

TEST(Platforms, DojoTile) {
  const MachineConfig m = platform("dojo-tile");
  EXPECT_EQ(m.tiles(), 25 * 360);
  EXPECT_EQ(m.usable_tiles(), 25 * 354);
  EXPECT_NEAR(m.peak("bf16").value() * m.usable_tiles(), 9e15, 0.1e15);  // 9 PFLOP/s per tile
  EXPECT_NEAR(m.peak("fp32").value() * 354, 22.6e12, 0.1e12);
  EXPECT_THAT(m.dram.sites, SizeIs(10));
  const auto served = clients(m);
  for (const auto& c : served) EXPECT_NEAR(c.second, 885, 45);
}

}  // namespace
}  // namespace tilewright
