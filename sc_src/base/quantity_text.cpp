// Prints quantities: rounded for people, exactly for files.
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/quantity.h>

namespace tilewright {
namespace {

struct PrintedUnit {
  std::string text;
  double numerator;  // The unit is numerator / denominator SI units: two exact doubles, where 1e-9
  double denominator;  // alone would not be exact.
  double of(double value) const { return value * denominator / numerator; }
};
using Units = std::vector<PrintedUnit>;  // from the largest to the SI unit or smaller

const Units& binary_bytes() {
  static const Units units{{"EiB", 0x1p60, 1}, {"PiB", 0x1p50, 1}, {"TiB", 0x1p40, 1},
                           {"GiB", 0x1p30, 1}, {"MiB", 0x1p20, 1}, {"KiB", 0x1p10, 1},
                           {"B", 1, 1}};
  return units;
}

const Units& all_bytes() {
  static const Units units{{"PiB", 0x1p50, 1}, {"PB", 1e15, 1}, {"TiB", 0x1p40, 1}, {"TB", 1e12, 1},
                           {"GiB", 0x1p30, 1}, {"GB", 1e9, 1},  {"MiB", 0x1p20, 1}, {"MB", 1e6, 1},
                           {"KiB", 0x1p10, 1}, {"kB", 1e3, 1},  {"B", 1, 1}};
  return units;
}

/// From the unit itself down.
Units small(const std::string& unit) {
  return {{unit, 1, 1},
          {"m" + unit, 1, 1e3},
          {"u" + unit, 1, 1e6},
          {"n" + unit, 1, 1e9},
          {"p" + unit, 1, 1e12}};
}

const Units& seconds() {
  static const Units units = small("s");
  return units;
}

Units decimal(const std::string& unit) {
  return {{"E" + unit, 1e18, 1}, {"P" + unit, 1e15, 1}, {"T" + unit, 1e12, 1}, {"G" + unit, 1e9, 1},
          {"M" + unit, 1e6, 1},  {"k" + unit, 1e3, 1},  {unit, 1, 1}};
}

const Units& bandwidths() {
  static const Units units = decimal("B/s");
  return units;
}
const Units& flop_rates() {
  static const Units units = decimal("FLOP/s");
  return units;
}
const Units& frequencies() {
  static const Units units = decimal("Hz");
  return units;
}
const Units& flops() {
  static const Units units = decimal("FLOP");
  return units;
}

/// All prefixes: for people, since the parser takes none above 1 of an energy.
Units all_prefixes(const std::string& unit) {
  Units units = decimal(unit);
  const Units below = small(unit);
  units.insert(units.end(), below.begin() + 1, below.end());
  return units;
}
const Units& joules() {
  static const Units units = small("J");
  return units;
}
const Units& watts() {
  static const Units units = small("W");
  return units;
}
const Units& energies_per_byte() {
  static const Units units = small("J/B");
  return units;
}
const Units& energies_per_flop() {
  static const Units units = small("J/FLOP");
  return units;
}

// Four significant digits, without an exponent where the number is of everyday size.
std::string four_digits(double value) {
  const double size = std::abs(value);
  if (size >= 1e6 || size < 1e-3) return fmt::format("{:.4g}", value);
  int decimals = 3;
  for (double limit = 9.9995; decimals > 0 && size >= limit; limit *= 10) --decimals;
  for (double limit = 0.99995; size < limit && decimals < 6; limit /= 10) ++decimals;
  return fmt::format("{:.{}f}", value, decimals);
}

std::string rounded(double value, const Units& units) {
  if (std::isnan(value)) return "not a number";
  if (std::isinf(value)) return value > 0 ? "unlimited" : "-unlimited";
  // The unit for zero is the SI unit itself.
  if (value == 0) {
    for (const PrintedUnit& unit : units)
      if (unit.numerator == 1 && unit.denominator == 1) return "0 " + unit.text;
  }
  // The largest unit of which there is at least one after rounding: 999.99 GB/s is 1.000 TB/s.
  constexpr double kOneAfterRounding = 0.99995;
  for (const PrintedUnit& unit : units) {
    const double number = unit.of(value);
    if (std::abs(number) < kOneAfterRounding && &unit != &units.back()) continue;
    // Single bytes are countable: "16 B", not "16.00 B".
    if (unit.text == "B" && number == std::floor(number)) return fmt::format("{:.0f} B", number);
    return four_digits(number) + " " + unit.text;
  }
  return "";
}

// `same` tells whether a text reads back as the value.
template <class Same>
std::string exact(double value, const Units& units, Same same) {
  if (std::isinf(value)) return "unlimited";
  if (value == 0) return rounded(value, units);
  std::string best;
  for (const PrintedUnit& unit : units) {
    const double number = unit.of(value);
    if (!(value > 0)) break;  // nothing that the parser accepts
    if (number < 1 && &unit != &units.back()) continue;
    const std::string text = fmt::format("{} {}", number, unit.text);
    if ((best.empty() || text.size() < best.size()) && same(text)) best = text;
  }
  if (!best.empty()) return best;
  // The SI unit carries every double.
  for (const PrintedUnit& unit : units)
    if (unit.numerator == 1 && unit.denominator == 1) return fmt::format("{} {}", value, unit.text);
  return "";
}

}  // namespace

std::string to_string(Bytes v) { return rounded(v.value(), binary_bytes()); }
std::string to_string(Seconds v) { return rounded(v.value(), seconds()); }
std::string to_string(Bandwidth v) { return rounded(v.value(), bandwidths()); }
std::string to_string(FlopRate v) { return rounded(v.value(), flop_rates()); }
std::string to_string(Frequency v) { return rounded(v.value(), frequencies()); }
std::string to_string(Flop v) { return rounded(v.value(), flops()); }
std::string to_string(Joules v) {
  static const Units units = all_prefixes("J");
  return rounded(v.value(), units);
}
std::string to_string(Watts v) {
  static const Units units = all_prefixes("W");
  return rounded(v.value(), units);
}
std::string to_string(EnergyPerByte v) { return rounded(v.value(), energies_per_byte()); }
std::string to_string(EnergyPerFlop v) { return rounded(v.value(), energies_per_flop()); }

std::string to_exact_string(Bytes v) {
  const Bytes whole(std::round(v.value()));
  return exact(whole.value(), all_bytes(),
               [whole](const std::string& text) { return parse_bytes(text) == whole; });
}
std::string to_exact_string(Seconds v) {
  return exact(v.value(), seconds(),
               [v](const std::string& text) { return parse_seconds(text) == v; });
}
std::string to_exact_string(Bandwidth v) {
  return exact(v.value(), bandwidths(),
               [v](const std::string& text) { return parse_bandwidth(text) == v; });
}
std::string to_exact_string(FlopRate v) {
  return exact(v.value(), flop_rates(),
               [v](const std::string& text) { return parse_flop_rate(text) == v; });
}
std::string to_exact_string(Frequency v) {
  return exact(v.value(), frequencies(),
               [v](const std::string& text) { return parse_frequency(text) == v; });
}
std::string to_exact_string(Joules v) {
  return exact(v.value(), joules(),
               [v](const std::string& text) { return parse_joules(text) == v; });
}
std::string to_exact_string(Watts v) {
  return exact(v.value(), watts(), [v](const std::string& text) { return parse_watts(text) == v; });
}
std::string to_exact_string(EnergyPerByte v) {
  return exact(v.value(), energies_per_byte(),
               [v](const std::string& text) { return parse_energy_per_byte(text) == v; });
}
std::string to_exact_string(EnergyPerFlop v) {
  return exact(v.value(), energies_per_flop(),
               [v](const std::string& text) { return parse_energy_per_flop(text) == v; });
}

}  // namespace tilewright
