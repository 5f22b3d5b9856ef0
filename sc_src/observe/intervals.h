// Amounts over time, when nobody knows beforehand how long a run takes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// Equal intervals from time 0 on, of which several series have one amount each. When time goes on
/// beyond the last possible one, they get twice as wide.
class Intervals {
 public:
  static constexpr std::size_t kMost = 128;

  Picoseconds width() const { return width_; }
  /// How many it takes to `end`.
  std::size_t count(Picoseconds end) const { return (end + width_ - 1) / width_; }
  Picoseconds begin(std::size_t i) const { return i * width_; }
  /// The last one of a run is cut off by its end.
  Picoseconds length(std::size_t i, Picoseconds end) const {
    return std::min(width_, end - begin(i));
  }

  /// Makes room up to `end`; whenever they get wider, `each_series(fold)` has to call fold(series)
  /// for all that have amounts.
  template <class EachSeries>
  void cover(Picoseconds end, EachSeries each_series) {
    while (end > width_ * kMost) {
      width_ *= 2;
      each_series([](auto& series) { fold(series); });
    }
  }

  /// Calls take(interval, time) for the parts of [start, end), which is covered.
  template <class Take>
  void split(Picoseconds start, Picoseconds end, Take take) const {
    for (Picoseconds at = start; at < end;) {
      const std::size_t i = at / width_;
      const Picoseconds next = std::min(end, begin(i + 1));
      take(i, next - at);
      at = next;
    }
  }

 private:
  /// Joins the amounts of two intervals.
  template <class Amount>
  static void fold(std::vector<Amount>& series) {
    const std::size_t size = series.size();
    for (std::size_t i = 0; i < size; ++i) {
      const Amount amount = series[i];
      series[i] = Amount();
      series[i / 2] += amount;
    }
    series.resize((size + 1) / 2);
  }

  Picoseconds width_ = 1000;
};

}  // namespace tilewright
