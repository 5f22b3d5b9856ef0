// Lines and words of a program text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::program_detail {

/// A word: `value`, "value" or key=value, where the value may be quoted.
struct Token {
  std::string_view raw;  ///< as written
  std::string key;       ///< "" when there is none
  std::string value;     ///< without quotes
  bool quoted = false;

  /// A plain word that ends in a colon, `first:`.
  bool is_label() const {
    return key.empty() && !quoted && value.size() > 1 && value.back() == ':';
  }
};

/// Where a fault is.
class Location {
 public:
  Location(const std::string& file, std::size_t line) : file_(file), line_(line) {}
  /// Throws InputError "<file>:<line>: '<token>': <message>".
  [[noreturn]] void fail(std::string_view token, const std::string& message) const;

 private:
  const std::string& file_;
  std::size_t line_;
};

/// The words of one line, without its comment. Throws InputError for a quotation that does not end.
std::vector<Token> split_line(std::string_view line, const Location& location);

/// `text` in quotes, with \" \\ \n \t \r and \xNN for what cannot stand in a line.
std::string quote(std::string_view text);

/// Whether a word is a number, and so an index rather than a name.
bool is_number(std::string_view word);

}  // namespace tilewright::program_detail
