// Bandwidth shared byte-fairly between flows: a pure data structure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// Fluid fair queueing. Requests of one flow are served in order; at every instant the flows that
/// have work receive equal parts of the bandwidth. Kept in virtual time (the bytes every busy flow
/// has received), in which a request's end never changes once it is at its flow's head: O(log n)
/// per request for n busy flows.
class FairShare {
 public:
  struct Done {
    std::uint32_t token = 0;
    Picoseconds started = 0;  ///< when the request came to the head of its flow
  };

  /// `bytes_per_ps` may be infinite.
  explicit FairShare(double bytes_per_ps) : rate_(bytes_per_ps) {}

  void add(Picoseconds now, std::uint32_t flow, std::uint64_t bytes, std::uint32_t token);
  /// From `now` on, all flows together; above zero.
  void set_rate(Picoseconds now, double bytes_per_ps);
  /// Flows that have work.
  std::size_t flows() const { return heads_.size(); }
  /// When the next request completes if none is added; all ones when there is none.
  Picoseconds next() const;
  /// Takes one request that has completed by `now`; false when there is none.
  bool pop(Picoseconds now, Done& done);
  /// Time with at least one request in service, up to the last call.
  Picoseconds busy() const { return busy_; }

 private:
  static constexpr std::uint32_t kNil = 0xffffffffu;
  struct Request {
    double bytes;
    Picoseconds started;
    std::uint32_t token, next;
  };
  struct Flow {
    std::uint32_t head = kNil, tail = kNil;
  };
  struct Head {
    double finish;  // virtual time
    std::uint64_t order;
    std::uint32_t flow;
    bool operator<(const Head& o) const {  // for a heap with the earliest on top
      return finish != o.finish ? finish > o.finish : order > o.order;
    }
  };

  void advance(Picoseconds now);
  void push_head(std::uint32_t flow, double finish);
  double rate_per_flow() const { return rate_ / static_cast<double>(heads_.size()); }

  double rate_;
  double virtual_ = 0;
  Picoseconds last_ = 0, busy_ = 0;
  std::uint64_t order_ = 0;
  std::vector<Head> heads_;
  std::vector<Flow> flows_;
  std::unordered_map<std::uint32_t, std::uint32_t> flow_of_;  // flow number -> flows_
  std::vector<Request> requests_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tilewright
