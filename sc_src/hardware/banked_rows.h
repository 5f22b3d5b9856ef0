// The open rows of a banked channel, for observers.
#pragma once

#include <cmath>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/probe.h>

#include "banked_channel.h"

namespace tilewright {

/// The time of a command-clock cycle, to the nearest picosecond.
inline Picoseconds cycle_time(BankedChannel::Cycle cycle, double period_ps) {
  return static_cast<Picoseconds>(std::llround(static_cast<double>(cycle) * period_ps));
}

/// A copy of a channel that goes from command to command. The channel is deterministic: until a
/// request is added its future is that of the copy, however it gets there itself.
class ChannelRows final : public RowReplay {
 public:
  /// `channel` outlives this.
  ChannelRows(const BankedChannel& channel, double period_ps);

  std::size_t banks() const override { return rows_.size(); }
  std::int64_t row(std::size_t bank) const override { return rows_[bank]; }
  void update() override;
  Picoseconds next() override;
  void advance() override;

 private:
  void copy();
  void look();
  bool changed() const;
  bool all_closed() const;

  const BankedChannel& channel_;
  BankedChannel ahead_;  // where the next change has happened, once looked_
  double period_;
  std::int64_t jobs_ = 0;
  std::vector<std::int64_t> rows_;
  bool looked_ = false;
  Picoseconds next_ = 0;
};

}  // namespace tilewright
