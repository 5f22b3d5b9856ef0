#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/fair_share.h>

#include "banked_model.h"

namespace tilewright {

namespace {

class BandwidthModel final : public DramModel {
 public:
  explicit BandwidthModel(const DramConfig& config)
      : latency_(to_picoseconds(config.latency)),
        bytes_per_ps_(config.bandwidth.value() * 1e-12),
        share_(bytes_per_ps_) {}

  void add(Picoseconds now, std::uint32_t requester, std::uint64_t, std::uint64_t bytes, bool,
           std::uint32_t token) override {
    if (latency_ == 0) {
      share_.add(now, requester, bytes, token);
      return;
    }
    const Picoseconds ready = now + latency_;
    waiting_.push_back({ready, bytes, requester, token});
    earliest_ = std::min(earliest_, ready + alone(bytes));
  }

  // A request enters the share when its latency is over, but nothing can be complete before it has
  // been served alone: that is early enough to look.
  Picoseconds next() const override { return std::min(share_.next(), earliest_); }

  bool pop(Picoseconds now, Completion& completion) override {
    FairShare::Done done;
    if (!waiting_.empty() && waiting_.front().ready <= now) admit(now);
    if (!share_.pop(now, done)) return false;
    completion = {done.token, done.started};
    return true;
  }

  Picoseconds unloaded(std::uint64_t bytes) const override { return latency_ + alone(bytes); }
  Picoseconds busy() const override { return share_.busy(); }

 private:
  Picoseconds alone(std::uint64_t bytes) const {
    return static_cast<Picoseconds>(std::llround(static_cast<double>(bytes) / bytes_per_ps_));
  }

  // Each at the time it became ready; whatever was complete before then has been taken already.
  void admit(Picoseconds now) {
    earliest_ = std::numeric_limits<Picoseconds>::max();
    while (!waiting_.empty() && waiting_.front().ready <= now) {
      const Waiting& w = waiting_.front();
      share_.add(w.ready, w.requester, w.bytes, w.token);
      waiting_.pop_front();
    }
    for (const Waiting& w : waiting_) earliest_ = std::min(earliest_, w.ready + alone(w.bytes));
  }

  struct Waiting {
    Picoseconds ready;
    std::uint64_t bytes;
    std::uint32_t requester, token;
  };
  Picoseconds latency_;
  double bytes_per_ps_;
  Picoseconds earliest_ = std::numeric_limits<Picoseconds>::max();  // of those that wait
  std::deque<Waiting> waiting_;  // in order of readiness, the latency being constant
  FairShare share_;
};

}  // namespace

std::unique_ptr<DramModel> make_dram_model(const DramConfig& config) {
  if (config.model == "bandwidth") {
    if (!(config.bandwidth.value() > 0)) {
      throw InputError("dram.bandwidth must be above zero");
    }
    return std::make_unique<BandwidthModel>(config);
  }
  if (config.model == "banked") return make_banked_model(config.part);
  throw InputError("dram.model: '" + config.model + "' is not known; allowed: bandwidth, banked");
}

}  // namespace tilewright
