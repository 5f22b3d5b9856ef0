// The machine as described by its user: plain data, read from YAML, checked once.
//
// Known by the plan (how much fits, what is near) and by the hardware (what to elaborate).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/base/ids.h>
#include <tilewright/base/quantity.h>
#include <tilewright/machine/energy.h>
#include <tilewright/machine/memory_part.h>

namespace tilewright {

/// Which operand of a systolic array stays in place: the output, the weights (B) or the input (A).
enum class Dataflow { output_stationary, weight_stationary, input_stationary };

/// Systolic arrays of a tile (compute_model.h has the formulas).
struct SystolicConfig {
  std::int64_t rows = 0, columns = 0;  ///< multiply-accumulators of one array
  std::int64_t arrays = 1;
  Dataflow dataflow = Dataflow::output_stationary;
  bool pipelined_folds = false;
  Frequency clock{0};
  /// By number format: cycles run this many times faster than at one multiply-accumulate per cell.
  std::map<std::string, double> speed;
};

/// One measurement of a matrix engine.
struct EfficiencyPoint {
  std::string format;  ///< "" = every format without points of its own
  std::int64_t m = 0, n = 0, k = 0;
  double efficiency = 0;  ///< achieved / peak FLOP rate, in (0, 1]
};

/// Matrix engine of a tile.
struct MatrixConfig {
  std::string model = "peak";  ///< factory name of the timing model
  /// Peak by number format ("fp16", "bf16", "fp32", "fp8", "int8"); absent = unsupported. Counts
  /// the products that sparse operands let the engine skip, so that utilisation never exceeds 1.
  std::map<std::string, FlopRate> peak;
  /// Part of `peak`, by number format: products per product really multiplied; absent = 1.
  std::map<std::string, double> sparsity;
  std::int64_t accumulator = 4;  ///< bytes of a sum of products in SRAM
  SystolicConfig systolic;
  std::vector<EfficiencyPoint> table;
  double sparsity_of(const std::string& format) const {
    const auto known = sparsity.find(format);
    return known == sparsity.end() ? 1 : known->second;
  }
};

/// Vector engine: elements per second for one pass over fp16/bf16 elements (fp32 runs at half).
struct VectorConfig {
  Frequency throughput{0};
  Frequency special{0};  ///< of passes of special functions (exp, tanh, reciprocal); 0: as others
  /// How many other passes a special one takes as long as.
  double special_passes() const {
    return special.value() > 0 ? throughput.value() / special.value() : 1;
  }
};

/// Rates of the operand and result stream of a tile's engines. Banks and ports are told by the
/// rates that follow from them (sram_model.h).
struct SramConfig {
  Bytes capacity{0};
  Bandwidth bandwidth = Bandwidth::unlimited();  ///< reads and writes together
  Bandwidth read = Bandwidth::unlimited(), write = Bandwidth::unlimited();  ///< of either alone
  /// What an operator loads and stores takes SRAM bandwidth from its engines.
  bool contention = false;
  double seconds(double bytes_read, double bytes_written) const;
};

/// The DMA engine of a tile.
struct DmaConfig {
  /// Loads and stores under way at once, in order of issue; 0: as many as there are.
  std::int64_t outstanding = 0;
  /// Blocks of an operator that it loads ahead of the engines: 1, double buffers; 0: the engines
  /// wait for its loads, and its stores for them.
  int prefetch = 1;
};

/// The kinds of directed links. Of a mesh: between tiles of one die, across a die boundary, across
/// a wafer boundary. The kinds of a fabric have the numbers in which it lists them.
enum class LinkKind : std::uint8_t { tile, die, wafer };

/// One kind of directed link.
struct LinkConfig {
  Bandwidth bandwidth{0};
  Seconds latency{0};  ///< head latency of the hop: router and wire together
};

/// A kind of links and its name for reports: "on-die", "device port".
struct NamedLinkConfig {
  std::string name;
  LinkConfig link;
};

/// The routers at flit fidelity. Their flits and delays follow from the links (docs/network.md).
struct FlitRouterConfig {
  Frequency clock{0};        ///< 0: follows from the shortest hop
  int virtual_channels = 8;  ///< per input port
  int buffer_flits = 0;      ///< per virtual channel; 0: 8, or more where a link wants it
  int packet_flits = 32;     ///< longer messages travel as several packets
  bool speculative = false;  ///< a router takes two cycles, not three
};

struct NocConfig {
  LinkConfig link;        ///< between tiles of one die
  LinkConfig die_link;    ///< across a die boundary, in x or y
  LinkConfig wafer_link;  ///< across a wafer boundary, in x or y
  std::string routing = "xy";
  std::uint64_t routing_seed = 1;  ///< of routings that draw
  std::string switching = "cut-through";
  bool multicast = false;  ///< routers copy data that several tiles load together
  FlitRouterConfig flit;
};

/// Switches and links that join the tiles in place of a mesh. Nodes are the tiles by their numbers,
/// then the switches.
struct FabricConfig {
  /// Both directions between two nodes.
  struct Edge {
    std::uint32_t a = 0, b = 0;
    LinkKind kind{};
  };
  std::vector<std::string> switches;  ///< names
  std::vector<NamedLinkConfig> kinds;
  std::vector<Edge> edges;  ///< at most one between two nodes
};

/// How a tile spreads its traffic over the controllers of a memory.
enum class DramPolicy {
  nearest,      ///< all to the controller fewest hops away (ties: balanced, then lowest id)
  interleaved,  ///< equal parts to every controller of the tile's die
};

/// How closely a `banked` memory follows streams that share it.
enum class DramStreams {
  exact,     ///< command by command
  averaged,  ///< at the mean rates of so many readers and writers, worked out once for each mix
};

/// A memory behind controllers at tiles of the mesh: the DRAM, or the host's.
struct DramConfig {
  std::string model = "bandwidth";
  MemoryPart part;  ///< `banked` only; the three figures below are then its own
  DramStreams streams = DramStreams::exact;  ///< `banked` only
  Bandwidth bandwidth{0};                    ///< of one controller, reads and writes together
  Bytes capacity{0};                         ///< of one controller
  Seconds latency{0};                        ///< from the request's arrival to the first byte
  DramPolicy policy = DramPolicy::nearest;
  /// Tiles the controllers attach to, mesh coordinates, in DramId order; at most one per tile.
  std::vector<std::pair<int, int>> sites;
  /// Controllers that a piece of an edge is concentrated on attach to these tiles as well. What a
  /// tile loads and stores takes the controller's port nearest to it.
  std::map<DramId, std::vector<std::pair<int, int>>> further_ports;
  /// Every tile that a controller attaches to, its site first.
  std::vector<std::pair<int, int>> ports(DramId id) const;
};

/// What a machine as built lacks against its design.
struct DefectConfig {
  /// Tiles whose router and engines are gone, mesh coordinates; none of them is spare.
  std::vector<std::pair<int, int>> dead_tiles;
  std::vector<std::pair<TileId, TileId>> dead_links;  ///< from one tile to its neighbour
  /// Factor on the rate of the matrix and vector engines, in (0, 1); tiles not named have 1.
  std::map<TileId, double> speed;
  std::map<TileId, Seconds> delay;  ///< from the start until the tile takes its first call
};

/// A mesh of dies of tiles, or tiles joined by a fabric. Coordinates: x grows to the right, y
/// downwards. Those of a cluster are device and node (every node is a "die" of one row), those of
/// an edge list its numbers (one row): placement in rectangles and rows means what it says there
/// too.
struct MachineConfig {
  std::string name;
  int wafers_x = 1, wafers_y = 1;
  int dies_x = 1, dies_y = 1;    ///< in all, a multiple of the wafers
  int tiles_x = 1, tiles_y = 1;  ///< per die
  bool torus = false;            ///< links from the last tile of every row and column to the first
  std::optional<FabricConfig> fabric;  ///< in place of the mesh
  MatrixConfig matrix;
  VectorConfig vector;
  SramConfig sram;
  DmaConfig dma;
  /// Part of the matrix and vector engines' rates that collectives in the background take: they run
  /// on the engines themselves, as on a GPU.
  double collective_share = 0;
  NocConfig noc;
  DramConfig dram;  ///< no sites: the machine has none
  /// The second memory tier, behind controllers of its own (`bandwidth` model): memory of the host
  /// over PCIe, CXL memory, memory at the wafer's edge. No sites: the machine has none.
  DramConfig host;
  /// Tiles whose router works but whose engines are not used (spare nodes), mesh coordinates.
  std::vector<std::pair<int, int>> spare;
  DefectConfig defects;
  std::optional<EnergyConfig> energy;  ///< none: energy is not counted
  /// What the file marks as assumed and not published: "tile.sram.bandwidth: ...".
  std::vector<std::string> assumptions;

  int width() const { return dies_x * tiles_x; }
  int height() const { return dies_y * tiles_y; }
  int tiles() const { return width() * height(); }
  int usable_tiles() const {
    return tiles() - static_cast<int>(spare.size() + defects.dead_tiles.size());
  }
  TileId tile(int x, int y) const { return static_cast<TileId>(y * width() + x); }
  int x(TileId t) const { return static_cast<int>(index(t)) % width(); }
  int y(TileId t) const { return static_cast<int>(index(t)) / width(); }
  /// "(3,1)" of a tile; the name of a switch, whose numbers follow those of the tiles.
  std::string node_name(TileId node) const;
  bool is_spare(TileId t) const;        ///< O(spare tiles): loops over all tiles take spare_map()
  std::vector<bool> spare_map() const;  ///< by tile
  std::vector<bool> dead_map() const;   ///< by tile
  /// By tile: whether a plan may place a rank on it, since it is neither spare nor dead.
  std::vector<bool> usable_map() const;
  double speed(TileId t) const;   ///< of the tile's engines, 1 unless it is slow
  Seconds delay(TileId t) const;  ///< of the tile's start, 0 unless it is delayed
  bool has_stragglers() const { return !defects.speed.empty() || !defects.delay.empty(); }
  MachineConfig without_stragglers() const;  ///< all tiles at full speed and on time
  /// Die of a tile, row-major over the dies.
  int die(TileId t) const { return y(t) / tiles_y * dies_x + x(t) / tiles_x; }
  /// True when the neighbouring tiles lie on different dies.
  bool crosses_die(TileId a, TileId b) const;
  bool crosses_wafer(TileId a, TileId b) const;
  /// Manhattan distance of their coordinates.
  int hops(TileId a, TileId b) const;
  /// The kinds of links it has, by LinkKind.
  std::vector<NamedLinkConfig> link_kinds() const;
  FlopRate peak(const std::string& format) const;  ///< InputError when the format is unsupported
};

/// The largest mesh: tile numbers travel in 24 bits of a message.
constexpr std::int64_t kMaxTiles = std::int64_t{1} << 24;

/// Reads and checks a machine description (docs/machine.md). Throws InputError.
MachineConfig read_machine(const Document& document);

/// The controllers of `memory` (machine.dram or machine.host) that a tile uses under its policy, in
/// DramId order: one for `nearest`, those of its die or node (or all, when that has none) for
/// `interleaved`. Deterministic; nearest balances the number of client tiles among equally near
/// controllers (spare tiles are no clients, but are given a controller too). Hops are those of
/// routes round dead tiles and links; a dead tile has no controller. Empty if there are none.
IdVector<TileId, std::vector<DramId>> assign_controllers(const MachineConfig& machine,
                                                         const DramConfig& memory);
inline IdVector<TileId, std::vector<DramId>> assign_dram(const MachineConfig& machine) {
  return assign_controllers(machine, machine.dram);
}

}  // namespace tilewright
