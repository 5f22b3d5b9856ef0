// A machine whose network is simulated flit by flit against the same with whole messages: the same
// tiles, memory and programs.
#include <sstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/hardware/flit_network.h>

namespace tilewright::test {
namespace {

using ::testing::HasSubstr;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

std::string run(const MachineConfig& m, const std::function<Script()>& script, Fidelity fidelity,
                const std::function<std::string(const RunStatistics&)>& report,
                bool reverse = false) {
  const std::string text = in_child([&] {
    Script s = script();
    return report(s.run(m, reverse, fidelity));
  });
  EXPECT_THAT(text, testing::Not(HasSubstr("exception"))) << text;
  return text;
}

double time_of(const MachineConfig& m, const std::function<Script()>& script, Fidelity fidelity) {
  const auto end = [](const RunStatistics& s) { return std::to_string(s.end); };
  return std::stod(run(m, script, fidelity, end));
}

double message_time(const MachineConfig& m, const std::function<Script()>& script) {
  return time_of(m, script, Fidelity::message);
}
double flit_time(const MachineConfig& m, const std::function<Script()>& script) {
  return time_of(m, script, Fidelity::flit);
}

std::function<Script()> message(std::uint32_t from, std::uint32_t to, std::uint64_t bytes) {
  return [=] { return one_message(tile(from), tile(to), bytes, bytes); };
}

// Links of mesh(): 1 byte per ps and 2 ns, a hop of 4 cycles; so a cycle is 500 ps and a flit 500
// bytes.
TEST(Fidelity, TheFastestLinkAndTheShortestHopMakeTheFlit) {
  const FlitConfig c = flit_config(mesh(4, 4));
  EXPECT_EQ(c.period, 500u);
  EXPECT_EQ(c.flit_bytes, 500);
  EXPECT_EQ(c.links[0].delay, 1);
  MachineConfig slow = mesh(2, 2);
  slow.noc.link.latency = Seconds(50e-9);
  slow.dies_x = 2;  // die links: a quarter of the bandwidth, 10 ns
  const FlitConfig d = flit_config(slow);
  EXPECT_EQ(d.period, 1000u);
  EXPECT_EQ(d.flit_bytes, 1000);
  EXPECT_EQ(d.links[0].delay, 47);
  EXPECT_EQ(d.links[0].cycles_per_flit, 1);
  EXPECT_EQ(d.links[0].buffer_flits, 98);  // 1 + 2 · 47 + 1 + 2
  EXPECT_EQ(d.links[1].delay, 7);
  EXPECT_EQ(d.links[1].cycles_per_flit, 4);
  EXPECT_EQ(d.links[1].buffer_flits, 8);
  MachineConfig clocked = mesh(2, 2);
  clocked.noc.flit.clock = Frequency(4e9);
  EXPECT_EQ(flit_config(clocked).period, 250u);
  EXPECT_EQ(flit_config(clocked).links[0].delay, 5);
  EXPECT_EQ(flit_config(clocked).flit_bytes, 250);
}

TEST(Fidelity, AMessageOfWholeFlitsTakesTheSameTimeAlone) {
  const MachineConfig m = mesh(4, 3);
  for (const std::uint64_t flits : {1u, 2u, 31u, 32u, 33u, 1000u}) {
    for (const std::uint32_t to : {1u, 3u, 4u, 11u}) {
      const auto job = message(0, to, flits * 500);
      EXPECT_EQ(flit_time(m, job), message_time(m, job)) << flits << " flits to " << to;
    }
  }
  EXPECT_EQ(message_time(m, message(11, 0, 5000)), 5 * 2000 + 5000);
}

TEST(Fidelity, BytesAreRoundedUpToFlits) {
  const MachineConfig m = mesh(4, 1);
  for (const std::uint64_t bytes : {1u, 499u, 501u, 7777u}) {
    const double exact = message_time(m, message(0, 3, bytes));
    const double whole = static_cast<double>((bytes + 499) / 500 * 500 - bytes);
    EXPECT_EQ(flit_time(m, message(0, 3, bytes)), exact + whole) << bytes;
  }
}

// A die link takes four cycles for a flit. Each further one stores the flit once more. Behind the
// last one flits come apart, so those after the head need not wait for it at a router.
TEST(Fidelity, SlowLinksKeepTheirRate) {
  MachineConfig m = mesh(2, 1);
  m.dies_x = 2;
  EXPECT_EQ(message_time(m, message(0, 2, 100 * 500)), 2000 + 10000 + 100 * 2000);
  EXPECT_EQ(flit_time(m, message(0, 2, 100 * 500)), 2000 + 10000 + 100 * 2000);
  EXPECT_EQ(flit_time(m, message(0, 3, 500)), 2000 + 10000 + 2000 + 2000);
  EXPECT_EQ(flit_time(m, message(0, 3, 100 * 500)), 2000 + 10000 + 2000 + 100 * 2000 - 500);
  m.dies_x = 3;
  EXPECT_EQ(flit_time(m, message(0, 4, 100 * 500)),
            message_time(m, message(0, 4, 100 * 500)) + 3 * 500);
  // A rate that is no whole number of cycles: 2.5.
  m.dies_x = 2;
  m.noc.die_link.bandwidth = Bandwidth(0.4e12);
  EXPECT_NEAR(flit_time(m, message(0, 3, 1000 * 500)), message_time(m, message(0, 3, 1000 * 500)),
              500);
}

// A torus, and a hop of many cycles: the buffers cover the loop of the credits.
TEST(Fidelity, LongWiresAreFilled) {
  MachineConfig m = mesh(5, 4);
  m.torus = true;
  m.noc.link.latency = Seconds(400e-9);
  const auto job = message(0, 4, 5000 * 1000);
  EXPECT_EQ(flit_time(m, job), message_time(m, job));
  m.noc.flit.buffer_flits = 80;  // of the 802 that the loop of the credits takes
  m.noc.flit.packet_flits = 1 << 20;
  EXPECT_NEAR(flit_time(m, job), 1000 * (400 + 5000 / 80. * 802), 1000 * 802);
}

// A tile has no port of its own: it feeds all its links at once, and all may bring it something.
TEST(Fidelity, ATileSendsAndReceivesOnAllLinks) {
  const auto job = [](bool out) {
    return [out] {
      Script s;
      const std::vector<TileId> around{tile(1), tile(3), tile(5), tile(7)};
      std::vector<std::uint16_t> channels;
      for (int i = 0; i < 4; ++i) channels.push_back(s.channel(std::to_string(i)));
      const auto one = s.segment("one", [&](Code& c) {
        for (std::uint32_t i = 0; i < 4; ++i) {
          out ? c.send(channels[i], i, {50000}) : c.recv(channels[i], i, {50000});
        }
      });
      auto& middle = s.group("middle", {tile(4)}, one);
      for (const TileId t : around) middle.peers.push_back({t});
      for (std::uint32_t i = 0; i < 4; ++i) {
        const auto other = s.segment("other", [&](Code& c) {
          out ? c.recv(channels[i], 0, {50000}) : c.send(channels[i], 0, {50000});
        });
        s.group("o" + std::to_string(i), {around[i]}, other).peers = {{tile(4)}};
      }
      return s;
    };
  };
  const MachineConfig m = mesh(3, 3);
  for (const bool out : {true, false}) {
    EXPECT_EQ(message_time(m, job(out)), 2000 + 50000);
    EXPECT_EQ(flit_time(m, job(out)), 2000 + 50000);
  }
}

// A controller at tile 0: bursts of 32 flits, 16,000 bytes, follow each other.
TEST(Fidelity, LoadsAndStoresStreamInBursts) {
  MachineConfig m = mesh(4, 1);
  m.dram.sites = {{0, 0}};
  const auto job = [](bool write, std::uint64_t bytes) {
    return [=] {
      Script s;
      const auto code = s.segment("dma", [&](Code& c) { write ? c.store(bytes) : c.load(bytes); });
      s.group("A", {tile(3)}, code);
      return s;
    };
  };
  const double burst = 16000;
  for (const bool write : {false, true}) {
    for (const std::uint64_t bytes : {1000u, 16000u, 320000u, 1000000u}) {
      const double whole = message_time(m, job(write, bytes));
      const double cut = flit_time(m, job(write, bytes));
      EXPECT_GE(cut, whole) << bytes;
      EXPECT_LE(cut, whole + burst + 2 * 500) << bytes;
    }
  }
  EXPECT_EQ(message_time(m, job(false, 320000)), 100000 + 640000 + 2 * 3 * 2000);
}

/// An all-to-all of `bytes`, and a ring all-reduce of as many, with loads and stores.
Script busy(std::uint32_t tiles, std::uint64_t bytes) {
  Script s;
  std::vector<TileId> all;
  for (std::uint32_t t = 0; t < tiles; ++t) all.push_back(tile(t));
  std::vector<std::uint16_t> channels;
  for (std::uint32_t k = 1; k < tiles; ++k) channels.push_back(s.channel(std::to_string(k)));
  const auto ring = s.channel("ring");
  const auto segment = s.segment("busy", [&](Code& c) {
    c.load(bytes);
    for (std::uint32_t k = 1; k < tiles; ++k) c.send(channels[k - 1], 2 * k, {bytes});
    for (std::uint32_t k = 1; k < tiles; ++k) c.recv(channels[k - 1], 2 * k + 1, {bytes});
    ring_all_reduce(c, ring, tiles, bytes * tiles, Cause::data);
    c.store(bytes);
  });
  auto& group = s.group("all", all, segment, 2);
  group.peers = ring_peers(all);
  for (std::uint32_t k = 1; k < tiles; ++k) {
    std::vector<TileId> to, from;
    for (std::uint32_t t = 0; t < tiles; ++t) {
      to.push_back(all[(t + k) % tiles]);
      from.push_back(all[(t + tiles - k) % tiles]);
    }
    group.peers.push_back(to);
    group.peers.push_back(from);
  }
  return s;
}

MachineConfig busy_machine(const std::string& routing, bool torus) {
  MachineConfig m = mesh(2, 3);
  m.dies_x = 2;
  m.torus = torus;
  m.noc.routing = routing;
  m.dram.sites = {{0, 0}, {3, 2}};
  return m;
}

/// Per link and tile, what does not depend on time.
std::string bytes_moved(const RunStatistics& s) {
  std::ostringstream out;
  for (const LinkStatistics& l : s.links) {
    out << index(l.from) << '>' << index(l.to) << ' ' << l.bytes << '\n';
  }
  for (const TileStatistics& t : s.tiles) out << t.bytes_sent << ' ' << t.bytes_received << '\n';
  for (const DramStatistics& d : s.dram) out << d.bytes_read << ' ' << d.bytes_written << '\n';
  return out.str();
}

TEST(Fidelity, EveryLinkCarriesTheSameBytes) {
  const auto job = [] { return busy(12, 7001); };
  for (const bool torus : {false, true}) {
    const MachineConfig m = busy_machine("xy", torus);
    EXPECT_EQ(run(m, job, Fidelity::message, bytes_moved),
              run(m, job, Fidelity::flit, bytes_moved));
  }
}

// Small buffers, two channels, all routings: it ends, every tile's states fill its time, and
// neither the order of construction nor repetition changes a digit.
TEST(Fidelity, BusyMachinesEndAlike) {
  const auto job = [] { return busy(12, 7001); };
  const auto report = [](const RunStatistics& s) {
    for (const TileStatistics& t : s.tiles) {
      Picoseconds sum = 0;
      for (const Picoseconds time : t.time) sum += time;
      if (sum != s.end) return std::string("the states do not sum to the end");
    }
    return fingerprint(s);
  };
  for (const auto& [routing, torus] : {std::pair{"xy", false},
                                       {"yx", true},
                                       {"west-first", false},
                                       {"odd-even", false},
                                       {"adaptive", false},
                                       {"o1turn", false}}) {
    MachineConfig m = busy_machine(routing, torus);
    m.noc.flit.virtual_channels = 2;
    m.noc.flit.buffer_flits = 2;
    m.noc.flit.packet_flits = 5;
    const std::string once = run(m, job, Fidelity::flit, report);
    EXPECT_THAT(once, HasSubstr("0>1 ")) << routing;
    EXPECT_EQ(once, run(m, job, Fidelity::flit, report, true)) << routing;
  }
}

// All tiles but the dead ones send to all others at once, round tiles and links that are gone, in
// few channels of two flits: it ends, and every link carries what it carries at message fidelity.
TEST(Fidelity, DeadTilesAndLinksAreGoneRound) {
  for (const char* const routing : {"xy", "yx"}) {
    MachineConfig m = mesh(5, 5);
    m.noc.routing = routing;
    m.defects.dead_tiles = {{2, 1}, {2, 2}, {1, 3}};
    m.defects.dead_links = {{tile(3), tile(4)}, {tile(20), tile(21)}, {tile(21), tile(20)}};
    m.noc.flit.virtual_channels = 4;
    m.noc.flit.buffer_flits = 2;
    m.noc.flit.packet_flits = 5;
    const auto job = [&m] {
      Script s;
      std::vector<TileId> all;
      const std::vector<bool> dead = m.dead_map();
      for (std::uint32_t t = 0; t < 25; ++t) {
        if (!dead[t]) all.push_back(tile(t));
      }
      const std::size_t n = all.size();
      std::vector<std::uint16_t> channels{0};
      for (std::size_t i = 1; i < n; ++i) channels.push_back(s.channel(std::to_string(i)));
      const auto segment = s.segment("all-to-all", [&](Code& k) {
        for (std::uint32_t i = 1; i < n; ++i) k.send(channels[i], 2 * i - 2, {9000});
        for (std::uint32_t i = 1; i < n; ++i) k.recv(channels[i], 2 * i - 1, {9000});
      });
      auto& group = s.group("all", all, segment);
      for (std::size_t i = 1; i < n; ++i) {
        std::vector<TileId> to, from;
        for (std::size_t t = 0; t < n; ++t) {
          to.push_back(all[(t + i) % n]);
          from.push_back(all[(t + n - i) % n]);
        }
        group.peers.push_back(to);
        group.peers.push_back(from);
      }
      return s;
    };
    EXPECT_EQ(run(m, job, Fidelity::message, bytes_moved),
              run(m, job, Fidelity::flit, bytes_moved));
    m.noc.flit = {};
    const auto alone = message(0, 24, 5000);
    EXPECT_EQ(flit_time(m, alone), message_time(m, alone));
  }
}

// Two tiles that both send before they receive, over one buffer's worth many times.
TEST(Fidelity, SymmetricSendThenReceiveDoesNotBlock) {
  MachineConfig m = mesh(2, 1);
  m.noc.flit.virtual_channels = 1;
  m.noc.flit.buffer_flits = 1;
  const auto job = [] {
    Script s;
    const auto c = s.channel("both");
    const auto code = s.segment("swap", [&](Code& k) {
      k.send(c, 0, {100000});
      k.recv(c, 0, {100000});
    });
    s.group("A", {tile(0), tile(1)}, code, 3).peers = {{tile(1), tile(0)}};
    return s;
  };
  EXPECT_EQ(message_time(m, job), 3 * 100000 + 2000);
  // One flit in the 6 cycles of the credit's loop.
  EXPECT_NEAR(flit_time(m, job), 6 * 3 * 100000, 10000);
}

std::string refusal(const MachineConfig& m) {
  return in_child([&] {
    const std::uint32_t to = m.defects.dead_tiles.empty() ? 1 : 2;
    Script s = one_message(tile(0), tile(to), 100, 100);
    s.run(m, false, Fidelity::flit);
    return std::string("ran");
  });
}

TEST(Fidelity, WhatFlitsCannotDoIsRefused) {
  MachineConfig m = mesh(4, 4);
  m.noc.switching = "circuit";
  EXPECT_THAT(refusal(m), HasSubstr("fidelity flit: noc.switching 'circuit'"));
  m = mesh(4, 4);
  m.defects.dead_tiles = {{1, 0}};
  m.noc.routing = "odd-even";
  EXPECT_THAT(refusal(m), HasSubstr("does not go round dead tiles and links"));
  m.noc.routing = "xy";
  m.noc.flit.virtual_channels = 1;
  EXPECT_THAT(refusal(m), HasSubstr("the way from (0,0) to (2,0) has 2 legs"));
  m = mesh(4, 4);
  m.noc.link.latency = Seconds(3e-12);
  EXPECT_THAT(refusal(m), HasSubstr("allowed: at least 4 ps"));
  m = mesh(4, 4);
  m.noc.flit.clock = Frequency(1e9);
  EXPECT_THAT(refusal(m), HasSubstr("noc.flit.clock: at 1.000 GHz the shortest hop, 2.000 ns"));
  m.noc.flit.clock = Frequency(1e13);
  EXPECT_THAT(refusal(m), HasSubstr("shorter than 1 ps, the simulation's step; allowed: "));
  m = mesh(4, 4);
  m.noc.link.bandwidth = Bandwidth::unlimited();
  EXPECT_THAT(refusal(m), HasSubstr("moves inf bytes"));
  m = mesh(4, 4);
  m.noc.routing = "adaptive";
  m.noc.flit.virtual_channels = 1;
  EXPECT_THAT(refusal(m), HasSubstr("noc.routing: 'adaptive' needs 2 virtual channels"));
  m = mesh(4, 4);
  m.noc.link.latency = Seconds(1e-3);
  EXPECT_THAT(refusal(m), HasSubstr("the on-die hop, 1.000 ms, takes 1000000 cycles"));
}

}  // namespace
}  // namespace tilewright::test
