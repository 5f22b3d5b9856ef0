#include <algorithm>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/fair_share.h>

#include "averaged_model.h"
#include "banked_model.h"
#include "latency_stage.h"

namespace tilewright {

namespace {

class BandwidthModel final : public DramModel {
 public:
  explicit BandwidthModel(const DramConfig& config)
      : stage_(to_picoseconds(config.latency), config.bandwidth.value() * 1e-12),
        share_(config.bandwidth.value() * 1e-12) {}

  void add(Picoseconds now, std::uint32_t requester, std::uint64_t, std::uint64_t bytes, bool write,
           std::uint32_t token) override {
    if (stage_.latency() == 0) {
      share_.add(now, requester, bytes, token);
    } else {
      stage_.add(now, {0, bytes, requester, token, write});
    }
  }

  Picoseconds next() const override { return std::min(share_.next(), stage_.next()); }

  bool pop(Picoseconds now, Completion& completion) override {
    stage_.release(now, [this](const WaitingRequest& w) {
      share_.add(w.ready, w.requester, w.bytes, w.token);
    });
    FairShare::Done done;
    if (!share_.pop(now, done)) return false;
    completion = {done.token, done.started};
    return true;
  }

  Picoseconds unloaded(std::uint64_t bytes) const override {
    return stage_.latency() + stage_.alone(bytes);
  }
  Picoseconds busy() const override { return share_.busy(); }

 private:
  LatencyStage stage_;
  FairShare share_;
};

}  // namespace

std::unique_ptr<DramModel> make_dram_model(const DramConfig& config,
                                           const std::shared_ptr<MixRates>& rates) {
  if (config.model == "bandwidth") {
    if (!(config.bandwidth.value() > 0)) {
      throw InputError("dram.bandwidth must be above zero");
    }
    return std::make_unique<BandwidthModel>(config);
  }
  if (config.model == "banked" && config.streams == DramStreams::averaged) {
    return make_averaged_model(config.part,
                               rates != nullptr ? rates : std::make_shared<MixRates>(config.part));
  }
  if (config.model == "banked") return make_banked_model(config.part);
  throw InputError("dram.model: '" + config.model + "' is not known; allowed: bandwidth, banked");
}

}  // namespace tilewright
