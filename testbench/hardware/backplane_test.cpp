// Platforms by hand that do not match their machine's description.
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/hardware/backplane.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

enum class Lack { nothing, tile, dram, host, link };

/// Two tiles, a DRAM and a host controller, with one part left out: what running them says.
std::string run_without(Lack lack, Fidelity fidelity) {
  return in_child([&] {
    MachineConfig m = mesh(2, 1);
    m.dram.sites = {{0, 0}};
    m.host = m.dram;
    m.host.sites = {{1, 0}};
    Script s = one_message(TileId{0}, TileId{1}, 1000, 1000);
    s.streams();
    BackplaneOptions options;
    options.fidelity = fidelity;
    Backplane backplane(m, s.program, options);
    Tile a("a", backplane.tile(TileId{0})), b("b", backplane.tile(TileId{1}));
    backplane.connect(a);
    if (lack != Lack::tile) backplane.connect(b);
    backplane.connect(a, Direction::east, b);
    if (lack != Lack::link) backplane.connect(b, Direction::west, a);
    std::unique_ptr<DramPort> dram_port, host_port;
    DramController dram("dram", backplane.dram_controller(DramId{0}));
    DramController host("host", backplane.host_controller(DramId{0}));
    if (lack != Lack::dram) {
      dram_port = std::make_unique<DramPort>("dram_port", backplane.dram_port(DramId{0}));
      dram_port->out.bind(dram.in);
    }
    if (lack != Lack::host) {
      host_port = std::make_unique<DramPort>("host_port", backplane.host_port(DramId{0}));
      host_port->out.bind(host.in);
    }
    backplane.run();
    return std::string("runs");
  });
}

TEST(Backplane, NamesWhatAPlatformLacks) {
  for (const Fidelity fidelity : {Fidelity::message, Fidelity::flit}) {
    EXPECT_EQ(run_without(Lack::nothing, fidelity), "runs");
    EXPECT_THAT(run_without(Lack::tile, fidelity), HasSubstr("the platform lacks tile (1,0)"));
    EXPECT_THAT(run_without(Lack::dram, fidelity), HasSubstr("lacks controller 0 of the DRAM"));
    EXPECT_THAT(run_without(Lack::host, fidelity),
                HasSubstr("lacks controller 0 of the host memory"));
    EXPECT_THAT(run_without(Lack::link, fidelity), HasSubstr("lacks the link from (1,0) to (0,0)"));
  }
}

TEST(Backplane, RefusesALinkThatTheMachineLacks) {
  EXPECT_THAT(in_child([] {
                const MachineConfig m = mesh(3, 1);
                Script s = one_message(TileId{0}, TileId{2}, 1000, 1000);
                s.streams();
                Backplane backplane(m, s.program);
                Tile a("a", backplane.tile(TileId{0})), c("c", backplane.tile(TileId{2}));
                backplane.connect(a, Direction::east, c);
                return std::string("connects");
              }),
              HasSubstr("a.router: port 0 of (0,0) leads to (1,0), not to (2,0) (c.router)"));
}

TEST(Backplane, RefusesAPortThatANodeLacks) {
  EXPECT_THAT(in_child([] {
                MachineConfig m = mesh(2, 1);
                FabricConfig f;
                f.kinds = {{"wire", m.noc.link}};
                f.edges = {{0, 1, static_cast<LinkKind>(0)}};
                m.fabric = f;
                m.noc.routing = "shortest";
                Script s = one_message(TileId{0}, TileId{1}, 1000, 1000);
                s.streams();
                Backplane backplane(m, s.program);
                Tile a("a", backplane.tile(TileId{0})), b("b", backplane.tile(TileId{1}));
                backplane.connect(b, Direction::west, a);
                return std::string("connects");
              }),
              HasSubstr("b.router: port 1 of (1,0) leads to nothing, not to (0,0) (a.router)"));
}

}  // namespace
}  // namespace tilewright::test
