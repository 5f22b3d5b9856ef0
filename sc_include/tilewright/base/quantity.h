// Physical quantities that carry their dimension in the type, so that a joule cannot be used as a
// second. Values are SI doubles: bytes, seconds, FLOP, joules (GB = 10^9 bytes, GiB = 2^30).
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace tilewright {

/// A number times bytes^B seconds^T FLOP^F joules^E. Integers up to 2^53 are exact.
template <int B, int T, int F, int E>
class Quantity {
 public:
  constexpr Quantity() = default;
  constexpr explicit Quantity(double value) : value_(value) {}
  /// The value in SI units.
  constexpr double value() const { return value_; }
  /// An infinite amount: written `unlimited` in configuration files.
  static constexpr Quantity unlimited() {
    return Quantity(std::numeric_limits<double>::infinity());
  }
  constexpr bool is_unlimited() const { return value_ == std::numeric_limits<double>::infinity(); }

  constexpr Quantity operator+(Quantity o) const { return Quantity(value_ + o.value_); }
  constexpr Quantity operator-(Quantity o) const { return Quantity(value_ - o.value_); }
  constexpr Quantity& operator+=(Quantity o) {
    value_ += o.value_;
    return *this;
  }
  constexpr Quantity operator*(double s) const { return Quantity(value_ * s); }
  constexpr Quantity operator/(double s) const { return Quantity(value_ / s); }
  friend constexpr Quantity operator*(double s, Quantity q) { return q * s; }
  constexpr bool operator==(Quantity o) const { return value_ == o.value_; }
  constexpr bool operator!=(Quantity o) const { return value_ != o.value_; }
  constexpr bool operator<(Quantity o) const { return value_ < o.value_; }
  constexpr bool operator<=(Quantity o) const { return value_ <= o.value_; }
  constexpr bool operator>(Quantity o) const { return value_ > o.value_; }
  constexpr bool operator>=(Quantity o) const { return value_ >= o.value_; }

 private:
  double value_ = 0;
};

template <int B, int T, int F, int E, int B2, int T2, int F2, int E2>
constexpr Quantity<B + B2, T + T2, F + F2, E + E2> operator*(Quantity<B, T, F, E> a,
                                                             Quantity<B2, T2, F2, E2> b) {
  return Quantity<B + B2, T + T2, F + F2, E + E2>(a.value() * b.value());
}
template <int B, int T, int F, int E, int B2, int T2, int F2, int E2>
constexpr Quantity<B - B2, T - T2, F - F2, E - E2> operator/(Quantity<B, T, F, E> a,
                                                             Quantity<B2, T2, F2, E2> b) {
  return Quantity<B - B2, T - T2, F - F2, E - E2>(a.value() / b.value());
}
/// The ratio of two equal dimensions is a plain number.
template <int B, int T, int F, int E>
constexpr double operator/(Quantity<B, T, F, E> a, Quantity<B, T, F, E> b) {
  return a.value() / b.value();
}

using Bytes = Quantity<1, 0, 0, 0>;
using Seconds = Quantity<0, 1, 0, 0>;
using Flop = Quantity<0, 0, 1, 0>;
using Joules = Quantity<0, 0, 0, 1>;
using Bandwidth = Quantity<1, -1, 0, 0>;  ///< bytes per second
using FlopRate = Quantity<0, -1, 1, 0>;   ///< FLOP per second
using Frequency = Quantity<0, -1, 0, 0>;  ///< cycles or elements per second
using Watts = Quantity<0, -1, 0, 1>;
using EnergyPerByte = Quantity<-1, 0, 0, 1>;
using EnergyPerFlop = Quantity<0, 0, -1, 1>;

/// Simulated time inside the hardware layer: integer picoseconds, the kernel's resolution.
using Picoseconds = std::uint64_t;

/// A count of picoseconds rounded to the nearest whole one; not negative, below 2^52.
constexpr Picoseconds whole_picoseconds(double ps) { return static_cast<Picoseconds>(ps + 0.5); }

/// `t` rounded to the nearest picosecond. Throws InputError when it is negative, not a number, or
/// above 2^62 ps (53 days).
Picoseconds to_picoseconds(Seconds t);
/// Exact for times below 2^53 ps (2.5 hours), to 1 part in 2^53 above.
constexpr Seconds to_seconds(Picoseconds t) { return Seconds(static_cast<double>(t) * 1e-12); }

// Parsing. Each takes a number and a unit ("1024 GB/s", "3MiB", "1 ns", "2 GHz", "4 pJ/bit", "2 W",
// "unlimited" for all but seconds, energies, powers) and throws std::invalid_argument that names
// the text and the units allowed; the configuration reader adds file and line. Zero is accepted,
// a negative number is not. The case of a prefix matters (but for k and K); the blank between
// number and unit is optional; "b" is a bit and "B" a byte. Bytes are rounded to whole ones.
Bytes parse_bytes(std::string_view text);
Seconds parse_seconds(std::string_view text);
Bandwidth parse_bandwidth(std::string_view text);
FlopRate parse_flop_rate(std::string_view text);
Frequency parse_frequency(std::string_view text);
Joules parse_joules(std::string_view text);
Watts parse_watts(std::string_view text);
EnergyPerByte parse_energy_per_byte(std::string_view text);  ///< J/B or J/bit
EnergyPerFlop parse_energy_per_flop(std::string_view text);  ///< J/FLOP or J/MAC (2 FLOP)

// Printing for people, 4 significant digits with the largest fitting unit: "256.0 GiB",
// "1.024 TB/s", "12.34 ms". Bytes print in binary units, rates in decimal ones.
std::string to_string(Bytes v);
std::string to_string(Seconds v);
std::string to_string(Bandwidth v);
std::string to_string(FlopRate v);
std::string to_string(Frequency v);
std::string to_string(Flop v);
std::string to_string(Joules v);
std::string to_string(Watts v);
std::string to_string(EnergyPerByte v);
std::string to_string(EnergyPerFlop v);

// Printing for files: the shortest text that the parser above reads back as exactly this value
// (bytes: as this whole number of bytes): "256 GiB", "1024 GB/s", "1 ns".
std::string to_exact_string(Bytes v);
std::string to_exact_string(Seconds v);
std::string to_exact_string(Bandwidth v);
std::string to_exact_string(FlopRate v);
std::string to_exact_string(Frequency v);
std::string to_exact_string(Joules v);
std::string to_exact_string(Watts v);
std::string to_exact_string(EnergyPerByte v);
std::string to_exact_string(EnergyPerFlop v);

}  // namespace tilewright
