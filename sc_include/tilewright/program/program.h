// The tile instruction set: the contract between plan and hardware.
//
// A tile is a decoupled machine. Six engines take instructions from in-order streams; order between
// engines comes from dependences alone. Programs are flyweights: every tile of a pipeline stage
// shares the stage's segments, and what differs between tensor ranks (peers, chunk sizes) is worked
// out from the rank when an instruction issues. Memory grows with the number of distinct segments,
// not with micro-batches × layers × tiles.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/ids.h>

namespace tilewright {

/// The in-order streams of a tile.
enum class Engine : std::uint8_t { matrix, vector, dma_in, dma_out, net_send, net_recv };
constexpr int kEngines = 6;

enum class Opcode : std::uint8_t {
  compute,   ///< on matrix or vector: `amount` of the work described by Program::shapes[operand]
  load,      ///< dma_in: bytes from the tile's memory in `space`; done when the last byte is there
  store,     ///< dma_out: bytes to it; done when the controller has taken the last byte and the
             ///< instruction `until` is complete
  send,      ///< net_send: bytes to peers[operand][rank]; buffered: done when injected
  recv,      ///< net_recv: one message of channel `channel` from peers[operand][rank]
  allocate,  ///< dma_in or dma_out: bytes in `space`, at once; over capacity is an error
  release,   ///< the reverse
};

/// Where bytes are kept. Loads and stores go to dram or host.
enum class Space : std::uint8_t {
  sram,  ///< of the tile
  dram,  ///< behind the tile's DRAM controllers
  host,  ///< the second memory tier, behind controllers of its own; its traffic is Cause::offload
};

/// The part of the iteration an instruction belongs to.
enum class Phase : std::uint8_t { forward, backward, recompute, gradient_sync, optimizer };
constexpr int kPhases = 5;

/// On whose behalf bytes move (and what a tile that waits for them is waiting for).
enum class Cause : std::uint8_t {
  memory,      ///< DRAM traffic of operators
  tensor,      ///< tensor-parallel collectives
  data,        ///< data-parallel collectives: gradients, and parameters that are sharded
  pipeline,    ///< stage-to-stage transfers
  context,     ///< context-parallel exchange of keys and values
  expert,      ///< expert-parallel all-to-all
  resharding,  ///< tensors moved between operators that split them differently
  offload,     ///< traffic to and from the second memory tier
};
constexpr int kCauses = 8;

/// A byte count that may depend on the rank: part (rank / stride + offset) mod parts of `total`,
/// cut as evenly as whole bytes allow (the first total mod parts parts hold one more). parts = 1:
/// `total` for all. The rank of a group's tile r is TileGroup::first_rank + r: with a stride it
/// gives the place along one axis of a grid of ranks (rank / stride mod the axis' length).
struct Share {
  std::uint64_t total = 0;
  std::uint16_t parts = 1;
  std::uint16_t offset = 0;
  std::uint32_t stride = 1;

  static constexpr std::uint32_t kMaxParts = 0xffff;
  Share() = default;
  /// Throws InputError when `parts` or `offset` exceeds kMaxParts.
  Share(std::uint64_t total, std::uint32_t parts = 1, std::uint32_t offset = 0,
        std::uint32_t stride = 1);

  std::uint64_t bytes(std::uint32_t rank) const {
    if (parts == 1) return total;
    const std::uint64_t part = (std::uint64_t{rank / stride} + offset) % parts;
    return total / parts + (part < total % parts ? 1 : 0);
  }
};

/// No dependence.
constexpr std::uint32_t kNone = 0xffffffffu;
/// Set in a dependence on a load: its head is enough (Instruction::head).
constexpr std::uint32_t kHead = 0x80000000u;

/// Earlier instructions that one waits for; kNone where there are fewer.
using Dependences = std::array<std::uint32_t, 4>;

/// One instruction. Dependences are indices of earlier instructions of the same segment:
/// the instruction issues once they are complete, every earlier instruction of its own engine has
/// issued (matrix, vector, net_recv: completed), and, with `after_previous`, every instruction of
/// all earlier calls is complete.
struct Instruction {
  Opcode op = Opcode::compute;
  Engine engine = Engine::matrix;
  Phase phase = Phase::forward;
  Cause cause = Cause::memory;
  bool after_previous = false;
  Space space = Space::dram;  ///< load, store, allocate, release
  std::uint16_t name = 0;     ///< Program::names: the operator or collective it came from
  std::uint16_t channel = 0;  ///< send, recv
  /// send, recv: some tiles have no peer in their table, and skip it. Filled by Program::seal().
  bool skips = false;
  /// load: made once for all tiles that have the same entry in peer table `operand`, and by the
  /// tiles with kNoTile for themselves (sharing_sets()).
  bool shared = false;
  /// One for each other engine whose completions can matter (net_send completes at issue).
  Dependences after{kNone, kNone, kNone, kNone};
  std::uint32_t operand = 0;  ///< compute: shape; send, recv, shared load: peer table
  Share share;                ///< load, store, send, recv, allocate, release
  // What messages do not need comes last: they are the most frequent by far.
  std::uint32_t amount = 0;  ///< compute: parts of the shape's work, of ComputeShape::denominator
  std::uint32_t begin = 0;   ///< compute: the first of the parts, so that pieces sum to the whole
  /// store: streams beside the instruction that makes its last bytes, and ends no earlier than it.
  /// compute: streams beside the load of its operands, and ends no earlier than it; its engine is
  /// free for what does not depend on it.
  std::uint32_t until = kNone;
  /// load: bytes of the first block; what depends on it with kHead goes when they are there.
  std::uint64_t head = 0;
};
static_assert(sizeof(Instruction) <= 72, "instructions are read on the hot path");

/// The work of one operator on one tile; `compute` instructions run fractions of it.
struct ComputeShape {
  Engine engine = Engine::matrix;
  std::uint32_t format = 0;       ///< Program::names: number format, "fp16"
  std::uint32_t denominator = 1;  ///< Instruction::amount counts these parts of the whole
  std::int64_t batch = 1, m = 0, n = 0, k = 0;  ///< matrix: independent GEMMs and their extents
  double flop = 0;                              ///< matrix: 2·batch·m·n·k
  double elements = 0;                          ///< vector: elements × passes
  double sram_bytes = 0;    ///< operand and result bytes through the SRAM, whole operator
  double sram_written = 0;  ///< part of them that is written, the rest is read
  /// Bytes that the operator's loads write to the SRAM and its stores read beside it, where they
  /// contend with the engines.
  double dma_in = 0, dma_out = 0;
};

/// A list of instructions run as a unit, with the streams of the engines precomputed.
struct Segment {
  std::string name;  ///< "layer.forward", "layer.backward.short"
  std::vector<Instruction> code;
  /// Per engine, the indices into `code` in program order. Filled by Program::seal().
  std::array<std::vector<std::uint32_t>, kEngines> streams;
  /// Per instruction, the store that waits for its end (Instruction::until), or kNone; empty when
  /// the segment has no such store. Filled by Program::seal().
  std::vector<std::uint32_t> ends;
};

/// One execution of a segment. Calls run in order; engines may run ahead into later calls.
struct Call {
  std::uint32_t segment = 0;
  std::uint32_t micro_batch = 0;  ///< MicroBatchId, or kNoMicroBatch
  std::uint32_t layer = 0;        ///< position in the model's chain of blocks, for reports
  /// How many calls of the group's other list (TileGroup::calls or background) must be complete
  /// before this one and those behind it start.
  std::uint32_t after = 0;
};
constexpr std::uint32_t kNoMicroBatch = 0xffffffffu;

/// What all tiles of one group (a pipeline stage of one replica, or a hand-written program's tiles)
/// run.
struct TileGroup {
  std::string name;         ///< "stage 3" for reports
  std::uint32_t stage = 0;  ///< groups of equal stage are reported together
  /// Added to a tile's position in `tiles` where shares count ranks: the groups of one collective
  /// number their tiles through, and may run the same segment.
  std::uint32_t first_rank = 0;
  std::vector<TileId> tiles;
  std::vector<Call> calls;
  /// Run beside `calls` by the same tiles, in order, with streams of their own: transfers that
  /// overlap with what the tiles compute. They do not compute themselves, and a channel that they
  /// use belongs to them alone.
  std::vector<Call> background;
  /// Peer tables by Instruction::operand: for each of `tiles` the other end, or kNoTile: it skips
  /// the instruction. A table that an instruction of this group's calls uses must have one entry
  /// per tile.
  std::vector<std::vector<TileId>> peers;
  std::uint64_t sram_resident = 0;  ///< bytes per tile allocated for the whole iteration
  std::uint64_t dram_resident = 0;
  std::uint64_t host_resident = 0;

  std::array<const std::vector<Call>*, 2> call_lists() const { return {&calls, &background}; }
};

/// The whole program.
struct Program {
  std::vector<std::string> names;  ///< string table
  std::vector<ComputeShape> shapes;
  std::vector<Segment> segments;
  std::vector<TileGroup> groups;
  std::vector<std::string>
      channels;  ///< "tensor ring", "pipeline forward": one source per tile each

  std::uint16_t intern(const std::string& name);  ///< index in `names`, added when new
  /// Computes the streams and checks the program: dependences point backwards, engines match
  /// opcodes, operands exist, peer tables are complete, a tile belongs to one group, background
  /// calls do not compute and share no channel with the others, every tile's sends and receives
  /// agree in number and bytes with its peers', and the loads of tiles that share them with each
  /// other. Throws InputError naming the group, segment and instruction (a size mismatch names both
  /// ends).
  void seal();
};

/// Tiles that load together, once from the memory for all: those whose entry in a peer table that
/// shared loads use is the same tile, one of them. The n-th shared load of a memory that a tile
/// makes by the table is the n-th of each other one. Tables of different groups are one if their
/// numbers are equal.
struct SharingSet {
  std::uint32_t table = 0;
  Space space = Space::dram;
  TileId first = kNoTile;     ///< the entry
  std::vector<TileId> tiles;  ///< at least two, ascending
};
/// Every set of a sealed program, by table, memory and entry.
std::vector<SharingSet> sharing_sets(const Program& program);

std::string to_string(Engine e);
std::string to_string(Opcode o);
std::string to_string(Phase p);
std::string to_string(Cause c);
std::string to_string(Space s);

}  // namespace tilewright
