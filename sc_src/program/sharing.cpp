#include "sharing.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "agreement.h"

namespace tilewright {
namespace {

/// What the tiles of a group load together by one table from one memory.
struct SharedLoads {
  std::uint64_t count = 0, bytes = 0;
  std::uint32_t segment = 0, instruction = 0;  ///< the first of them
  bool background = false;
};
using ByTable = std::map<std::pair<std::uint32_t, Space>, SharedLoads>;

[[noreturn]] void refuse(const Program& program, const TileGroup& group, const SharedLoads& at,
                         const std::string& message) {
  const Segment& segment = program.segments[at.segment];
  throw InputError(fmt::format(
      "program: group '{}', segment '{}', instruction {} ({}): {}", group.name, segment.name,
      at.instruction, program_detail::describe(program, segment.code[at.instruction]), message));
}

/// Of one segment.
ByTable shared_loads(const Program& program, std::uint32_t s) {
  ByTable loads;
  const Segment& segment = program.segments[s];
  for (std::uint32_t i = 0; i < segment.code.size(); ++i) {
    const Instruction& code = segment.code[i];
    if (code.op != Opcode::load || !code.shared) continue;
    SharedLoads& of_table =
        loads.try_emplace({code.operand, code.space}, SharedLoads{0, 0, s, i}).first->second;
    ++of_table.count;
    of_table.bytes += code.share.total;
  }
  return loads;
}

/// Of a group's calls. Throws when both of its lists use a table.
ByTable shared_loads(const Program& program, const TileGroup& group,
                     const std::vector<ByTable>& of_segments) {
  ByTable loads;
  for (const bool background : {false, true}) {
    for (const Call& call : background ? group.background : group.calls) {
      for (const auto& [key, part] : of_segments[call.segment]) {
        const auto [it, added] = loads.try_emplace(key, part);
        SharedLoads& sum = it->second;
        if (added) {
          sum.count = sum.bytes = 0;
          sum.background = background;
        } else if (sum.background != background) {
          refuse(program, group, part,
                 fmt::format("a background call shares loads by peer table {}, and so does another "
                             "call of the group; each of the two needs a table of its own",
                             key.first));
        }
        sum.count += part.count;
        sum.bytes += part.bytes;
      }
    }
  }
  return loads;
}

std::vector<ByTable> by_segment(const Program& program) {
  std::vector<ByTable> loads;
  for (std::uint32_t s = 0; s < program.segments.size(); ++s) {
    loads.push_back(shared_loads(program, s));
  }
  return loads;
}

/// Nothing to look for: most programs.
bool shares_nothing(const std::vector<ByTable>& of_segments) {
  return std::all_of(of_segments.begin(), of_segments.end(),
                     [](const ByTable& loads) { return loads.empty(); });
}

}  // namespace

std::vector<SharingSet> sharing_sets(const Program& program) {
  std::vector<SharingSet> sets;
  const std::vector<ByTable> of_segments = by_segment(program);
  if (shares_nothing(of_segments)) return sets;
  std::map<std::tuple<std::uint32_t, Space, TileId>, std::vector<TileId>> members;
  for (const TileGroup& group : program.groups) {
    for (const auto& [key, loads] : shared_loads(program, group, of_segments)) {
      const auto [table, space] = key;
      for (std::size_t rank = 0; rank < group.tiles.size(); ++rank) {
        const TileId first = group.peers[table][rank];
        if (first != kNoTile) members[{table, space, first}].push_back(group.tiles[rank]);
      }
    }
  }
  for (auto& [key, tiles] : members) {
    if (tiles.size() < 2) continue;
    std::sort(tiles.begin(), tiles.end());
    const auto [table, space, first] = key;
    sets.push_back({table, space, first, std::move(tiles)});
  }
  return sets;
}

namespace program_detail {

void check_sharing(const Program& program) {
  const std::vector<ByTable> of_segments = by_segment(program);
  if (shares_nothing(of_segments)) return;
  struct Member {
    const TileGroup* group;
    std::size_t rank;
    SharedLoads loads;
  };
  std::map<std::tuple<std::uint32_t, Space, TileId>, std::vector<Member>> members;
  for (const TileGroup& group : program.groups) {
    for (const auto& [key, loads] : shared_loads(program, group, of_segments)) {
      const auto [table, space] = key;
      if (table >= group.peers.size() || group.peers[table].size() != group.tiles.size()) {
        refuse(program, group, loads,
               fmt::format("shared loads need a peer table {} with an entry for each of the {} "
                           "tiles of the group",
                           table, group.tiles.size()));
      }
      for (std::size_t rank = 0; rank < group.tiles.size(); ++rank) {
        const TileId first = group.peers[table][rank];
        if (first != kNoTile) members[{table, space, first}].push_back({&group, rank, loads});
      }
    }
  }
  for (const auto& [key, of_set] : members) {
    const std::uint32_t table = std::get<0>(key);
    const TileId entry = std::get<TileId>(key);
    const auto tile = [](const Member& m) { return index(m.group->tiles[m.rank]); };
    const Member& first = of_set.front();
    if (std::none_of(of_set.begin(), of_set.end(),
                     [&, named = index(entry)](const Member& m) { return tile(m) == named; })) {
      refuse(program, *first.group, first.loads,
             fmt::format("peer table {} makes tile {} share loads with tile {}, whose own entry is "
                         "another; the entry of all that share is one of them",
                         table, tile(first), index(entry)));
    }
    for (const Member& other : of_set) {
      if (other.loads.count == first.loads.count && other.loads.bytes == first.loads.bytes) {
        continue;
      }
      refuse(program, *other.group, other.loads,
             fmt::format("tile {} makes {} loads of together {} bytes by peer table {}, but tile "
                         "{} of group '{}', which shares them, {} of {} bytes",
                         tile(other), other.loads.count, other.loads.bytes, table, tile(first),
                         first.group->name, first.loads.count, first.loads.bytes));
    }
  }
}

}  // namespace program_detail
}  // namespace tilewright
