// Numbers as people write them in a configuration file. Private to layer base.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tilewright::detail {

/// `text` without blanks at both ends.
std::string_view trimmed(std::string_view text);

struct ScannedNumber {
  double value = 0;
  std::size_t length = 0;     ///< characters used; 0 when the text does not start with a number
  bool out_of_range = false;  ///< too large, or too small to tell from zero
};

/// The decimal number that `text` starts with: sign, digits with '_' between them, a fraction, an
/// exponent. No hexadecimal, no "inf", no "nan". "1EB" is one exabyte: an 'E' without digits
/// behind it is no exponent.
ScannedNumber scan_number(std::string_view text);

enum class IntegerError { kNone, kNotAnInteger, kOverflow, kLeadingZero };

/// Reads all of `text` as an integer ("51200", "1_000", "-3").
IntegerError read_integer(std::string_view text, std::int64_t& value);

}  // namespace tilewright::detail
