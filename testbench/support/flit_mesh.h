// A mesh of either fidelity with its driver, for tests.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tilewright/hardware/traffic_networks.h>

namespace tilewright::test {

/// Lives until the process ends, as everything of the kernel does.
struct FlitBench {
  explicit FlitBench(const FlitConfig& config, bool reverse = false)
      : queue("events"),
        traffic(config, queue, 0, reverse),
        driver(queue, 1, traffic, config.width, config.height, config.period,
               static_cast<std::uint32_t>(config.flit_bytes)),
        width(config.width),
        height(config.height) {}

  LoadResult run(const std::string& pattern, const LoadOptions& options) {
    return driver.run(*make_traffic(pattern, {width, height, {}, 1}), options);
  }
  /// The latency of one packet on the idle mesh.
  std::uint64_t alone(std::uint32_t source, std::uint32_t destination, std::uint32_t flits) {
    return driver.run({{0, source, destination, flits}}, 100000).latency_max;
  }
  FlitNetwork& network() { return traffic.network(); }

  EventQueue queue;
  FlitTraffic traffic;
  TrafficDriver driver;
  int width, height;
};

inline FlitBench& flit_bench(const FlitConfig& config, bool reverse = false) {
  return *new FlitBench(config, reverse);
}

inline FlitConfig flit_mesh(int width, int height) {
  FlitConfig c;
  c.width = width;
  c.height = height;
  return c;
}

}  // namespace tilewright::test
