// The outcome of a run, as data: what the text report and the JSON file say.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/latency_histogram.h>
#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/observe/energy.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// A mean, a maximum, and where the maximum is.
struct Utilisation {
  double mean = 0, max = 0;  ///< fractions of the iteration
  std::string where;         ///< "link (3,0)->(4,0) die-to-die", "dram 5 at (0,1)"
};

/// Communication of one cause, mean over the tiles used.
struct Communication {
  Seconds active{0};   ///< on its way to the tile, or waited for (TileStatistics::active)
  Seconds exposed{0};  ///< waited for: the time in the cause's wait
  Seconds hidden{0};   ///< the rest: the tile was in other states
};

/// A run of decoder layers.
struct LayerRange {
  std::int64_t first = 0, count = 0;
};

/// What passes a link from one tile to another for one cause and collective.
struct LinkFlow {
  std::string from, to;  ///< "(3,0)"
  Cause cause = Cause::memory;
  std::string name;  ///< "y.all_reduce": the collective or operator that sent it; memory: none
  Bytes bytes{0};
};

/// The link that is busy for longest, and because of whom.
struct HottestLink {
  std::string from, to;
  double busy = 0;  ///< fraction of the iteration
  std::array<Bytes, kCauses> by_cause{};
  std::vector<LinkFlow> flows;  ///< the largest ones
  std::size_t all_flows = 0;    ///< how many there are
};

struct StageResult {
  int stage = 0;
  std::int64_t first_layer = 0, layers = 0;  ///< decoder layers held
  std::vector<LayerRange> chunks;            ///< the runs that they come in
  bool embedding = false, head = false;
  int tiles = 0;  ///< all replicas
  std::int64_t parameters = 0;
  Seconds busy{0};                  ///< mean over its tiles: an engine has an operation in hand
  Bytes peak_sram{0};               ///< largest of its tiles, measured
  Bytes peak_dram{0};               ///< largest of its tiles, measured
  Bytes peak_host{0};               ///< the same in the host memory
  int micro_batches_in_flight = 0;  ///< peak
  std::array<Seconds, kTileStates> time{};  ///< mean over its tiles, by TileState
};

/// High-water marks against what the machine has, measured; filled by summarise().
struct MemoryPeaks {
  Bytes sram{0}, sram_capacity{0};  ///< of the fullest tile
  std::string sram_where;           ///< "tile (3,0)"
  Bytes dram{0}, dram_capacity{0};  ///< of the fullest controller; 0 on a machine without DRAM
  std::string dram_where;           ///< "dram 5 at (0,1)"
  Bytes host{0}, host_capacity{0};  ///< of the fullest host controller; 0 without host memory
  std::string host_where;           ///< "host 1 at (0,7)"
  /// The most that waited at a tile in messages which had arrived and were not received yet.
  Bytes waiting{0};
  std::string waiting_where;  ///< "tile (3,0)"
};

/// A rank whose tile is slow or starts late.
struct Straggler {
  int stage = 0;
  std::string group;  ///< "stage 3", "stage 3 replica 1"
  int rank = 0;       ///< of the group
  std::string tile;   ///< "(3,0)"
  double speed = 1;   ///< of its engines against the others'
  Seconds delay{0};   ///< of its start
};

/// Lower bounds on the iteration time; the simulated time is never below any of them.
struct Bounds {
  Seconds compute{0};    ///< the busiest stage's matrix engines, by their timing model
  Seconds dram{0};       ///< bytes of the busiest controller at its bandwidth
  Seconds bisection{0};  ///< bytes over the busiest full cut of the mesh at the cut's bandwidth
  Seconds pipeline{0};   ///< the schedule with matrix work and nothing else
  Seconds host{0};       ///< as `dram`, of the host memory; 0 without one
};

struct Result {
  std::string machine, model, plan;
  std::string fidelity = "message";
  Seconds iteration_time{0};
  double samples = 0, tokens = 0;  ///< per iteration (the true batch)
  Flop flops_model{0};             ///< no recomputation
  Flop flops_hardware{0};          ///< executed, recomputation included
  std::string flops_convention;    ///< "full attention scores" or "causal half"
  double mfu = 0, hfu = 0;         ///< of the peak of the tiles used
  double bubble_fraction = 0;      ///< bubble time of the tiles used / their time
  /// Mean over the tiles used, by TileState; sums to the iteration time.
  std::array<Seconds, kTileStates> breakdown{};
  std::array<Communication, kCauses> communication{};  ///< by Cause; none for memory
  std::vector<StageResult> stages;
  Utilisation links, dram, host;
  std::optional<HottestLink> hottest_link;  ///< of a run whose links were watched
  /// By Cause, in picoseconds, of a run that counted them; else empty. Cause::memory: loads and
  /// stores of the DRAM; Cause::offload: messages, loads and stores of the second memory tier.
  std::vector<LatencyHistogram> latencies;
  MemoryPeaks memory;
  Bounds bounds;
  int tiles_total = 0, tiles_used = 0, tiles_spare = 0, tiles_dead = 0;
  std::vector<Straggler> stragglers;  ///< in order of groups and ranks
  /// The iteration time of the same job when no tile is slow or late: from another run, whose
  /// caller fills it in.
  std::optional<Seconds> time_without_stragglers;
  std::array<Bytes, kCauses> traffic{};  ///< bytes injected, by Cause
  Bytes dram_read{0}, dram_written{0};
  Bytes host_read{0}, host_written{0};
  std::optional<EnergyResult> energy;  ///< of a machine with an energy section
  std::uint64_t events = 0, messages = 0, message_hops = 0;
  std::vector<std::string> notes;  ///< assumptions and warnings a reader should see
  std::int64_t parameters = 0;
};

/// Fills what follows from the hardware's counters alone: iteration time, breakdown, utilisations,
/// traffic, events, bubble fraction, dram, host and bisection bounds. `used` marks the tiles that
/// have work; means are over them. A tile is used when it is not idle for the whole run.
void summarise(const MachineConfig& machine, const RunStatistics& run, Result& result);

/// Fills what the counters say about the tiles of one stage: tiles, busy, time, peak_sram,
/// peak_dram, peak_host.
void summarise_stage(const RunStatistics& run, const std::vector<TileId>& tiles,
                     StageResult& stage);

/// Fills the stragglers among the ranks of `program`.
void summarise_stragglers(const MachineConfig& machine, const Program& program, Result& result);

/// The histograms of `latencies` as CSV: a line for every bin that holds anything.
std::string latencies_csv(const Result& result);

/// Fills the energy that `run` of `program` took, when the machine has an energy section; notes say
/// which traffic has no coefficient above 0.
void summarise_energy(const MachineConfig& machine, const Program& program,
                      const RunStatistics& run, Result& result);

/// The report for people: 80–100 columns, no colour, ends with a newline.
std::string text_report(const Result& result);
/// The same for programs: keys in the order of docs/result.md, shortest round-trip numbers,
/// no host times: equal inputs give equal bytes.
std::string json_report(const Result& result);

}  // namespace tilewright
