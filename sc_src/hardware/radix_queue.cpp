#include <algorithm>

#include <tilewright/hardware/radix_queue.h>

namespace tilewright {

namespace {
// Function objects, so that the algorithms inline them.
struct Before {
  bool operator()(const RadixQueue::Entry& a, const RadixQueue::Entry& b) const {
    return RadixQueue::before(a, b);
  }
};
struct After {
  bool operator()(const RadixQueue::Entry& a, const RadixQueue::Entry& b) const {
    return RadixQueue::before(b, a);
  }
};
}  // namespace

// The bottom has run out: take the lowest bucket, whose entries are the earliest of all.
void RadixQueue::refill() {
  const int bit = __builtin_ctzll(occupied_);
  std::vector<Entry>& bucket = buckets_[static_cast<std::size_t>(bit)];
  occupied_ &= occupied_ - 1;
  bottom_.clear();
  head_ = 0;
  if (bucket.size() <= kSortWhole) {
    bottom_.swap(bucket);
    std::sort(bottom_.begin(), bottom_.end(), Before());
    // The last time this bucket could hold: what is pushed up to there joins the sorted bottom.
    reference_ |= (std::uint64_t{2} << bit) - 1;
    return;
  }
  std::uint64_t first = bucket.front().time;
  for (const Entry& e : bucket) first = std::min(first, e.time);
  reference_ = first;
  for (const Entry& e : bucket) {
    if (e.time == first) {
      bottom_.push_back(e);
    } else {
      to_bucket(e);  // a lower bucket than this one
    }
  }
  bucket.clear();
  std::sort(bottom_.begin(), bottom_.end(), Before());
}

// Too many entries up to the reference for sorted insertion: bring the reference forward and send
// the later ones back to the buckets, or, when they all have the same time, use the heap. While the
// heap is in use the reference must stay: the heap's entries may not be later than it.
void RadixQueue::crowded(const Entry& e) {
  const std::uint64_t pivot = bottom_[head_ + kSplitAbove / 2].time;
  if (!early_.empty() || bottom_.back().time == pivot) {
    early_.push_back(e);
    std::push_heap(early_.begin(), early_.end(), After());
    return;
  }
  reference_ = pivot;
  std::size_t keep = bottom_.size();
  while (bottom_[keep - 1].time > pivot) --keep;
  for (std::size_t i = keep; i < bottom_.size(); ++i) to_bucket(bottom_[i]);
  bottom_.resize(keep);
  --size_;
  push(e);
}

void RadixQueue::drop_early() {
  std::pop_heap(early_.begin(), early_.end(), After());
  early_.pop_back();
}

}  // namespace tilewright
