#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>

#include "number_text.h"

namespace tilewright {
namespace {

enum class Dimension {
  kBytes,
  kBits,
  kSeconds,
  kBandwidth,
  kFlop,
  kFlopRate,
  kFrequency,
  kEnergy,
  kPower,
  kEnergyPerByte,
  kEnergyPerFlop
};

// A unit is 10^exponent10 * 2^exponent2 SI units. Exponents instead of a factor, because dividing
// by 10^9 gives the double nearest to the decimal text and multiplying by 1e-9 does not.
struct Scale {
  int exponent10 = 0;
  int exponent2 = 0;
};

double power_of_ten(int exponent) {
  double power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;  // exact up to 10^22
  return power;
}

double apply(Scale scale, double number) {
  const double value = std::ldexp(number, scale.exponent2);
  return scale.exponent10 < 0 ? value / power_of_ten(-scale.exponent10)
                              : value * power_of_ten(scale.exponent10);
}

struct Prefix {
  std::string_view text;
  Scale scale;
};
constexpr std::array<Prefix, 17> kPrefixes{{{"", {0, 0}},
                                            {"k", {3, 0}},
                                            {"K", {3, 0}},
                                            {"M", {6, 0}},
                                            {"G", {9, 0}},
                                            {"T", {12, 0}},
                                            {"P", {15, 0}},
                                            {"E", {18, 0}},
                                            {"Ki", {0, 10}},
                                            {"ki", {0, 10}},
                                            {"Mi", {0, 20}},
                                            {"Gi", {0, 30}},
                                            {"Ti", {0, 40}},
                                            {"Pi", {0, 50}},
                                            {"m", {-3, 0}},
                                            {"u", {-6, 0}},
                                            {"n", {-9, 0}}}};

struct BaseUnit {
  std::string_view text;
  Dimension dimension;
  bool large;   ///< takes k M G T P E
  bool binary;  ///< takes Ki Mi Gi Ti Pi
  int bits;     ///< log2 of how many of this unit make one SI unit; negative: a part of it does
};
constexpr std::array<BaseUnit, 16> kBaseUnits{{
    {"B", Dimension::kBytes, true, true, 0},
    {"b", Dimension::kBits, true, true, 3},
    {"B/s", Dimension::kBandwidth, true, true, 0},
    {"b/s", Dimension::kBandwidth, true, true, 3},
    {"FLOP", Dimension::kFlop, true, false, 0},
    {"FLOP/s", Dimension::kFlopRate, true, false, 0},
    {"FLOPS", Dimension::kFlopRate, true, false, 0},
    {"Hz", Dimension::kFrequency, true, false, 0},
    {"elem/s", Dimension::kFrequency, true, false, 0},
    {"s", Dimension::kSeconds, false, false, 0},
    {"J", Dimension::kEnergy, false, false, 0},
    {"W", Dimension::kPower, false, false, 0},
    {"J/B", Dimension::kEnergyPerByte, false, false, 0},
    {"J/bit", Dimension::kEnergyPerByte, false, false, -3},
    {"J/FLOP", Dimension::kEnergyPerFlop, false, false, 0},
    {"J/MAC", Dimension::kEnergyPerFlop, false, false, 1},
}};

struct Unit {
  Dimension dimension;
  Scale scale;
};

std::optional<Scale> find_prefix(const BaseUnit& base, std::string_view text) {
  if (!base.large && text == "p") return Scale{-12, 0};
  for (const Prefix& prefix : kPrefixes) {
    if (prefix.text != text) continue;
    const bool allowed = prefix.scale.exponent2 > 0    ? base.binary
                         : prefix.scale.exponent10 > 0 ? base.large
                         : prefix.scale.exponent10 < 0 ? !base.large
                                                       : true;
    if (allowed) return prefix.scale;
  }
  return {};
}

bool ends_with(std::string_view text, std::string_view ending) {
  return text.size() >= ending.size() && text.substr(text.size() - ending.size()) == ending;
}

std::optional<Unit> find_unit(std::string_view text) {
  if (text == "\u00b5s" || text == "\u03bcs") text = "us";  // the two micro signs of Unicode
  for (const BaseUnit& base : kBaseUnits) {
    if (!ends_with(text, base.text)) continue;
    if (auto scale = find_prefix(base, text.substr(0, text.size() - base.text.size()))) {
      scale->exponent2 -= base.bits;
      return Unit{base.dimension, *scale};
    }
  }
  return {};
}

// What a message says about a dimension.
struct Wanted {
  Dimension dimension;
  std::string_view name;
  std::string_view example;
  std::string_view units;
  bool unlimited;
};
constexpr Wanted kWantBytes{Dimension::kBytes, "an amount of data", "256 GiB",
                            "B kB MB GB TB PB EB (powers of 1000), KiB MiB GiB TiB PiB (of 1024)",
                            true};
constexpr Wanted kWantSeconds{Dimension::kSeconds, "a time", "10 ns", "s ms us ns ps", false};
constexpr Wanted kWantBandwidth{Dimension::kBandwidth, "a bandwidth", "1024 GB/s",
                                "B/s kB/s MB/s GB/s TB/s PB/s (powers of 1000), KiB/s MiB/s GiB/s "
                                "TiB/s (of 1024), Gb/s Tb/s (bits)",
                                true};
constexpr Wanted kWantFlopRate{Dimension::kFlopRate, "a FLOP rate", "16 TFLOP/s",
                               "FLOP/s MFLOP/s GFLOP/s TFLOP/s PFLOP/s EFLOP/s, or FLOPS in place "
                               "of FLOP/s",
                               true};
constexpr Wanted kWantFrequency{Dimension::kFrequency, "a frequency", "2 GHz",
                                "Hz kHz MHz GHz, or elem/s kelem/s Melem/s Gelem/s", true};
constexpr Wanted kWantEnergy{Dimension::kEnergy, "an energy", "1.5 pJ", "J mJ uJ nJ pJ", false};
constexpr Wanted kWantPower{Dimension::kPower, "a power", "2 W", "W mW uW nW pW", false};
constexpr Wanted kWantEnergyPerByte{Dimension::kEnergyPerByte, "an energy per byte or bit",
                                    "3.9 pJ/bit", "J/B nJ/B pJ/B, J/bit nJ/bit pJ/bit", false};
constexpr Wanted kWantEnergyPerFlop{Dimension::kEnergyPerFlop, "an energy per operation",
                                    "1.5 pJ/MAC",
                                    "J/FLOP nJ/FLOP pJ/FLOP, J/MAC nJ/MAC pJ/MAC (a MAC is two "
                                    "FLOP)",
                                    false};

std::string_view dimension_name(Dimension dimension) {
  switch (dimension) {
    case Dimension::kBytes:
      return "an amount of data";
    case Dimension::kBits:
      return "an amount of data in bits (b); bytes are B";
    case Dimension::kSeconds:
      return "a time";
    case Dimension::kBandwidth:
      return "a bandwidth";
    case Dimension::kFlop:
      return "a number of operations, not a rate";
    case Dimension::kFlopRate:
      return "a FLOP rate";
    case Dimension::kFrequency:
      return "a frequency";
    case Dimension::kEnergy:
      return "an energy";
    case Dimension::kPower:
      return "a power";
    case Dimension::kEnergyPerByte:
      return "an energy per byte";
    case Dimension::kEnergyPerFlop:
      return "an energy per operation";
  }
  return "something else";
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// The unit that was probably meant: right but for upper and lower case, or a usual other spelling.
std::string likely_unit(std::string_view text, Dimension dimension) {
  std::string word(text);
  if (ends_with(word, "ps") && word.size() > 2 && dimension == Dimension::kBandwidth)
    word.replace(word.size() - 2, 2, "/s");  // Gbps, GBps
  if (find_unit(word) && find_unit(word)->dimension == dimension) return word;
  for (const BaseUnit& base : kBaseUnits) {
    if (base.dimension != dimension) continue;
    for (const Prefix& prefix : kPrefixes) {
      std::string unit = std::string(prefix.text) + std::string(base.text);
      if (find_prefix(base, prefix.text) && lower(unit) == lower(word)) return unit;
    }
  }
  return "";
}

[[noreturn]] void refuse(std::string_view text, std::string_view problem, const Wanted& wanted) {
  constexpr std::size_t kShown = 60;
  const std::string shown =
      text.size() > kShown ? std::string(text.substr(0, kShown)) + "..." : std::string(text);
  throw std::invalid_argument(fmt::format("'{}' {}; wanted: {} such as '{}' (units: {}{})", shown,
                                          problem, wanted.name, wanted.example, wanted.units,
                                          wanted.unlimited ? "; or 'unlimited'" : ""));
}

double parse(std::string_view text, const Wanted& wanted) {
  text = detail::trimmed(text);
  if (text == "unlimited") {
    if (wanted.unlimited) return std::numeric_limits<double>::infinity();
    refuse(text, "is not possible here", wanted);
  }
  const detail::ScannedNumber number = detail::scan_number(text);
  if (number.length == 0) {
    const std::string word = lower(text);
    const bool infinite = word == "inf" || word == ".inf" || word == "infinity";
    refuse(text, infinite && wanted.unlimited ? "is written 'unlimited'" : "is not a number",
           wanted);
  }
  if (number.out_of_range) refuse(text, "is out of range", wanted);
  const std::string_view unit_text = detail::trimmed(text.substr(number.length));
  if (unit_text.empty()) refuse(text, "has no unit", wanted);
  const std::optional<Unit> unit = find_unit(unit_text);
  if (!unit) {
    const std::string likely = likely_unit(unit_text, wanted.dimension);
    refuse(text,
           fmt::format("has an unknown unit{}",
                       likely.empty() ? "" : fmt::format("; did you mean '{}'?", likely)),
           wanted);
  }
  if (unit->dimension != wanted.dimension)
    refuse(text, fmt::format("is {}", dimension_name(unit->dimension)), wanted);
  if (std::signbit(number.value) && number.value != 0) refuse(text, "is negative", wanted);
  const double value = apply(unit->scale, std::abs(number.value));
  // An overflow must not turn into `unlimited`, nor a tiny number into zero.
  if (std::isinf(value) || (value == 0 && number.value != 0))
    refuse(text, "is out of range", wanted);
  return value;
}

}  // namespace

Picoseconds to_picoseconds(Seconds t) {
  constexpr double kLimit = 4611686018427387904.0;  // 2^62, so that two of them can be added
  const double picoseconds = std::round(t.value() * 1e12);
  if (std::isnan(t.value())) throw InputError("a time is not a number");
  if (t.value() < 0) throw InputError(fmt::format("a time is negative: {} s", t.value()));
  if (picoseconds > kLimit)
    throw InputError(fmt::format(
        "a time of {} is too long: at most 2^62 ps (53 days) can be simulated", to_string(t)));
  return static_cast<Picoseconds>(picoseconds);
}

Bytes parse_bytes(std::string_view text) {
  const double bytes = parse(text, kWantBytes);
  if (bytes > 0 && bytes < 1) refuse(detail::trimmed(text), "is less than one byte", kWantBytes);
  return Bytes(std::round(bytes));  // "1.7 GiB" is meant to the nearest byte
}
Seconds parse_seconds(std::string_view text) { return Seconds(parse(text, kWantSeconds)); }
Bandwidth parse_bandwidth(std::string_view text) { return Bandwidth(parse(text, kWantBandwidth)); }
FlopRate parse_flop_rate(std::string_view text) { return FlopRate(parse(text, kWantFlopRate)); }
Frequency parse_frequency(std::string_view text) { return Frequency(parse(text, kWantFrequency)); }
Joules parse_joules(std::string_view text) { return Joules(parse(text, kWantEnergy)); }
Watts parse_watts(std::string_view text) { return Watts(parse(text, kWantPower)); }
EnergyPerByte parse_energy_per_byte(std::string_view text) {
  return EnergyPerByte(parse(text, kWantEnergyPerByte));
}
EnergyPerFlop parse_energy_per_flop(std::string_view text) {
  return EnergyPerFlop(parse(text, kWantEnergyPerFlop));
}

}  // namespace tilewright
