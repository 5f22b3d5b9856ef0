// From the hardware's counters to the figures of a result (docs/result.md has every formula).
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>

namespace tilewright {
namespace {

/// The mean of many picosecond counts. The sum itself may exceed 64 bits (100,000 tiles × minutes),
/// so quotients and remainders are summed apart: nothing is lost.
class MeanTime {
 public:
  explicit MeanTime(std::uint64_t count) : count_(count) {}
  void add(Picoseconds t) {
    whole_ += t / count_;
    rest_ += t % count_;
  }
  Seconds mean() const {
    return Seconds(
        (static_cast<double>(whole_) + static_cast<double>(rest_) / static_cast<double>(count_)) *
        1e-12);
  }

 private:
  std::uint64_t count_, whole_ = 0, rest_ = 0;
};

Picoseconds state(const TileStatistics& t, TileState s) {
  return t.time[static_cast<std::size_t>(s)];
}

/// Mean over `tiles` of what a figure of one tile is.
template <class Figure>
Seconds mean_time(const std::vector<const TileStatistics*>& tiles, Figure figure) {
  if (tiles.empty()) return Seconds(0);
  MeanTime mean(tiles.size());
  for (const TileStatistics* t : tiles) mean.add(figure(*t));
  return mean.mean();
}

/// Mean over `tiles` of the time in each state.
std::array<Seconds, kTileStates> mean_states(const std::vector<const TileStatistics*>& tiles) {
  std::array<Seconds, kTileStates> result{};
  for (std::size_t s = 0; s < kTileStates; ++s) {
    result[s] = mean_time(tiles, [s](const TileStatistics& t) { return t.time[s]; });
  }
  return result;
}

std::array<Communication, kCauses> communication(const std::vector<const TileStatistics*>& tiles) {
  std::array<Communication, kCauses> result{};
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    if (cause == Cause::memory) continue;
    const TileState wait = wait_for(cause);
    result[i].active = mean_time(tiles, [&](const TileStatistics& t) { return t.active[i]; });
    result[i].exposed = mean_time(tiles, [&](const TileStatistics& t) { return state(t, wait); });
    result[i].hidden =
        mean_time(tiles, [&](const TileStatistics& t) { return t.active[i] - state(t, wait); });
  }
  return result;
}

double fraction(Picoseconds part, Picoseconds whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

Utilisation link_utilisation(const MachineConfig& machine, const RunStatistics& run) {
  Utilisation u;
  const LinkStatistics* busiest = nullptr;
  for (const LinkStatistics& link : run.links) {
    const double busy = fraction(link.busy, run.end);
    u.mean += busy / static_cast<double>(run.links.size());
    if (busy > u.max) {
      u.max = busy;
      busiest = &link;
    }
  }
  if (busiest != nullptr) {
    u.where = fmt::format("link {}->{} {}", machine.node_name(busiest->from),
                          machine.node_name(busiest->to),
                          machine.link_kinds()[static_cast<std::size_t>(busiest->kind)].name);
  }
  return u;
}

/// The controllers of one memory: what the machine says of them, and what they counted.
struct Controllers {
  const char* name;  ///< "dram", "host"
  const MachineConfig& machine;
  const DramConfig& config;
  const IdVector<DramId, DramStatistics>& counted;
};

std::string controller_name(const Controllers& c, std::size_t i) {
  return fmt::format("{} {} at {}", c.name, i,
                     c.machine.node_name(c.counted[static_cast<DramId>(i)].site));
}

Utilisation utilisation(const Controllers& c, Picoseconds end) {
  Utilisation u;
  for (std::size_t i = 0; i < c.counted.size(); ++i) {
    const double busy = fraction(c.counted[static_cast<DramId>(i)].busy, end);
    u.mean += busy / static_cast<double>(c.counted.size());
    if (busy > u.max) {
      u.max = busy;
      u.where = controller_name(c, i);
    }
  }
  return u;
}

/// High-water mark and capacity of the fullest controller, and where it is.
void fullest(const Controllers& c, Bytes& peak, Bytes& capacity, std::string& where) {
  if (c.counted.empty()) return;
  capacity = c.config.capacity;
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < c.counted.size(); ++i) {
    const std::uint64_t own = c.counted[static_cast<DramId>(i)].allocated_peak;
    if (own <= most) continue;
    most = own;
    where = controller_name(c, i);
  }
  peak = Bytes(static_cast<double>(most));
}

/// The busiest controller's bytes at its bandwidth.
Seconds bandwidth_bound(const Controllers& c) {
  Seconds bound{0};
  if (!(c.config.bandwidth > Bandwidth(0))) return bound;
  for (const DramStatistics& d : c.counted) {
    const Bytes bytes(static_cast<double>(d.bytes_read) + static_cast<double>(d.bytes_written));
    bound = std::max(bound, bytes / c.config.bandwidth);
  }
  return bound;
}

void bytes_moved(const Controllers& c, Bytes& read, Bytes& written) {
  read = written = Bytes(0);
  for (const DramStatistics& d : c.counted) {
    read += Bytes(static_cast<double>(d.bytes_read));
    written += Bytes(static_cast<double>(d.bytes_written));
  }
}

MemoryPeaks memory_peaks(const MachineConfig& machine, const RunStatistics& run) {
  MemoryPeaks m;
  m.sram_capacity = machine.sram.capacity;
  const auto find_most = [&](std::uint64_t TileStatistics::*of, Bytes& bytes, std::string& where) {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < run.tiles.size(); ++i) {
      const auto t = static_cast<TileId>(i);
      if (run.tiles[t].*of <= most) continue;
      most = run.tiles[t].*of;
      where = "tile " + machine.node_name(t);
    }
    bytes = Bytes(static_cast<double>(most));
  };
  find_most(&TileStatistics::sram_peak, m.sram, m.sram_where);
  find_most(&TileStatistics::waiting_peak, m.waiting, m.waiting_where);
  return m;
}

/// What crosses a cut of the machine in one direction, and how fast it can.
struct Cut {
  Bytes bytes{0};
  Bandwidth bandwidth{0};
};

/// The cut a link belongs to. On a mesh: that between its two columns (or rows), all of whose links
/// of one direction belong to it; on a torus the last column is followed by the first. In a fabric
/// every link is one by itself.
std::size_t cut_of(const MachineConfig& machine, const LinkStatistics& link, std::size_t number) {
  if (machine.fabric) return number;
  const int x0 = machine.x(link.from), x1 = machine.x(link.to);
  const int y0 = machine.y(link.from), y1 = machine.y(link.to);
  const bool vertical = x0 != x1;
  const int from = vertical ? x0 : y0, to = vertical ? x1 : y1;
  const bool wraps = std::abs(from - to) > 1;
  const bool forward = (to > from) != wraps;
  const int low = wraps ? std::max(from, to) : std::min(from, to);
  return static_cast<std::size_t>(low) * 4 + (vertical ? 0 : 2) + (forward ? 0 : 1);
}

/// Over every cut: bytes over the cut / the summed bandwidth of its links; the largest counts.
Seconds bisection_bound(const MachineConfig& machine, const RunStatistics& run) {
  const std::vector<NamedLinkConfig> kinds = machine.link_kinds();
  std::vector<Cut> cuts;
  std::size_t number = 0;
  for (const LinkStatistics& link : run.links) {
    const std::size_t i = cut_of(machine, link, number++);
    if (i >= cuts.size()) cuts.resize(i + 1);
    cuts[i].bytes += Bytes(static_cast<double>(link.bytes));
    cuts[i].bandwidth += kinds[static_cast<std::size_t>(link.kind)].link.bandwidth;
  }
  Seconds bound{0};
  for (const Cut& cut : cuts) {
    if (cut.bandwidth > Bandwidth(0)) bound = std::max(bound, cut.bytes / cut.bandwidth);
  }
  return bound;
}

}  // namespace

void summarise(const MachineConfig& machine, const RunStatistics& run, Result& result) {
  std::vector<const TileStatistics*> used;
  for (const TileStatistics& t : run.tiles) {
    if (state(t, TileState::idle) < run.end) used.push_back(&t);
  }
  result.machine = machine.name;
  result.iteration_time = to_seconds(run.end);
  result.breakdown = mean_states(used);
  result.communication = communication(used);
  const Seconds bubble = result.breakdown[static_cast<std::size_t>(TileState::bubble)];
  result.bubble_fraction = result.iteration_time > Seconds(0) ? bubble / result.iteration_time : 0;
  result.links = link_utilisation(machine, run);
  result.memory = memory_peaks(machine, run);
  const Controllers dram{"dram", machine, machine.dram, run.dram};
  result.dram = utilisation(dram, run.end);
  result.bounds.dram = bandwidth_bound(dram);
  bytes_moved(dram, result.dram_read, result.dram_written);
  fullest(dram, result.memory.dram, result.memory.dram_capacity, result.memory.dram_where);
  const Controllers host{"host", machine, machine.host, run.host};
  result.host = utilisation(host, run.end);
  result.bounds.host = bandwidth_bound(host);
  bytes_moved(host, result.host_read, result.host_written);
  fullest(host, result.memory.host, result.memory.host_capacity, result.memory.host_where);
  result.bounds.bisection = bisection_bound(machine, run);
  result.tiles_total = machine.tiles();
  result.tiles_used = static_cast<int>(used.size());
  result.tiles_spare = static_cast<int>(machine.spare.size());
  result.tiles_dead = static_cast<int>(machine.defects.dead_tiles.size());
  for (std::size_t c = 0; c < kCauses; ++c) {
    result.traffic[c] = Bytes(static_cast<double>(run.bytes_by_cause[c]));
  }
  result.events = run.events;
  result.messages = run.messages;
  result.message_hops = run.message_hops;
}

void summarise_stragglers(const MachineConfig& machine, const Program& program, Result& result) {
  if (!machine.has_stragglers()) return;
  for (const TileGroup& group : program.groups) {
    for (std::size_t rank = 0; rank < group.tiles.size(); ++rank) {
      const TileId t = group.tiles[rank];
      const double speed = machine.speed(t);
      const Seconds delay = machine.delay(t);
      if (speed == 1 && delay == Seconds(0)) continue;
      result.stragglers.push_back({static_cast<int>(group.stage), group.name,
                                   static_cast<int>(rank), machine.node_name(t), speed, delay});
    }
  }
}

void summarise_stage(const RunStatistics& run, const std::vector<TileId>& tiles,
                     StageResult& stage) {
  std::vector<const TileStatistics*> list;
  std::uint64_t sram = 0, dram = 0, host = 0;
  for (TileId t : tiles) {
    const TileStatistics& s = run.tiles[t];
    list.push_back(&s);
    sram = std::max(sram, s.sram_peak);
    dram = std::max(dram, s.dram_peak);
    host = std::max(host, s.host_peak);
  }
  stage.tiles = static_cast<int>(tiles.size());
  stage.time = mean_states(list);
  stage.busy = Seconds(0);
  for (TileState s :
       {TileState::matrix, TileState::vector, TileState::recomputation, TileState::sram_stall}) {
    stage.busy += stage.time[static_cast<std::size_t>(s)];
  }
  stage.peak_sram = Bytes(static_cast<double>(sram));
  stage.peak_dram = Bytes(static_cast<double>(dram));
  stage.peak_host = Bytes(static_cast<double>(host));
}

}  // namespace tilewright
