#include <cmath>
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/sram_model.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

SramBanks strided(std::int64_t banks, std::int64_t stride, std::int64_t interleave = 1) {
  SramBanks b;
  b.banks = banks;
  b.ports = 1;
  b.word = 16;
  b.clock = Frequency(1e9);
  b.stride = stride;
  b.interleave = interleave;
  return b;
}

TEST(SramModel, AStrideMeetsTheBanksThatItsCommonDivisorLeaves) {
  for (const std::int64_t banks : {1, 2, 7, 8, 12}) {
    for (const std::int64_t stride : {1, 2, 3, 4, 6, 8, 9, 24}) {
      EXPECT_DOUBLE_EQ(bank_efficiency(strided(banks, stride), 1),
                       1.0 / static_cast<double>(std::gcd(banks, stride)))
          << banks << " banks, stride " << stride;
    }
  }
  // Words 0, 4, 8, 12 of runs of four lie in banks 0, 1, 2, 3; every second run in half of them.
  EXPECT_DOUBLE_EQ(bank_efficiency(strided(4, 4, 4), 1), 1);
  EXPECT_DOUBLE_EQ(bank_efficiency(strided(4, 8, 4), 1), 0.5);
  // Words 0, 3, 6, 9 of 4 banks by twos, a period of 8: banks 0 1 3 0 2 3 1 2.
  EXPECT_DOUBLE_EQ(bank_efficiency(strided(4, 3, 2), 1), 1);
  // Words 0, 3, 0, 3 ... of 2 banks by threes, or 6 words: each bank once.
  EXPECT_DOUBLE_EQ(bank_efficiency(strided(2, 3, 3), 1), 1);
}

TEST(SramModel, RandomAccessesCollideAsBallsInBins) {
  SramBanks b = strided(1, 1);
  b.access = SramAccess::random;
  EXPECT_EQ(bank_efficiency(b, 1), 1);
  EXPECT_EQ(bank_efficiency(b, 4), 1);
  for (const std::int64_t banks : {2, 8, 64, 1024}) {
    b.banks = banks;
    const auto n = static_cast<double>(banks);
    EXPECT_NEAR(bank_efficiency(b, 1), 1 - std::pow(1 - 1 / n, n), 1e-12);
  }
  EXPECT_NEAR(bank_efficiency(b, 1), 1 - std::exp(-1.0), 1e-3);
  // Two banks of two ports: four requests, X binomial (4, 1/2): min(X, 2) is 0, 1, 2 with 1, 4 and
  // 11 of 16.
  b.banks = 2;
  EXPECT_NEAR(bank_efficiency(b, 2), (4 + 2 * 11) / 16.0 / 2, 1e-12);
}

TEST(SramModel, MorePortsAreNeverSlower) {
  for (const SramAccess access : {SramAccess::strided, SramAccess::random}) {
    for (const std::int64_t banks : {1, 3, 16, 256}) {
      for (const std::int64_t stride : {1, 2, 6}) {
        double before = 0;
        for (std::int64_t ports = 1; ports <= 64; ++ports) {
          SramBanks b = strided(banks, stride);
          b.access = access;
          b.ports = ports;
          SramConfig sram;
          apply_banks(b, sram);
          EXPECT_GT(sram.bandwidth.value(), before) << banks << ' ' << stride << ' ' << ports;
          before = sram.bandwidth.value();
        }
      }
    }
  }
}

TEST(SramModel, ReadsAndWritesShareTheirPortsOrHaveTheirOwn) {
  SramConfig sram;
  SramBanks b = strided(8, 1);
  apply_banks(b, sram);  // 8 banks of 16 bytes at 1 GHz
  EXPECT_DOUBLE_EQ(sram.bandwidth.value(), 128e9);
  EXPECT_DOUBLE_EQ(sram.seconds(128e9, 64e9), 1.5);
  b.ports = 0;
  b.read_ports = 2;
  b.write_ports = 1;
  apply_banks(b, sram);
  EXPECT_TRUE(sram.bandwidth.is_unlimited());
  EXPECT_DOUBLE_EQ(sram.seconds(256e9, 64e9), 1);
  EXPECT_DOUBLE_EQ(sram.seconds(128e9, 128e9), 1);
  EXPECT_EQ(SramConfig().seconds(1e9, 1e9), 0);
}

MachineConfig machine(const std::string& sram, const std::string& vector = "512 Gelem/s") {
  return read_machine(
      Document::parse("machine: m\nmesh: { tiles_per_die: [2, 1] }\ntile:\n"
                      "  matrix: { fp16: 16 TFLOP/s, int8: 32 TFLOP/s }\n"
                      "  vector: { throughput: " +
                          vector + " }\n  sram: { capacity: 3 MiB" + sram +
                          " }\n"
                          "noc: { link_bandwidth: 1 TB/s, hop_latency: 1 ns }\n",
                      "platform", {}, "m.yaml"));
}

std::string error_of(const std::string& sram) {
  try {
    machine(sram);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(SramModel, BanksAreRead) {
  EXPECT_DOUBLE_EQ(
      machine(", banks: 16, ports: 1, word: 32 B, clock: 1 GHz").sram.bandwidth.value(), 512e9);
  const SramConfig apart =
      machine(
          ", banks: 16, read_ports: 2, write_ports: 1, word: 32 B, clock: 1 GHz, stride: 4, "
          "contention: true")
          .sram;
  EXPECT_DOUBLE_EQ(apart.read.value(), 2 * 512e9 / 4);
  EXPECT_DOUBLE_EQ(apart.write.value(), 512e9 / 4);
  EXPECT_TRUE(apart.contention);
  EXPECT_NEAR(machine(", banks: 2, ports: 1, word: 32 B, clock: 1 GHz, access: random")
                  .sram.bandwidth.value(),
              48e9, 1);
  const SramConfig plain = machine("").sram;
  EXPECT_TRUE(plain.bandwidth.is_unlimited());
  EXPECT_FALSE(plain.contention);
}

TEST(SramModel, RefusalsNameTheKey) {
  EXPECT_THAT(error_of(", banks: 4"), HasSubstr("sram.read_ports: this key is missing"));
  EXPECT_THAT(error_of(", banks: 4, ports: 1, word: 32 B, clock: 1 GHz, bandwidth: 1 TB/s"),
              AllOf(HasSubstr("sram.bandwidth"), HasSubstr("follows from the banks ('banks')")));
  EXPECT_THAT(error_of(", banks: 4, ports: 1, read_ports: 1, word: 32 B, clock: 1 GHz"),
              HasSubstr("sram.read_ports: 'ports' says already"));
  EXPECT_THAT(error_of(", banks: 4, ports: 1, word: 32 B, interleave: 48 B, clock: 1 GHz"),
              HasSubstr("not a whole number of words"));
  EXPECT_THAT(error_of(", banks: 4, ports: 1, word: 32 B, clock: unlimited"),
              HasSubstr("sram.clock"));
  EXPECT_THAT(error_of(", banks: 4, ports: 1, word: 32 B, clock: 1 GHz, access: random, stride: 2"),
              HasSubstr("random accesses have no stride"));
  EXPECT_THAT(error_of(", bank: 4"), HasSubstr("bank"));
}

TEST(VectorEngine, SpecialFunctionsRunAtTheCommonRateUnlessTheyHaveTheirOwn) {
  EXPECT_EQ(machine("").vector.special_passes(), 1);
  EXPECT_EQ(machine("", "512 Gelem/s, special: 128 Gelem/s").vector.special_passes(), 4);
}

TEST(Dma, OutstandingRequestsAreLimitedWhereTheMachineSaysSo) {
  EXPECT_EQ(machine("").dma.outstanding, 0);
  EXPECT_EQ(machine(" }\n  dma: { outstanding: 4").dma.outstanding, 4);
  EXPECT_THAT(error_of(" }\n  dma: { outstanding: 0"), HasSubstr("dma.outstanding"));
  EXPECT_EQ(machine("").dma.prefetch, 1);
  EXPECT_EQ(machine(" }\n  dma: { prefetch: 0").dma.prefetch, 0);
  EXPECT_THAT(error_of(" }\n  dma: { prefetch: 2"), HasSubstr("dma.prefetch"));
}

}  // namespace
}  // namespace tilewright
