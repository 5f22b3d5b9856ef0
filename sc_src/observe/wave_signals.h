// Which signals a user has asked for.
#pragma once

#include <string>
#include <vector>

#include <tilewright/observe/vcd.h>

namespace tilewright {

/// Declares signals in a dump, those alone that some pattern selects.
class WaveSignals {
 public:
  using Signal = VcdWriter::Signal;

  WaveSignals(VcdWriter& vcd, const std::vector<std::string>& patterns);

  /// Null when no pattern selects it.
  Signal* wire(const std::string& scope, const std::string& name, unsigned bits,
               std::uint64_t value = VcdWriter::kNothing);
  Signal* text(const std::string& scope, const std::string& name, const VcdWriter::Text& text);
  /// Signals declared.
  std::size_t size() const { return vcd_.signals().size(); }

  void set(Signal* signal, Picoseconds at, std::uint64_t value) {
    if (signal != nullptr) vcd_.set(*signal, at, value);
  }
  void add(Signal* signal, Picoseconds at, std::int64_t amount) {
    if (signal != nullptr) vcd_.add(*signal, at, amount);
  }

  /// A pattern that has selected nothing; null if there is none.
  const std::string* unused() const;

 private:
  struct Pattern {
    std::string here, below;  // globs of a signal, and of those in a scope
    bool used = false;
  };
  bool selects(const std::string& scope, const std::string& name);

  VcdWriter& vcd_;
  std::vector<Pattern> patterns_;
};

}  // namespace tilewright
