// How long messages take, counted in bins.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

/// Counts whole numbers (picoseconds, or cycles) in bins that are spaced logarithmically: 32 to a
/// doubling, so that a bin is at most 1/32 (3.1 %) wide; below 64 each number has its own.
class LatencyHistogram {
 public:
  struct Bin {
    std::uint64_t first = 0, last = 0;  ///< numbers that it takes
    std::uint64_t count = 0;
  };

  void add(std::uint64_t value, std::uint64_t times = 1) {
    const std::size_t bin = bin_of(value);
    if (bin >= counts_.size()) counts_.resize(bin + 1);
    counts_[bin] += times;
    count_ += times;
    sum_ += static_cast<double>(value) * static_cast<double>(times);
    max_ = std::max(max_, value);
  }

  std::uint64_t count() const { return count_; }
  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  std::uint64_t max() const { return max_; }
  /// The least number that `share` of those counted do not exceed, too high by less than a bin.
  std::uint64_t percentile(double share) const {
    const auto rank = static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(count_)));
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      sum += counts_[i];
      if (sum >= rank && sum > 0) return std::min(first_of(i + 1) - 1, max_);
    }
    return 0;
  }
  /// Those that hold anything, in order.
  std::vector<Bin> bins() const {
    std::vector<Bin> result;
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      if (counts_[i] > 0) result.push_back({first_of(i), first_of(i + 1) - 1, counts_[i]});
    }
    return result;
  }

 private:
  static constexpr unsigned kBits = 5;  // 2^kBits bins to a doubling

  static std::size_t bin_of(std::uint64_t value) {
    if (value >> (kBits + 1) == 0) return value;
    const auto shift = 63u - static_cast<unsigned>(__builtin_clzll(value)) - kBits;
    return (std::size_t{shift} << kBits) + (value >> shift);
  }
  static std::uint64_t first_of(std::size_t bin) {
    if (bin >> (kBits + 1) == 0) return bin;
    const std::size_t shift = (bin >> kBits) - 1;
    return ((bin & ((1u << kBits) - 1)) + (1u << kBits)) * (std::uint64_t{1} << shift);
  }

  std::vector<std::uint64_t> counts_;
  std::uint64_t count_ = 0, max_ = 0;
  double sum_ = 0;
};

}  // namespace tilewright
