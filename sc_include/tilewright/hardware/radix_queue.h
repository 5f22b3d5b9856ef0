// A monotone priority queue of timed 16-byte entries: the data structure inside EventQueue.
//
// A radix heap: entries later than a reference time sit unsorted in the bucket of the highest bit
// in which their time differs from it; the rest are kept sorted at the bottom. Popping mostly reads
// the bottom, and a bucket is sorted or split only when the bottom has run out, so the cost per
// entry does not grow with the number pending (docs/hardware.md).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tilewright {

class RadixQueue {
 public:
  /// Ordered by time, then by key.
  struct Entry {
    std::uint64_t key;
    std::uint64_t time;
  };
  static bool before(const Entry& a, const Entry& b) {
    __extension__ using Wide = unsigned __int128;
    return ((Wide{a.time} << 64) | a.key) < ((Wide{b.time} << 64) | b.key);
  }

  bool empty() const { return size_ == 0; }
  std::size_t size() const { return size_; }

  /// Any time is allowed, also one earlier than what front() has shown.
  void push(const Entry& e) {
    ++size_;
    if (e.time > reference_) {
      to_bucket(e);
    } else {
      to_bottom(e);
    }
  }

  /// The earliest entry, null when there is none. Valid until the next push() or drop().
  const Entry* front() {
    if (early_.empty()) {
      if (head_ == bottom_.size()) {
        if (size_ == 0) return nullptr;
        refill();
      }
      return &bottom_[head_];
    }
    return bottom_first() ? &bottom_[head_] : &early_.front();
  }

  /// Removes the entry that front() shows; call front() first.
  void drop() {
    --size_;
    if (!early_.empty() && !bottom_first()) {
      drop_early();
    } else if (++head_ == bottom_.size()) {
      bottom_.clear();
      head_ = 0;
    }
  }

  Entry pop() {
    const Entry e = *front();
    drop();
    return e;
  }

 private:
  static constexpr std::size_t kSortWhole = 16;   // buckets up to this size are sorted as they are
  static constexpr std::size_t kSplitAbove = 64;  // a longer bottom goes back into buckets

  void to_bucket(const Entry& e) {
    const int bit = 63 - __builtin_clzll(e.time ^ reference_);
    buckets_[static_cast<std::size_t>(bit)].push_back(e);
    occupied_ |= std::uint64_t{1} << bit;
  }
  void to_bottom(const Entry& e) {
    if (bottom_.size() - head_ >= kSplitAbove) {
      crowded(e);
      return;
    }
    bottom_.push_back(e);
    std::size_t i = bottom_.size() - 1;
    for (; i > head_ && before(e, bottom_[i - 1]); --i) bottom_[i] = bottom_[i - 1];
    bottom_[i] = e;
  }
  void crowded(const Entry& e);
  void drop_early();
  bool bottom_first() const {
    return head_ < bottom_.size() && before(bottom_[head_], early_.front());
  }
  void refill();

  // Invariant: bottom_[head_..] is sorted and holds, with the binary heap early_, every entry with
  // time <= reference_; a later one is in the bucket of its highest bit that differs.
  std::vector<Entry> bottom_;
  std::size_t head_ = 0;
  std::vector<Entry> early_;  // used when the bottom is crowded with entries of one time
  std::uint64_t reference_ = 0;
  std::uint64_t occupied_ = 0;
  std::size_t size_ = 0;
  std::array<std::vector<Entry>, 64> buckets_;
};

}  // namespace tilewright
