#include "progress.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace tilewright::cli {

ProgressBar::ProgressBar()
    : terminal_(isatty(STDERR_FILENO) != 0),
      start_(Clock::now()),
      next_(start_ + std::chrono::seconds(1)) {}

void ProgressBar::update(double fraction) {
  if (!terminal_) return;
  const Clock::time_point now = Clock::now();
  if (now < next_) return;
  next_ = now + std::chrono::milliseconds(100);
  fraction = std::clamp(fraction, 0.0, 1.0);
  constexpr int kColumns = 40;
  const int done = static_cast<int>(fraction * kColumns);
  const double passed = std::chrono::duration<double>(now - start_).count();
  std::string left;
  if (fraction > 0.01) left = fmt::format(", {:.0f} s left", passed * (1 - fraction) / fraction);
  fmt::print(stderr, "\r[{}{}] {:3.0f} %, {:.0f} s{}\x1b[K", std::string(done, '#'),
             std::string(kColumns - done, '.'), 100 * fraction, passed, left);
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressBar::erase() {
  if (!drawn_) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  drawn_ = false;
}

}  // namespace tilewright::cli
