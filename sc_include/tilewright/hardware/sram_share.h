// The ports of a tile's SRAM, shared by what the tile does at one time: a pure data structure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

/// An operation of an engine or the passage of a message takes a time when it is alone, and asks
/// for a part of every port's time evenly over it. Where the parts of a port exceed 1 it is shared
/// out max-min fairly: who asks for less than an equal part gets it, the others share the rest
/// equally. Each goes on at the speed of the port that holds it up most; what this leaves on its
/// other ports is not shared out again. Speeds change only when something begins or ends, so
/// nothing is done in between: O(n²) for n things at once, a handful.
class SramShare {
 public:
  /// By port: reads and writes together, reads, writes (the three rates of SramConfig).
  static constexpr std::size_t kPorts = 3;
  using PortTimes = std::array<double, kPorts>;  ///< picoseconds
  static PortTimes port_times(const SramConfig& sram, double bytes_read, double bytes_written);

  /// Engine 0 or 1 begins an operation that takes `duration` alone, and is not ended before.
  void begin(Picoseconds now, unsigned engine, Picoseconds duration, const PortTimes& times);
  /// A message begins to pass; alone it takes no less than `duration`.
  void pass(Picoseconds now, double duration, const PortTimes& times);
  /// When the engine's operation ends if nothing else begins. Never earlier than it said before.
  Picoseconds end(Picoseconds now, unsigned engine);

 private:
  struct Job {
    double left = 0;     ///< picoseconds alone
    PortTimes demand{};  ///< part of each port
  };

  void advance(Picoseconds now);
  /// Goes on for `limit` picoseconds, or until something ends; returns for how long.
  double step(double limit);
  void find_speeds();

  std::vector<Job> jobs_ = std::vector<Job>(2);  // the engines', then messages
  std::vector<double> speeds_;                   // of the jobs
  Picoseconds last_ = 0;
};

}  // namespace tilewright
