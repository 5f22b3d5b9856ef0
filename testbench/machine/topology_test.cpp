// Tori, wafers, clusters and edge lists: what is read, what is refused, which ways lead where.
#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/subprocess.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/route_table.h>
#include <tilewright/machine/topology.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

const std::string kTile = R"(machine: test
tile:
  matrix: { fp16: 16 TFLOP/s }
  vector: { throughput: 512 Gelem/s }
  sram: { capacity: 3 MiB }
)";
const std::string kNoc = "noc: { link_bandwidth: 1024 GB/s, hop_latency: 1 ns }\n";
const std::string kCluster = R"(cluster:
  nodes: 3
  devices: 4
  port_bandwidth: 240 GB/s
  port_latency: 500 ns
  nic_bandwidth: 25 GB/s
  nic_latency: 1 us
)";

MachineConfig read(const std::string& text, const std::string& name = "m.yaml") {
  return read_machine(Document::parse(text, "platform", {}, name));
}
std::string error_of(const std::string& text, const std::string& name = "m.yaml") {
  try {
    read(text, name);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

/// The links of one way, as "(0,0) node0 (1,0)".
std::string way(const MachineConfig& m, std::uint32_t from, std::uint32_t to) {
  const Topology topology(m);
  const RouteTable table(topology, m);
  std::string text = topology.name(from);
  for (std::uint32_t node = from; node != to;) {
    node = topology.link(table.link(node, to)).to;
    text += " " + topology.name(node);
  }
  return text;
}

TEST(Torus, EveryTileHasFourNeighbours) {
  const MachineConfig m = read(kTile + kNoc + "mesh: { tiles_per_die: [4, 3], wrap: torus }\n");
  EXPECT_TRUE(m.torus);
  const Topology t(m);
  for (std::uint32_t tile = 0; tile < 12; ++tile) {
    std::set<std::uint32_t> neighbours;
    for (unsigned d = 0; d < kDirections; ++d) {
      EXPECT_TRUE(t.link(tile, d).works);
      neighbours.insert(t.link(tile, d).to);
      EXPECT_EQ(t.link_back(tile, d).to, tile);
      EXPECT_EQ(t.from(t.first_link(tile) + d), tile);
    }
    EXPECT_THAT(neighbours, SizeIs(4));
  }
  EXPECT_EQ(t.link(index(m.tile(3, 1)), 0).to, index(m.tile(0, 1)));
  EXPECT_TRUE(t.wraps(index(m.tile(3, 1)), Direction::east));
  EXPECT_FALSE(t.wraps(index(m.tile(2, 1)), Direction::east));
}

TEST(Torus, HopsTakeTheShorterWayAndShareOutEqualOnes) {
  const MachineConfig m = read(kTile + kNoc + "mesh: { tiles_per_die: [6, 5], wrap: torus }\n");
  const Topology t(m);
  const auto hops = [&](int x0, int y0, int x1, int y1) {
    return t.hops(index(m.tile(x0, y0)), index(m.tile(x1, y1)));
  };
  EXPECT_EQ(hops(0, 0, 5, 4), std::pair(-1, -1));
  EXPECT_EQ(hops(5, 4, 0, 0), std::pair(1, 1));
  EXPECT_EQ(hops(1, 1, 3, 3), std::pair(2, 2));
  EXPECT_EQ(hops(0, 0, 0, 3), std::pair(0, -2));
  EXPECT_EQ(hops(0, 0, 3, 0).first, 3);   // half way round: east from even columns,
  EXPECT_EQ(hops(3, 0, 0, 0).first, -3);  // west from odd ones
  // Mirrored: x becomes 5 - x, so even becomes odd and east becomes west.
  for (int x = 0; x < 6; ++x) {
    for (int to = 0; to < 6; ++to) {
      EXPECT_EQ(hops(x, 0, to, 0).first, -hops(5 - x, 0, 5 - to, 0).first);
    }
  }
}

TEST(Torus, WrapLinksAreOfTheKindOfTheirBoundary) {
  const MachineConfig m =
      read(kTile + kNoc + "mesh: { dies: [2, 1], tiles_per_die: [2, 3], wrap: torus }\n");
  const Topology t(m);
  EXPECT_EQ(t.link(index(m.tile(3, 0)), 0).kind, LinkKind::die);   // from the last die to the first
  EXPECT_EQ(t.link(index(m.tile(1, 0)), 3).kind, LinkKind::tile);  // one die in y
}

TEST(Torus, IsRefusedWhereItHasNoMeaning) {
  EXPECT_THAT(error_of(kTile + kNoc + "mesh: { tiles_per_die: [4, 2], wrap: torus }\n"),
              AllOf(HasSubstr("mesh.wrap"), HasSubstr("sides of 1 or of at least 3 tiles")));
  EXPECT_THAT(error_of(kTile + kNoc + "mesh: { tiles_per_die: [4, 3], wrap: round }\n"),
              HasSubstr("torus"));
  EXPECT_THAT(
      error_of(kTile + "mesh: { tiles_per_die: [4, 4], wrap: torus }\n"
                       "noc: { link_bandwidth: 1 GB/s, hop_latency: 1 ns, routing: odd-even }\n"),
      HasSubstr("allowed on a torus: xy, yx, o1turn"));
  EXPECT_THAT(error_of(kTile + kNoc +
                       "mesh: { tiles_per_die: [4, 4], wrap: torus }\n"
                       "defects: { dead_tiles: [[1, 1]] }\n"),
              HasSubstr("not possible on a torus"));
  EXPECT_EQ(error_of(kTile + kNoc + "mesh: { tiles_per_die: [4, 1], wrap: torus }\n"), "");
}

TEST(Wafers, HaveLinksOfTheirOwn) {
  const MachineConfig m = read(kTile +
                               "mesh: { wafers: [2, 1], dies: [2, 1], tiles_per_die: [2, 1] }\n"
                               "noc: { link_bandwidth: 1024 GB/s, hop_latency: 1 ns, "
                               "die_link_bandwidth: 256 GB/s, wafer_link_bandwidth: 64 GB/s, "
                               "wafer_hop_latency: 50 ns }\n");
  EXPECT_EQ(m.tiles(), 8);
  EXPECT_EQ(m.dies_x, 4);
  const Topology t(m);
  std::string kinds;
  for (std::uint32_t tile = 0; tile < 7; ++tile) {
    kinds += std::to_string(static_cast<int>(t.link(tile, 0).kind));
  }
  EXPECT_EQ(kinds, "0102010");
  const auto names = m.link_kinds();
  ASSERT_THAT(names, SizeIs(3));
  EXPECT_EQ(names[2].name, "wafer-to-wafer");
  EXPECT_EQ(names[2].link.bandwidth, Bandwidth(64e9));
  EXPECT_EQ(names[2].link.latency, Seconds(50e-9));
  // Left out, they are as those between dies.
  const MachineConfig plain =
      read(kTile + kNoc + "mesh: { wafers: [2, 1], tiles_per_die: [2, 1] }\n");
  EXPECT_EQ(plain.link_kinds()[2].link.bandwidth, Bandwidth(1024e9));
}

TEST(Cluster, JoinsDevicesByTheirNodeAndNodesByTheNetwork) {
  const MachineConfig m = read(kTile + kCluster);
  EXPECT_EQ(m.width(), 4);
  EXPECT_EQ(m.height(), 3);
  EXPECT_EQ(m.die(m.tile(3, 2)), 2);
  const Topology t(m);
  EXPECT_EQ(t.nodes(), 12u + 3u + 1u);
  EXPECT_EQ(t.links(), 2u * (12 + 12));
  EXPECT_EQ(way(m, 0, 3), "(0,0) node0 (3,0)");
  EXPECT_EQ(way(m, 1, 11), "(1,0) network (3,2)");
  EXPECT_THAT(RouteTable(t, m).dependency_cycle(t), IsEmpty());
}

TEST(Cluster, ATaperedNetworkHasFewerUplinks) {
  const MachineConfig m = read(kTile + kCluster +
                               "  taper: 2\n"
                               "  fabric_latency: 2 us\n");
  const Topology t(m);
  // 3 nodes, a leaf for each, 4 / 2 core switches.
  EXPECT_EQ(t.nodes(), 12u + 3u + 3u + 2u);
  EXPECT_EQ(t.links(), 2u * (12 + 12 + 3 * 2));
  EXPECT_EQ(m.link_kinds()[2].link.bandwidth, Bandwidth(25e9));
  EXPECT_EQ(m.link_kinds()[2].link.latency, Seconds(2e-6));
  // Destinations take the core switches in turn.
  EXPECT_EQ(way(m, 0, 4), "(0,0) leaf0 core0 leaf1 (0,1)");
  EXPECT_EQ(way(m, 0, 5), "(0,0) leaf0 core1 leaf1 (1,1)");
  EXPECT_EQ(way(m, 0, 6), "(0,0) leaf0 core0 leaf1 (2,1)");
  EXPECT_THAT(RouteTable(t, m).dependency_cycle(t), IsEmpty());
  // All three nodes under one leaf need no core.
  EXPECT_EQ(Topology(read(kTile + kCluster + "  taper: 2\n  nodes_per_leaf: 3\n")).nodes(), 16u);
  EXPECT_THAT(error_of(kTile + kCluster + "  taper: 3\n"),
              AllOf(HasSubstr("cluster.taper"), HasSubstr("wanted: a whole number")));
}

TEST(Cluster, OneNodeNeedsNoNetwork) {
  const MachineConfig m = read(kTile +
                               "cluster: { nodes: 1, devices: 8, port_bandwidth: 240 GB/s, "
                               "port_latency: 500 ns }\n");
  EXPECT_EQ(Topology(m).nodes(), 9u);
  EXPECT_THAT(error_of(kTile + "cluster: { nodes: 2, devices: 8, port_bandwidth: 240 GB/s, "
                               "port_latency: 500 ns }\n"),
              HasSubstr("cluster.nic_bandwidth"));
  std::string one = kCluster;
  one.replace(one.find("nodes: 3"), 8, "nodes: 1");
  EXPECT_EQ(Topology(read(kTile + one)).nodes(), 5u);
}

TEST(Cluster, MistakesAreNamed) {
  EXPECT_THAT(error_of(kTile + kCluster + "mesh: { tiles_per_die: [2, 2] }\n"),
              HasSubstr("wanted: one of mesh, cluster, fabric"));
  EXPECT_THAT(error_of(kTile + kCluster + kNoc), HasSubstr("noc.link_bandwidth"));
  EXPECT_THAT(error_of(kTile + kCluster + "noc: { routing: xy }\n"),
              AllOf(HasSubstr("noc.routing"), HasSubstr("shortest")));
  EXPECT_THAT(error_of(kTile + kCluster + "  ports: 3\n"), HasSubstr("cluster.ports"));
  for (const char* key : {"nodes_per_leaf: 2", "fabric_latency: 2 us"}) {
    EXPECT_THAT(error_of(kTile + kCluster + "  " + key + "\n"),
                HasSubstr("without a taper one switch joins all nodes"));
  }
  EXPECT_THAT(
      error_of(kTile + kCluster + "defects: { dead_links: [{ between: [[0, 0], [1, 0]] }] }\n"),
      HasSubstr("a machine with switches has none"));
}

TEST(Cluster, DeadDevicesAreLeftOut) {
  const MachineConfig m = read(kTile + kCluster +
                               "dram: { bandwidth: 100 GB/s, capacity: 1 GiB, latency: 1 ns, "
                               "per_tile: true }\n"
                               "defects: { dead_tiles: [[1, 0]] }\n");
  EXPECT_EQ(m.usable_tiles(), 11);
  EXPECT_THAT(m.dram.sites, SizeIs(11));
  EXPECT_EQ(way(m, 0, 2), "(0,0) node0 (2,0)");
  const auto drams = assign_dram(m);
  EXPECT_THAT(drams[m.tile(1, 0)], IsEmpty());
  EXPECT_THAT(drams[m.tile(2, 0)], ElementsAre(DramId(1)));  // its own
}

TEST(Dram, PerTileStandsAlone) {
  EXPECT_THAT(error_of(kTile + kCluster +
                       "dram: { bandwidth: 100 GB/s, capacity: 1 GiB, latency: 1 ns, "
                       "per_tile: true, sites: [[0, 0]] }\n"),
              AllOf(HasSubstr("dram.sites"), HasSubstr("every tile has a controller already")));
}

/// A machine on the edge list `list`.
struct EdgeList {
  explicit EdgeList(const std::string& list, const std::string& more = "") {
    folder.write("list.yaml", list);
    text = kTile + "fabric: { file: list.yaml }\n" + more;
  }
  MachineConfig machine() const { return read(text, folder.path("m.yaml")); }
  std::string error() const { return error_of(text, folder.path("m.yaml")); }
  testing_support::TemporaryFolder folder;
  std::string text;
};

// The hybrid cube mesh of a DGX-1: two cliques of four, and each tile of one joined with one of the
// other; no way is longer than two hops.
const char* const kCubeMesh = R"(fabric: cube-mesh
tiles: 8
kinds:
  double: { bandwidth: 50 GB/s, latency: 1 us,
            edges: [[0, 3], [1, 2], [4, 7], [5, 6], [0, 4], [1, 5]] }
  single: { bandwidth: 25 GB/s, latency: 1 us,
            edges: [[0, 1], [0, 2], [1, 3], [2, 3], [4, 5], [4, 6], [5, 7], [6, 7], [2, 6],
                    [3, 7]] }
)";

TEST(EdgeList, IsRead) {
  const EdgeList list(kCubeMesh);
  const MachineConfig m = list.machine();
  EXPECT_EQ(m.tiles(), 8);
  EXPECT_EQ(m.height(), 1);
  ASSERT_THAT(m.link_kinds(), SizeIs(2));
  EXPECT_EQ(m.link_kinds()[0].name, "double");
  const Topology t(m);
  EXPECT_EQ(t.links(), 32u);
  const RouteTable table(t, m);
  for (std::uint32_t a = 0; a < 8; ++a) {
    EXPECT_EQ(t.ports(a), 4u);
    for (std::uint32_t b = 0; b < 8; ++b) {
      std::uint32_t node = a, hops = 0;
      for (; node != b; ++hops) node = t.link(table.link(node, b)).to;
      EXPECT_LE(hops, 2u);
    }
  }
  // Of two ways of two hops the one over doubles only; equal ones go by destination in turn.
  EXPECT_EQ(way(m, 3, 4), "(3,0) (0,0) (4,0)");
  EXPECT_EQ(way(m, 0, 5), "(0,0) (1,0) (5,0)");
}

const char* const kRing = R"(fabric: ring
tiles: 6
kinds:
  wire: { bandwidth: 50 GB/s, latency: 1 us,
          edges: [[0, 1], [1, 2], [2, 3], [3, 4], [4, 5], [5, 0]] }
)";

TEST(EdgeList, ARingOfShortestWaysCanDeadlockAndIsRefused) {
  EXPECT_THAT(EdgeList(kRing).error(),
              AllOf(HasSubstr("m.yaml"), HasSubstr("noc.routing 'shortest' can deadlock here"),
                    HasSubstr("(0,0) -> (1,0) -> (2,0)"), HasSubstr("'up-down' cannot")));
  const EdgeList tree(kRing, "noc: { routing: up-down }\n");
  const MachineConfig m = tree.machine();
  const Topology t(m);
  EXPECT_THAT(RouteTable(t, m).dependency_cycle(t), IsEmpty());
  // Tile 0 is the root, 3 the farthest: no way goes down to it and up again.
  EXPECT_EQ(way(m, 1, 5), "(1,0) (0,0) (5,0)");
  EXPECT_EQ(way(m, 2, 4), "(2,0) (1,0) (0,0) (5,0) (4,0)");
  EXPECT_EQ(way(m, 2, 3), "(2,0) (3,0)");
}

TEST(EdgeList, UpDownJoinsEveryPairOfRandomFabrics) {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::srand(seed);
    MachineConfig m;
    m.name = "random";
    m.tiles_x = 10;
    m.noc.routing = "up-down";
    FabricConfig fabric;
    fabric.kinds.push_back({"wire", {Bandwidth(1e9), Seconds(1e-6)}});
    fabric.switches = {"a", "b", "c"};
    std::set<std::pair<std::uint32_t, std::uint32_t>> seen;
    for (std::uint32_t node = 1; node < 13; ++node) {
      for (int i = 0; i < 2; ++i) {
        const auto to = static_cast<std::uint32_t>(std::rand()) % node;
        if (seen.insert({to, node}).second) fabric.edges.push_back({to, node, LinkKind{}});
      }
    }
    m.fabric = fabric;
    const Topology t(m);
    const RouteTable table(t, m);
    EXPECT_THAT(table.dependency_cycle(t), IsEmpty());
    for (std::uint32_t a = 0; a < 10; ++a) {
      for (std::uint32_t b = 0; b < 10; ++b) {
        std::uint32_t node = a;
        for (int hops = 0; node != b; ++hops) {
          ASSERT_LT(hops, 13);
          node = t.link(table.link(node, b)).to;
        }
      }
    }
  }
}

TEST(EdgeList, MistakesAreNamed) {
  const auto with = [](const std::string& edges) {
    return EdgeList(
               "fabric: f\ntiles: 2\nswitches: [s]\nkinds:\n  w: { bandwidth: 1 GB/s, latency: "
               "1 ns, edges: " +
               edges + " }\n")
        .error();
  };
  EXPECT_EQ(with("[[0, 2], [1, 2]]"), "");
  EXPECT_THAT(with("[[0, 3]]"), AllOf(HasSubstr("list.yaml:5"), HasSubstr("there is no node 3"),
                                      HasSubstr("switches 2 to 2")));
  EXPECT_THAT(with("[[0, 0]]"), HasSubstr("joins a node with itself"));
  EXPECT_THAT(with("[[0, 2], [2, 0]]"), HasSubstr("is given twice"));
  EXPECT_THAT(with("[[0, 2]]"), HasSubstr("tile (0,0) cannot reach tile (1,0)"));
  EXPECT_THAT(EdgeList("fabric: f\ntiles: 2\n").error(), HasSubstr("no link joins the tiles"));
  EXPECT_THAT(EdgeList("fabric: f\ntiles: 2\nswitches: [a, a]\n").error(),
              HasSubstr("'a' is given twice"));
  EXPECT_THAT(EdgeList("fabric: f\ntiles: 2\nswitches: ['a b']\n").error(),
              HasSubstr("'a b' is not allowed"));
  EXPECT_THAT(EdgeList("fabric: f\ntiles: 2\nkindz: {}\n").error(),
              AllOf(HasSubstr("list.yaml:3: kindz: unknown key"), HasSubstr("'kinds'")));
  EXPECT_THAT(error_of(kTile + "fabric: { file: no-such.yaml }\n"), HasSubstr("no-such.yaml"));
}

TEST(Platforms, A100) {
  const auto platform = [](const std::string& name) {
    return read_machine(Document::load(
        std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/" + name + ".yaml", "platform"));
  };
  const MachineConfig cluster = platform("a100-cluster"), node = platform("a100-node");
  EXPECT_EQ(cluster.tiles(), 384);
  EXPECT_EQ(node.tiles(), 8);
  EXPECT_DOUBLE_EQ(cluster.peak("bf16").value(), 312e12);
  EXPECT_EQ(node.matrix.table.size(), cluster.matrix.table.size());
  EXPECT_EQ(node.dram.bandwidth, cluster.dram.bandwidth);
  EXPECT_EQ(node.sram.capacity, cluster.sram.capacity);
  EXPECT_EQ(node.link_kinds()[0].link.bandwidth, cluster.link_kinds()[0].link.bandwidth);
  const auto drams = assign_dram(cluster);
  for (std::uint32_t t = 0; t < 384; ++t) {
    EXPECT_THAT(drams[static_cast<TileId>(t)], ElementsAre(static_cast<DramId>(t)));
  }
}

}  // namespace
}  // namespace tilewright
