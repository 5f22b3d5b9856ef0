// Routes round dead tiles and links.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include <tilewright/machine/topology.h>

namespace tilewright {

/// Cuts the way between two tiles into legs, each of which dimension-order routing (x first, or y
/// first) takes over working tiles and links only. A pair whose direct way works has one leg, the
/// usual one. Otherwise the way is a shortest one over what works and, of these, one of fewest
/// legs.
///
/// No deadlock can come of it if every leg has its own class of virtual channels: within a leg the
/// routing is free of circles, and between legs packets only go from a class to the next.
///
/// Of ways that are equally good, the one found first counts; the search prefers directions towards
/// the destination, then towards the middle of the mesh. Mirror images of a machine thus have
/// mirrored ways, but for a defect exactly on the axis.
class Detours {
 public:
  Detours(const Topology& topology, bool y_first);

  /// Where leg `leg` (from 0) of the way between two working tiles ends.
  std::uint32_t leg_end(std::uint32_t from, std::uint32_t to, unsigned leg);

 private:
  /// The ends of all legs but the last, in points_.
  struct Way {
    std::uint32_t first = 0, count = 0;
  };
  /// Of a tile and the dimension of the last hop (the routing's first: 0, second: 1).
  struct State {
    std::uint32_t search = 0;  // the search that has set it
    std::uint32_t hops = 0, legs = 0;
    std::uint32_t before = 0;  // state the last hop came from
  };

  bool works_directly(std::uint32_t from, std::uint32_t to) const;
  Way find(std::uint32_t from, std::uint32_t to);
  std::vector<unsigned> preferred(std::uint32_t from, std::uint32_t to) const;

  const Topology& topology_;
  bool y_first_;
  std::unordered_map<std::uint64_t, Way> ways_;
  std::vector<std::uint32_t> points_;
  std::vector<State> states_;
  std::uint32_t searches_ = 0;
};

/// For a mesh with defects; null for one without. Throws InputError for a torus and for a routing
/// that does not go round defects.
std::unique_ptr<Detours> make_detours(const Topology& topology, const std::string& routing);

}  // namespace tilewright
