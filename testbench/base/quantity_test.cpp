#include <cmath>
#include <stdexcept>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <class F>
std::string message_of(F parse) {
  try {
    parse();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}
std::string bytes_error(const std::string& text) {
  return message_of([&] { parse_bytes(text); });
}
std::string seconds_error(const std::string& text) {
  return message_of([&] { parse_seconds(text); });
}
std::string bandwidth_error(const std::string& text) {
  return message_of([&] { parse_bandwidth(text); });
}
std::string flop_rate_error(const std::string& text) {
  return message_of([&] { parse_flop_rate(text); });
}
std::string frequency_error(const std::string& text) {
  return message_of([&] { parse_frequency(text); });
}

TEST(Quantity, DimensionsFollowFromArithmetic) {
  const Bytes data(3e9);
  const Bandwidth rate(1.5e9);
  const Seconds time = data / rate;
  EXPECT_DOUBLE_EQ(time.value(), 2.0);
  EXPECT_EQ(rate * time, data);
  EXPECT_DOUBLE_EQ(data / Bytes(1e9), 3.0);
  EXPECT_EQ(Bytes(1) + Bytes(2), Bytes(3));
  EXPECT_EQ(2 * Bytes(4), Bytes(8));
  EXPECT_TRUE(Bandwidth::unlimited().is_unlimited());
  EXPECT_EQ(data / Bandwidth::unlimited(), Seconds(0));
}

TEST(ParseBytes, DecimalAndBinaryPrefixes) {
  EXPECT_EQ(parse_bytes("16 B").value(), 16);
  EXPECT_EQ(parse_bytes("16 KB").value(), 16000);
  EXPECT_EQ(parse_bytes("16kB").value(), 16000);
  EXPECT_EQ(parse_bytes("3 MiB").value(), 3145728);
  EXPECT_EQ(parse_bytes("256GiB").value(), 274877906944.0);
  EXPECT_EQ(parse_bytes("80 GB").value(), 80e9);
  EXPECT_EQ(parse_bytes("1 KiB").value(), 1024);
  EXPECT_EQ(parse_bytes("2 TiB").value(), 2199023255552.0);
  EXPECT_EQ(parse_bytes("1 PiB").value(), 1125899906842624.0);
  EXPECT_EQ(parse_bytes("1 TB").value(), 1e12);
  EXPECT_EQ(parse_bytes("1 PB").value(), 1e15);
  EXPECT_EQ(parse_bytes("1EB").value(), 1e18);
  EXPECT_EQ(parse_bytes("1.5 KiB").value(), 1536);
}

TEST(ParseBytes, NumberForms) {
  EXPECT_EQ(parse_bytes("1_048_576 B").value(), 1048576);
  EXPECT_EQ(parse_bytes("  2e3\t B ").value(), 2000);
  EXPECT_EQ(parse_bytes("+5 B").value(), 5);
  EXPECT_EQ(parse_bytes(".5 kB").value(), 500);
  EXPECT_EQ(parse_bytes("0 B").value(), 0);
  EXPECT_TRUE(parse_bytes("unlimited").is_unlimited());
  // Powers of two are not whole decimal numbers: to the nearest byte. 1.7 * 2^30 = 1825361100.8
  EXPECT_EQ(parse_bytes("1.7 GiB").value(), 1825361101);
}

TEST(ParseBytes, Refusals) {
  EXPECT_THAT(bytes_error("1024"),
              AllOf(HasSubstr("'1024' has no unit"), HasSubstr("256 GiB"), HasSubstr("KiB")));
  EXPECT_THAT(bytes_error("1024 GB/s"),
              AllOf(HasSubstr("is a bandwidth"), HasSubstr("wanted: an amount of data")));
  EXPECT_THAT(bytes_error("8 Gb"), HasSubstr("in bits"));
  EXPECT_THAT(bytes_error("3 mB"), HasSubstr("unknown unit; did you mean 'MB'?"));
  EXPECT_THAT(bytes_error("3 gib"), HasSubstr("did you mean 'GiB'?"));
  EXPECT_THAT(bytes_error("3 apples"), AllOf(HasSubstr("unknown unit"), Not(HasSubstr("did you"))));
  EXPECT_THAT(bytes_error("-3 MiB"), HasSubstr("'-3 MiB' is negative"));
  EXPECT_THAT(bytes_error("1e400 B"), HasSubstr("out of range"));
  EXPECT_THAT(bytes_error("1e300 EB"), HasSubstr("out of range"));
  EXPECT_THAT(bytes_error("0.25 B"), HasSubstr("less than one byte"));
  EXPECT_THAT(bytes_error(""), HasSubstr("not a number"));
  EXPECT_THAT(bytes_error("GiB"), HasSubstr("not a number"));
  EXPECT_THAT(bytes_error("nan B"), HasSubstr("not a number"));
  EXPECT_THAT(bytes_error("inf"), HasSubstr("is written 'unlimited'"));
  EXPECT_THAT(bytes_error("0x10 B"), HasSubstr("unknown unit"));
  EXPECT_THAT(bytes_error("1__0 B"), HasSubstr("unknown unit"));
  EXPECT_THAT(bytes_error("1_ B"), HasSubstr("unknown unit"));
  EXPECT_LT(bytes_error(std::string(100000, 'x')).size(), 400u);
}

TEST(ParseBandwidth, BytesAndBits) {
  EXPECT_EQ(parse_bandwidth("1024 GB/s").value(), 1024e9);
  EXPECT_EQ(parse_bandwidth("1 GiB/s").value(), 1073741824);
  EXPECT_EQ(parse_bandwidth("2 TB/s").value(), 2e12);
  EXPECT_EQ(parse_bandwidth("400 Gb/s").value(), 50e9);
  EXPECT_EQ(parse_bandwidth("1.6 Tb/s").value(), 200e9);
  EXPECT_EQ(parse_bandwidth("64B/s").value(), 64);
  EXPECT_TRUE(parse_bandwidth("unlimited").is_unlimited());
}

TEST(ParseBandwidth, Refusals) {
  EXPECT_EQ(
      bandwidth_error("3 MiB"),
      "'3 MiB' is an amount of data; wanted: a bandwidth such as '1024 GB/s' (units: B/s kB/s "
      "MB/s GB/s TB/s PB/s (powers of 1000), KiB/s MiB/s GiB/s TiB/s (of 1024), Gb/s Tb/s "
      "(bits); or 'unlimited')");
  EXPECT_THAT(bandwidth_error("512"), HasSubstr("has no unit"));
  EXPECT_THAT(bandwidth_error("400 Gbps"), HasSubstr("did you mean 'Gb/s'?"));
  EXPECT_THAT(bandwidth_error("400 GBps"), HasSubstr("did you mean 'GB/s'?"));
  EXPECT_THAT(bandwidth_error("10 ns"), HasSubstr("is a time"));
}

TEST(ParseSeconds, IsTheDoubleNearestToTheText) {
  EXPECT_EQ(parse_seconds("2 s").value(), 2);
  EXPECT_EQ(parse_seconds("3 ms").value(), 3e-3);
  EXPECT_EQ(parse_seconds("7 us").value(), 7e-6);
  EXPECT_EQ(parse_seconds("7 \u00b5s").value(), 7e-6);
  EXPECT_EQ(parse_seconds("1 ns").value(), 1e-9);
  EXPECT_EQ(parse_seconds("123 ns").value(), 123e-9);
  EXPECT_EQ(parse_seconds("833ps").value(), 833e-12);
  EXPECT_EQ(parse_seconds("0 s").value(), 0);
}

TEST(ParseSeconds, Refusals) {
  EXPECT_THAT(seconds_error("unlimited"), HasSubstr("not possible here"));
  EXPECT_THAT(seconds_error("5"), AllOf(HasSubstr("no unit"), HasSubstr("s ms us ns ps")));
  EXPECT_THAT(seconds_error("5 ks"), HasSubstr("unknown unit"));
  EXPECT_THAT(seconds_error("5 NS"), HasSubstr("did you mean 'ns'?"));
  EXPECT_THAT(seconds_error("-1 ns"), HasSubstr("negative"));
  EXPECT_THAT(seconds_error("1e-320 ps"), HasSubstr("out of range"));
  EXPECT_THAT(seconds_error("2 GHz"), HasSubstr("is a frequency"));
}

TEST(ParseFlopRate, BothSpellings) {
  EXPECT_EQ(parse_flop_rate("16 TFLOP/s").value(), 16e12);
  EXPECT_EQ(parse_flop_rate("16 TFLOPS").value(), 16e12);
  EXPECT_EQ(parse_flop_rate("5 GFLOP/s").value(), 5e9);
  EXPECT_EQ(parse_flop_rate("1 EFLOPS").value(), 1e18);
  EXPECT_EQ(parse_flop_rate("7 FLOP/s").value(), 7);
  EXPECT_TRUE(parse_flop_rate("unlimited").is_unlimited());
  EXPECT_THAT(flop_rate_error("16 TFLOP"), HasSubstr("not a rate"));
  EXPECT_THAT(flop_rate_error("16 TFLOPs"), HasSubstr("did you mean 'TFLOPS'?"));
  EXPECT_THAT(flop_rate_error("16 TiFLOPS"), HasSubstr("unknown unit"));
  EXPECT_THAT(flop_rate_error("16"), HasSubstr("16 TFLOP/s"));
}

TEST(ParseFrequency, CyclesAndElements) {
  EXPECT_EQ(parse_frequency("2 GHz").value(), 2e9);
  EXPECT_EQ(parse_frequency("800MHz").value(), 800e6);
  EXPECT_EQ(parse_frequency("32 kHz").value(), 32e3);
  EXPECT_EQ(parse_frequency("50 Hz").value(), 50);
  EXPECT_EQ(parse_frequency("128 Gelem/s").value(), 128e9);
  EXPECT_EQ(parse_frequency("3 elem/s").value(), 3);
  EXPECT_TRUE(parse_frequency("unlimited").is_unlimited());
  EXPECT_THAT(frequency_error("1 ns"), HasSubstr("is a time"));
  EXPECT_THAT(frequency_error("2 Ghz"), HasSubstr("did you mean 'GHz'?"));
}

TEST(ToString, FourSignificantDigits) {
  EXPECT_EQ(to_string(Bytes(274877906944.0)), "256.0 GiB");
  EXPECT_EQ(to_string(Bytes(16)), "16 B");
  EXPECT_EQ(to_string(Bytes(0)), "0 B");
  EXPECT_EQ(to_string(Bytes(1536)), "1.500 KiB");
  EXPECT_EQ(to_string(Bytes(1047552)), "1023 KiB");
  EXPECT_EQ(to_string(Bytes(1048575)), "1.000 MiB");  // rounds up into the next unit
  EXPECT_EQ(to_string(Bytes::unlimited()), "unlimited");
  EXPECT_EQ(to_string(Bandwidth(1.024e12)), "1.024 TB/s");
  EXPECT_EQ(to_string(Bandwidth(999.96e9)), "1.000 TB/s");
  EXPECT_EQ(to_string(Seconds(12.34e-3)), "12.34 ms");
  EXPECT_EQ(to_string(Seconds(0)), "0 s");
  EXPECT_EQ(to_string(Seconds(-2.5e-6)), "-2.500 us");
  EXPECT_EQ(to_string(Seconds(90)), "90.00 s");
  EXPECT_EQ(to_string(Seconds(12345)), "12345 s");
  EXPECT_EQ(to_string(Seconds(5e-13)), "0.5000 ps");
  EXPECT_EQ(to_string(FlopRate(312e12)), "312.0 TFLOP/s");
  EXPECT_EQ(to_string(Frequency(2e9)), "2.000 GHz");
  EXPECT_EQ(to_string(Flop(2.265e17)), "226.5 PFLOP");
  EXPECT_EQ(to_string(Seconds(std::nan(""))), "not a number");
}

TEST(ToExactString, IsShortAndReadsBack) {
  EXPECT_EQ(to_exact_string(Bytes(274877906944.0)), "256 GiB");
  EXPECT_EQ(to_exact_string(Bytes(16000)), "16 kB");
  EXPECT_EQ(to_exact_string(Bytes(512)), "512 B");
  EXPECT_EQ(to_exact_string(Bytes(0)), "0 B");
  EXPECT_EQ(to_exact_string(Bytes::unlimited()), "unlimited");
  EXPECT_EQ(to_exact_string(Bandwidth(1024e9)), "1024 GB/s");
  EXPECT_EQ(to_exact_string(Seconds(1e-9)), "1 ns");
  EXPECT_EQ(to_exact_string(Seconds(0)), "0 s");
  EXPECT_EQ(to_exact_string(FlopRate(16e12)), "16 TFLOP/s");
  EXPECT_EQ(to_exact_string(Frequency(1.5e9)), "1.5 GHz");
  EXPECT_EQ(to_exact_string(Joules(1.5e-12)), "1.5 pJ");
  EXPECT_EQ(to_exact_string(Watts(0.3)), "300 mW");
  EXPECT_EQ(to_exact_string(EnergyPerByte(31.2e-12)), "31.2 pJ/B");
  EXPECT_EQ(to_exact_string(EnergyPerFlop(0)), "0 J/FLOP");
}

TEST(ParseEnergy, TakesUnitsOfItsKind) {
  EXPECT_EQ(parse_joules("1.5 pJ").value(), 1.5e-12);
  EXPECT_EQ(parse_joules("0 J").value(), 0);
  EXPECT_EQ(parse_watts("300 mW").value(), 0.3);
  EXPECT_EQ(parse_energy_per_byte("4 pJ/B").value(), 4e-12);
  EXPECT_EQ(parse_energy_per_byte("4 pJ/bit").value(), 32e-12);
  EXPECT_EQ(parse_energy_per_flop("1 pJ/FLOP").value(), 1e-12);
  EXPECT_EQ(parse_energy_per_flop("1 pJ/MAC").value(), 0.5e-12);
  EXPECT_THROW(parse_energy_per_byte("4 pJ"), std::invalid_argument);
  EXPECT_THROW(parse_energy_per_flop("4 pJ/B"), std::invalid_argument);
  EXPECT_THROW(parse_joules("unlimited"), std::invalid_argument);
  EXPECT_THROW(parse_watts("-1 W"), std::invalid_argument);
  EXPECT_THROW(parse_watts("1"), std::invalid_argument);
}

TEST(ToString, PrintsEnergiesForPeople) {
  EXPECT_EQ(to_string(Joules(1.5e-12)), "1.500 pJ");
  EXPECT_EQ(to_string(Joules(2.5e6)), "2.500 MJ");
  EXPECT_EQ(to_string(Watts(15e3)), "15.00 kW");
  EXPECT_EQ(to_string(Joules(0)), "0 J");
}

TEST(ToExactString, ReadsBackForManyValues) {
  // Mantissas without pattern over the whole range of use.
  double mantissa = 1.1;
  for (int exponent = -13; exponent <= 17; ++exponent) {
    for (int i = 0; i < 20; ++i) {
      mantissa = std::fmod(mantissa * 7.3, 9.0) + 1.0;
      const double value = mantissa * std::pow(10.0, exponent);
      EXPECT_EQ(parse_seconds(to_exact_string(Seconds(value))), Seconds(value));
      EXPECT_EQ(parse_bandwidth(to_exact_string(Bandwidth(value))), Bandwidth(value));
      EXPECT_EQ(parse_frequency(to_exact_string(Frequency(value))), Frequency(value));
      EXPECT_EQ(parse_flop_rate(to_exact_string(FlopRate(value))), FlopRate(value));
      const Bytes whole(std::round(value));
      EXPECT_EQ(parse_bytes(to_exact_string(whole)), whole);
    }
  }
}

TEST(Picoseconds, RoundToNearest) {
  EXPECT_EQ(to_picoseconds(Seconds(0)), 0u);
  EXPECT_EQ(to_picoseconds(Seconds(1.4e-12)), 1u);
  EXPECT_EQ(to_picoseconds(Seconds(1.6e-12)), 2u);
  EXPECT_EQ(to_picoseconds(parse_seconds("2.5 ns")), 2500u);
  EXPECT_EQ(to_picoseconds(Seconds(1)), 1000000000000u);
  // One period of 1.2 GHz is 833.33 ps.
  EXPECT_EQ(to_picoseconds(1.0 / 1.2 * Seconds(1e-9)), 833u);
  EXPECT_EQ(to_picoseconds(to_seconds(123456789)), 123456789u);
}

TEST(Picoseconds, RefusesWhatTheKernelCannotHold) {
  EXPECT_EQ(to_picoseconds(Seconds(4.6e6)), 4600000000000000000u);  // below 2^62 = 4.61e18
  EXPECT_THROW(to_picoseconds(Seconds(4.7e6)), InputError);
  EXPECT_THROW(to_picoseconds(Seconds(-1e-9)), InputError);
  EXPECT_THROW(to_picoseconds(Seconds(std::nan(""))), InputError);
  EXPECT_THROW(to_picoseconds(Seconds::unlimited()), InputError);
}

}  // namespace
}  // namespace tilewright
