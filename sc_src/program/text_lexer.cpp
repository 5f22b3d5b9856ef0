#include "text_lexer.h"

#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>

namespace tilewright::program_detail {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Reads a quotation that begins at `at`; leaves `at` behind its end.
std::string read_quoted(std::string_view line, std::size_t& at, const Location& location) {
  const std::size_t begin = at++;
  std::string value;
  while (at < line.size() && line[at] != '"') {
    char c = line[at++];
    if (c == '\\') {
      const std::string_view escape = line.substr(at - 1, 2);
      c = at < line.size() ? line[at++] : '\0';
      if (c == 'n') {
        c = '\n';
      } else if (c == 't') {
        c = '\t';
      } else if (c == 'r') {
        c = '\r';
      } else if (c == 'x' && at + 1 < line.size() && hex_digit(line[at]) >= 0 &&
                 hex_digit(line[at + 1]) >= 0) {
        c = static_cast<char>(hex_digit(line[at]) * 16 + hex_digit(line[at + 1]));
        at += 2;
      } else if (c != '"' && c != '\\') {
        location.fail(escape, R"(not an escape; allowed are \" \\ \n \t \r and \xNN)");
      }
    }
    value += c;
  }
  if (at == line.size()) location.fail(line.substr(begin), "the closing quote is missing");
  ++at;
  return value;
}

}  // namespace

void Location::fail(std::string_view token, const std::string& message) const {
  throw InputError(fmt::format("{}:{}: '{}': {}", file_, line_, token, message));
}

std::vector<Token> split_line(std::string_view line, const Location& location) {
  std::vector<Token> tokens;
  std::size_t at = 0;
  for (;;) {
    while (at < line.size() && is_blank(line[at])) ++at;
    if (at == line.size() || line[at] == '#') return tokens;
    const std::size_t begin = at;
    Token token;
    while (at < line.size() && !is_blank(line[at]) && line[at] != '"') {
      if (line[at] == '=' && token.key.empty() && at > begin) {
        token.key.assign(line.substr(begin, at - begin));
        token.value.clear();
      } else {
        token.value += line[at];
      }
      ++at;
    }
    if (at < line.size() && line[at] == '"') {
      if (!token.value.empty()) {
        location.fail(line.substr(begin, at + 1 - begin), "a blank is missing before the quote");
      }
      token.value = read_quoted(line, at, location);
      token.quoted = true;
      if (at < line.size() && !is_blank(line[at])) {
        location.fail(line.substr(begin, at + 1 - begin), "a blank is missing after the quote");
      }
    }
    token.raw = line.substr(begin, at - begin);
    tokens.push_back(std::move(token));
  }
}

std::string quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\r') {
      quoted += "\\r";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

bool is_number(std::string_view word) {
  return !word.empty() &&
         std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace tilewright::program_detail
