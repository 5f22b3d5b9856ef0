#include "banked_model.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include <tilewright/base/error.h>

#include "banked_channel.h"
#include "banked_rows.h"

namespace tilewright {
namespace {

using Cycle = BankedChannel::Cycle;

constexpr Picoseconds kNone = std::numeric_limits<Picoseconds>::max();

// Look-ahead in scheduler steps: short while requests keep arriving, which make it void; longer and
// longer while none do.
constexpr std::int64_t kFirstLook = 64, kLongestLook = 1 << 20;

/// A channel, and its future if nothing is added.
struct Lane {
  BankedChannel channel, ahead;
  bool looked = false;
  Cycle wake = BankedChannel::kIdle;  // when `ahead` becomes the present
  std::int64_t look = kFirstLook;
  using End = std::tuple<Cycle, std::uint32_t, Cycle>;  // last data, request, first data
  std::priority_queue<End, std::vector<End>, std::greater<End>> ends;

  explicit Lane(const BankedChannel& c) : channel(c), ahead(c) {}

  void collect() {
    for (const auto& f : channel.finished()) ends.push({f.last, f.request, f.first});
    channel.finished().clear();
  }

  void look_ahead() {
    if (looked) return;
    looked = true;
    wake = BankedChannel::kIdle;
    if (channel.idle()) return;
    ahead = channel;
    ahead.run(BankedChannel::kIdle, look);
    wake = ahead.finished().empty() ? ahead.now() + 1 : ahead.finished().front().last;
  }

  /// `ahead` has come true by `cycle`.
  void commit(Cycle cycle) {
    if (!looked || wake > cycle) return;
    std::swap(channel, ahead);
    looked = false;
    look = std::min(2 * look, kLongestLook);
    collect();
  }

  void advance(Cycle cycle) {
    if (looked && wake != BankedChannel::kIdle && ahead.now() < cycle) {
      std::swap(channel, ahead);
      looked = false;
      collect();
    }
    do {
      collect();
      channel.run(cycle);
    } while (!channel.finished().empty());
    looked = false;
    look = kFirstLook;
  }
};

class BankedModel final : public DramModel {
 public:
  BankedModel(const MemoryPart& part, bool remember_streams)
      : part_(part), period_(1e12 / part.clock.value()) {
    below_channel_ = 1;
    for (const AddressField field : part_.mapping) {
      if (field == AddressField::channel) break;
      below_channel_ *= field == AddressField::row      ? part_.rows
                        : field == AddressField::bank   ? part_.banks
                        : field == AddressField::group  ? part_.groups
                        : field == AddressField::column ? part_.columns
                                                        : part_.pseudo;
    }
    for (std::int64_t c = 0; c < part_.channels; ++c) {
      lanes_.emplace_back(BankedChannel(part_, remember_streams ? &stretches_ : nullptr));
    }
  }

  void add(Picoseconds now, std::uint32_t requester, std::uint64_t address, std::uint64_t bytes,
           bool write, std::uint32_t token) override {
    const auto burst = static_cast<std::uint64_t>(part_.burst.value());
    const auto first = static_cast<std::int64_t>(address / burst);
    const auto end = static_cast<std::int64_t>(
        (address + std::max<std::uint64_t>(1, bytes) + burst - 1) / burst);
    if (token >= requests_.size()) requests_.resize(token + 1);
    Request& request = requests_[token];
    request = {};
    const Cycle cycle = to_cycle(now);
    for (std::int64_t c = 0; c < part_.channels; ++c) {
      const std::int64_t from = local(first, c), to = local(end, c);
      if (from == to) continue;
      Lane& lane = lanes_[static_cast<std::size_t>(c)];
      lane.advance(cycle);
      lane.channel.add(cycle, {from, to, requester, token, write});
      ++request.parts;
    }
  }

  Picoseconds next() const override {
    if (!done_.empty()) return 0;
    Picoseconds next = kNone;
    for (Lane& lane : lanes_) {
      lane.look_ahead();
      Cycle cycle = lane.wake;
      if (!lane.ends.empty()) cycle = std::min(cycle, std::get<0>(lane.ends.top()));
      if (cycle != BankedChannel::kIdle) next = std::min(next, to_time(cycle));
    }
    return next;
  }

  bool pop(Picoseconds now, Completion& completion) override {
    const Cycle cycle = to_cycle(now);
    for (Lane& lane : lanes_) {
      lane.commit(cycle);
      while (!lane.ends.empty() && std::get<0>(lane.ends.top()) <= cycle) {
        const auto [last, token, first] = lane.ends.top();
        lane.ends.pop();
        Request& r = requests_[token];
        r.first = std::min(r.first, to_time(first));
        if (--r.parts == 0) done_.push_back({token, r.first});
      }
    }
    if (done_.empty()) return false;
    completion = done_.front();
    done_.pop_front();
    return true;
  }

  Picoseconds unloaded(std::uint64_t bytes) const override {
    return to_picoseconds(part_.latency() + Bytes(static_cast<double>(bytes)) / part_.bandwidth());
  }

  Picoseconds busy() const override {
    double bursts = 0;
    for (const Lane& lane : lanes_) bursts += static_cast<double>(lane.channel.bursts());
    return static_cast<Picoseconds>(
        std::llround(bursts * static_cast<double>(part_.timing.burst) * period_ /
                     static_cast<double>(part_.channels * part_.pseudo)));
  }

  std::vector<std::unique_ptr<RowReplay>> rows() const override {
    std::vector<std::unique_ptr<RowReplay>> rows;
    for (const Lane& lane : lanes_) {
      rows.push_back(std::make_unique<ChannelRows>(lane.channel, period_));
    }
    return rows;
  }

 private:
  struct Request {
    std::int64_t parts = 0;
    Picoseconds first = kNone;
  };

  /// Times of cycles are rounded to the nearest picosecond, which must lead back to the same cycle.
  Cycle to_cycle(Picoseconds t) const {
    return static_cast<Cycle>(std::ceil((static_cast<double>(t) - 0.51) / period_));
  }
  Picoseconds to_time(Cycle c) const { return cycle_time(c, period_); }

  /// Bursts of channel c before burst `index` of the whole memory: its number inside the channel.
  std::int64_t local(std::int64_t index, std::int64_t c) const {
    const std::int64_t low = index % below_channel_, at = index / below_channel_;
    const std::int64_t channel = at % part_.channels, high = at / part_.channels;
    return high * below_channel_ + (channel > c ? below_channel_ : channel == c ? low : 0);
  }

  MemoryPart part_;
  double period_;  // ps per cycle
  std::int64_t below_channel_;
  StretchMemory stretches_;
  mutable std::vector<Lane> lanes_;  // next() looks ahead, which changes nothing observable
  std::vector<Request> requests_;    // by token
  std::deque<Completion> done_;
};

}  // namespace

std::unique_ptr<DramModel> make_banked_model(const MemoryPart& part, bool remember_streams) {
  return std::make_unique<BankedModel>(part, remember_streams);
}

}  // namespace tilewright
