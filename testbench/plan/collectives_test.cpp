// What every collective algorithm computes, played through with sets of contributions in place of
// data, and what it moves.
#include <algorithm>
#include <bitset>
#include <deque>
#include <map>
#include <numeric>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/collective_program.h>

namespace tilewright {
namespace {

using Kind = CollectiveKind;
using Algorithm = CollectiveAlgorithm;
using ::testing::HasSubstr;

constexpr Kind kKinds[] = {Kind::all_reduce, Kind::reduce_scatter, Kind::all_gather,
                           Kind::all_to_all, Kind::broadcast};

std::vector<Algorithm> algorithms() {
  std::vector<Algorithm> all;
  for (std::size_t a = 0; a < kCollectiveAlgorithms; ++a) all.push_back(static_cast<Algorithm>(a));
  return all;
}

MachineConfig mesh(int width, int height) {
  MachineConfig m;
  m.name = "mesh";
  m.tiles_x = width;
  m.tiles_y = height;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(1e9);
  m.noc.link = m.noc.die_link = {Bandwidth(1e11), Seconds(1e-9)};
  return m;
}

std::vector<TileId> rectangle(const MachineConfig& m, int width, int height) {
  std::vector<TileId> tiles;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) tiles.push_back(m.tile(x, y));
  }
  return tiles;
}

/// A group by name, on a mesh of 12 x 12.
struct Place {
  std::string name;
  std::vector<TileId> tiles;
};

std::vector<Place> places() {
  const MachineConfig m = mesh(12, 12);
  std::vector<Place> result;
  for (const auto& [w, h] :
       {std::pair(1, 1), {2, 1}, {1, 3}, {2, 2}, {3, 3}, {7, 1}, {4, 4}, {5, 7}, {6, 3}, {8, 8}}) {
    result.push_back({std::to_string(w) + "x" + std::to_string(h), rectangle(m, w, h)});
  }
  std::vector<TileId> tiles = rectangle(m, 4, 4);
  std::reverse(tiles.begin(), tiles.end());
  result.push_back({"numbered backwards", tiles});
  tiles = rectangle(m, 4, 4);
  tiles.erase(tiles.begin() + 5);
  result.push_back({"with a hole", tiles});
  tiles = rectangle(m, 5, 2);
  for (int y = 2; y < 5; ++y) tiles.push_back(m.tile(1, y));
  result.push_back({"a corner", tiles});
  tiles.clear();
  for (const int y : {0, 4, 8}) {
    for (const int x : {1, 5, 9}) tiles.push_back(m.tile(x, y));
  }
  result.push_back({"apart", tiles});
  return result;
}

/// Plays a schedule as tiles do: sends and receives each in order, sends as soon as and receives as
/// late as they may, so that a send that waits for too little carries too little.
class Player {
 public:
  using Who = std::bitset<64>;

  Player(Kind kind, const CollectiveSchedule& schedule, int members)
      : kind_(kind), s_(schedule), members_(static_cast<std::size_t>(members)) {
    for (std::size_t t = 0; t < s_.tables.size(); ++t) {
      std::vector<int> from(members_.size(), -1);
      for (std::size_t m = 0; m < members_.size(); ++m) {
        const int to = s_.tables[t].to[m];
        if (to < 0) continue;
        EXPECT_NE(to, static_cast<int>(m)) << "sends to itself";
        EXPECT_EQ(from[static_cast<std::size_t>(to)], -1) << "two sources";
        from[static_cast<std::size_t>(to)] = static_cast<int>(m);
      }
      from_.push_back(from);
    }
    boxes_.resize(s_.tables.size(), std::vector<std::deque<Message>>(members_.size()));
    for (std::size_t m = 0; m < members_.size(); ++m) {
      members_[m].data.resize(static_cast<std::size_t>(s_.blocks));
      for (int b = 0; b < s_.blocks; ++b) {
        if (has(static_cast<int>(m), b))
          members_[m].data[static_cast<std::size_t>(b)].set(source(b, static_cast<int>(m)));
      }
    }
  }

  /// False when it gets stuck.
  bool play() {
    for (;;) {
      while (send_all()) {
      }
      bool received = false;
      for (std::size_t m = 0; m < members_.size() && !received; ++m) received = receive(m);
      if (!received) break;
    }
    return std::all_of(members_.begin(), members_.end(), [&](const Member& m) {
      return m.sends == s_.ops.size() && m.receives == s_.ops.size();
    });
  }

  void check() const {
    for (const auto& table : boxes_) {
      for (const auto& box : table) EXPECT_TRUE(box.empty()) << "never received";
    }
    Who all;
    for (std::size_t m = 0; m < members_.size(); ++m) all.set(m);
    for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
      for (int b = 0; b < s_.blocks; ++b) {
        if (!wants(m, b)) continue;
        Who expected = all;
        if (kind_ != Kind::all_reduce && kind_ != Kind::reduce_scatter) {
          expected.reset();
          expected.set(source(b, m));
        }
        ASSERT_EQ(members_[static_cast<std::size_t>(m)].data[static_cast<std::size_t>(b)], expected)
            << "member " << m << " block " << b;
      }
    }
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  struct Message {
    std::vector<int> blocks;
    std::vector<Who> data;
  };
  struct Member {
    std::vector<Who> data;  // by block, whose contributions it holds
    std::size_t sends = 0, receives = 0;
  };

  int p() const { return static_cast<int>(members_.size()); }
  bool sums() const { return kind_ == Kind::all_reduce || kind_ == Kind::reduce_scatter; }
  /// Whose data a block is.
  std::size_t source(int block, int member) const {
    if (sums()) return static_cast<std::size_t>(member);
    if (kind_ == Kind::broadcast) return 0;
    return static_cast<std::size_t>(kind_ == Kind::all_gather ? block % p() : block / p() % p());
  }
  bool has(int member, int block) const {
    return sums() || source(block, member) == static_cast<std::size_t>(member);
  }
  bool wants(int member, int block) const {
    switch (kind_) {
      case Kind::reduce_scatter:
      case Kind::all_to_all:
        return block % p() == member;
      default:
        return true;
    }
  }

  bool send_all() {
    bool any = false;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      Member& member = members_[m];
      for (; member.sends < s_.ops.size(); ++member.sends) {
        const CollectiveOp& op = s_.ops[member.sends];
        if (!op.send) continue;
        if (op.after != kNoOp && op.after >= member.receives) break;
        const int to = s_.tables[op.table].to[m];
        if (to < 0) continue;
        Message message;
        message.blocks = op.blocks(static_cast<int>(m));
        std::int64_t size = 0;
        for (const int b : message.blocks) {
          const Who& data = member.data.at(static_cast<std::size_t>(b));
          EXPECT_TRUE(data.any()) << "member " << m << " sends block " << b << " without having it";
          message.data.push_back(data);
          size += s_.block_bytes(b);
        }
        EXPECT_EQ(size, op.bytes);
        EXPECT_EQ(std::set<int>(message.blocks.begin(), message.blocks.end()).size(),
                  message.blocks.size());
        bytes_ += size;
        boxes_[op.table][static_cast<std::size_t>(to)].push_back(std::move(message));
        any = true;
      }
    }
    return any;
  }

  /// One message, and what a member skips on the way to it.
  bool receive(std::size_t m) {
    Member& member = members_[m];
    const std::size_t before = member.receives;
    for (; member.receives < s_.ops.size(); ++member.receives) {
      const CollectiveOp& op = s_.ops[member.receives];
      if (op.send || from_[op.table][m] < 0) continue;
      auto& box = boxes_[op.table][m];
      if (box.empty()) break;
      const Message message = box.front();
      box.pop_front();
      for (std::size_t i = 0; i < message.blocks.size(); ++i) {
        Who& data = member.data.at(static_cast<std::size_t>(message.blocks[i]));
        if (op.adds) {
          EXPECT_TRUE((data & message.data[i]).none()) << "counted twice";
          data |= message.data[i];
        } else {
          data = message.data[i];
        }
      }
      ++member.receives;
      return true;
    }
    return member.receives > before;
  }

  Kind kind_;
  const CollectiveSchedule& s_;
  std::vector<Member> members_;
  std::vector<std::vector<int>> from_;
  std::vector<std::vector<std::deque<Message>>> boxes_;  // by table and receiver
  std::int64_t bytes_ = 0;
};

TEST(Collectives, EveryAlgorithmGivesEveryMemberItsData) {
  const MachineConfig m = mesh(12, 12);
  int played = 0;
  for (const Place& place : places()) {
    const CollectiveGroup group = make_group(m, place.tiles);
    for (const Kind kind : kKinds) {
      for (const Algorithm algorithm : algorithms()) {
        if (!why_not(kind, algorithm, group).empty()) continue;
        for (const std::int64_t bytes :
             {std::int64_t{1} << 20, std::int64_t{1000}, std::int64_t{1}}) {
          SCOPED_TRACE(place.name + ", " + to_string(kind) + ", " + to_string(algorithm) + ", " +
                       std::to_string(bytes));
          const CollectiveSchedule s = make_schedule(kind, algorithm, group, bytes);
          if (group.size() == 1) {
            EXPECT_TRUE(s.ops.empty());
            continue;
          }
          Player player(kind, s, group.size());
          ASSERT_TRUE(player.play()) << "stuck";
          player.check();
          if (HasFatalFailure() || HasNonfatalFailure()) return;
          ++played;
        }
      }
    }
  }
  EXPECT_GT(played, 500);
}

TEST(Collectives, VolumesAreThoseOfTheAlgorithms) {
  // Bytes that 8 of 4 x 4 ... members send in all; sizes that every cut divides.
  const MachineConfig m = mesh(12, 12);
  for (const auto& [w, h] : {std::pair(4, 4), {8, 2}, {8, 8}}) {
    const CollectiveGroup group = make_group(m, rectangle(m, w, h));
    const std::int64_t p = w * h, n = p * p * 64 * 512;
    const auto sent = [&](Kind kind, Algorithm algorithm) {
      const CollectiveSchedule s = make_schedule(kind, algorithm, group, n);
      Player player(kind, s, static_cast<int>(p));
      EXPECT_TRUE(player.play());
      return player.bytes();
    };
    for (const Algorithm a : {Algorithm::ring, Algorithm::two_rings, Algorithm::row_column,
                              Algorithm::halving_doubling, Algorithm::direct}) {
      SCOPED_TRACE(to_string(a));
      EXPECT_EQ(sent(Kind::all_reduce, a), 2 * (p - 1) * n);
      EXPECT_EQ(sent(Kind::reduce_scatter, a), (p - 1) * n);
      EXPECT_EQ(sent(Kind::all_gather, a), (p - 1) * n);
    }
    EXPECT_NEAR(sent(Kind::all_reduce, Algorithm::tree) / (2.0 * (p - 1) * n), 1, 1e-3);
    for (const Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::direct}) {
      EXPECT_NEAR(sent(Kind::broadcast, a) / (1.0 * (p - 1) * n), 1, 1e-3) << to_string(a);
    }
    EXPECT_EQ(sent(Kind::all_to_all, Algorithm::direct), (p - 1) * n);
    EXPECT_EQ(sent(Kind::all_to_all, Algorithm::random), (p - 1) * n);
    // Twice on the way where both coordinates differ.
    EXPECT_EQ(sent(Kind::all_to_all, Algorithm::row_column),
              p * n * (w - 1) / w + p * n * (h - 1) / h);
  }
}

TEST(Collectives, ProgramsSendWhatSchedulesSay) {
  const MachineConfig m = mesh(12, 12);
  for (const Place& place : places()) {
    if (place.tiles.size() < 2) continue;
    const CollectiveGroup group = make_group(m, place.tiles);
    std::map<TileId, int> member;
    for (std::size_t i = 0; i < place.tiles.size(); ++i)
      member[place.tiles[i]] = static_cast<int>(i);
    for (const Kind kind : kKinds) {
      for (const Algorithm algorithm : algorithms()) {
        if (!why_not(kind, algorithm, group).empty()) continue;
        SCOPED_TRACE(place.name + ", " + to_string(kind) + ", " + to_string(algorithm));
        const std::int64_t bytes = 1 << 16;
        const CollectiveSchedule s = make_schedule(kind, algorithm, group, bytes);
        const Program program = collective_program(m, place.tiles, kind, algorithm, bytes);
        const TileGroup& g = program.groups.front();
        const auto& code = program.segments.front().code;
        ASSERT_EQ(code.size(), s.ops.size());
        std::int64_t uneven = 0;
        for (std::size_t i = 0; i < code.size(); ++i) {
          const CollectiveOp& op = s.ops[i];
          ASSERT_EQ(code[i].op == Opcode::send, op.send);
          for (std::size_t r = 0; r < g.tiles.size(); ++r) {
            const TileId peer = g.peers[code[i].operand][r];
            const auto& to = s.tables[op.table].to;
            const auto by = std::find(to.begin(), to.end(), static_cast<int>(r));
            const int expected = op.send          ? to[r]
                                 : by == to.end() ? -1
                                                  : static_cast<int>(by - to.begin());
            EXPECT_EQ(peer == kNoTile ? -1 : member.at(peer), expected);
            const auto size =
                static_cast<std::int64_t>(code[i].share.bytes(static_cast<std::uint32_t>(r)));
            EXPECT_LE(size, op.bytes);
            EXPECT_GE(size, op.bytes - 1);
            uneven += op.bytes - size;
          }
        }
        if (algorithm != Algorithm::ring) {
          EXPECT_EQ(uneven, 0);
        }
      }
    }
  }
}

TEST(Collectives, InstructionsDoNotDependOnWhoRunsThem) {
  // Two groups of one shape, numbered in different orders, run one program.
  const MachineConfig m = mesh(12, 12);
  std::vector<TileId> tiles = rectangle(m, 4, 3), other = tiles;
  std::reverse(other.begin() + 2, other.end());
  std::vector<CollectiveGroup> groups{make_group(m, tiles), make_group(m, other)};
  agree(groups);
  for (const Kind kind : kKinds) {
    for (const Algorithm algorithm : algorithms()) {
      if (!why_not(kind, algorithm, groups[0]).empty() || kind == Kind::broadcast) continue;
      const CollectiveSchedule a = make_schedule(kind, algorithm, groups[0], 1001);
      const CollectiveSchedule b = make_schedule(kind, algorithm, groups[1], 1001);
      ASSERT_EQ(a.ops.size(), b.ops.size()) << to_string(algorithm);
      for (std::size_t i = 0; i < a.ops.size(); ++i) {
        EXPECT_EQ(a.ops[i].bytes, b.ops[i].bytes);
        EXPECT_EQ(a.ops[i].rotation, b.ops[i].rotation);
        EXPECT_EQ(a.ops[i].after, b.ops[i].after);
        EXPECT_EQ(a.tables[a.ops[i].table].name, b.tables[b.ops[i].table].name);
      }
    }
  }
}

int hops(const CollectiveGroup& g, int a, int b) {
  const auto& [ax, ay] = g.at[static_cast<std::size_t>(a)];
  const auto& [bx, by] = g.at[static_cast<std::size_t>(b)];
  return std::abs(ax - bx) + std::abs(ay - by);
}

TEST(Collectives, RingsAreShort) {
  const MachineConfig m = mesh(12, 12);
  for (const Place& place : places()) {
    if (place.tiles.size() < 2) continue;
    const CollectiveGroup g = make_group(m, place.tiles);
    std::vector<int> sorted = g.ring;
    std::sort(sorted.begin(), sorted.end());
    for (int i = 0; i < g.size(); ++i) ASSERT_EQ(sorted[static_cast<std::size_t>(i)], i);
    int round = 0;
    for (std::size_t i = 0; i < g.ring.size(); ++i) {
      round += hops(g, g.ring[i], g.ring[(i + 1) % g.ring.size()]);
    }
    SCOPED_TRACE(place.name);
    const bool grid = g.columns > 1 && g.rows > 1;
    const int step = place.name == "apart" ? 4 : 1;
    if (grid) {
      // An odd number of tiles has no cycle on a mesh: the best is one hop more.
      EXPECT_EQ(round, step * (g.size() + g.size() % 2));
    } else if (g.columns == 1 || g.rows == 1) {
      EXPECT_EQ(round, 2 * (g.size() - 1));
    } else {
      // A hole costs a hop; out to the end of an arm of one tile's width and back, two for each.
      EXPECT_LE(round, g.size() + 3);
    }
  }
}

TEST(Collectives, WhatCannotRunSaysWhatWould) {
  const MachineConfig m = mesh(12, 12);
  const CollectiveGroup six = make_group(m, rectangle(m, 3, 2));
  EXPECT_THAT(why_not(Kind::all_reduce, Algorithm::halving_doubling, six), HasSubstr("has 6"));
  std::vector<TileId> hole = rectangle(m, 3, 3);
  hole.pop_back();
  EXPECT_THAT(why_not(Kind::all_reduce, Algorithm::row_column, make_group(m, hole)),
              HasSubstr("grids"));
  EXPECT_THAT(why_not(Kind::all_to_all, Algorithm::tree, six),
              HasSubstr("it runs: all_reduce, broadcast"));
  EXPECT_THROW(
      collective_program(m, rectangle(m, 3, 2), Kind::all_reduce, Algorithm::halving_doubling, 100),
      InputError);
}

}  // namespace
}  // namespace tilewright
