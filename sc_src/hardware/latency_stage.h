// Requests that wait for a memory's latency before they share its bandwidth.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// A request that is ready when its latency is over.
struct WaitingRequest {
  Picoseconds ready;
  std::uint64_t bytes;
  std::uint32_t requester, token;
  bool write;
};

/// Constant latency: requests become ready in the order in which they came.
class LatencyStage {
 public:
  LatencyStage(Picoseconds latency, double bytes_per_ps)
      : latency_(latency), bytes_per_ps_(bytes_per_ps) {}

  void add(Picoseconds now, WaitingRequest request) {
    request.ready = now + latency_;
    waiting_.push_back(request);
    earliest_ = std::min(earliest_, request.ready + alone(request.bytes));
  }

  /// A request enters the share when its latency is over, but nothing can be complete before it has
  /// been served alone: that is early enough to look. All ones when none waits.
  Picoseconds next() const { return earliest_; }

  /// Calls `enter` with those that were ready by `now`; whatever was complete before a request
  /// became ready has been taken already.
  template <class Enter>
  void release(Picoseconds now, const Enter& enter) {
    if (waiting_.empty() || waiting_.front().ready > now) return;
    while (!waiting_.empty() && waiting_.front().ready <= now) {
      enter(waiting_.front());
      waiting_.pop_front();
    }
    earliest_ = std::numeric_limits<Picoseconds>::max();
    for (const WaitingRequest& w : waiting_) {
      earliest_ = std::min(earliest_, w.ready + alone(w.bytes));
    }
  }

  Picoseconds latency() const { return latency_; }
  /// Time for `bytes` at the whole bandwidth.
  Picoseconds alone(std::uint64_t bytes) const {
    return static_cast<Picoseconds>(std::llround(static_cast<double>(bytes) / bytes_per_ps_));
  }

 private:
  Picoseconds latency_;
  double bytes_per_ps_;
  Picoseconds earliest_ = std::numeric_limits<Picoseconds>::max();
  std::deque<WaitingRequest> waiting_;
};

}  // namespace tilewright
