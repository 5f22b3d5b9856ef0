// Memory files: what is read, what follows from it, what is refused.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/machine.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMemories = TILEWRIGHT_SOURCE_DIR "/platforms/memories/";

TEST(MemoryPart, PeakAndCapacityOfTheShippedFiles) {
  struct Row {
    const char* file;
    double gigabytes_per_s, gibibytes;
  };
  for (const Row& r : std::vector<Row>{{"ddr4-3200", 25.6, 4},
                                       {"ddr5-4800", 38.4, 16},
                                       {"lpddr4-3200", 12.8, 2},
                                       {"lpddr5-6400", 25.6, 2},
                                       {"gddr6-14", 56, 1},
                                       {"hbm2-2.0", 256, 8},
                                       {"hbm2e-3.2", 409.6, 16},
                                       {"hbm3-6.4", 819.2, 16}}) {
    const MemoryPart p = read_memory_part(Document::load(kMemories + r.file + ".yaml", "memory"));
    EXPECT_DOUBLE_EQ(p.bandwidth().value(), r.gigabytes_per_s * 1e9) << r.file;
    EXPECT_DOUBLE_EQ(p.capacity().value(), r.gibibytes * 1024 * 1024 * 1024) << r.file;
    EXPECT_GT(p.latency().value(), 20e-9) << r.file;
    EXPECT_LT(p.latency().value(), 60e-9) << r.file;
    EXPECT_FALSE(p.assumptions.empty()) << r.file;
  }
}

const char* const kSmall = R"(memory: small
clock: 1 GHz
burst: 32 B
groups: 2
banks: 4
rows: 1024
columns: 16
mapping: row-bank-column-group
timing: { burst: 2, cl: 14, cwl: 7, rcd: 14, rp: 14, ras: 28, ccd_s: 2, rrd_s: 4, faw: 16,
          rtp: 5, wr: 14, wtr_s: 4, rfc: 260 ns, refi: 3.9 us }
)";

MemoryPart read(const std::string& text) {
  return read_memory_part(Document::parse(text, "memory", {}, "mem.yaml"));
}
std::string error_of(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  try {
    read(text.replace(at, from.size(), to));
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(MemoryPart, DefaultsFollowFromWhatIsGiven) {
  const MemoryPart p = read(kSmall);
  EXPECT_EQ(p.timing.rcd_write, 14);
  EXPECT_EQ(p.timing.ccd_l_write, 2);
  EXPECT_EQ(p.timing.wtr_l, 4);
  EXPECT_EQ(p.timing.read_to_write, 14 + 2 + 2 - 7);
  EXPECT_EQ(p.timing.rfc, 260);
  EXPECT_EQ(p.timing.refi, 3900);
  EXPECT_FALSE(p.timing.split_bus);
  EXPECT_THAT(p.mapping, ElementsAre(AddressField::group, AddressField::column, AddressField::bank,
                                     AddressField::row));
}

TEST(MemoryPart, MistakesAreNamed) {
  EXPECT_THAT(error_of(kSmall, "row-bank-column-group", "row-bank-column"),
              AllOf(HasSubstr("mem.yaml:8: mapping"), HasSubstr("leaves out group")));
  EXPECT_THAT(error_of(kSmall, "row-bank-column-group", "row-bank-col-group"),
              AllOf(HasSubstr("'col'"), HasSubstr("column")));
  EXPECT_THAT(error_of(kSmall, "row-bank-column-group", "row-bank-row-column-group"),
              HasSubstr("names row twice"));
  EXPECT_THAT(error_of(kSmall, "faw: 16,", ""), HasSubstr("timing.faw"));
  EXPECT_THAT(error_of(kSmall, "rfc: 260 ns", "rfc: 4 us"), HasSubstr("rfc + rp below refi"));
  EXPECT_THAT(error_of(kSmall, "banks: 4", "banks: 0"), HasSubstr("mem.yaml:5: banks"));
  EXPECT_THAT(error_of(kSmall, "clock: 1 GHz", "clock: unlimited"), HasSubstr("mem.yaml:2: clock"));
  EXPECT_THAT(error_of(kSmall, "burst: 32 B", "burst: 32 B\nrank: 2"), HasSubstr("rank"));
}

MachineConfig machine(const std::string& dram) {
  return read_machine(Document::parse(
      "machine: m\nmesh: { tiles_per_die: [1, 1] }\ntile:\n  matrix: { fp16: 1 TFLOP/s }\n"
      "  vector: { throughput: 512 Gelem/s }\n  sram: { capacity: 3 MiB }\n"
      "noc: { link_bandwidth: 1 TB/s, hop_latency: 1 ns }\ndram: " +
          dram + "\n",
      "platform", {}, TILEWRIGHT_SOURCE_DIR "/platforms/m.yaml"));
}

TEST(MemoryPart, AMachineNamesItsMemoryBesideItself) {
  const MachineConfig m =
      machine("{ model: banked, memory: memories/hbm2-2.0.yaml, parts: 4, per_die: [[0, 0]] }");
  EXPECT_DOUBLE_EQ(m.dram.bandwidth.value(), 4 * 256e9);
  EXPECT_EQ(m.dram.part.channels, 32);
  EXPECT_DOUBLE_EQ(m.dram.latency.value(), 34e-9);
  EXPECT_THAT(m.assumptions, ::testing::Contains(HasSubstr("HBM2-2.0: timing")));
  const MachineConfig other = machine(
      "{ model: banked, memory: memories/ddr4-3200.yaml, mapping: "
      "row-bank-group-column, per_die: [[0, 0]] }");
  EXPECT_EQ(other.dram.part.mapping.front(), AddressField::column);
}

TEST(MemoryPart, KeysOfTheOtherModelAreRefused) {
  const auto error = [](const std::string& dram) -> std::string {
    try {
      machine(dram);
    } catch (const InputError& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error("{ model: banked, per_die: [[0, 0]] }"), HasSubstr("dram.memory"));
  EXPECT_THAT(error("{ model: banked, memory: memories/none.yaml, per_die: [[0, 0]] }"),
              HasSubstr("none.yaml"));
  EXPECT_THAT(error("{ model: banked, memory: memories/ddr4-3200.yaml, latency: 1 ns, "
                    "per_die: [[0, 0]] }"),
              HasSubstr("dram.latency"));
  EXPECT_THAT(error("{ model: banked, memory: memories/ddr4-3200.yaml, parts: 2, "
                    "per_die: [[0, 0]] }"),
              HasSubstr("no channel field"));
}

}  // namespace
}  // namespace tilewright
