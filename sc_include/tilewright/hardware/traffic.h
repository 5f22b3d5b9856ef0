// Synthetic traffic: who sends to whom.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/machine/topology.h>

namespace tilewright {

/// Random numbers that are the same on every machine (SplitMix64).
class TrafficRandom {
 public:
  explicit TrafficRandom(std::uint64_t seed = 0) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, 1), a multiple of 2^-53.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  /// In [0, n).
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((next() >> 32) * n >> 32);
  }

 private:
  std::uint64_t state_;
};

/// What a pattern may need besides the mesh.
struct TrafficOptions {
  int width = 1, height = 1;
  std::vector<std::pair<int, int>> hotspots;  ///< hotspot: tiles, [x, y]
  double hotspot_share = 1;                   ///< hotspot: of all packets; the rest goes uniformly
};

/// Where the packets of a tile go. A tile may be its own destination: such packets pass its router.
class TrafficPattern {
 public:
  virtual ~TrafficPattern() = default;
  virtual std::uint32_t destination(std::uint32_t source, TrafficRandom& random) const = 0;
  /// The probability that a packet of `source` goes to `destination`.
  virtual double share(std::uint32_t source, std::uint32_t destination) const = 0;
};

/// The names make_traffic() knows.
std::vector<std::string> traffic_names();

/// By name: uniform, transpose, neighbour, tornado, bit-complement, bit-reverse, shuffle, hotspot;
/// also as other simulators spell them: neighbor, bitcomp, bitrev. Throws InputError for a name it
/// does not know or a mesh the pattern is not defined on.
std::unique_ptr<TrafficPattern> make_traffic(const std::string& name,
                                             const TrafficOptions& options);

/// The pattern on an idle network with routing along x, then y, and on the busiest link.
struct TrafficLoad {
  double mean_routers = 0;  ///< that a packet passes
  double busiest_link = 0;  ///< flits per cycle, when every tile sends one flit per cycle
};
/// Exact up to 2048 tiles, from a sample of destinations above.
TrafficLoad analyse(const TrafficPattern& pattern, const Topology& topology);

}  // namespace tilewright
