#include "averaged_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <tilewright/hardware/fair_share.h>

#include "latency_stage.h"

namespace tilewright {
namespace {

class AveragedModel final : public DramModel {
 public:
  AveragedModel(const MemoryPart& part, std::shared_ptr<MixRates> rates)
      : rates_(std::move(rates)),
        stage_(to_picoseconds(part.latency()), part.bandwidth().value() * 1e-12),
        readers_(1),
        writers_(1) {}

  void add(Picoseconds now, std::uint32_t requester, std::uint64_t, std::uint64_t bytes, bool write,
           std::uint32_t token) override {
    stage_.add(now, {0, bytes, requester, token, write});
    bytes_ += bytes;
  }

  Picoseconds next() const override {
    return std::min({readers_.next(), writers_.next(), stage_.next()});
  }

  bool pop(Picoseconds now, Completion& completion) override {
    stage_.release(now, [this](const WaitingRequest& w) {
      (w.write ? writers_ : readers_).add(w.ready, w.requester, w.bytes, w.token);
      set_rates(w.ready);
    });
    FairShare::Done done;
    if (!readers_.pop(now, done) && !writers_.pop(now, done)) return false;
    set_rates(now);
    completion = {done.token, done.started};
    return true;
  }

  Picoseconds unloaded(std::uint64_t bytes) const override {
    return stage_.latency() + stage_.alone(bytes);
  }
  Picoseconds busy() const override { return stage_.alone(bytes_); }

 private:
  void set_rates(Picoseconds now) {
    const std::size_t readers = readers_.flows(), writers = writers_.flows();
    if (readers == of_readers_ && writers == of_writers_) return;
    of_readers_ = readers;
    of_writers_ = writers;
    const MixRates::Rates rates = rates_->of(readers, writers);
    if (readers > 0) readers_.set_rate(now, rates.read * static_cast<double>(readers));
    if (writers > 0) writers_.set_rate(now, rates.write * static_cast<double>(writers));
  }

  std::shared_ptr<MixRates> rates_;
  LatencyStage stage_;
  FairShare readers_, writers_;
  std::size_t of_readers_ = 0, of_writers_ = 0;  // that the rates are for
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::unique_ptr<DramModel> make_averaged_model(const MemoryPart& part,
                                               std::shared_ptr<MixRates> rates) {
  return std::make_unique<AveragedModel>(part, std::move(rates));
}

}  // namespace tilewright
