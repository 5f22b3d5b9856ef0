// The energy section: what it reads, what its tables give, what is refused.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/machine.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kPlatforms = std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/";

const char* const kMachine = R"(machine: small
mesh: { dies: [2, 1], tiles_per_die: [2, 2] }
tile:
  matrix: { fp16: 16 TFLOP/s }
  vector: { throughput: 512 Gelem/s }
  sram: { capacity: 3 MiB }
noc: { link_bandwidth: 1024 GB/s, hop_latency: 1 ns }
dram: { bandwidth: 256 GB/s, capacity: 256 GiB, latency: 100 ns, per_die: [[0, 1]] }
)";

/// As if the text lay beside the shipped platforms.
MachineConfig read(const std::string& energy, const std::vector<std::string>& set = {}) {
  const Overrides overrides(set);
  const MachineConfig m = read_machine(
      Document::parse(kMachine + energy, "platform", overrides, kPlatforms + "small.yaml"));
  overrides.finish();
  return m;
}

std::string error_of(const std::string& energy, const std::vector<std::string>& set = {}) {
  try {
    read(energy, set);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

MachineConfig platform(const std::string& name, const std::vector<std::string>& set = {}) {
  return read_machine(Document::load(kPlatforms + name + ".yaml", "platform", Overrides(set)));
}

TEST(Energy, NoSectionNoEnergy) { EXPECT_FALSE(read("").energy); }

TEST(Energy, WhatIsNotGivenIsZero) {
  const EnergyConfig e = *read("energy: { matrix: { fp16: 1.5 pJ/MAC } }\n").energy;
  EXPECT_DOUBLE_EQ(e.matrix_flop("fp16").value(), 0.75e-12);
  EXPECT_EQ(e.matrix_flop("bf16").value(), 0);
  EXPECT_EQ(e.vector_element("fp16").value(), 0);
  EXPECT_EQ(e.sram.read.value(), 0);
  ASSERT_EQ(e.links.size(), 2u);
  EXPECT_EQ(e.links[1].wire.value(), 0);
  EXPECT_EQ(e.idle.tile.value(), 0);
}

TEST(Energy, ReadsEveryKey) {
  const EnergyConfig e = *read(R"(energy:
  matrix: { fp16: 1 pJ/FLOP, int8: 0 pJ/MAC }
  vector: { fp32: 3 pJ }
  sram: { read: 1 pJ/B, write: 2 pJ/B }
  dram: { read: 4 pJ/bit, write: 5 pJ/bit }
  links: { on-die: { wire: 1 pJ/bit, router: 2 pJ/B }, die-to-die: { wire: 3 pJ/B } }
  static: { tile: 100 mW, dram: 2 W }
)")
                              .energy;
  EXPECT_DOUBLE_EQ(e.matrix_flop("fp16").value(), 1e-12);
  EXPECT_DOUBLE_EQ(e.vector_element("fp32").value(), 3e-12);
  EXPECT_DOUBLE_EQ(e.sram.read.value(), 1e-12);
  EXPECT_DOUBLE_EQ(e.sram.write.value(), 2e-12);
  EXPECT_DOUBLE_EQ(e.dram.read.value(), 32e-12);
  EXPECT_DOUBLE_EQ(e.dram.write.value(), 40e-12);
  EXPECT_DOUBLE_EQ(e.links[0].wire.value(), 8e-12);
  EXPECT_DOUBLE_EQ(e.links[0].router.value(), 2e-12);
  EXPECT_DOUBLE_EQ(e.links[1].wire.value(), 3e-12);
  EXPECT_DOUBLE_EQ(e.idle.tile.value(), 0.1);
  EXPECT_DOUBLE_EQ(e.idle.dram.value(), 2);
}

TEST(Energy, TablesGiveDefaults) {
  const MachineConfig m = read(R"(energy:
  table: 7nm
  matrix: { fp16: 2 pJ/MAC }
  dram: { table: hbm2, write: 6 pJ/bit }
)");
  const EnergyConfig& e = *m.energy;
  EXPECT_DOUBLE_EQ(e.matrix_flop("fp16").value(), 1e-12);     // the file's own
  EXPECT_DOUBLE_EQ(e.matrix_flop("int8").value(), 0.05e-12);  // the table's
  EXPECT_DOUBLE_EQ(e.sram.write.value(), 1.75e-12);
  EXPECT_DOUBLE_EQ(e.links[1].wire.value(), 4e-12);
  EXPECT_DOUBLE_EQ(e.dram.read.value(), 8 * 3.92e-12);
  EXPECT_DOUBLE_EQ(e.dram.write.value(), 48e-12);
  EXPECT_THAT(m.assumptions, Contains(HasSubstr("energy of 7nm: sram: a write")));
  EXPECT_THAT(m.assumptions, Contains(HasSubstr("energy of HBM2: write: as much")));
  // A path is as good as a name; --set wins.
  EXPECT_DOUBLE_EQ(read("energy: { table: energy/7nm.yaml }\n").energy->sram.read.value(),
                   1.75e-12);
  EXPECT_DOUBLE_EQ(
      read("energy: { table: 7nm }\n", {"energy.sram.read=1pJ/B"}).energy->sram.read.value(),
      1e-12);
  EXPECT_DOUBLE_EQ(read("", {"energy.table=45nm"}).energy->sram.read.value(), 12.5e-12);
}

TEST(Energy, SmallerNodesTakeLess) {
  std::vector<EnergyConfig> nodes;
  for (const char* node : {"45nm", "28nm", "16nm", "12nm", "7nm"}) {
    nodes.push_back(*read(std::string("energy: { table: ") + node + " }\n").energy);
  }
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    for (const auto& [format, energy] : nodes[i].matrix) {
      EXPECT_LT(energy, nodes[i - 1].matrix_flop(format)) << i << ' ' << format;
    }
    for (const auto& [format, energy] : nodes[i].vector) {
      EXPECT_LT(energy, nodes[i - 1].vector_element(format)) << i << ' ' << format;
    }
    EXPECT_LT(nodes[i].sram.read, nodes[i - 1].sram.read);
    EXPECT_LT(nodes[i].links[0].wire, nodes[i - 1].links[0].wire);
  }
  // Horowitz' figures for 45 nm: fp32 3.7 + 0.9 pJ, 64 bits of SRAM 100 pJ.
  EXPECT_DOUBLE_EQ(nodes[0].matrix_flop("fp32").value(), 2.3e-12);
  EXPECT_DOUBLE_EQ(nodes[0].sram.read.value() * 8, 100e-12);
}

TEST(Energy, EveryShippedTableReads) {
  int tables = 0;
  for (const auto& file : std::filesystem::directory_iterator(kPlatforms + "energy")) {
    const std::string name = file.path().stem().string();
    const bool node = name.find("nm") != std::string::npos;
    const MachineConfig m = read(node ? "energy: { table: " + name + " }\n"
                                      : "energy: { dram: { table: " + name + " } }\n");
    EXPECT_GT((node ? m.energy->sram : m.energy->dram).read, EnergyPerByte(0)) << name;
    EXPECT_THAT(m.assumptions, Not(IsEmpty())) << name;
    ++tables;
  }
  EXPECT_EQ(tables, 11);
}

TEST(Energy, EveryShippedPlatformHasIt) {
  for (const char* name : {"tx8-die", "tx8-wafer", "dojo-tile", "a100-node", "a100-cluster"}) {
    const MachineConfig m = platform(name);
    ASSERT_TRUE(m.energy) << name;
    for (const auto& [format, peak] : m.matrix.peak) {
      EXPECT_GT(m.energy->matrix_flop(format), EnergyPerFlop(0)) << name << ' ' << format;
    }
    for (const LinkEnergy& link : m.energy->links) EXPECT_GT(link.wire, EnergyPerByte(0)) << name;
    EXPECT_GT(m.energy->dram.read, EnergyPerByte(0)) << name;
    EXPECT_GT(m.energy->idle.tile, Watts(0)) << name;
  }
  // Other sizes of a machine keep the energies of links that they lack.
  EXPECT_EQ(platform("a100-cluster", {"cluster.nodes=1"}).energy->links.size(), 1u);
  EXPECT_EQ(platform("tx8-wafer", {"mesh.dies=[1,1]"}).energy->links.size(), 1u);
}

TEST(Energy, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(error_of("energy: { table: 8nm }\n"),
              AllOf(HasSubstr("small.yaml:9: energy.table"), HasSubstr("no table 8nm.yaml"),
                    HasSubstr("7nm"), HasSubstr("hbm2")));
  EXPECT_THAT(error_of("energy: { table: hbm2 }\n"), HasSubstr("technology: this key is missing"));
  EXPECT_THAT(error_of("energy: { dram: { table: 7nm } }\n"),
              HasSubstr("memory: this key is missing"));
  EXPECT_THAT(error_of("energy: { sram: { read: 1 pJ } }\n"),
              AllOf(HasSubstr("energy.sram.read"), HasSubstr("is an energy"), HasSubstr("pJ/bit")));
  EXPECT_THAT(error_of("energy: { matrix: { fp16: 1 pJ/B } }\n"), HasSubstr("pJ/MAC"));
  EXPECT_THAT(error_of("energy: { matrix: { fp61: 1 pJ/MAC } }\n"),
              HasSubstr("unknown key 'fp61'"));
  EXPECT_THAT(error_of("energy: { links: { on-dei: { wire: 1 pJ/B } } }\n"),
              HasSubstr("did you mean 'on-die'"));
  EXPECT_THAT(error_of("energy: { host: { read: 1 pJ/B } }\n"), HasSubstr("unknown key 'host'"));
  EXPECT_THAT(error_of("energy: { static: { switch: 1 W } }\n"), HasSubstr("unknown key 'switch'"));
  EXPECT_THAT(error_of("energy: { static: { tile: -1 W } }\n"), HasSubstr("is negative"));
  for (const char* key :
       {"matrix.fp16=1e307J/FLOP", "vector.fp16=1.1J", "sram.read=1e300J/B", "sram.write=2J/B",
        "dram.read=1J/bit", "dram.write=2J/B", "links.on-die.wire=2J/B", "links.on-die.router=2J/B",
        "static.tile=1e307W", "static.dram=2e6W"}) {
    const std::string set = std::string("energy.") + key, path = set.substr(0, set.find('='));
    EXPECT_THAT(error_of("energy: { table: 7nm }\n", {set}),
                AllOf(HasSubstr("--set " + set + ": " + path), HasSubstr("is out of range"),
                      HasSubstr("wanted: at most 1.000")));
  }
  EXPECT_EQ(read("energy: { static: { tile: 1e6 W } }\n").energy->idle.tile.value(), 1e6);
  EXPECT_THAT(error_of("assumed: { energy.sram.read: x }\n"),
              HasSubstr("the machine has no energy section"));
  EXPECT_THAT(error_of("energy: { table: 7nm }\nassumed: { energy.sram.raed: x }\n"),
              HasSubstr("did you mean 'energy.sram.read'?"));
}

}  // namespace
}  // namespace tilewright
