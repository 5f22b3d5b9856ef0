#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include <tilewright/base/error.h>
#include <tilewright/hardware/traffic.h>

namespace tilewright {

namespace {

class Uniform final : public TrafficPattern {
 public:
  explicit Uniform(std::uint32_t tiles) : tiles_(tiles) {}
  std::uint32_t destination(std::uint32_t, TrafficRandom& random) const override {
    return random.below(tiles_);
  }
  double share(std::uint32_t, std::uint32_t) const override { return 1.0 / tiles_; }

 private:
  std::uint32_t tiles_;
};

class Permutation final : public TrafficPattern {
 public:
  explicit Permutation(std::vector<std::uint32_t> to) : to_(std::move(to)) {}
  std::uint32_t destination(std::uint32_t source, TrafficRandom&) const override {
    return to_[source];
  }
  double share(std::uint32_t source, std::uint32_t destination) const override {
    return to_[source] == destination ? 1 : 0;
  }

 private:
  std::vector<std::uint32_t> to_;
};

class HotSpot final : public TrafficPattern {
 public:
  HotSpot(std::vector<std::uint32_t> spots, double share, std::uint32_t tiles)
      : spots_(std::move(spots)), share_(share), tiles_(tiles) {}
  std::uint32_t destination(std::uint32_t, TrafficRandom& random) const override {
    if (share_ < 1 && random.uniform() >= share_) return random.below(tiles_);
    return spots_[random.below(static_cast<std::uint32_t>(spots_.size()))];
  }
  double share(std::uint32_t, std::uint32_t destination) const override {
    const auto n = std::count(spots_.begin(), spots_.end(), destination);
    return share_ * static_cast<double>(n) / static_cast<double>(spots_.size()) +
           (1 - share_) / tiles_;
  }

 private:
  std::vector<std::uint32_t> spots_;
  double share_;
  std::uint32_t tiles_;
};

struct Mesh {
  std::uint32_t width, height;
};
using Rule = std::function<std::uint32_t(std::uint32_t x, std::uint32_t y, const Mesh&)>;

std::unique_ptr<TrafficPattern> permutation(const Mesh& m, const Rule& rule) {
  std::vector<std::uint32_t> to;
  for (std::uint32_t y = 0; y < m.height; ++y) {
    for (std::uint32_t x = 0; x < m.width; ++x) to.push_back(rule(x, y, m));
  }
  return std::make_unique<Permutation>(std::move(to));
}

unsigned bits_of(const std::string& name, const Mesh& m) {
  const std::uint32_t tiles = m.width * m.height;
  if ((tiles & (tiles - 1)) != 0) {
    throw InputError("traffic: '" + name + "' is not defined on " + std::to_string(tiles) +
                     " tiles; allowed: a power of two");
  }
  return static_cast<unsigned>(__builtin_ctz(tiles));
}

std::unique_ptr<TrafficPattern> make_permutation(const std::string& name, const Mesh& m) {
  if (name == "transpose") {
    if (m.width != m.height) {
      throw InputError("traffic: 'transpose' is not defined on " + std::to_string(m.width) + "x" +
                       std::to_string(m.height) + "; allowed: a square mesh");
    }
    return permutation(
        m, [](std::uint32_t x, std::uint32_t y, const Mesh& n) { return x * n.width + y; });
  }
  if (name == "neighbour") {  // one to the right and one down, round the edges
    return permutation(m, [](std::uint32_t x, std::uint32_t y, const Mesh& n) {
      return (y + 1) % n.height * n.width + (x + 1) % n.width;
    });
  }
  if (name == "tornado") {  // just short of half way round in both dimensions
    return permutation(m, [](std::uint32_t x, std::uint32_t y, const Mesh& n) {
      return (y + (n.height + 1) / 2 - 1) % n.height * n.width +
             (x + (n.width + 1) / 2 - 1) % n.width;
    });
  }
  if (name == "bit-complement") {
    return permutation(m, [](std::uint32_t x, std::uint32_t y, const Mesh& n) {
      return (n.height - 1 - y) * n.width + n.width - 1 - x;
    });
  }
  const unsigned bits = bits_of(name, m);
  if (name == "bit-reverse") {
    return permutation(m, [bits](std::uint32_t x, std::uint32_t y, const Mesh& n) {
      const std::uint32_t source = y * n.width + x;
      std::uint32_t to = 0;
      for (unsigned b = 0; b < bits; ++b) to |= (source >> b & 1u) << (bits - 1 - b);
      return to;
    });
  }
  return permutation(m, [bits](std::uint32_t x, std::uint32_t y, const Mesh& n) {  // shuffle
    const std::uint32_t source = y * n.width + x;
    if (bits == 0) return source;
    return (source << 1 & (n.width * n.height - 1)) | (source >> (bits - 1) & 1u);
  });
}

}  // namespace

std::vector<std::string> traffic_names() {
  return {"uniform",        "transpose",   "neighbour", "tornado",
          "bit-complement", "bit-reverse", "shuffle",   "hotspot"};
}

std::unique_ptr<TrafficPattern> make_traffic(const std::string& asked,
                                             const TrafficOptions& options) {
  const std::string name = asked == "neighbor"  ? "neighbour"
                           : asked == "bitcomp" ? "bit-complement"
                           : asked == "bitrev"  ? "bit-reverse"
                                                : asked;
  const std::vector<std::string> known = traffic_names();
  if (std::find(known.begin(), known.end(), name) == known.end()) {
    const std::string near = nearest_name(name, known);
    std::string list;
    for (const std::string& n : known) list += (list.empty() ? "" : ", ") + n;
    throw InputError("traffic: '" + name + "' is not known; allowed: " + list +
                     (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  const Mesh m{static_cast<std::uint32_t>(options.width),
               static_cast<std::uint32_t>(options.height)};
  const std::uint32_t tiles = m.width * m.height;
  if (name == "uniform") return std::make_unique<Uniform>(tiles);
  if (name != "hotspot") return make_permutation(name, m);

  if (!(options.hotspot_share >= 0 && options.hotspot_share <= 1)) {
    throw InputError("traffic: hotspot share " + std::to_string(options.hotspot_share) +
                     " is not allowed; allowed: 0 to 1");
  }
  std::vector<std::uint32_t> spots;
  for (const auto& [x, y] : options.hotspots) {
    if (x < 0 || y < 0 || x >= options.width || y >= options.height) {
      throw InputError("traffic: hotspot [" + std::to_string(x) + ", " + std::to_string(y) +
                       "] is not on the mesh; allowed: 0 to " + std::to_string(options.width - 1) +
                       " and 0 to " + std::to_string(options.height - 1));
    }
    spots.push_back(static_cast<std::uint32_t>(y) * m.width + static_cast<std::uint32_t>(x));
  }
  if (spots.empty()) throw InputError("traffic: 'hotspot' needs at least one tile [x, y]");
  return std::make_unique<HotSpot>(std::move(spots), options.hotspot_share, tiles);
}

TrafficLoad analyse(const TrafficPattern& pattern, const Topology& topology) {
  const auto tiles = static_cast<int>(topology.tiles());
  constexpr unsigned kPorts = kDirections + 1;
  std::vector<double> load(static_cast<std::size_t>(tiles) * kPorts, 0);  // by tile, output port
  TrafficLoad result;
  const auto add = [&](int s, int d, double share) {
    auto tile = static_cast<std::uint32_t>(s);
    const auto [dx, dy] = topology.hops(tile, static_cast<std::uint32_t>(d));
    result.mean_routers += share * (std::abs(dx) + std::abs(dy) + 1);
    const auto run = [&](int hops, Direction forward, Direction backward) {
      const auto port = static_cast<unsigned>(hops > 0 ? forward : backward);
      for (int i = std::abs(hops); i > 0; --i) {
        load[tile * kPorts + port] += share;
        tile = topology.link(tile, port).to;
      }
    };
    run(dx, Direction::east, Direction::west);
    run(dy, Direction::south, Direction::north);
    load[tile * kPorts + kDirections] += share;
  };
  constexpr int kExact = 2048, kSamples = 256;
  TrafficRandom random(1);
  for (int s = 0; s < tiles; ++s) {
    const auto source = static_cast<std::uint32_t>(s);
    for (int i = 0; i < (tiles <= kExact ? tiles : kSamples); ++i) {
      if (tiles > kExact) {
        add(s, static_cast<int>(pattern.destination(source, random)), 1.0 / kSamples);
      } else if (const double share = pattern.share(source, static_cast<std::uint32_t>(i));
                 share > 0) {
        add(s, i, share);
      }
    }
  }
  result.mean_routers /= tiles;
  result.busiest_link = *std::max_element(load.begin(), load.end());
  return result;
}

}  // namespace tilewright
