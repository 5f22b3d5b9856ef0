// The pieces of the reader: numbers, references, key=value words.
#include "text_reader_fields.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/quantity.h>

namespace tilewright::program_detail {

std::uint64_t parse_count(const Location& at, const Token& token, const std::string& text,
                          std::uint64_t min, std::uint64_t max) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (text.empty() || stop != end || error != std::errc() || value < min || value > max) {
    at.fail(token.raw, fmt::format("'{}' is not a whole number from {} to {}", text, min, max));
  }
  return value;
}

std::uint64_t parse_byte_count(const Location& at, const Token& token, const std::string& text) {
  if (is_number(text)) return parse_count(at, token, text, 0, UINT64_MAX);
  double value = -1;
  try {
    value = parse_bytes(text).value();
  } catch (const std::invalid_argument&) {
  }
  if (!(value >= 0 && value <= 9007199254740992.0)) {
    at.fail(token.raw, fmt::format("'{}' is not a number of bytes; allowed are whole numbers, or "
                                   "with a unit up to 8PiB: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB",
                                   text));
  }
  return static_cast<std::uint64_t>(value);
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  const std::string nearest = nearest_name(word, known);
  return nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest);
}

std::string list_text(const std::vector<std::string>& words) {
  return words.empty() ? "none" : fmt::format("{}", fmt::join(words, ", "));
}

// --- Table ---

void Table::clear() {
  size_ = 0;
  index_.clear();
  labels_.clear();
}

void Table::add(const Location& at, const Token* label) {
  if (size_ >= kSeveral) at.fail(kind_, "there are too many of them");
  const std::uint32_t self = size_++;
  if (!label) return;
  const std::string word = label->value.substr(0, label->value.size() - 1);
  if (is_number(word)) {
    if (word != std::to_string(self)) {
      at.fail(label->raw, fmt::format("this is {0} {1}; allowed are '{1}:', a label that is no "
                                      "number, or none",
                                      kind_, self));
    }
    return;
  }
  if (word == "previous" || word == "none" || word.find_first_of(",./+:") != std::string::npos) {
    at.fail(label->raw,
            "not allowed as a label: 'previous', 'none', and words with any of , . / + :");
  }
  const auto [entry, added] = index_.try_emplace(word, self);
  if (!added) at.fail(label->raw, fmt::format("another {} has this label or name", kind_));
  labels_.push_back(word);
}

void Table::alias(const std::string& name) {
  const auto [entry, added] = index_.try_emplace(name, size_ - 1);
  if (added) {
    labels_.push_back(name);
  } else if (entry->second != size_ - 1) {
    entry->second = kSeveral;
  }
}

std::uint32_t Table::number(const Location& at, const Token& token, const std::string& text) const {
  const std::string allowed =
      size_ == 0 ? fmt::format("there is no {} before this line", kind_)
                 : fmt::format("{}s before this line are 0 to {}", kind_, size_ - 1);
  std::uint32_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value >= size_) {
    at.fail(token.raw, fmt::format("{} {} does not exist; {}", kind_, text, allowed));
  }
  return value;
}

std::uint32_t Table::find(const Location& at, const Token& token, const std::string& text,
                          bool quoted) const {
  if (!quoted && is_number(text)) return number(at, token, text);
  const auto entry = index_.find(text);
  if (entry == index_.end()) {
    std::vector<std::string> shown = labels_;
    if (shown.size() > 8) {
      shown.resize(8);
      shown.emplace_back("...");
    }
    at.fail(token.raw,
            fmt::format("there is no {} '{}' before this line; known: {}{}{}", kind_, text,
                        list_text(shown),
                        size_ > 0 ? fmt::format(", and the numbers 0 to {}", size_ - 1) : "",
                        suggestion(text, labels_)));
  }
  if (entry->second == kSeveral) {
    at.fail(token.raw,
            fmt::format("several {0}s are called '{1}'; write the {0}'s number", kind_, text));
  }
  return entry->second;
}

std::uint32_t Table::find_or_none(const Location& at, const Token& token) const {
  if ((token.quoted || !is_number(token.value)) && index_.count(token.value) == 0) return kNone;
  return find(at, token, token.value, token.quoted);
}

std::uint32_t intern_name(const Location& at, const Token& token, Program& program, Table& names) {
  const std::uint32_t known = names.find_or_none(at, token);
  if (known != kNone) return known;
  if (program.names.size() > UINT16_MAX) at.fail(token.raw, "more than 65536 different names");
  program.names.push_back(token.value);
  names.add(at, nullptr);
  names.alias(token.value);
  return names.size() - 1;
}

// --- FieldReader ---

FieldReader::FieldReader(const Location& at, const Token& owner, const std::vector<Token>& tokens,
                         std::size_t first, Program& program, Tables& tables)
    : at_(at), owner_(owner), program_(program), tables_(tables) {
  for (std::size_t i = first; i < tokens.size(); ++i) {
    if (tokens[i].key.empty())
      at.fail(tokens[i].raw, "a word of the form key=value is expected here");
    for (const Token* other : given_) {
      if (other->key == tokens[i].key) at.fail(tokens[i].raw, "the key is given twice");
    }
    given_.push_back(&tokens[i]);
  }
}

const Token* FieldReader::take(const char* key, Use use) {
  known_.emplace_back(key);
  for (std::size_t i = 0; i < given_.size(); ++i) {
    if (given_[i]->key != key) continue;
    const Token* token = given_[i];
    given_.erase(given_.begin() + static_cast<std::ptrdiff_t>(i));
    return token;
  }
  // Later fields may depend on this one: a missing shape ends the line at once.
  if (use == Use::required) {
    missing_.emplace_back(key);
    if (std::string_view(key) == "shape") finish();
  }
  return nullptr;
}

void FieldReader::finish() {
  if (!missing_.empty()) {
    at_.fail(owner_.raw, fmt::format("{} {} missing", list_text(missing_),
                                     missing_.size() == 1 ? "is" : "are"));
  }
  if (given_.empty()) return;
  at_.fail(given_.front()->raw,
           fmt::format("unknown key; '{}' takes {}{}", owner_.value, list_text(known_),
                       suggestion(given_.front()->key, known_)));
}

void FieldReader::real(const char* key, Use use, double& v, double fallback) {
  get(key, use, v, fallback, [&](const Token& t) {
    double value = 0;
    const char* end = t.value.data() + t.value.size();
    const auto [stop, error] = std::from_chars(t.value.data(), end, value);
    if (t.value.empty() || stop != end || error != std::errc() || !std::isfinite(value) ||
        value < 0) {
      at_.fail(t.raw, fmt::format("{} is not a finite number of at least 0, such as 1.5e9", key));
    }
    return value;
  });
}

void FieldReader::share(const char* key, Use use, Share& v) {
  get(key, use, v, Share{}, [&](const Token& t) {
    Share share;
    const std::size_t slash = t.value.find('/');
    share.total = parse_byte_count(at_, t, t.value.substr(0, slash));
    if (slash == std::string::npos) return share;
    std::string cut = t.value.substr(slash + 1);
    // Takes the number behind the last `sign`, and both off `cut`.
    const auto last = [&](char sign, std::uint64_t fallback, std::uint64_t min, std::uint64_t max) {
      const std::size_t found = cut.rfind(sign);
      if (found == std::string::npos) return static_cast<std::uint32_t>(fallback);
      const std::uint64_t value = parse_count(at_, t, cut.substr(found + 1), min, max);
      cut.resize(found);
      return static_cast<std::uint32_t>(value);
    };
    share.stride = last('@', 1, 1, UINT32_MAX);
    share.offset = static_cast<std::uint16_t>(last('+', 0, 0, Share::kMaxParts));
    share.parts = static_cast<std::uint16_t>(parse_count(at_, t, cut, 1, Share::kMaxParts));
    return share;
  });
}

std::uint32_t FieldReader::dependence(const Token& token, const std::string& word) {
  const std::size_t dot = word.find('.');
  const std::uint32_t on = tables_.instructions.find(at_, token, word.substr(0, dot), false);
  if (dot == std::string::npos) return on;
  if (word.substr(dot) != ".head") {
    at_.fail(token.raw, fmt::format("'{}': only '.head' may follow an instruction", word));
  }
  const Instruction& target = program_.segments.back().code[on];
  if (target.op != Opcode::load || target.head == 0) {
    at_.fail(token.raw, fmt::format("'{}': only a load with head= has a head", word));
  }
  return on | kHead;
}

void FieldReader::after(const char* key, Use use, Dependences& v, bool& previous) {
  previous = false;
  get(key, use, v, {kNone, kNone, kNone, kNone}, [&](const Token& t) {
    Dependences after{kNone, kNone, kNone, kNone};
    std::size_t count = 0;
    for (std::size_t begin = 0; begin <= t.value.size();) {
      const std::size_t end = std::min(t.value.find(',', begin), t.value.size());
      const std::string word = t.value.substr(begin, end - begin);
      begin = end + 1;
      if (word == "previous") {
        previous = true;
        continue;
      }
      if (count == after.size()) {
        at_.fail(t.raw, "an instruction waits for at most four others, and 'previous'");
      }
      after[count++] = word == "none" ? kNone : dependence(t, word);
    }
    return after;
  });
}

void FieldReader::range(const char* key, std::uint32_t& first, std::uint32_t& last,
                        bool none_allowed) {
  first = last = 0;
  const Token* t = take(key, Use::shown);
  if (!t) return;
  if (none_allowed && t->value == "none") {
    first = last = kNoMicroBatch;
    return;
  }
  const std::size_t dots = t->value.find("..");
  const auto number = [&](const std::string& text) {
    return static_cast<std::uint32_t>(
        parse_count(at_, *t, text, 0, none_allowed ? kNone - 1 : kNone));
  };
  first = last = number(t->value.substr(0, dots));
  if (dots != std::string::npos) last = number(t->value.substr(dots + 2));
}

}  // namespace tilewright::program_detail
