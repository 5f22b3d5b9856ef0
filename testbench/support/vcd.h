// Reads a value change dump back, strictly: what a viewer would refuse is an error.
#pragma once

#include <cstdint>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::test {

struct VcdFile {
  struct Signal {
    std::string type;  ///< "wire", "string"
    unsigned bits = 0;
    /// When it takes which value: decimal numbers, "z", or texts. Starts at `begin`.
    std::vector<std::pair<std::uint64_t, std::string>> changes;
  };
  std::map<std::string, Signal> signals;  ///< by full name, "tiles.t0_0.matrix.busy"
  std::uint64_t begin = 0, end = 0;       ///< the first and the last time in the file

  const Signal& signal(const std::string& name) const {
    const auto found = signals.find(name);
    if (found == signals.end()) throw std::runtime_error("the dump has no signal " + name);
    return found->second;
  }
  /// The value that holds from `time` on.
  std::string at(const std::string& name, std::uint64_t time) const {
    std::string value = "nothing yet";
    for (const auto& [when, what] : signal(name).changes) {
      if (when > time) break;
      value = what;
    }
    return value;
  }
  /// How long the signal has `value`, between begin and end.
  std::uint64_t time(const std::string& name, const std::string& value) const {
    const auto& changes = signal(name).changes;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const std::uint64_t until = i + 1 < changes.size() ? changes[i + 1].first : end;
      if (changes[i].second == value) sum += until - changes[i].first;
    }
    return sum;
  }
  std::uint64_t largest(const std::string& name) const {
    std::uint64_t most = 0;
    for (const auto& [when, what] : signal(name).changes) {
      if (what != "z") most = std::max<std::uint64_t>(most, std::stoull(what));
    }
    return most;
  }
  /// "0 idle, 2000 matrix, ...".
  std::string history(const std::string& name) const {
    std::string text;
    for (const auto& [when, what] : signal(name).changes) {
      text += (text.empty() ? "" : ", ") + std::to_string(when) + " " + what;
    }
    return text;
  }

  static VcdFile parse(const std::string& text);
};

namespace vcd_detail {

[[noreturn]] inline void refuse(const std::string& why) {
  throw std::runtime_error("not a value change dump: " + why);
}

/// The words from after a keyword to its $end.
inline std::vector<std::string> section(std::istream& in) {
  std::vector<std::string> words;
  std::string word;
  while (in >> word && word != "$end") words.push_back(word);
  if (word != "$end") refuse("a section without $end");
  return words;
}

inline std::string decimal(const std::string& bits, unsigned width) {
  if (bits == "z") return bits;
  if (bits.empty() || bits.size() > width)
    refuse("a value '" + bits + "' of " + std::to_string(width) + " bits");
  if (bits.find_first_not_of("01") != std::string::npos) refuse("bits '" + bits + "'");
  return std::to_string(std::stoull(bits, nullptr, 2));
}

}  // namespace vcd_detail

inline VcdFile VcdFile::parse(const std::string& text) {
  using vcd_detail::refuse;
  using vcd_detail::section;
  VcdFile file;
  std::istringstream in(text);
  std::vector<std::string> scopes;
  std::map<std::string, Signal*> by_id;
  bool defined = false, timescale = false, dumping = false, started = false;
  std::uint64_t now = 0;
  std::string word;
  const auto change = [&](const std::string& id, const std::string& value) {
    const auto found = by_id.find(id);
    if (found == by_id.end()) refuse("a change of '" + id + "', which is not declared");
    if (!started) refuse("a change before the first time");
    Signal& signal = *found->second;
    const bool first = signal.changes.empty();
    if (first != dumping) refuse("'" + id + "' is not dumped exactly once at the start");
    if (!first && signal.changes.back().first == now) refuse("two changes of '" + id + "' at once");
    if (!first && signal.changes.back().second == value) refuse("'" + id + "' changes to itself");
    signal.changes.emplace_back(now, value);
  };
  while (in >> word) {
    if (word == "$version" || word == "$comment" || word == "$date") {
      section(in);
    } else if (word == "$timescale") {
      const auto words = section(in);
      timescale = words == std::vector<std::string>{"1", "ps"};
    } else if (word == "$scope") {
      const auto words = section(in);
      if (words.size() != 2 || words[0] != "module") refuse("a scope");
      scopes.push_back(words[1]);
    } else if (word == "$upscope") {
      section(in);
      if (scopes.empty()) refuse("$upscope outside all scopes");
      scopes.pop_back();
    } else if (word == "$var") {
      const auto words = section(in);
      if (words.size() < 4 || words.size() > 5 || defined) refuse("a variable");
      std::string name;
      for (const std::string& s : scopes) name += s + ".";
      name += words[3];
      const auto [at, fresh] = file.signals.try_emplace(name);
      if (!fresh) refuse("two variables named " + name);
      at->second.type = words[0];
      at->second.bits = static_cast<unsigned>(std::stoul(words[1]));
      if (words.size() == 5 && words[4] != "[" + std::to_string(at->second.bits - 1) + ":0]") {
        refuse("a range " + words[4]);
      }
      if (!by_id.emplace(words[2], &at->second).second) refuse("two variables with one identifier");
    } else if (word == "$enddefinitions") {
      section(in);
      if (!scopes.empty()) refuse("scopes that do not end");
      defined = true;
    } else if (word == "$dumpvars") {
      dumping = true;
    } else if (word == "$end") {
      if (!dumping) refuse("$end of nothing");
      dumping = false;
    } else if (!defined) {
      refuse("'" + word + "' among the definitions");
    } else if (word.front() == '#') {
      const std::uint64_t time = std::stoull(word.substr(1));
      if (started && time <= now) refuse("time does not increase at " + word);
      if (!started) file.begin = time;
      started = true;
      file.end = now = time;
    } else if (word.front() == 's' || word.front() == 'b') {
      std::string id;
      if (!(in >> id)) refuse("it ends in a change");
      const auto found = by_id.find(id);
      if (found == by_id.end()) refuse("a change of '" + id + "', which is not declared");
      const Signal& signal = *found->second;
      if ((signal.type == "string") != (word.front() == 's')) refuse("a value of another type");
      change(id, signal.type == "string" ? word.substr(1)
                                         : vcd_detail::decimal(word.substr(1), signal.bits));
    } else {
      change(word.substr(1), vcd_detail::decimal(word.substr(0, 1), 1));
    }
  }
  if (!timescale) refuse("no timescale of 1 ps");
  for (const auto& [name, signal] : file.signals) {
    if (signal.changes.empty()) refuse("no value of " + name);
  }
  return file;
}

}  // namespace tilewright::test
