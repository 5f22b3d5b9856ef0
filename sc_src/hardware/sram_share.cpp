#include <algorithm>

#include <tilewright/hardware/sram_share.h>

namespace tilewright {

namespace {
constexpr std::size_t kEngineJobs = 2;
// Less than half a picosecond is left of what has ended.
constexpr double kEnded = 0.5;
}  // namespace

SramShare::PortTimes SramShare::port_times(const SramConfig& sram, double bytes_read,
                                           double bytes_written) {
  return {1e12 * (bytes_read + bytes_written) / sram.bandwidth.value(),
          1e12 * bytes_read / sram.read.value(), 1e12 * bytes_written / sram.write.value()};
}

void SramShare::begin(Picoseconds now, unsigned engine, Picoseconds duration,
                      const PortTimes& times) {
  advance(now);
  Job& job = jobs_[engine];
  job.left = static_cast<double>(duration);
  // Pieces of an operation are cut at whole picoseconds.
  for (std::size_t p = 0; p < kPorts; ++p) job.demand[p] = std::min(1.0, times[p] / job.left);
}

void SramShare::pass(Picoseconds now, double duration, const PortTimes& times) {
  advance(now);
  Job job;
  job.left = std::max(duration, *std::max_element(times.begin(), times.end()));
  if (job.left < kEnded) return;
  for (std::size_t p = 0; p < kPorts; ++p) job.demand[p] = times[p] / job.left;
  jobs_.push_back(job);
}

Picoseconds SramShare::end(Picoseconds now, unsigned engine) {
  advance(now);
  SramShare ahead = *this;
  double time = 0;
  while (ahead.jobs_[engine].left >= kEnded) time += ahead.step(ahead.jobs_[engine].left * 1e9);
  return now + whole_picoseconds(time);
}

void SramShare::advance(Picoseconds now) {
  double time = static_cast<double>(now - last_);
  last_ = now;
  while (time > 0) time -= step(time);
}

double SramShare::step(double limit) {
  find_speeds();
  double time = limit;
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    if (jobs_[i].left > 0) time = std::min(time, jobs_[i].left / speeds_[i]);
  }
  for (std::size_t i = 0; i < jobs_.size(); ++i) {
    const double left = jobs_[i].left - time * speeds_[i];
    jobs_[i].left = left < kEnded ? 0 : left;
  }
  jobs_.erase(std::remove_if(jobs_.begin() + kEngineJobs, jobs_.end(),
                             [](const Job& j) { return j.left == 0; }),
              jobs_.end());
  return time;
}

void SramShare::find_speeds() {
  speeds_.assign(jobs_.size(), 1);
  for (std::size_t p = 0; p < kPorts; ++p) {
    double asked = 0;
    for (const Job& j : jobs_) asked += j.left > 0 ? j.demand[p] : 0;
    if (asked <= 1) continue;
    // The part of those who ask for more than it: what the others leave, in equal parts.
    double part = 0;
    for (;;) {
      double rest = 1;
      int wanting = 0;
      for (const Job& j : jobs_) {
        if (j.left == 0) continue;
        if (j.demand[p] > part) {
          ++wanting;
        } else {
          rest -= j.demand[p];
        }
      }
      const double more = wanting > 0 ? rest / wanting : 0;
      if (more <= part) break;
      part = more;
    }
    for (std::size_t i = 0; i < jobs_.size(); ++i) {
      const double demand = jobs_[i].demand[p];
      if (jobs_[i].left > 0 && demand > part) speeds_[i] = std::min(speeds_[i], part / demand);
    }
  }
}

}  // namespace tilewright
