// Resharding moves exactly the bytes that change owner, whatever the two splits: by the sends of
// the programs, and by following every element from message to message.
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/plan/kernels.h>
#include <tilewright/plan/lower.h>

namespace tilewright {
namespace {

constexpr std::int64_t kElement = 2;  // bytes
constexpr OpRole kMaker = OpRole::mlp_down, kTaker = OpRole::mlp_residual;

/// Axes of a tile group, what a matrix multiplication x -> a cuts over each, and what the pointwise
/// operator a -> y does; extents of a: samples, rows, columns.
struct Conversion {
  std::vector<int> degrees;
  std::vector<std::optional<Dim>> made, taken;
  std::int64_t samples = 0, rows = 0, columns = 0;

  int ranks() const {
    int n = 1;
    for (const int d : degrees) n *= d;
    return n;
  }
  int digit(int rank, std::size_t axis) const {
    for (std::size_t a = 0; a < axis; ++a) rank /= degrees[a];
    return rank % degrees[axis];
  }
};

Graph graph_of(const Conversion& c) {
  Operator maker;
  maker.name = to_string(kMaker);
  maker.kind = OpKind::gemm;
  maker.role = kMaker;
  maker.extents[Dim::row] = c.rows;
  maker.extents[Dim::col] = c.columns;
  maker.extents[Dim::red] = c.ranks();
  maker.inputs = {{"x", DimSet(Dim::batch, Dim::row, Dim::red)}};
  maker.weights = {{"weight", DimSet(Dim::col, Dim::red)}};
  maker.outputs = {{"a", DimSet(Dim::batch, Dim::row, Dim::col)}};
  maker.parameters = c.columns * c.ranks();
  Operator taker;
  taker.name = to_string(kTaker);
  taker.kind = OpKind::elementwise;
  taker.role = kTaker;
  taker.extents[Dim::row] = c.rows;
  taker.extents[Dim::col] = c.columns;
  taker.inputs = {{"a", DimSet(Dim::batch, Dim::row, Dim::col)}};
  taker.outputs = {{"y", DimSet(Dim::batch, Dim::row, Dim::col)}};
  taker.forward_passes = 1;
  Graph g;
  g.model = "conversion";
  g.sequence = c.rows;
  g.hidden = c.columns;
  g.blocks = {{"layer", {maker, taker}}};
  g.chain = {0};
  return g;
}

PlanConfig plan_of(const Conversion& c) {
  PlanConfig p;
  p.name = "test";
  p.mode = Mode::inference;
  p.tensor = c.ranks();
  if (c.degrees.size() > 1) p.tensor_shape = c.degrees;
  p.micro_batch = p.global_batch = c.samples;
  p.uneven = Uneven::pad;
  p.placement = PlacementKind::serpentine;
  const char* names[] = {"tensor_x", "tensor_y", "tensor_z"};
  for (std::size_t a = 0; a < c.degrees.size(); ++a) {
    const std::string axis = c.degrees.size() > 1 ? names[a] : "tensor";
    p.cuts.push_back({kMaker, axis, c.made[a], ""});
    p.cuts.push_back({kTaker, axis, c.taken[a], ""});
  }
  return p;
}

MachineConfig machine_of(const Conversion& c) {
  MachineConfig m;
  m.name = "row";
  m.tiles_x = c.ranks();
  m.tiles_y = 1;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1e9);
  m.noc.link = m.noc.die_link = {Bandwidth(1e12), Seconds(1e-9)};
  return m;
}

using Pairs = std::map<std::pair<int, int>, std::int64_t>;  // bytes by sender and receiver

/// What the program sends to bring "a" from the one layout into the other.
Pairs sent(const LoweredPlan& lowered) {
  Pairs bytes;
  const Program& program = lowered.program;
  const TileGroup& g = program.groups.front();
  std::map<TileId, int> rank;
  for (std::size_t r = 0; r < g.tiles.size(); ++r) rank[g.tiles[r]] = static_cast<int>(r);
  for (const Call& call : g.calls) {
    for (const Instruction& i : program.segments[call.segment].code) {
      if (i.op != Opcode::send || program.names[i.name].rfind("a.", 0) != 0) continue;
      for (std::uint32_t r = 0; r < g.tiles.size(); ++r) {
        const TileId to = g.peers[i.operand][r];
        const auto n = static_cast<std::int64_t>(i.share.bytes(r));
        if (to != kNoTile && n > 0) bytes[{static_cast<int>(r), rank.at(to)}] += n;
      }
    }
  }
  return bytes;
}

/// Every element that every rank holds, and which ranks' summands are in it.
class Ownership {
 public:
  using Elements = std::map<std::int64_t, std::uint32_t>;  // by number: summands, by bit

  explicit Ownership(const Conversion& c) : c_(c), held_(static_cast<std::size_t>(c.ranks())) {
    const std::int64_t elements = c.samples * c.rows * c.columns;
    for (std::size_t a = 0; a < c.degrees.size(); ++a) {
      layout_.push_back(c.made[a]);
      if (c.made[a] != Dim::red) continue;
      summands_ *= c.degrees[a];
      layout_[a] = std::nullopt;
    }
    for (int r = 0; r < c.ranks(); ++r) {
      int summand = 0;
      for (std::size_t a = 0; a < c.degrees.size(); ++a) {
        if (c.made[a] == Dim::red) summand = summand * c.degrees[a] + c.digit(r, a);
      }
      for (std::int64_t e = 0; e < elements; ++e) {
        if (belongs(e, r, layout_)) held_[static_cast<std::size_t>(r)][e] = 1u << summand;
      }
    }
    before_ = held_;
    // What everybody holds is cut without a message.
    for (std::size_t a = 0; a < c.degrees.size(); ++a) {
      if (!layout_[a] && c.made[a] != Dim::red) cut(a);
    }
  }

  /// Runs a collective over some of the axes; adds what ranks send.
  void run(const Collective& what, const MachineConfig& machine, const LoweredPlan& lowered,
           Pairs& pairs) {
    std::set<int> done;
    const std::vector<std::optional<Dim>> before = layout_;
    for (std::size_t a = 0; a < c_.degrees.size(); ++a) {
      if ((what.axes >> a & 1u) == 0) continue;
      const bool whole =
          what.kind == CollectiveKind::all_gather || what.kind == CollectiveKind::all_reduce;
      layout_[a] = whole ? std::nullopt : c_.taken[a];
    }
    for (int first = 0; first < c_.ranks(); ++first) {
      if (done.count(first) > 0) continue;
      std::vector<int> members;
      std::vector<TileId> tiles;
      for (int r = first; r < c_.ranks(); ++r) {
        bool same = true;
        for (std::size_t a = 0; a < c_.degrees.size(); ++a) {
          same &= (what.axes >> a & 1u) != 0 || c_.digit(r, a) == c_.digit(first, a);
        }
        if (!same) continue;
        members.push_back(r);
        tiles.push_back(lowered.placement.tile(0, 0, r));
        done.insert(r);
      }
      const CollectiveSchedule schedule = make_schedule(
          what.kind, CollectiveChoices::usual(what.kind), make_group(machine, tiles), what.bytes);
      exchange(schedule, what.kind, members, pairs);
    }
    for (int r = 0; r < c_.ranks(); ++r) restrict(r);
  }

  /// Why ranks do not end with just what they need, complete; "" when they do.
  std::string fault() {
    for (std::size_t a = 0; a < c_.degrees.size(); ++a) {
      if (!layout_[a]) cut(a);
    }
    const std::uint32_t complete = summands_ == 32 ? ~0u : (1u << summands_) - 1;
    for (int r = 0; r < c_.ranks(); ++r) {
      const Elements& has = held_[static_cast<std::size_t>(r)];
      for (std::int64_t e = 0; e < c_.samples * c_.rows * c_.columns; ++e) {
        const auto it = has.find(e);
        const bool needed = belongs(e, r, c_.taken);
        if (needed != (it != has.end())) {
          return "rank " + std::to_string(r) + (needed ? " lacks " : " has ") + std::to_string(e);
        }
        if (needed && it->second != complete) return "an incomplete sum";
      }
    }
    return "";
  }

  /// Bytes that a rank needs in the end and did not hold in the beginning.
  std::int64_t lacking(int rank) const {
    std::int64_t n = 0;
    for (std::int64_t e = 0; e < c_.samples * c_.rows * c_.columns; ++e) {
      n += belongs(e, rank, c_.taken) && before_[static_cast<std::size_t>(rank)].count(e) == 0;
    }
    return n * kElement;
  }

 private:
  /// Dimensions are cut digit by digit, one for each axis, so that what a rank holds of one does
  /// not depend on how other axes cut it.
  bool belongs(std::int64_t element, int rank,
               const std::vector<std::optional<Dim>>& layout) const {
    const std::int64_t at[] = {element / (c_.rows * c_.columns), element / c_.columns % c_.rows,
                               element % c_.columns};
    for (std::size_t a = 0; a < layout.size(); ++a) {
      if (!layout[a]) continue;
      const std::int64_t index = at[*layout[a] == Dim::batch ? 0 : *layout[a] == Dim::row ? 1 : 2];
      if (c_.digit(static_cast<int>(index % c_.ranks()), a) != c_.digit(rank, a)) return false;
    }
    return true;
  }
  void restrict(int rank) {
    Elements& has = held_[static_cast<std::size_t>(rank)];
    for (auto it = has.begin(); it != has.end();) {
      it = belongs(it->first, rank, layout_) ? std::next(it) : has.erase(it);
    }
  }
  void cut(std::size_t axis) {
    layout_[axis] = c_.taken[axis];
    for (int r = 0; r < c_.ranks(); ++r) restrict(r);
  }

  void exchange(const CollectiveSchedule& schedule, CollectiveKind kind,
                const std::vector<int>& members, Pairs& pairs) {
    const auto p = static_cast<int>(members.size());
    const auto own = [&](int member) -> Elements& {
      return held_[static_cast<std::size_t>(members[static_cast<std::size_t>(member)])];
    };
    // Elements of a block (collective.h says what blocks are).
    std::vector<std::vector<std::int64_t>> blocks(static_cast<std::size_t>(schedule.blocks));
    for (int m = 0; m < p; ++m) {
      std::size_t place = 0;
      for (const auto& entry : own(m)) {
        const std::int64_t e = entry.first;
        switch (kind) {
          case CollectiveKind::all_gather:
            blocks.at(static_cast<std::size_t>(m)).push_back(e);
            break;
          case CollectiveKind::all_to_all:
            for (int to = 0; to < p; ++to) {
              if (belongs(e, members[static_cast<std::size_t>(to)], layout_)) {
                blocks.at(static_cast<std::size_t>(m * p + to)).push_back(e);
              }
            }
            break;
          case CollectiveKind::reduce_scatter:
            if (m > 0) break;  // all have the same
            for (int to = 0; to < p; ++to) {
              if (belongs(e, members[static_cast<std::size_t>(to)], layout_)) {
                blocks.at(static_cast<std::size_t>(to)).push_back(e);
              }
            }
            break;
          default:
            if (m == 0) blocks[place++ * blocks.size() / own(0).size()].push_back(e);
        }
      }
    }
    std::map<std::pair<std::uint32_t, int>, std::deque<Elements>> on_the_way;  // by table, receiver
    for (const CollectiveOp& op : schedule.ops) {
      for (int m = 0; m < p; ++m) {
        if (op.send) {
          const int to = schedule.tables[op.table].to[static_cast<std::size_t>(m)];
          if (to < 0) continue;
          Elements message;
          for (const int b : op.blocks(m)) {
            for (const std::int64_t e : blocks.at(static_cast<std::size_t>(b))) {
              message[e] = own(m).at(e);
            }
          }
          pairs[{members[static_cast<std::size_t>(m)], members[static_cast<std::size_t>(to)]}] +=
              kElement * static_cast<std::int64_t>(message.size());
          on_the_way[{op.table, to}].push_back(std::move(message));
        } else {
          std::deque<Elements>& queue = on_the_way[{op.table, m}];
          if (queue.empty()) continue;
          for (const auto& [e, summands] : queue.front()) {
            std::uint32_t& has = own(m)[e];
            if (op.adds) {
              EXPECT_EQ(has & summands, 0u) << "a summand is added twice";
              has |= summands;
            } else {
              has = summands;
            }
          }
          queue.pop_front();
        }
      }
    }
  }

  const Conversion& c_;
  std::vector<Elements> held_, before_;
  std::vector<std::optional<Dim>> layout_;  // sums and what is whole: nothing
  int summands_ = 1;
};

Conversion draw(std::mt19937& random, bool even) {
  Conversion c;
  c.degrees.resize(1 + random() % 3);
  for (int& d : c.degrees) {
    d = c.degrees.size() == 3 ? 2
                              : 2 + static_cast<int>(random() % (c.degrees.size() == 1 ? 4 : 2));
  }
  const std::optional<Dim> cuts[] = {std::nullopt, Dim::batch, Dim::row, Dim::col, Dim::red};
  for (std::size_t a = 0; a < c.degrees.size(); ++a) {
    c.made.push_back(cuts[random() % 5]);
    c.taken.push_back(cuts[random() % 4]);
  }
  if (even) {
    // Every digit of every axis is a whole number of elements.
    c.samples = c.rows = c.columns = c.ranks();
  } else {
    c.samples = 1 + static_cast<std::int64_t>(random() % 7);
    c.rows = 1 + static_cast<std::int64_t>(random() % 30);
    c.columns = 1 + static_cast<std::int64_t>(random() % 30);
  }
  return c;
}

std::string text(const Conversion& c) {
  std::string result;
  for (std::size_t a = 0; a < c.degrees.size(); ++a) {
    const auto name = [](std::optional<Dim> d) { return d ? to_string(*d) : "none"; };
    result += std::to_string(c.degrees[a]) + " ranks: " + name(c.made[a]) + " to " +
              name(c.taken[a]) + "; ";
  }
  return result;
}

TEST(Resharding, SendsAreTheBytesThatChangeOwner) {
  std::mt19937 random(11);
  int conversions = 0, sums = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Conversion c = draw(random, true);
    SCOPED_TRACE("trial " + std::to_string(trial) + ": " + text(c));
    const Graph graph = graph_of(c);
    const PlanConfig plan = plan_of(c);
    const MachineConfig machine = machine_of(c);
    const LoweredPlan lowered = lower(graph, plan, machine);
    const Splits splits = make_splits(plan, graph);
    KernelOptions o{splits, boundary_layouts(graph, splits)};
    o.samples = c.samples;
    o.training = false;
    Ownership ownership(c);
    Pairs pairs;
    std::int64_t sum_bytes = 0;  // that each rank receives to complete sums
    for (const Kernel& k : make_kernels(graph.block(0), o).forward) {
      if (!k.collective || k.reads.front().tensor[0] != 'a') continue;
      ownership.run(*k.collective, machine, lowered, pairs);
      const auto n = std::int64_t{
          splits.axes()[static_cast<std::size_t>(__builtin_ctz(k.collective->axes))].degree};
      const bool whole = k.collective->kind == CollectiveKind::all_reduce;
      if (whole || k.collective->kind == CollectiveKind::reduce_scatter) {
        sum_bytes += (whole ? 2 : 1) * k.collective->bytes / n * (n - 1);
        ++sums;
      }
    }
    EXPECT_EQ(ownership.fault(), "");
    // The programs send just these messages.
    const Pairs programs = sent(lowered);
    EXPECT_EQ(programs, pairs);
    for (int r = 0; r < c.ranks(); ++r) {
      std::int64_t received = 0;
      for (const auto& [pair, bytes] : programs) received += pair.second == r ? bytes : 0;
      EXPECT_EQ(received, ownership.lacking(r) + sum_bytes) << "rank " << r;
      conversions += received > 0;
    }
  }
  EXPECT_GT(conversions, 400);
  EXPECT_GT(sums, 100);
}

std::int64_t all_sent(const Conversion& c) {
  std::int64_t sum = 0;
  for (const auto& entry : sent(lower(graph_of(c), plan_of(c), machine_of(c)))) sum += entry.second;
  return sum;
}

TEST(Resharding, UnevenCutsMoveAsMuchRoundedUpToWholeBytes) {
  std::mt19937 random(12);
  int moved = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const Conversion c = draw(random, false);
    SCOPED_TRACE("trial " + std::to_string(trial) + ": " + text(c));
    Conversion even = c;
    even.samples = even.rows = even.columns = c.ranks();
    const std::int64_t ranks = c.ranks(), elements = c.samples * c.rows * c.columns;
    const double exact = static_cast<double>(all_sent(even)) * static_cast<double>(elements) /
                         static_cast<double>(ranks * ranks * ranks);
    const std::int64_t bytes = all_sent(c);
    // A part is rounded up on each rank, and so is every message of one.
    const double messages = 4.0 * static_cast<double>(ranks * ranks * ranks);
    EXPECT_GE(static_cast<double>(bytes), exact - 1e-6);
    EXPECT_LE(static_cast<double>(bytes), exact + messages);
    moved += bytes > 0;
  }
  EXPECT_GT(moved, 150);
}

}  // namespace
}  // namespace tilewright
