// How fast a tile's SRAM is when it is described by its banks and ports: pure arithmetic.
#pragma once

#include <cstdint>

#include <tilewright/machine/machine.h>

namespace tilewright {

/// The order in which the streams of a tile ask the banks for words.
enum class SramAccess : std::uint8_t {
  strided,  ///< every `stride`-th word; 1: one after the other
  random,   ///< every bank equally likely
};

/// Banks that words are dealt out over, each with ports that move one word per cycle.
struct SramBanks {
  std::int64_t banks = 1;
  /// Of every bank; a port for both kinds counts among `ports` alone.
  std::int64_t ports = 0, read_ports = 0, write_ports = 0;
  std::int64_t word = 0;        ///< bytes
  std::int64_t interleave = 1;  ///< words in a row that lie in one bank
  Frequency clock{0};
  SramAccess access = SramAccess::strided;
  std::int64_t stride = 1;  ///< words
};

/// Part of the banks × ports words per cycle that is moved in spite of conflicts.
///
/// strided: requests queue at their banks, so the busiest one paces the rest. Over a period of
/// L = banks · interleave / gcd(stride, banks · interleave) words, word i is asked of bank
/// ⌊i · stride / interleave⌋ mod banks; with h words at the busiest bank the part is
/// L / (banks · h). Interleaved by single words that is 1 / gcd(stride, banks).
///
/// random: banks × ports requests are made per cycle, a bank serves as many as it has ports, and
/// the others are drawn anew: E[min(X, ports)] / ports with X binomial (banks · ports, 1 / banks)
/// (W. D. Strecker, 1970; for one port 1 − (1 − 1/banks)^banks).
double bank_efficiency(const SramBanks& banks, std::int64_t ports);

/// Sets the rates of `sram` to what its banks move.
void apply_banks(const SramBanks& banks, SramConfig& sram);

}  // namespace tilewright
