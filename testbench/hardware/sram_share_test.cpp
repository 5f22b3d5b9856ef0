// The SRAM's ports, shared by what a tile does at one time.
#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/hardware/sram_share.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

/// One port for reads and writes.
SramShare::PortTimes port(double ps) { return {ps, 0, 0}; }

TEST(SramShare, TwoEnginesHaveOnePort) {
  SramShare s;
  s.begin(0, 0, 1000, port(800));
  s.begin(0, 1, 1000, port(800));
  // Half the port each, of the 0.8 that they ask for.
  EXPECT_EQ(s.end(0, 0), 1600u);
  EXPECT_EQ(s.end(0, 1), 1600u);
  EXPECT_EQ(s.end(1600, 0), 1600u);
}

TEST(SramShare, WhoAsksForLittleGetsIt) {
  SramShare s;
  s.begin(0, 0, 1000, port(900));
  s.begin(0, 1, 4000, port(800));  // a fifth of the port
  EXPECT_EQ(s.end(0, 0), 1125u);   // 0.8 of the port for the 0.9 asked for
  EXPECT_EQ(s.end(0, 1), 4000u);
}

TEST(SramShare, AMessageTakesItsPartWhileItPasses) {
  SramShare s;
  s.begin(0, 0, 1000, port(1000));
  EXPECT_EQ(s.end(0, 0), 1000u);
  s.pass(400, 200, port(100));  // at half the port's rate: nobody holds it up
  EXPECT_EQ(s.end(400, 0), 1100u);
  s.pass(1000, 0, port(50));  // as fast as it gets: half the port for the last 100
  EXPECT_EQ(s.end(1000, 0), 1150u);
  EXPECT_EQ(s.end(1150, 0), 1150u);
}

TEST(SramShare, ReadsDoNotWaitForWritesOnPortsOfTheirOwn) {
  SramConfig sram;
  sram.read = sram.write = Bandwidth(1e12);
  SramShare s;
  s.begin(0, 0, 1000, SramShare::port_times(sram, 1000, 0));
  s.pass(0, 0, SramShare::port_times(sram, 0, 600));
  EXPECT_EQ(s.end(0, 0), 1000u);
  s.pass(0, 0, SramShare::port_times(sram, 300, 0));
  EXPECT_EQ(s.end(0, 0), 1300u);
}

TEST(SramShare, WhatItLeavesFreeDelaysNobody) {
  SramShare s;
  s.begin(0, 0, 1000, port(500));
  s.begin(0, 1, 1000, port(300));
  s.pass(0, 500, port(100));
  EXPECT_EQ(s.end(0, 0), 1000u);
  EXPECT_EQ(s.end(0, 1), 1000u);
}

/// Operations of both engines one after the other, and messages: when each engine is done.
struct Load {
  struct Operation {
    double engine, bytes;
  };
  struct Message {
    Picoseconds at;
    double bytes;
  };
  std::array<std::vector<Operation>, 2> engines;
  std::vector<Message> messages;  // by time

  std::array<Picoseconds, 2> run(double bytes_per_ps) const {
    SramShare share;
    std::array<std::size_t, 2> next{};
    std::array<Picoseconds, 2> done{};
    std::size_t message = 0;
    Picoseconds now = 0;
    const auto begin = [&](unsigned e) {
      const Operation& o = engines[e][next[e]];
      const double sram = o.bytes / bytes_per_ps;
      share.begin(now, e, whole_picoseconds(std::max(o.engine, sram)), port(sram));
    };
    begin(0);
    begin(1);
    for (;;) {
      Picoseconds at = ~Picoseconds{0};
      for (unsigned e = 0; e < 2; ++e) {
        if (next[e] < engines[e].size()) at = std::min(at, share.end(now, e));
      }
      if (at == ~Picoseconds{0}) return done;
      if (message < messages.size() && messages[message].at <= at) {
        now = messages[message].at;
        share.pass(now, messages[message].bytes, port(messages[message].bytes / bytes_per_ps));
        ++message;
        continue;
      }
      now = at;
      for (unsigned e = 0; e < 2; ++e) {
        if (next[e] == engines[e].size() || share.end(now, e) > now) continue;
        done[e] = now;
        if (++next[e] < engines[e].size()) begin(e);
      }
    }
  }
};

TEST(SramShare, AFasterSramIsNeverSlower) {
  std::mt19937 random(17);
  const auto draw = [&](double low, double high) {
    return low * std::pow(high / low, random() / 4294967296.0);
  };
  int faster = 0;
  for (int i = 0; i < 1000; ++i) {
    Load load;
    for (auto& engine : load.engines) {
      for (auto n = 1 + random() % 6; n > 0; --n) {
        engine.push_back({draw(1e3, 1e6), draw(1e2, 1e6)});
      }
    }
    for (auto n = random() % 20; n > 0; --n) {
      load.messages.push_back({static_cast<Picoseconds>(draw(1, 3e6)), draw(10, 1e5)});
    }
    std::sort(load.messages.begin(), load.messages.end(),
              [](const auto& a, const auto& b) { return a.at < b.at; });
    const double rate = draw(0.2, 5), factor = draw(1.01, 4);
    const auto before = load.run(rate), after = load.run(factor * rate);
    // Rounded to whole picoseconds at every start.
    EXPECT_LE(std::max(after[0], after[1]), std::max(before[0], before[1]) + 20) << i;
    faster += std::max(after[0], after[1]) < std::max(before[0], before[1]) ? 1 : 0;
    for (const unsigned e : {0u, 1u}) {
      double sram = 0, engine = 0;
      for (const auto& o : load.engines[e]) {
        engine += o.engine;
        sram += o.bytes / rate;
      }
      EXPECT_GE(static_cast<double>(before[e]) + 10, std::max(engine, sram)) << i;
    }
  }
  EXPECT_GE(faster, 500);
}

MachineConfig contended(int width) {
  MachineConfig m = mesh(width, 1);
  m.sram.bandwidth = Bandwidth(1e12);
  m.sram.contention = true;
  return m;
}

TEST(SramContention, BothEnginesShareThePort) {
  Script s;
  const auto m = s.matrix_shape(1000, 800), v = s.vector_shape(1000);
  s.program.shapes[v].sram_bytes = 800;
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, m);
    c.compute(Engine::vector, v);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(contended(1));
  EXPECT_EQ(r.end, 1600u);
  EXPECT_EQ(r.tiles[tile(0)].matrix_busy, 1600u);
  EXPECT_EQ(r.tiles[tile(0)].vector_busy, 1600u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 1000u);
  EXPECT_EQ(state(r, tile(0), TileState::sram_stall), 600u);
}

/// Tile 0 sends `bytes` to tile 1, and both compute 4000 FLOP with `operands` bytes.
Script computing_pair(std::uint64_t bytes, double operands) {
  Script s;
  const std::uint16_t channel = s.channel("wire");
  const auto shape = s.matrix_shape(4000, operands);
  const auto sender = s.segment("sender", [&](Code& c) {
    c.compute(Engine::matrix, shape);
    c.send(channel, 0, {bytes});
  });
  const auto receiver = s.segment("receiver", [&](Code& c) {
    c.compute(Engine::matrix, shape);
    c.recv(channel, 0, {bytes});
  });
  s.group("A", {tile(0)}, sender).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receiver).peers = {{tile(0)}};
  return s;
}

// 500 bytes leave at 0 and are there at 2000 + 500 ps; each time they share the port with an engine
// that wants all of it, so they take 1000 ps and it loses 500.
TEST(SramContention, MessagesTakeThePortFromTheEngines) {
  const RunStatistics& r = computing_pair(500, 4000).run(contended(2));
  for (const std::uint32_t t : {0u, 1u}) {
    EXPECT_EQ(r.tiles[tile(t)].finish, 4500u) << t;
    EXPECT_EQ(state(r, tile(t), TileState::matrix), 4000u) << t;
    EXPECT_EQ(state(r, tile(t), TileState::sram_stall), 500u) << t;
  }
}

TEST(SramContention, EnginesThatLeaveHalfThePortAreNotHeldUp) {
  const RunStatistics& r = computing_pair(500, 2000).run(contended(2));
  EXPECT_EQ(r.end, 4000u);
  EXPECT_EQ(state(r, tile(0), TileState::sram_stall), 0u);
}

TEST(SramContention, WithoutItNothingIsShared) {
  MachineConfig m = contended(2);
  m.sram.contention = false;
  EXPECT_EQ(computing_pair(500, 4000).run(m).end, 4000u);
}

// An operation that is held up is looked at once more, whatever passes meanwhile.
TEST(SramContention, CostsAnEventForEachOperationHeldUp) {
  const auto events = [](bool contention) {
    return std::stoul(in_child([=] {
      MachineConfig m = contended(2);
      m.sram.contention = contention;
      return std::to_string(computing_pair(500, 4000).run(m).events);
    }));
  };
  EXPECT_EQ(events(true), events(false) + 2);
}

TEST(SramContention, DoesNotDependOnTheOrderOfConstruction) {
  const auto run = [](bool reverse) {
    return in_child([=] {
      Script s;
      const std::uint16_t ring = s.channel("ring");
      const auto m = s.matrix_shape(90000, 70000), v = s.vector_shape(50000);
      s.program.shapes[v].sram_bytes = 40000;
      const std::vector<TileId> tiles{tile(0), tile(1), tile(2), tile(3)};
      const auto segment = s.segment("ops", [&](Code& c) {
        c.compute(Engine::matrix, m);
        c.compute(Engine::vector, v);
        ring_all_reduce(c, ring, 4, 40000);
      });
      s.group("A", tiles, segment, 3).peers = ring_peers(tiles);
      return fingerprint(s.run(contended(4), reverse));
    });
  };
  const std::string once = run(false);
  EXPECT_NE(once.find(' '), std::string::npos);
  EXPECT_EQ(once, run(true));
}

}  // namespace
}  // namespace tilewright::test
