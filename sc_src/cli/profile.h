// What a run costs the host. Never part of a result, which must not depend on the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tilewright::cli {

class HostProfile {
 public:
  HostProfile() : start_(Clock::now()), phase_start_(start_) {}

  /// Ends the phase that is running and starts `name` ("read", "lower", "elaborate", "run", ...).
  void begin(const std::string& name);
  /// Ends the last phase.
  void finish(std::uint64_t events);

  /// One line: time by phase, peak memory, events per second of the "run" phase.
  std::string text() const;
  std::string json() const;

 private:
  using Clock = std::chrono::steady_clock;
  void close_phase(Clock::time_point now);
  double events_per_second() const;

  Clock::time_point start_, phase_start_;
  std::string phase_;
  std::vector<std::pair<std::string, double>> phases_;
  double wall_s_ = 0, cpu_s_ = 0;
  std::uint64_t peak_bytes_ = 0, events_ = 0;
};

}  // namespace tilewright::cli
