#include <algorithm>
#include <queue>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/observe/vcd.h>
#include <tilewright/observe/waves.h>

#include "signal_groups.h"
#include "wave_signals.h"
#include "wave_sources.h"

namespace tilewright {
namespace {

constexpr Picoseconds kForever = VcdWriter::kForever;

std::string place(const MachineConfig& machine, TileId tile) {
  return "t" + std::to_string(machine.x(tile)) + "_" + std::to_string(machine.y(tile));
}
std::string tile_scope(const MachineConfig& machine, TileId tile) {
  return "tiles." + place(machine, tile);
}
std::string link_scope(const MachineConfig& machine, const LinkPlace& link) {
  const auto end = [&](TileId node) {
    const bool tile = index(node) < static_cast<std::uint32_t>(machine.tiles());
    return tile ? place(machine, node) : machine.node_name(node);
  };
  return "links." + end(link.from) + "_to_" + end(link.to);
}
std::string dram_scope(DramId dram) { return "controllers.dram" + std::to_string(index(dram)); }

/// "stages.stage_3" for each group of the program: their names, made different and fit for a dump.
std::vector<std::string> stage_scopes(const Program& program) {
  std::vector<std::string> scopes;
  std::set<std::string> used;
  for (const TileGroup& group : program.groups) {
    std::string name = group.name;
    for (char& c : name) {
      if (c <= ' ' || c > '~' || c == '.') c = '_';
    }
    if (name.empty()) name = "stage";
    std::string unique = name;
    for (int n = 1; !used.insert(unique).second; ++n) unique = name + "_" + std::to_string(n);
    scopes.push_back("stages." + unique);
  }
  return scopes;
}

/// All stages and the first tile of each.
std::vector<std::string> default_scopes(const MachineConfig& machine, const Program& program) {
  std::vector<std::string> scopes;
  for (const TileGroup& group : program.groups) {
    if (!group.tiles.empty()) scopes.push_back(tile_scope(machine, group.tiles.front()));
  }
  if (!scopes.empty()) scopes.emplace_back("stages");
  return scopes;
}

/// How long before it is claimed a link may have been taken: the time of the largest load on the
/// slowest link.
Picoseconds longest_lead(const MachineConfig& machine, const Program& program) {
  std::uint64_t most = 0;
  for (const Segment& s : program.segments) {
    for (const Instruction& i : s.code) {
      if (i.op == Opcode::load) most = std::max(most, i.share.total / i.share.parts + 1);
    }
  }
  Bandwidth slowest = Bandwidth::unlimited();
  for (const NamedLinkConfig& kind : machine.link_kinds()) {
    slowest = std::min(slowest, kind.link.bandwidth);
  }
  return to_picoseconds(Bytes(static_cast<double>(most)) / slowest) + 1;
}

std::vector<std::string> all_scopes(const MachineConfig& machine, const Program& program,
                                    const Platform& platform) {
  std::vector<std::string> scopes = stage_scopes(program);
  for (int t = 0; t < machine.tiles(); ++t) {
    scopes.push_back(tile_scope(machine, static_cast<TileId>(t)));
  }
  for (const LinkPlace& link : platform.links()) scopes.push_back(link_scope(machine, link));
  for (std::uint32_t d = 0; d < machine.dram.sites.size(); ++d) {
    scopes.push_back(dram_scope(static_cast<DramId>(d)));
  }
  return scopes;
}

/// For a pattern that names nothing; says what can be named.
[[noreturn]] void refuse(const std::string& pattern, const std::vector<std::string>& scopes) {
  std::string examples, kind;  // one of each kind
  for (const std::string& scope : scopes) {
    const std::string own = scope.substr(0, scope.find('.'));
    if (own == kind) continue;
    kind = own;
    examples += (examples.empty() ? "" : ", ") + scope;
  }
  const std::string nearest = nearest_name(pattern, scopes);
  throw InputError(fmt::format(
      "waves: nothing is named '{}'{} (names are like {}, with signals below; * and ? stand for "
      "any characters, [0-3] for one of a set)",
      pattern, nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest), examples));
}

}  // namespace

struct Waves::Parts {
  Parts(const WaveOptions& options, const MachineConfig& machine, const Program& program,
        Platform& platform)
      : names(program),
        vcd(*options.vcd, options.from, options.to),
        signals(vcd, options.scopes.empty() ? default_scopes(machine, program) : options.scopes),
        groups(options.groups),
        name(options.name),
        from(options.from),
        to(options.to),
        now(options.from) {
    const std::vector<std::string> stages = stage_scopes(program);
    for (std::size_t g = 0; g < stages.size(); ++g) {
      if (program.groups[g].tiles.empty()) continue;
      const TileId first = program.groups[g].tiles.front();
      watch<StageWaves>(tiles, index(first), names, platform, first, stages[g]);
    }
    std::vector<bool> background(static_cast<std::size_t>(machine.tiles()), false);
    for (const TileGroup& group : program.groups) {
      for (const TileId t : group.tiles) background[index(t)] = !group.background.empty();
    }
    for (int t = 0; t < machine.tiles(); ++t) {
      const auto tile = static_cast<TileId>(t);
      watch<TileWaves>(tiles, index(tile), names, platform, tile, background[index(tile)],
                       tile_scope(machine, tile));
    }
    for (const LinkPlace& link : platform.links()) {
      const std::size_t before = signals.size();
      const LinkWaves waves(signals, link_scope(machine, link));
      if (signals.size() > before) links.emplace(link.number, waves);
    }
    for (std::uint32_t d = 0; d < machine.dram.sites.size(); ++d) {
      const auto dram = static_cast<DramId>(d);
      const std::string scope = dram_scope(dram);
      watch<DramWaves>(drams, d, platform, dram, scope);
      std::size_t channel = 0;
      for (std::unique_ptr<RowReplay>& rows : platform.dram_rows(dram)) {
        watch<RowWaves>(drams, d, std::move(rows), scope + ".channel" + std::to_string(channel++));
      }
    }
    if (!links.empty()) hold = longest_lead(machine, program);
  }

  WaveNames names;
  VcdWriter vcd;
  WaveSignals signals;
  std::vector<std::unique_ptr<WaveSource>> sources;
  std::unordered_map<std::uint32_t, std::vector<WaveSource*>> tiles, drams;
  std::unordered_map<std::uint32_t, LinkWaves> links;  // by LinkPlace::number

  std::ostream* groups;
  std::string name;
  Picoseconds from, to;
  Picoseconds hold = 0;              // how far before the present a change may still be noted
  Picoseconds now;                   // the sources hold for all time before
  std::vector<WaveSource*> touched;  // to be sampled for `now`
  struct Due {
    Picoseconds at;
    WaveSource* source;
    bool operator<(const Due& o) const { return at > o.at; }  // the earliest on top
  };
  std::priority_queue<Due> due;
  bool begun = false, over = false;  // the window has, is

  /// Keeps a source of which something is selected, to be sampled when the part of the machine
  /// with this number changes.
  template <class Source, class... Arguments>
  void watch(std::unordered_map<std::uint32_t, std::vector<WaveSource*>>& parts,
             std::uint32_t number, Arguments&&... arguments) {
    const std::size_t before = signals.size();
    auto source = std::make_unique<Source>(signals, std::forward<Arguments>(arguments)...);
    if (signals.size() == before) return;
    parts[number].push_back(source.get());
    touch(*source);
    sources.push_back(std::move(source));
  }

  void touch(WaveSource& source) {
    if (source.touched) return;
    source.touched = true;
    touched.push_back(&source);
  }

  /// Samples all that has changed before `until`.
  void advance(Picoseconds until) {
    for (;;) {
      for (WaveSource* source : touched) {
        source->touched = false;
        const Picoseconds next = source->sample(now);
        if (next != source->due && next != kForever) due.push({next, source});
        source->due = next;
      }
      touched.clear();
      while (!due.empty() && due.top().source->due != due.top().at) due.pop();  // void by now
      if (due.empty() || due.top().at >= until) break;
      now = due.top().at;
      while (!due.empty() && due.top().at == now) {
        if (due.top().source->due == now) touch(*due.top().source);
        due.pop();
      }
    }
    now = until;
    pass();
  }

  void pass() { vcd.pass(now - std::min(now, hold)); }

  /// The machine is about to change at `t`. False when nobody needs to know.
  bool reach(Picoseconds t) {
    if (over || t < from) return false;
    begun = true;
    if (t > now) advance(std::min(t, to + (to < kForever ? 1 : 0)));
    over = t > to;
    return !over;
  }
};

Waves::Waves(const WaveOptions& options, const MachineConfig& machine, const Program& program,
             Platform& platform)
    : parts_(std::make_unique<Parts>(options, machine, program, platform)) {
  if (const std::string* pattern = parts_->signals.unused()) {
    refuse(*pattern, all_scopes(machine, program, platform));
  }
  for (const auto& [tile, ignored] : parts_->tiles) {
    platform.watch_tile(static_cast<TileId>(tile), *this);
  }
  for (const auto& [dram, ignored] : parts_->drams) {
    platform.watch_dram(static_cast<DramId>(dram), *this);
  }
  if (!parts_->links.empty()) platform.watch_links(*this);
}

Waves::~Waves() = default;

void Waves::finish(Picoseconds end) {
  Parts& p = *parts_;
  const Picoseconds last = std::max(p.from, std::min(end, p.to));
  if (!p.over) p.advance(std::max(p.now, last + 1));
  p.vcd.finish(last);
  if (p.groups != nullptr) *p.groups << signal_groups(p.vcd.signals(), p.name, p.from, last);
}

void Waves::finish() {
  if (parts_->begun) finish(parts_->now);
}

void Waves::tile_changes(Picoseconds now, std::uint32_t tile) {
  if (!parts_->reach(now)) return;
  for (WaveSource* source : parts_->tiles[tile]) parts_->touch(*source);
}

void Waves::dram_changes(Picoseconds now, std::uint32_t id) {
  if (!parts_->reach(now)) return;
  for (WaveSource* source : parts_->drams[id]) parts_->touch(*source);
}

void Waves::link_claimed(Picoseconds now, std::uint32_t link, Picoseconds head, Picoseconds start,
                         Picoseconds end, const Packet&, std::uint64_t) {
  Parts& p = *parts_;
  if (end <= p.from || std::min(head, start) > p.to) return;
  // What is claimed before the window may reach into it, and what is claimed after it may have
  // begun inside.
  if (!p.reach(now) && !p.over) p.vcd.pass(now - std::min(now, p.hold));
  const auto found = p.links.find(link);
  if (found != p.links.end()) found->second.claim(head, start, end);
}

}  // namespace tilewright
