#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ostream>

#include <tilewright/base/error.h>
#include <tilewright/observe/vcd.h>
#include <tilewright/observe/version.h>

namespace tilewright {
namespace {

constexpr std::size_t kBuffer = std::size_t{1} << 16;

/// The short names of variables: numbers whose digits are the printable characters.
std::string identifier(std::size_t number) {
  constexpr std::size_t kDigits = '~' - '!' + 1;
  std::string id;
  do {
    id += static_cast<char>('!' + number % kDigits);
    number /= kDigits;
  } while (number-- > 0);
  return id;
}

std::vector<std::string> split(const std::string& scope) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= scope.size();) {
    const std::size_t end = std::min(scope.find('.', begin), scope.size());
    parts.push_back(scope.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

void append_bits(std::string& to, std::uint64_t value) {
  unsigned bits = 1;
  while (bits < 64 && value >> bits != 0) ++bits;
  while (bits-- > 0) to += static_cast<char>('0' + ((value >> bits) & 1u));
}

}  // namespace

VcdWriter::Signal& VcdWriter::declare(const std::string& scope, const std::string& name) {
  signals_.emplace_back();
  Signal& signal = signals_.back();
  signal.scope = scope;
  signal.name = name;
  signal.id = identifier(signals_.size() - 1);
  return signal;
}

VcdWriter::Signal& VcdWriter::wire(const std::string& scope, const std::string& name, unsigned bits,
                                   std::uint64_t value) {
  Signal& signal = declare(scope, name);
  signal.bits = bits;
  signal.latest = signal.value = value;
  return signal;
}

VcdWriter::Signal& VcdWriter::text(const std::string& scope, const std::string& name, Text text) {
  Signal& signal = declare(scope, name);
  signal.text = std::move(text);
  return signal;
}

void VcdWriter::pass(Picoseconds until) {
  while (!changes_.empty() && changes_.top().at < until) {
    const Change change = changes_.top();
    changes_.pop();
    if (change.at > to_) continue;
    if (change.at != instant_) {
      if (change.at < instant_) throw InternalError("a signal changes in the past");
      write_instant();
      if (!begun_ && change.at > from_) begin();
      instant_ = change.at;
    }
    Signal& signal = *change.signal;
    signal.value = change.relative ? signal.value + change.value : change.value;
    if (signal.noted) continue;
    signal.noted = true;
    noted_.push_back(&signal);
  }
  write_instant();
}

void VcdWriter::finish(Picoseconds end) {
  end = std::min(end, to_);
  pass(end + 1);
  if (!begun_) begin();
  write_time(end);
  flush();
  out_.flush();
  if (!out_) throw InputError(std::string("cannot write the waves: ") + std::strerror(errno));
}

void VcdWriter::begin() {
  begun_ = true;
  write_header();
  buffer_ += "#" + std::to_string(from_) + "\n$dumpvars\n";
  written_time_ = from_;
  for (Signal& signal : signals_) write_value(signal);
  buffer_ += "$end\n";
}

void VcdWriter::write_header() {
  buffer_ += std::string("$version Tilewright ") + kVersion + " $end\n$timescale 1 ps $end\n";
  std::vector<std::string> open;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) buffer_ += "$upscope $end\n";
  };
  for (const Signal& signal : signals_) {
    const std::vector<std::string> path = split(signal.scope);
    const auto [differs, ignored] =
        std::mismatch(open.begin(), open.end(), path.begin(), path.end());
    close_to(static_cast<std::size_t>(differs - open.begin()));
    for (std::size_t i = open.size(); i < path.size(); ++i) {
      open.push_back(path[i]);
      buffer_ += "$scope module " + path[i] + " $end\n";
    }
    if (signal.text) {
      buffer_ += "$var string 1 " + signal.id + " " + signal.name + " $end\n";
      continue;
    }
    const std::string bits = std::to_string(signal.bits);
    buffer_ += "$var wire " + bits + " " + signal.id + " " + signal.name;
    if (signal.bits > 1) buffer_ += " [" + std::to_string(signal.bits - 1) + ":0]";
    buffer_ += " $end\n";
  }
  close_to(0);
  buffer_ += "$enddefinitions $end\n";
}

void VcdWriter::write_instant() {
  for (Signal* signal : noted_) {
    signal->noted = false;
    if (!begun_ || signal->value == signal->written) continue;
    write_time(instant_);
    write_value(*signal);
  }
  noted_.clear();
  if (buffer_.size() >= kBuffer) flush();
}

void VcdWriter::write_time(Picoseconds t) {
  if (t <= written_time_) return;
  written_time_ = t;
  buffer_ += '#';
  buffer_ += std::to_string(t);
  buffer_ += '\n';
}

void VcdWriter::write_value(Signal& signal) {
  signal.written = signal.value;
  const bool nothing = signal.value == kNothing;
  if (signal.text) {
    std::string text = nothing ? "-" : signal.text(signal.value);
    for (char& c : text) {
      if (c <= ' ' || c > '~') c = '_';
    }
    buffer_ += 's';
    buffer_ += text.empty() ? "-" : text;
    buffer_ += ' ';
  } else if (signal.bits == 1) {
    buffer_ += nothing ? 'z' : static_cast<char>('0' + (signal.value & 1u));
  } else {
    buffer_ += 'b';
    if (nothing) {
      buffer_ += 'z';
    } else {
      append_bits(buffer_, signal.value);
    }
    buffer_ += ' ';
  }
  buffer_ += signal.id;
  buffer_ += '\n';
}

void VcdWriter::flush() {
  out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
  buffer_.clear();
  if (!out_) throw InputError(std::string("cannot write the waves: ") + std::strerror(errno));
}

}  // namespace tilewright
