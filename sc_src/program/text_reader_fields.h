// What the reader of program texts is made of: tables of named things, and the fields of one line.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include <tilewright/program/program.h>

#include "text_fields.h"
#include "text_lexer.h"

namespace tilewright::program_detail {

/// A whole number in [min, max].
std::uint64_t parse_count(const Location& at, const Token& token, const std::string& text,
                          std::uint64_t min, std::uint64_t max);
/// A whole number of bytes, or a quantity such as 64KiB.
std::uint64_t parse_byte_count(const Location& at, const Token& token, const std::string& text);
/// "; did you mean 'x'?" or "".
std::string suggestion(const std::string& word, const std::vector<std::string>& known);
std::string list_text(const std::vector<std::string>& words);

/// Numbered entries that may also be referred to by a label (this file's only) or by name.
class Table {
 public:
  explicit Table(std::string kind) : kind_(std::move(kind)) {}

  std::uint32_t size() const { return size_; }
  void clear();
  /// Adds an entry; checks a label ("3:", "first:"), nullptr = none.
  void add(const Location& at, const Token* label);
  /// A name of the entry added last. Names need not be unique until they are referred to.
  void alias(const std::string& name);
  /// The entry `text` (of `token`) refers to.
  std::uint32_t find(const Location& at, const Token& token, const std::string& text,
                     bool quoted) const;
  /// As find(), but kNone for a name that no entry has.
  std::uint32_t find_or_none(const Location& at, const Token& token) const;

 private:
  static constexpr std::uint32_t kSeveral = kNone - 1;
  std::uint32_t number(const Location& at, const Token& token, const std::string& text) const;

  std::string kind_;
  std::uint32_t size_ = 0;
  std::unordered_map<std::string, std::uint32_t> index_;
  std::vector<std::string> labels_;
};

/// What instructions and shapes refer to.
struct Tables {
  Table names{"name"}, channels{"channel"}, shapes{"shape"}, segments{"segment"},
      instructions{"instruction"};
};

/// The index of a name in the program's string table, added when it is new.
std::uint32_t intern_name(const Location& at, const Token& token, Program& program, Table& names);

/// The key=value words of one line. Each accessor takes its key; finish() refuses what is left.
class FieldReader {
 public:
  /// `owner` opens the line and is named when a key is missing.
  FieldReader(const Location& at, const Token& owner, const std::vector<Token>& tokens,
              std::size_t first, Program& program, Tables& tables);
  void finish();

  const ComputeShape* shape_of(const Instruction& i) const { return &program_.shapes[i.operand]; }

  void shape(const char* key, Use use, std::uint32_t& v) {
    get(key, use, v, 0u,
        [&](const Token& t) { return tables_.shapes.find(at_, t, t.value, t.quoted); });
  }
  void channel(const char* key, Use use, std::uint16_t& v) {
    get(key, use, v, std::uint16_t{0}, [&](const Token& t) {
      return static_cast<std::uint16_t>(tables_.channels.find(at_, t, t.value, t.quoted));
    });
  }
  void name(const char* key, Use use, std::uint32_t& v) {
    get(key, use, v, 0u,
        [&](const Token& t) { return intern_name(at_, t, program_, tables_.names); });
  }
  template <class Enum>
  void choice(const char* key, Use use, Enum& v, Enum fallback, const std::vector<Enum>& allowed) {
    get(key, use, v, fallback, [&](const Token& t) {
      std::vector<std::string> names;
      for (const Enum e : allowed) {
        names.push_back(to_string(e));
        if (names.back() == t.value) return e;
      }
      at_.fail(t.raw, std::string(key) + " is not one of: " + list_text(names) +
                          suggestion(t.value, names));
    });
  }
  template <class T>
  void count(const char* key, Use use, T& v, std::uint64_t fallback, std::uint64_t min,
             std::uint64_t max) {
    get(key, use, v, static_cast<T>(fallback),
        [&](const Token& t) { return static_cast<T>(parse_count(at_, t, t.value, min, max)); });
  }
  void extent(const char* key, Use use, std::int64_t& v, std::int64_t fallback) {
    get(key, use, v, fallback, [&](const Token& t) {
      return static_cast<std::int64_t>(parse_count(at_, t, t.value, 0, INT64_MAX));
    });
  }
  void real(const char* key, Use use, double& v, double fallback);
  void bytes(const char* key, Use use, std::uint64_t& v, std::uint64_t fallback) {
    get(key, use, v, fallback, [&](const Token& t) { return parse_byte_count(at_, t, t.value); });
  }
  void share(const char* key, Use use, Share& v);
  /// The index of an earlier instruction; kNone when there is none.
  void earlier(const char* key, Use use, std::uint32_t& v) {
    get(key, use, v, kNone,
        [&](const Token& t) { return tables_.instructions.find(at_, t, t.value, t.quoted); });
  }
  void after(const char* key, Use use, Dependences& v, bool& previous);
  /// A..B or A, for runs of calls; kNoMicroBatch is written `none` where it is allowed.
  void range(const char* key, std::uint32_t& first, std::uint32_t& last, bool none_allowed);

 private:
  template <class T, class Parse>
  void get(const char* key, Use use, T& v, const T& fallback, Parse parse) {
    v = fallback;
    if (use == Use::unused) return;
    if (const Token* token = take(key, use)) v = parse(*token);
  }
  const Token* take(const char* key, Use use);
  /// One word of after=: an earlier instruction, or its head.
  std::uint32_t dependence(const Token& token, const std::string& word);

  const Location& at_;
  const Token& owner_;
  Program& program_;
  Tables& tables_;
  std::vector<const Token*> given_;
  std::vector<std::string> known_, missing_;
};

}  // namespace tilewright::program_detail
