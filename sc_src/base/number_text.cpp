#include "number_text.h"

#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

namespace tilewright::detail {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Copies the digits from `at` on to `digits` and returns how many characters they took. An '_'
// counts only between two digits.
std::size_t copy_digits(std::string_view text, std::size_t at, std::string& digits) {
  const std::size_t begin = at;
  while (at < text.size()) {
    if (is_digit(text[at])) {
      digits += text[at];
    } else if (!(text[at] == '_' && at > begin && is_digit(text[at - 1]) && at + 1 < text.size() &&
                 is_digit(text[at + 1]))) {
      break;
    }
    ++at;
  }
  return at - begin;
}

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

ScannedNumber scan_number(std::string_view text) {
  ScannedNumber result;
  std::string plain;
  std::size_t at = 0;
  if (at < text.size() && (text[at] == '-' || text[at] == '+')) {
    if (text[at] == '-') plain += '-';
    ++at;
  }
  std::size_t digits = copy_digits(text, at, plain);
  at += digits;
  if (at < text.size() && text[at] == '.') {
    std::string fraction;
    const std::size_t used = copy_digits(text, at + 1, fraction);
    if (digits + used == 0) return result;
    if (digits == 0) plain += '0';
    if (used > 0) plain += '.' + fraction;
    digits += used;
    at += 1 + used;
  }
  if (digits == 0) return result;
  if (at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
    std::size_t exponent = at + 1;
    std::string sign;
    if (exponent < text.size() && (text[exponent] == '-' || text[exponent] == '+'))
      sign = text[exponent++];
    std::string exponent_digits;
    const std::size_t used = copy_digits(text, exponent, exponent_digits);
    if (used > 0) {
      plain += 'e' + sign + exponent_digits;
      at = exponent + used;
    }
  }
  result.length = at;
  const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), result.value);
  result.out_of_range = parsed.ec != std::errc() || !std::isfinite(result.value);
  return result;
}

IntegerError read_integer(std::string_view text, std::int64_t& value) {
  text = trimmed(text);
  std::string plain;
  std::size_t at = 0;
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    if (text[0] == '-') plain += '-';
    at = 1;
  }
  const std::size_t sign = plain.size();
  const std::size_t used = copy_digits(text, at, plain);
  if (used == 0 || at + used != text.size()) return IntegerError::kNotAnInteger;
  // YAML 1.1 reads 010 as eight, YAML 1.2 as ten: ask rather than guess.
  if (plain.size() > sign + 1 && plain[sign] == '0') return IntegerError::kLeadingZero;
  const auto parsed = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  return parsed.ec == std::errc() ? IntegerError::kNone : IntegerError::kOverflow;
}

}  // namespace tilewright::detail
