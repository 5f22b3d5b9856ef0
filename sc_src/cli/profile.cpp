#include "profile.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <tilewright/base/quantity.h>

namespace tilewright::cli {

void HostProfile::close_phase(Clock::time_point now) {
  if (!phase_.empty() && now > phase_start_) {
    phases_.emplace_back(phase_, std::chrono::duration<double>(now - phase_start_).count());
  }
  phase_start_ = now;
}

void HostProfile::begin(const std::string& name) {
  close_phase(Clock::now());
  phase_ = name;
}

void HostProfile::finish(std::uint64_t events) {
  const Clock::time_point now = Clock::now();
  close_phase(now);
  phase_.clear();
  events_ = events;
  wall_s_ = std::chrono::duration<double>(now - start_).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  cpu_s_ = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  peak_bytes_ = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double HostProfile::events_per_second() const {
  for (const auto& [name, seconds] : phases_) {
    if (name == "run" && seconds > 0) return static_cast<double>(events_) / seconds;
  }
  return 0;
}

std::string HostProfile::text() const {
  std::string phases;
  for (const auto& [name, seconds] : phases_) {
    phases += fmt::format("{}{} {:.3f}", phases.empty() ? "" : ", ", name, seconds);
  }
  return fmt::format("host: {:.2f} s ({}), {:.2f} s CPU, {} peak memory, {:.2f} M events/s",
                     wall_s_, phases, cpu_s_, to_string(Bytes(static_cast<double>(peak_bytes_))),
                     events_per_second() * 1e-6);
}

std::string HostProfile::json() const {
  nlohmann::ordered_json j;
  j["wall_s"] = wall_s_;
  j["cpu_s"] = cpu_s_;
  j["peak_memory_bytes"] = peak_bytes_;
  j["phases_s"] = nlohmann::ordered_json::object();
  for (const auto& [name, seconds] : phases_) j["phases_s"][name] = seconds;
  j["events"] = events_;
  j["events_per_s"] = events_per_second();
  return j.dump(2) + "\n";
}

}  // namespace tilewright::cli
