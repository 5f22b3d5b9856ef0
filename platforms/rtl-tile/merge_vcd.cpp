#include "merge_vcd.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <limits>
#include <memory>

#include <tilewright/base/error.h>

namespace tilewright::rtl {

namespace {

constexpr std::uint64_t kEnd = std::numeric_limits<std::uint64_t>::max();

/// One input. Its identifiers are made unique by a letter of its own in front.
class Source {
 public:
  Source(const std::string& path, char letter) : path_(path), letter_(letter), file_(path) {
    if (!file_) throw InputError("cannot read '" + path + "'");
    std::string keyword;
    while (file_ >> keyword) {
      const std::string rest = to_end();
      if (keyword == "$enddefinitions") {
        next_time();
        return;
      }
      if (keyword == "$timescale") {
        unit_ = rest;
        unit_.erase(std::remove(unit_.begin(), unit_.end(), ' '), unit_.end());
      } else if (keyword == "$scope" || keyword == "$upscope") {
        definitions_ += keyword + rest + " $end\n";
      } else if (keyword == "$var") {
        definitions_ += "$var" + renamed(rest) + " $end\n";
      }
    }
    throw InputError("'" + path + "' is not VCD: it has no $enddefinitions");
  }

  const std::string& unit() const { return unit_; }
  const std::string& definitions() const { return definitions_; }
  std::uint64_t time() const { return time_; }

  /// Writes the changes at time(), and goes on to the next time.
  void copy(std::ostream& out) {
    std::string word;
    while (file_ >> word) {
      if (word[0] == '#') {
        time_ = std::stoull(word.substr(1));
        return;
      }
      if (word == "$comment") {
        to_end();
      } else if (word[0] == 'b' || word[0] == 'r') {
        std::string id;
        file_ >> id;
        out << word << ' ' << letter_ << id << '\n';
      } else if (word[0] != '$') {  // $dumpvars, $end: what they hold is changes like others
        out << word[0] << letter_ << word.substr(1) << '\n';
      }
    }
    time_ = kEnd;
  }

 private:
  // What follows up to $end, words separated by one space, a space in front.
  std::string to_end() {
    std::string text, word;
    while (file_ >> word && word != "$end") text += " " + word;
    return text;
  }
  // " type width identifier name...": a letter in front of the identifier.
  std::string renamed(const std::string& variable) const {
    std::size_t at = 0;
    for (int spaces = 0; spaces < 3; ++spaces) at = variable.find(' ', at) + 1;
    return variable.substr(0, at) + letter_ + variable.substr(at);
  }
  void next_time() {
    std::ofstream nowhere;
    copy(nowhere);
  }

  std::string path_;
  char letter_;
  std::ifstream file_;
  std::string unit_, definitions_;
  std::uint64_t time_ = kEnd;
};

}  // namespace

void merge_vcd(const std::vector<std::string>& inputs, const std::string& output) {
  std::vector<std::unique_ptr<Source>> sources;
  for (const std::string& path : inputs) {
    sources.push_back(std::make_unique<Source>(path, static_cast<char>('A' + sources.size())));
    if (sources.back()->unit() != sources.front()->unit()) {
      throw InputError("'" + path + "' counts time in '" + sources.back()->unit() + "', '" +
                       inputs.front() + "' in '" + sources.front()->unit() + "'");
    }
  }
  std::ofstream out(output);
  out << "$timescale " << sources.front()->unit() << " $end\n";
  for (const auto& source : sources) out << source->definitions();
  out << "$enddefinitions $end\n";
  for (;;) {
    std::uint64_t time = kEnd;
    for (const auto& source : sources) time = std::min(time, source->time());
    if (time == kEnd) break;
    out << '#' << time << '\n';
    for (const auto& source : sources) {
      if (source->time() == time) source->copy(out);
    }
  }
  if (!out.flush()) throw InputError("cannot write '" + output + "'");
}

}  // namespace tilewright::rtl
