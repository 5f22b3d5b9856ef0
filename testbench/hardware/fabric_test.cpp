// Tori, wafers and switches, run: closed forms of messages and collectives.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

/// Nodes of four devices. Device ports: 1 byte per ps, 2 ns. Network ports and uplinks: a quarter
/// of that, 10 ns. `uplinks` core switches above one leaf per node; 0: one switch for all.
MachineConfig cluster(int nodes, int uplinks = 0) {
  MachineConfig m = mesh(4, 1);
  m.dies_y = nodes;
  m.noc.routing = "shortest";
  FabricConfig f;
  f.kinds = {{"device port", {Bandwidth(1e12), Seconds(2e-9)}},
             {"network port", {Bandwidth(0.25e12), Seconds(10e-9)}},
             {"leaf uplink", {Bandwidth(0.25e12), Seconds(10e-9)}}};
  const auto tiles = static_cast<std::uint32_t>(m.tiles());
  const auto add_switch = [&](const std::string& name) {
    f.switches.push_back(name);
    return tiles + static_cast<std::uint32_t>(f.switches.size()) - 1;
  };
  std::vector<std::uint32_t> core;
  for (int i = 0; i < uplinks; ++i) core.push_back(add_switch("core" + std::to_string(i)));
  const std::uint32_t network = uplinks == 0 ? add_switch("network") : 0;
  for (int n = 0; n < nodes; ++n) {
    const std::uint32_t inner = add_switch("node" + std::to_string(n));
    const std::uint32_t outer = uplinks == 0 ? network : add_switch("leaf" + std::to_string(n));
    for (int d = 0; d < 4; ++d) {
      f.edges.push_back({index(m.tile(d, n)), inner, static_cast<LinkKind>(0)});
      f.edges.push_back({index(m.tile(d, n)), outer, static_cast<LinkKind>(1)});
    }
    for (const std::uint32_t c : core) f.edges.push_back({outer, c, static_cast<LinkKind>(2)});
  }
  m.fabric = f;
  return m;
}

/// Each flow is a message of `bytes` from one tile to another, all at once: when the last arrives.
Picoseconds flows(const MachineConfig& m,
                  const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs,
                  std::uint64_t bytes) {
  const std::string text = in_child([&] {
    Script s;
    for (const auto& [from, to] : pairs) {
      const std::string name = std::to_string(from) + " to " + std::to_string(to);
      const std::uint16_t c = s.channel(name);
      const auto send = s.segment("send " + name, [&](Code& code) { code.send(c, 0, {bytes}); });
      const auto recv = s.segment("recv " + name, [&](Code& code) { code.recv(c, 0, {bytes}); });
      // A tile runs one group: the ends are all different.
      s.group("from " + name, {tile(from)}, send).peers = {{tile(to)}};
      s.group("to " + name, {tile(to)}, recv).peers = {{tile(from)}};
    }
    return std::to_string(s.run(m).end);
  });
  EXPECT_THAT(text, testing::Not(HasSubstr("exception"))) << text;
  return std::stoull(text);
}

TEST(Switch, ATileAloneComputesAsOnAMesh) {
  MachineConfig m = mesh(1, 1);
  FabricConfig f;
  f.kinds = {{"device port", {Bandwidth(1e12), Seconds(2e-9)}}};
  f.switches = {"s"};
  f.edges = {{0, 1, static_cast<LinkKind>(0)}};
  m.fabric = f;
  m.noc.routing = "shortest";
  m.dram.sites = {{0, 0}};
  Script s;
  s.group("G", {tile(0)}, s.segment("load", [](Code& c) { c.load(1000); }));
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 100000u + 2000);
  ASSERT_EQ(r.links.size(), 2u);
  for (const LinkStatistics& link : r.links) EXPECT_EQ(link.bytes, 0u);
}

TEST(Switch, AMessageTakesTwoHops) {
  EXPECT_EQ(flows(cluster(2), {{0, 3}}, 1000), 2 * 2000u + 1000u);
  EXPECT_EQ(flows(cluster(2), {{0, 7}}, 1000), 2 * 10000u + 4000u);
  EXPECT_EQ(flows(cluster(2, 4), {{0, 7}}, 1000), 4 * 10000u + 4000u);
}

// Two messages into one port: the second has to wait for the first, n / β later.
TEST(Switch, OnePortIsSharedAndSeveralAreNot) {
  const MachineConfig m = cluster(1);
  EXPECT_EQ(flows(m, {{0, 2}, {1, 3}}, 1000), 2 * 2000u + 1000u);
  const std::string both = in_child([&] {
    Script s;
    const std::uint16_t a = s.channel("a"), b = s.channel("b");
    const auto send_a = s.segment("send a", [&](Code& c) { c.send(a, 0, {1000}); });
    const auto send_b = s.segment("send b", [&](Code& c) { c.send(b, 0, {1000}); });
    const auto receive = s.segment("receive", [&](Code& c) {
      c.recv(a, 0, {1000});
      c.recv(b, 1, {1000});
    });
    s.group("A", {tile(0)}, send_a).peers = {{tile(2)}};
    s.group("B", {tile(1)}, send_b).peers = {{tile(2)}};
    s.group("C", {tile(2)}, receive).peers = {{tile(0)}, {tile(1)}};
    return std::to_string(s.run(m).end);
  });
  EXPECT_EQ(both, std::to_string(2 * 2000 + 2 * 1000));
}

// Four flows from one node to another: side by side over a network that does not limit them, two by
// two over half as many uplinks, one after the other over a single one.
TEST(Switch, ATaperedNetworkSharesItsUplinks) {
  const std::vector<std::pair<std::uint32_t, std::uint32_t>> all{{0, 4}, {1, 5}, {2, 6}, {3, 7}};
  EXPECT_EQ(flows(cluster(2), all, 1000), 2 * 10000u + 4000u);
  EXPECT_EQ(flows(cluster(2, 4), all, 1000), 4 * 10000u + 4000u);
  EXPECT_EQ(flows(cluster(2, 2), all, 1000), 4 * 10000u + 2 * 4000u);
  EXPECT_EQ(flows(cluster(2, 1), all, 1000), 4 * 10000u + 4 * 4000u);
}

// 2(p-1)(α + n/(pβ)), α two hops.
TEST(Switch, RingAllReduceMatchesTheClosedForm) {
  Script s;
  const std::uint16_t w = s.channel("ring");
  const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 4, 16000); });
  const std::vector<TileId> tiles{tile(0), tile(1), tile(2), tile(3)};
  s.group("G", tiles, ring).peers = ring_peers(tiles);
  const RunStatistics& r = s.run(cluster(1));
  EXPECT_EQ(r.end, 6u * (2 * 2000 + 4000));
  for (const LinkStatistics& l : r.links) {
    EXPECT_EQ(l.bytes, static_cast<int>(l.kind) == 0 ? 6u * 4000 : 0u);
  }
}

TEST(Switch, DramOfADeviceIsItsOwn) {
  MachineConfig m = cluster(2);
  m.dram.sites = {{0, 0}, {1, 0}};
  Script s;
  const auto load = s.segment("load", [&](Code& c) { c.load(1000); });
  s.group("G", {tile(0), tile(1), tile(2)}, load);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(1)].finish, 100000u + 2000u);
  // The third device has none: it uses the nearest one, by the switch, beside that one's own tile.
  EXPECT_GE(r.tiles[tile(2)].finish, 4000u + 100000u + 2000u + 4000u);
}

TEST(Switch, OrderOfConstructionDoesNotMatter) {
  const auto work = [](bool reverse) {
    return in_child([reverse] {
      Script s;
      const std::uint16_t w = s.channel("ring");
      const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 12, 100000); });
      std::vector<TileId> tiles;
      for (std::uint32_t t = 0; t < 12; ++t) tiles.push_back(tile(t * 5 % 12));
      s.group("G", tiles, ring, 2).peers = ring_peers(tiles);
      return fingerprint(s.run(cluster(3, 2), reverse));
    });
  };
  const std::string once = work(false);
  EXPECT_EQ(once, work(true));
  EXPECT_THAT(once, testing::Not(HasSubstr("exception")));
}

TEST(Switch, CirclesAreRefused) {
  MachineConfig m = mesh(5, 1);
  FabricConfig f;
  f.kinds = {{"wire", {Bandwidth(1e12), Seconds(2e-9)}}};
  for (std::uint32_t t = 0; t < 5; ++t) f.edges.push_back({t, (t + 1) % 5, LinkKind{}});
  m.fabric = f;
  m.noc.routing = "shortest";
  EXPECT_THAT(in_child([&] {
                one_message(tile(0), tile(1), 1, 1).run(m);
                return std::string();
              }),
              HasSubstr("noc.routing: 'shortest' can deadlock"));
  m.noc.routing = "up-down";
  EXPECT_EQ(flows(m, {{0, 2}}, 1000), 2 * 2000u + 1000u);
  m.noc.routing = "xy";
  EXPECT_THAT(in_child([&] {
                one_message(tile(0), tile(1), 1, 1).run(m);
                return std::string();
              }),
              HasSubstr("allowed: shortest, up-down"));
}

TEST(Torus, MessagesTakeTheShorterWayRound) {
  MachineConfig m = mesh(5, 4);
  m.torus = true;
  EXPECT_EQ(flows(m, {{0, 4}}, 1000), 2000u + 1000u);
  EXPECT_EQ(flows(m, {{0, 19}}, 1000), 2 * 2000u + 1000u);
  EXPECT_EQ(flows(m, {{0, 12}}, 1000), 4 * 2000u + 1000u);
}

// A ring all-reduce along a row, whose ends a mesh joins by four hops and a torus by one.
TEST(Torus, ARowIsARing) {
  const auto end = [](bool torus) {
    return in_child([torus] {
      MachineConfig m = mesh(5, 1);
      m.torus = torus;
      Script s;
      const std::uint16_t w = s.channel("ring");
      const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 5, 20000); });
      std::vector<TileId> tiles;
      for (std::uint32_t t = 0; t < 5; ++t) tiles.push_back(tile(t));
      s.group("G", tiles, ring).peers = ring_peers(tiles);
      return std::to_string(s.run(m).end);
    });
  };
  EXPECT_EQ(end(true), std::to_string(8 * (2000 + 4000)));
  EXPECT_GT(std::stoull(end(false)), 8u * (2000 + 4000));
}

TEST(Wafers, ABoundaryCostsItsLink) {
  MachineConfig m = mesh(1, 1);
  m.dies_x = 4;
  m.wafers_x = 2;
  m.noc.wafer_link = {Bandwidth(0.1e12), Seconds(50e-9)};
  // die, wafer, die: 10 + 50 + 10 ns, and 10 ps per byte.
  EXPECT_EQ(flows(m, {{0, 3}}, 1000), 70000u + 10000u);
}

}  // namespace
}  // namespace tilewright::test
