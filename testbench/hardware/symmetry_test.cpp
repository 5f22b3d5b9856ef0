// Where a job lies on a machine does not matter: mirror images give mirrored results, and what a
// job does not use has no influence, at both fidelities.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

struct Place {
  int x, y;
};
struct Flow {
  Place from, to;
  std::uint64_t bytes;
  double work;  // before it is sent, picoseconds of the vector engine
};
using Turn = std::function<Place(Place)>;

/// Flows between random tiles of width × height. `work`: at random times, else all at once.
std::vector<Flow> random_flows(int width, int height, int count, bool work) {
  std::mt19937 random(7);
  const auto below = [&random](int n) { return static_cast<int>(random() % unsigned(n)); };
  std::vector<Flow> flows;
  while (static_cast<int>(flows.size()) < count) {
    const Place from{below(width), below(height)}, to{below(width), below(height)};
    if (from.x == to.x && from.y == to.y) continue;
    flows.push_back({from, to, 1000 + random() % 20000, work ? 1.0 + random() % 100000 : 0});
  }
  return flows;
}

Script script_of(const MachineConfig& m, const std::vector<Flow>& flows, const Turn& turn) {
  Script s;
  struct Own {
    std::vector<Instruction> out, in;
    std::vector<std::vector<TileId>> to, from;
  };
  std::map<std::uint32_t, Own> tiles;
  const auto id = [&](Place p) { return m.tile(turn(p).x, turn(p).y); };
  for (std::size_t i = 0; i < flows.size(); ++i) {
    const Flow& f = flows[i];
    const std::uint16_t channel = s.channel(std::to_string(i));
    Own &from = tiles[index(id(f.from))], &to = tiles[index(id(f.to))];
    Segment scratch;
    Code c(scratch);
    if (f.work > 0) c.compute(Engine::vector, s.vector_shape(f.work));
    c.send(channel, static_cast<std::uint32_t>(from.to.size()), {f.bytes});
    c.recv(channel, 0, {f.bytes});
    from.out.insert(from.out.end(), scratch.code.begin(), scratch.code.end() - 1);
    from.to.push_back({id(f.to)});
    to.in.push_back(scratch.code.back());
    to.from.push_back({id(f.from)});
  }
  for (const auto& [tile, own] : tiles) {
    const auto segment = s.segment("t" + std::to_string(tile), [&](Code& c) {
      std::uint32_t last = kNone;
      for (const Instruction& i : own.out) {
        last = c.add(i, i.op == Opcode::send && last != kNone ? Code::After{last} : Code::After{});
        if (i.op == Opcode::send) last = kNone;
      }
      for (std::size_t k = 0; k < own.in.size(); ++k) {
        Instruction i = own.in[k];
        i.operand = static_cast<std::uint32_t>(own.to.size() + k);
        c.add(i);
      }
    });
    auto& group = s.group("T" + std::to_string(tile), {static_cast<TileId>(tile)}, segment);
    group.peers = own.to;
    group.peers.insert(group.peers.end(), own.from.begin(), own.from.end());
  }
  return s;
}

struct Outcome {
  double end = 0;
  std::string text;  ///< of every tile and link of width × height, as they lie before the turn
};

Outcome run(const MachineConfig& m, const std::vector<Flow>& flows, const Turn& turn,
            Fidelity fidelity, int width, int height) {
  const std::string text = in_child([&] {
    Script s = script_of(m, flows, turn);
    const RunStatistics& r = s.run(m, false, fidelity);
    std::map<std::pair<std::uint32_t, std::uint32_t>, const LinkStatistics*> links;
    for (const LinkStatistics& l : r.links) links[{index(l.from), index(l.to)}] = &l;
    std::ostringstream out;
    out << r.end << '\n';
    const auto id = [&](int x, int y) { return m.tile(turn({x, y}).x, turn({x, y}).y); };
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        const TileStatistics& t = r.tiles[id(x, y)];
        out << x << ',' << y << ' ' << t.finish << ' ' << t.bytes_received;
        for (const Picoseconds time : t.time) out << ' ' << time;
        for (const auto& [dx, dy] : {std::pair{1, 0}, {-1, 0}, {0, 1}, {0, -1}}) {
          if (x + dx < 0 || x + dx >= width || y + dy < 0 || y + dy >= height) continue;
          out << ' ' << links.at({index(id(x, y)), index(id(x + dx, y + dy))})->bytes;
        }
        out << '\n';
      }
    }
    return out.str();
  });
  EXPECT_THAT(text, testing::Not(HasSubstr("exception"))) << text;
  return {std::stod(text), text};
}

Place same(Place p) { return p; }

std::vector<Turn> mirrors(int width, int height) {
  return {[=](Place p) {
            return Place{width - 1 - p.x, p.y};
          },
          [=](Place p) {
            return Place{p.x, height - 1 - p.y};
          },
          [=](Place p) {
            return Place{width - 1 - p.x, height - 1 - p.y};
          }};
}

// Messages at random times: no two heads reach a router in the same picosecond, so that nothing is
// decided by the numbers of ports and tiles, and every figure is mirrored exactly.
TEST(Symmetry, MirrorImagesOfAMeshGiveMirroredResults) {
  const auto flows = random_flows(6, 5, 150, true);
  for (const char* const routing : {"xy", "yx"}) {
    MachineConfig m = mesh(6, 5);
    m.noc.routing = routing;
    const Outcome plain = run(m, flows, same, Fidelity::message, 6, 5);
    for (const Turn& mirror : mirrors(6, 5)) {
      EXPECT_EQ(run(m, flows, mirror, Fidelity::message, 6, 5).text, plain.text);
    }
  }
}

// All at once, and flits, whose routers decide in every cycle: turns are taken by the numbers of
// ports, which a mirror changes, so that single messages may come sooner or later.
TEST(Symmetry, TurnsThatAreTakenChangeLittle) {
  for (const bool work : {false, true}) {
    const auto flows = random_flows(6, 5, 150, work);
    const MachineConfig m = mesh(6, 5);
    for (const Fidelity fidelity : {Fidelity::message, Fidelity::flit}) {
      const Outcome plain = run(m, flows, same, fidelity, 6, 5);
      for (const Turn& mirror : mirrors(6, 5)) {
        EXPECT_NEAR(run(m, flows, mirror, fidelity, 6, 5).end, plain.end, 0.05 * plain.end)
            << to_string(fidelity);
      }
    }
  }
}

// A job in one corner of a larger machine.
TEST(Symmetry, UnusedPartsHaveNoInfluence) {
  const auto flows = random_flows(4, 4, 100, false);
  for (const Fidelity fidelity : {Fidelity::message, Fidelity::flit}) {
    const Outcome small = run(mesh(4, 4), flows, same, fidelity, 4, 4);
    const Outcome large = run(mesh(9, 7), flows, same, fidelity, 4, 4);
    EXPECT_EQ(small.text, large.text) << to_string(fidelity);
  }
}

}  // namespace
}  // namespace tilewright::test
