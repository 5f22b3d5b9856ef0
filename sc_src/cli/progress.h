// A progress bar for people who wait.
#pragma once

#include <chrono>

namespace tilewright::cli {

/// Draws on stderr when that is a terminal and the work has lasted over a second; leaves no trace.
class ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(double fraction);
  void erase();

 private:
  using Clock = std::chrono::steady_clock;
  bool terminal_;
  bool drawn_ = false;
  Clock::time_point start_, next_;
};

}  // namespace tilewright::cli
