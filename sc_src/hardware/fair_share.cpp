#include <algorithm>
#include <cmath>
#include <limits>

#include <tilewright/hardware/fair_share.h>

namespace tilewright {

void FairShare::advance(Picoseconds now) {
  if (now == last_) return;
  if (!heads_.empty()) {
    busy_ += now - last_;
    virtual_ += static_cast<double>(now - last_) * rate_per_flow();
  }
  last_ = now;
}

void FairShare::set_rate(Picoseconds now, double bytes_per_ps) {
  advance(now);
  rate_ = bytes_per_ps;
}

void FairShare::push_head(std::uint32_t flow, double finish) {
  heads_.push_back({finish, order_++, flow});
  std::push_heap(heads_.begin(), heads_.end());
}

void FairShare::add(Picoseconds now, std::uint32_t flow, std::uint64_t bytes, std::uint32_t token) {
  advance(now);
  const auto [known, added] = flow_of_.try_emplace(flow, static_cast<std::uint32_t>(flows_.size()));
  if (added) flows_.emplace_back();
  Flow& f = flows_[known->second];

  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(requests_.size());
    requests_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  requests_[index] = {static_cast<double>(bytes), now, token, kNil};
  if (f.head == kNil) {
    f.head = f.tail = index;
    push_head(known->second, virtual_ + static_cast<double>(bytes));
  } else {
    requests_[f.tail].next = index;
    f.tail = index;
  }
}

Picoseconds FairShare::next() const {
  if (heads_.empty()) return std::numeric_limits<Picoseconds>::max();
  const double wait = (heads_.front().finish - virtual_) / rate_per_flow();
  return last_ + whole_picoseconds(std::max(0.0, wait));
}

bool FairShare::pop(Picoseconds now, Done& done) {
  advance(now);
  if (heads_.empty()) return false;
  const Head head = heads_.front();
  if (!std::isinf(rate_)) {
    // Completions are rounded to the nearest picosecond, so one may be up to half of one early.
    const double slack = 0.51 * rate_per_flow() + 1e-12 * head.finish;
    if (head.finish > virtual_ + slack) return false;
  }
  std::pop_heap(heads_.begin(), heads_.end());
  heads_.pop_back();

  Flow& flow = flows_[head.flow];
  const std::uint32_t index = flow.head;
  done = {requests_[index].token, requests_[index].started};
  flow.head = requests_[index].next;
  free_.push_back(index);
  if (flow.head != kNil) {
    requests_[flow.head].started = now;
    push_head(head.flow, head.finish + requests_[flow.head].bytes);
  }
  if (heads_.empty()) virtual_ = 0;
  return true;
}

}  // namespace tilewright
