#include <algorithm>
#include <cmath>
#include <deque>

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

  void add(Picoseconds now, std::uint32_t tile, std::uint64_t, std::uint64_t bytes, bool,
           std::uint32_t token) override {
    if (latency_ == 0) {
      share_.add(now, tile, bytes, token);
    } else {
      waiting_.push_back({now + latency_, bytes, tile, token});
    }
  }

  Picoseconds next() const override {
    const Picoseconds next = share_.next();
    return waiting_.empty() ? next : std::min(next, waiting_.front().ready);
  }

  bool pop(Picoseconds now, Completion& completion) override {
    FairShare::Done done;
    while (!waiting_.empty() && waiting_.front().ready <= now) {
      const Waiting& w = waiting_.front();
      share_.add(now, w.tile, w.bytes, w.token);
      waiting_.pop_front();
    }
    if (!share_.pop(now, done)) return false;
    completion = {done.token, done.started};
    return true;
  }

  Picoseconds unloaded(std::uint64_t bytes) const override {
    return latency_ +
           static_cast<Picoseconds>(std::llround(static_cast<double>(bytes) / bytes_per_ps_));
  }
  Picoseconds busy() const override { return share_.busy(); }

 private:
  struct Waiting {
    Picoseconds ready;
    std::uint64_t bytes;
    std::uint32_t tile, token;
  };
  Picoseconds latency_;
  double bytes_per_ps_;
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
