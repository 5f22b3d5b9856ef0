// `tile`: the engines and the SRAM.
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/machine/sram_model.h>

#include "readers.h"

namespace tilewright {
namespace {

constexpr std::int64_t kMostBanks = 4096, kMostPorts = 64, kMostWords = 1024, kMostStride = 1 << 20;

constexpr std::int64_t kMostOutstanding = 1 << 20;

/// The keys that describe banks; none of them goes with a bandwidth.
const std::vector<std::string>& bank_keys() {
  static const std::vector<std::string> keys{"banks",       "ports",  "read_ports",
                                             "write_ports", "word",   "clock",
                                             "interleave",  "access", "stride"};
  return keys;
}

SramBanks read_banks(const Section& sram) {
  SramBanks b;
  b.banks = sram.integer("banks", 1, kMostBanks);
  if (sram.has("ports")) {
    for (const char* key : {"read_ports", "write_ports"}) {
      if (sram.has(key)) {
        sram.fail(key,
                  "'ports' says already how many ports a bank has; wanted: 'ports' for reads "
                  "and writes alike, or 'read_ports' and 'write_ports'");
      }
    }
    b.ports = sram.integer("ports", 1, kMostPorts);
  } else {
    b.read_ports = sram.integer("read_ports", 1, kMostPorts);
    b.write_ports = sram.integer("write_ports", 1, kMostPorts);
  }
  const Bytes word = sram.bytes("word");
  if (word.is_unlimited() || word.value() < 1 || word.value() > kMostBanks) {
    sram.fail("word",
              fmt::format("{} is out of range; wanted: 1 B to {} B", to_string(word), kMostBanks));
  }
  b.word = static_cast<std::int64_t>(word.value());
  b.clock = sram.frequency("clock");
  if (b.clock.is_unlimited()) sram.fail("clock", "a clock must be finite, such as '1 GHz'");
  const Bytes interleave = sram.bytes("interleave", word);
  const double words = interleave.value() / word.value();
  if (interleave.is_unlimited() || words != std::floor(words) || words > kMostWords) {
    sram.fail("interleave", fmt::format("{} is not a whole number of words of {} (at most {})",
                                        to_string(interleave), to_string(word), kMostWords));
  }
  b.interleave = static_cast<std::int64_t>(words);
  b.access = sram.choice<SramAccess>(
      "access", {{"strided", SramAccess::strided}, {"random", SramAccess::random}}, "strided");
  b.stride = sram.integer("stride", 1, kMostStride, 1);
  if (b.access == SramAccess::random && sram.has("stride")) {
    sram.fail("stride", "random accesses have no stride; wanted: access: strided, or no stride");
  }
  return b;
}

void read_sram(const Section& sram, SramConfig& config) {
  config.capacity = read_capacity(sram);
  std::string first;
  for (const std::string& key : bank_keys()) {
    if (first.empty() && sram.has(key)) first = key;
  }
  if (first.empty()) {
    config.bandwidth = sram.bandwidth("bandwidth", Bandwidth::unlimited());
    check_transfer_time(sram, "bandwidth", config.bandwidth, config.capacity, "one SRAM");
  } else {
    if (sram.has("bandwidth")) {
      sram.fail("bandwidth", fmt::format("the bandwidth follows from the banks ('{}'); wanted: one "
                                         "of the two",
                                         first));
    }
    apply_banks(read_banks(sram), config);
    for (const Bandwidth b : {config.bandwidth, config.read, config.write}) {
      check_transfer_time(sram, "clock", b, config.capacity, "one SRAM");
    }
  }
  config.contention = sram.flag("contention", false);
}

}  // namespace

std::vector<std::string> tile_keys() {
  std::vector<std::string> keys{"tile.vector.throughput", "tile.vector.special",
                                "tile.sram.capacity",     "tile.sram.bandwidth",
                                "tile.sram.contention",   "tile.dma.outstanding",
                                "tile.dma.prefetch",      "tile.collective_share"};
  for (const std::string& key : bank_keys()) keys.push_back("tile.sram." + key);
  for (const std::string& key : matrix_keys()) keys.push_back(key);
  return keys;
}

void read_tile(const Section& tile, MachineConfig& m) {
  read_matrix(tile.section("matrix"), m.matrix);
  const Section vector = tile.section("vector");
  m.vector.throughput = vector.frequency("throughput");
  m.vector.special = vector.frequency("special", m.vector.throughput);
  read_sram(tile.section("sram"), m.sram);
  const Section dma = tile.section("dma");
  if (dma.has("outstanding")) m.dma.outstanding = dma.integer("outstanding", 1, kMostOutstanding);
  m.dma.prefetch = static_cast<int>(dma.integer("prefetch", 0, 1, 1));
  m.collective_share = tile.number("collective_share", 0, 0.9, 0);
}

}  // namespace tilewright
