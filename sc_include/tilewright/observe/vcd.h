// Writes a value change dump (IEEE 1364-2005 clause 18), with GTKWave's text variables.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <iosfwd>
#include <queue>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// Streams the changes of signals within a window of time, timescale 1 ps. A change costs when it
/// happens; a signal that does not change costs nothing. Only the last value of an instant is
/// written, and only when it differs from the one before.
///
/// Changes may be noted ahead of time and out of order; they are kept until pass() says that
/// nothing earlier will come. What is kept is all the memory that grows.
class VcdWriter {
 public:
  static constexpr Picoseconds kForever = ~Picoseconds{0};
  /// No value: "z", of a text "-".
  static constexpr std::uint64_t kNothing = ~std::uint64_t{0};
  /// What a viewer shows for a value. Blanks are written as underscores.
  using Text = std::function<std::string(std::uint64_t value)>;

  struct Signal {
    std::string scope;                ///< "tiles.t0_0.matrix"
    std::string name;                 ///< "busy"
    unsigned bits = 1;                ///< up to 64
    Text text;                        ///< of a text variable; empty otherwise
    std::string id;                   ///< in the file
    std::uint64_t latest = kNothing;  // as set(), maybe of later
    std::uint64_t value = kNothing, written = kNothing;
    bool noted = false;  // among those to write for the instant
  };

  /// Writes to `out` what happens from `from` to `to`, both included, beginning with all values at
  /// `from`.
  VcdWriter(std::ostream& out, Picoseconds from, Picoseconds to)
      : out_(out), from_(from), to_(to) {}

  /// Declares a signal; all of them before the first pass(), those of one scope one after the
  /// other. The reference stays valid.
  Signal& wire(const std::string& scope, const std::string& name, unsigned bits,
               std::uint64_t value = kNothing);
  Signal& text(const std::string& scope, const std::string& name, Text text);
  const std::deque<Signal>& signals() const { return signals_; }

  /// `signal` has `value` from `at` on, which lies neither before the last pass() nor before the
  /// last set() of the signal.
  void set(Signal& signal, Picoseconds at, std::uint64_t value) {
    if (signal.latest == value) return;
    signal.latest = value;
    changes_.push({at, order_++, &signal, value, false});
  }
  /// `signal` changes by `amount` at `at`, which does not lie before the last pass().
  void add(Signal& signal, Picoseconds at, std::int64_t amount) {
    changes_.push({at, order_++, &signal, static_cast<std::uint64_t>(amount), true});
  }
  /// No further change will lie before `until`: those that do are written. Throws InputError when
  /// the stream refuses them.
  void pass(Picoseconds until);
  /// Writes what is left up to `end`, and the end itself. Nothing may follow.
  void finish(Picoseconds end);

 private:
  struct Change {
    Picoseconds at;
    std::uint64_t order;
    Signal* signal;
    std::uint64_t value;
    bool relative;
    bool operator<(const Change& o) const {  // for a heap with the earliest on top
      return at != o.at ? at > o.at : order > o.order;
    }
  };

  Signal& declare(const std::string& scope, const std::string& name);
  void begin();
  void write_header();
  void write_instant();
  void write_time(Picoseconds t);
  void write_value(Signal& signal);
  void flush();

  std::ostream& out_;
  Picoseconds from_, to_;
  std::deque<Signal> signals_;
  std::priority_queue<Change> changes_;
  std::uint64_t order_ = 0;
  Picoseconds instant_ = 0;  // of the changes in noted_
  std::vector<Signal*> noted_;
  bool begun_ = false;
  Picoseconds written_time_ = 0;
  std::string buffer_;
};

}  // namespace tilewright
