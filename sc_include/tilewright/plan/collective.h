// Collectives: which messages the ranks of a group exchange, by algorithm (docs/collectives.md).
//
// A schedule is the list of sends and receives that every member of a group runs, the same list on
// all of them; what differs is whom a table makes a member's peer, and which blocks it sends. It
// knows blocks, so that what it computes can be checked; the program that is made of it knows
// bytes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/ids.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

enum class CollectiveKind : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  all_to_all,
  broadcast,
  ring_step,  ///< one step of a ring's all_gather or reduce_scatter: a part goes to the next rank
  halo,       ///< every rank gets the end of what those before it hold, passed on rank by rank
  halo_sum,   ///< the way back: summands of such halos go to the ranks that they came from
};
constexpr std::size_t kCollectiveKinds = 5;  ///< those that have algorithms to choose from
const char* to_string(CollectiveKind kind);

enum class CollectiveAlgorithm : std::uint8_t {
  ring,              ///< round a ring of the members, one way
  two_rings,         ///< half of the data each way round
  row_column,        ///< along the rows of a grid and its columns; half of the data the other way
  tree,              ///< in pieces up or down trees; on a grid two that share no link
  halving_doubling,  ///< with the member whose number differs in one bit, bit after bit
  direct,            ///< straight to every member, the next first
  random,            ///< straight to every member, in an order drawn once
};
constexpr std::size_t kCollectiveAlgorithms = 7;
const char* to_string(CollectiveAlgorithm algorithm);  ///< "row-column"

/// The members of one collective and where they are.
struct CollectiveGroup {
  std::vector<std::pair<int, int>> at;  ///< coordinates by member, from the least ones
  /// Members round a ring: of orders with the fewest hops their own, if it is one of them.
  std::vector<int> ring;
  bool numbered = true;  ///< the ring is 0, 1, 2, ...
  /// Rows and columns of a grid that the members fill; 0: they do not.
  int columns = 0, rows = 0;
  std::vector<int> grid;  ///< members, row by row
  /// On a mesh the ends of a row are far from each other; behind switches nothing is.
  bool mesh = true;
  /// Seconds per byte of the slowest link along its rows and along its columns.
  double row_seconds = 0, column_seconds = 0;
  double hop_seconds = 0;  ///< head latency of the slowest hop

  int size() const { return static_cast<int>(at.size()); }
  int member(int column, int row) const {
    return grid[static_cast<std::size_t>(row * columns + column)];
  }
  bool operator==(const CollectiveGroup& o) const {
    return at == o.at && columns == o.columns && rows == o.rows && row_seconds == o.row_seconds &&
           column_seconds == o.column_seconds && hop_seconds == o.hop_seconds;
  }
};

/// Finds ring and grid of the members on these tiles. Groups that run the same instructions must
/// agree: agree() drops a grid that not all of them have, and takes the slowest rates.
CollectiveGroup make_group(const MachineConfig& machine, const std::vector<TileId>& tiles);
void agree(std::vector<CollectiveGroup>& groups);

/// No earlier instruction.
constexpr std::uint32_t kNoOp = 0xffffffffu;

/// One instruction of every member. A member to which the table gives no peer skips it.
struct CollectiveOp {
  bool send = true;
  bool adds = false;        ///< a receive adds to what is there; else it takes the place of it
  std::uint32_t table = 0;  ///< a receive: that by which it is sent
  std::int64_t bytes = 0;
  /// The bytes are exactly part (member + rotation) mod members of the whole (Share), and `bytes`
  /// the largest part.
  std::optional<std::uint32_t> rotation;
  /// A send: the receive that it waits for, and with it for all receives before that one.
  std::uint32_t after = kNoOp;
  /// A send: numbers of the blocks it carries. What they are, by kind (p members, h = 0 or 1 one of
  /// two parts that go different ways): all-reduce: any cut of the tensor; reduce-scatter and
  /// all-gather: h p + the member to whom it belongs; all-to-all: (h p + from) p + to; broadcast:
  /// any cut.
  std::function<std::vector<int>(int member)> blocks;
};

struct CollectiveTable {
  std::string name;     ///< "+1", "row a"; within a group it says which table it is
  std::vector<int> to;  ///< by member: whom it sends to, or -1
};

struct CollectiveSchedule {
  std::vector<CollectiveTable> tables;
  std::vector<CollectiveOp> ops;
  int blocks = 0;  ///< how many there are
  /// Bytes of blocks before `first_blocks`, and of the others.
  int first_blocks = 0;
  std::int64_t first_bytes = 0, other_bytes = 0;
  std::uint32_t last_sum = kNoOp;  ///< the last receive that adds
  /// Members that a piece passes from hand to hand between a send and the receive it stands for; 1
  /// where members forward only what an earlier receive brought.
  int depth = 1;

  std::int64_t block_bytes(int block) const {
    return block < first_blocks ? first_bytes : other_bytes;
  }
};

/// Why an algorithm cannot run a kind of collective on any group; "" when it can.
std::string runs_not(CollectiveKind kind, CollectiveAlgorithm algorithm);
/// Why an algorithm cannot run this collective on such a group; "" when it can.
std::string why_not(CollectiveKind kind, CollectiveAlgorithm algorithm,
                    const CollectiveGroup& group);

/// The messages of a collective. `bytes`: all-reduce, reduce-scatter: of what every member has in
/// the beginning; all-gather: of what it has in the end; all-to-all: of what a member has for all
/// members, itself included; broadcast: of what member 0 has. Blocks are equal: what they do not
/// divide is rounded up (but see CollectiveOp::rotation). Of a halo or halo_sum only whom members
/// send to. Throws InternalError where why_not().
CollectiveSchedule make_schedule(CollectiveKind kind, CollectiveAlgorithm algorithm,
                                 const CollectiveGroup& group, std::int64_t bytes);

/// How a collective is to be run.
struct CollectiveChoice {
  /// Nothing: the one that estimate() finds cheapest.
  std::optional<CollectiveAlgorithm> algorithm;
  std::string where;  ///< what the user wrote, for errors
};

/// What a plan says under `collectives`.
class CollectiveChoices {
 public:
  /// Of an axis by name; "" stands for all axes that say nothing themselves.
  void set(const std::string& axis, CollectiveKind kind, CollectiveChoice choice);
  CollectiveChoice of(const std::string& axis, CollectiveKind kind) const;
  /// Unless the user says otherwise: direct for all-to-all, tree for broadcast, ring.
  static CollectiveAlgorithm usual(CollectiveKind kind);

 private:
  std::map<std::pair<std::string, CollectiveKind>, CollectiveChoice> choices_;
};

}  // namespace tilewright
