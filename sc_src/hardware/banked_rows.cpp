#include "banked_rows.h"

#include <algorithm>
#include <limits>

namespace tilewright {

ChannelRows::ChannelRows(const BankedChannel& channel, double period_ps)
    : channel_(channel), ahead_(channel), period_(period_ps), rows_(channel.banks(), kClosed) {
  copy();
}

void ChannelRows::copy() {
  ahead_ = channel_;
  ahead_.forget_stretches();
  ahead_.finished().clear();
  jobs_ = channel_.jobs();
  advance();
}

void ChannelRows::update() {
  if (channel_.jobs() != jobs_) copy();
}

Picoseconds ChannelRows::next() {
  if (!looked_) look();
  return next_;
}

void ChannelRows::advance() {
  for (std::size_t b = 0; b < rows_.size(); ++b) rows_[b] = ahead_.row(b);
  looked_ = false;
}

void ChannelRows::look() {
  looked_ = true;
  while (!changed()) {
    if (!ahead_.idle()) {
      ahead_.run(BankedChannel::kIdle, 1);
      ahead_.finished().clear();
    } else if (!all_closed() && ahead_.refresh_due() != BankedChannel::kIdle) {
      ahead_.run(ahead_.refresh_due() + 1);
    } else {
      next_ = std::numeric_limits<Picoseconds>::max();
      return;
    }
  }
  next_ = cycle_time(ahead_.row_changed(), period_);
}

bool ChannelRows::changed() const {
  for (std::size_t b = 0; b < rows_.size(); ++b) {
    if (rows_[b] != ahead_.row(b)) return true;
  }
  return false;
}

bool ChannelRows::all_closed() const {
  return std::all_of(rows_.begin(), rows_.end(), [](std::int64_t row) { return row == kClosed; });
}

}  // namespace tilewright
