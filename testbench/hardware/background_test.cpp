// Background calls: transfers beside what the tile computes, who waits for whom, and what of the
// communication is hidden.
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }
const std::vector<TileId> kRing{tile(0), tile(1), tile(3), tile(2)};  // neighbours on a 2 x 2 mesh

// Six steps of 1000 bytes over one hop: 6 · (2 ns + 1 ns).
constexpr Picoseconds kRingTime = 18000;

/// Four tiles with a segment that computes for `compute` ps and one that is a ring of kRingTime.
struct Overlapped : Script {
  explicit Overlapped(double compute, Cause cause = Cause::data) {
    name("overlapped");
    const auto m = matrix_shape(compute);
    const std::uint16_t channel = this->channel("ring");
    work = segment("work", [&](Code& c) { c.compute(Engine::matrix, m); });
    ring = segment("ring", [&](Code& c) {
      ring_all_reduce(c, channel, 4, 4000, cause);
      c[0].after_previous = true;  // one ring after the other: sends would run ahead
    });
    group("A", kRing, work, 0).peers = ring_peers(kRing);
  }
  void call(std::uint32_t after = 0) { program.groups[0].calls.push_back({work, 0, 0, after}); }
  void background(std::uint32_t after = 0) {
    program.groups[0].background.push_back({ring, 0, 0, after});
  }
  /// Runs sealed on a 2 x 2 mesh, whose engines give `share` to collectives in the background.
  const RunStatistics& run(double share = 0) {
    program.seal();
    MachineConfig m = mesh(2, 2);
    m.collective_share = share;
    return Script::run(m);
  }
  std::uint32_t work = 0, ring = 0;
};

Picoseconds active(const RunStatistics& r, TileId t, Cause cause) {
  return r.tiles[t].active[static_cast<std::size_t>(cause)];
}

/// What every run must hold: states sum to the run, waits are part of what is active.
void expect_consistent(const RunStatistics& r) {
  std::uint64_t sent = 0, received = 0;
  for (std::uint32_t t = 0; t < r.tiles.size(); ++t) {
    const TileStatistics& s = r.tiles[tile(t)];
    Picoseconds sum = 0;
    for (const Picoseconds time : s.time) sum += time;
    EXPECT_EQ(sum, r.end) << "tile " << t;
    for (int i = 0; i < kCauses; ++i) {
      const auto cause = static_cast<Cause>(i);
      if (cause == Cause::memory) continue;
      EXPECT_LE(state(r, tile(t), wait_for(cause)), active(r, tile(t), cause)) << "tile " << t;
      EXPECT_LE(active(r, tile(t), cause), r.end) << "tile " << t;
    }
    sent += s.bytes_sent;
    received += s.bytes_received;
  }
  EXPECT_EQ(sent, received);
}

class RingBesideCompute : public testing::TestWithParam<Picoseconds> {};
TEST_P(RingBesideCompute, TakesTheLongerOfTheTwo) {
  const Picoseconds compute = GetParam();
  Overlapped s(static_cast<double>(compute));
  s.call();
  s.background();
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, std::max(compute, kRingTime));
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::matrix), compute);
    EXPECT_EQ(active(r, t, Cause::data), kRingTime);
    EXPECT_EQ(state(r, t, TileState::data_wait), r.end - compute);  // exposed
    EXPECT_EQ(r.tiles[t].finish, r.end);
    EXPECT_EQ(r.tiles[t].bytes_sent, 6000u);
  }
  expect_consistent(r);
}
INSTANTIATE_TEST_SUITE_P(Compute, RingBesideCompute, testing::Values(5000, 18000, 30000));

// While the ring is under way the engines run at 1 - s of their rate: a computation that it covers
// takes C / (1 - s); one that outlasts it makes up for s of its time.
class RingOnTheEngines : public testing::TestWithParam<Picoseconds> {};
TEST_P(RingOnTheEngines, TakesItsShare) {
  constexpr double share = 0.25;
  const Picoseconds compute = GetParam(), covered = compute * 4 / 3;
  const Picoseconds expected = covered <= kRingTime ? covered : compute + kRingTime / 4;
  Overlapped s(static_cast<double>(compute));
  s.call();
  s.background();
  const RunStatistics& r = s.run(share);
  EXPECT_EQ(r.end, std::max(expected, kRingTime));
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::matrix), expected);
    EXPECT_EQ(r.tiles[t].matrix_busy, expected);
    EXPECT_EQ(active(r, t, Cause::data), kRingTime);
    EXPECT_EQ(state(r, t, TileState::data_wait), r.end - expected);
  }
  expect_consistent(r);
}
INSTANTIATE_TEST_SUITE_P(Compute, RingOnTheEngines, testing::Values(3000, 9000, 13500, 30000));

// The second computation begins beside the ring and the third after it.
TEST(Background, EveryComputationGivesForItsOwnTime) {
  Overlapped s(12000);
  for (int i = 0; i < 3; ++i) s.call();
  s.background();
  EXPECT_EQ(s.run(0.25).end, 3 * 12000u + kRingTime / 4);
}

TEST(Background, ACollectiveOfTheCallsThemselvesTakesNothing) {
  Overlapped s(20000);
  s.program.groups[0].calls = {{s.work, 0, 0, 0}, {s.ring, 0, 0, 0}, {s.work, 0, 0, 0}};
  EXPECT_EQ(s.run(0.25).end, 2 * 20000u);  // the ring runs beside the second computation
}

TEST(Background, ACallThatNeedsItWaitsForTheRing) {
  Overlapped s(1000);
  s.call();
  s.call(1);
  s.background();
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, kRingTime + 1000);
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::matrix), 2000u);
    EXPECT_EQ(state(r, t, TileState::data_wait), kRingTime - 1000);
    EXPECT_EQ(active(r, t, Cause::data), kRingTime);
  }
  expect_consistent(r);
}

// `after` holds the calls behind it back as well: the third waits like the second.
TEST(Background, CallsBehindOneThatWaitsWaitToo) {
  Overlapped s(1000);
  s.call();
  s.call(1);
  s.call();
  s.background();
  EXPECT_EQ(s.run().end, kRingTime + 2000);
}

TEST(Background, ARingThatNeedsACallWaitsForIt) {
  Overlapped s(1000);
  s.call();
  s.call();
  s.background(1);
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, 1000 + kRingTime);
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::matrix), 2000u);
    EXPECT_EQ(state(r, t, TileState::data_wait), kRingTime - 1000);
  }
}

// Buckets of gradients: each ring may begin when the layer before it is done. More of them than the
// window holds.
TEST(Background, BucketsFollowTheirLayers) {
  constexpr std::uint32_t n = 12;
  Overlapped s(10000);
  for (std::uint32_t i = 0; i < n; ++i) {
    s.call();
    s.background(i + 1);
  }
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, 10000 + n * kRingTime);
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::matrix), n * 10000u);
    EXPECT_EQ(active(r, t, Cause::data), n * kRingTime);
    EXPECT_EQ(state(r, t, TileState::data_wait), r.end - n * 10000u);
  }
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::data)], n * 4u * 6000);
  expect_consistent(r);
}

// Parameters gathered ahead: layer i needs gather i, which may begin when layer i - 2 is done. The
// gathers take longer than the layers, so they pace the run and only the last layer comes on top.
TEST(Background, PrefetchesPaceTheLayersThatNeedThem) {
  constexpr std::uint32_t n = 10;
  Overlapped s(7000);
  for (std::uint32_t i = 0; i < n; ++i) {
    s.call(i + 1);
    s.background(i < 2 ? 0 : i - 1);
  }
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, n * kRingTime + 7000);
  for (const TileId t : kRing) {
    EXPECT_EQ(state(r, t, TileState::data_wait), r.end - n * 7000u);
  }
}

TEST(Background, ATileMayHaveNothingElse) {
  Overlapped s(1000);
  s.background();
  s.background();
  const RunStatistics& r = s.run();
  EXPECT_EQ(r.end, 2 * kRingTime);
  for (const TileId t : kRing) EXPECT_EQ(state(r, t, TileState::data_wait), r.end);
  expect_consistent(r);
}

TEST(Background, WaitsGoToTheCauseOfTheTransferInTheWay) {
  for (const Cause cause : {Cause::tensor, Cause::context, Cause::expert, Cause::resharding}) {
    EXPECT_EQ(in_child([&] {
                Overlapped s(1000, cause);
                s.call();
                s.background();
                const RunStatistics& r = s.run();
                return std::to_string(state(r, tile(0), wait_for(cause)));
              }),
              std::to_string(kRingTime - 1000))
        << to_string(cause);
  }
}

// The tiles of A compute 5 ns and send; those of B wait in the background: bubble until the message
// is sent, pipeline_wait while it is on its way.
TEST(Background, PipelineMessagesAreABubbleUntilTheyAreSent) {
  Script s;
  s.name("stage");
  const std::uint16_t w = s.channel("pipeline");
  const auto m = s.matrix_shape(5000);
  const auto send = s.segment("send", [&](Code& c) {
    c.send(w, 0, {1000}, {c.compute(Engine::matrix, m)}, Cause::pipeline);
  });
  const auto receive =
      s.segment("receive", [&](Code& c) { c.recv(w, 0, {1000}, {}, Cause::pipeline); });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive, 0).peers = {{tile(0)}};
  s.program.groups[1].background = {Call{receive, 0, 0}};
  s.program.seal();
  const RunStatistics& r = s.run(mesh(2, 1));
  EXPECT_EQ(state(r, tile(1), TileState::bubble), 5000u);
  EXPECT_EQ(state(r, tile(1), TileState::pipeline_wait), 3000u);
  expect_consistent(r);
}

// --- Memory -------------------------------------------------------------------------------------

MachineConfig with_dram() {
  MachineConfig m = mesh(1, 1);
  m.dram.sites = {{0, 0}};
  return m;
}

// 100 ns, then 2 ps per byte, beside a computation.
TEST(Background, LoadsAndStoresRunBesideComputations) {
  Script s;
  s.name("prefetch");
  const auto m = s.matrix_shape(50000);
  const auto work = s.segment("work", [&](Code& c) { c.compute(Engine::matrix, m); });
  const auto swap = s.segment("swap", [&](Code& c) {
    for (const Cause cause : {Cause::memory, Cause::offload}) {
      const auto in = c.load(10000, c.size() == 0 ? Code::After{} : Code::After{c.size() - 1});
      c[in].cause = cause;
      c[c.store(10000, {in})].cause = cause;
    }
  });
  s.group("A", {tile(0)}, work);
  s.program.groups[0].background = {Call{swap, 0, 0}};
  s.program.seal();
  const RunStatistics& r = s.run(with_dram());
  EXPECT_EQ(r.end, 4 * 120000u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 50000u);
  EXPECT_EQ(state(r, tile(0), TileState::dram_wait), 2 * 120000u - 50000u);
  EXPECT_EQ(state(r, tile(0), TileState::offload_wait), 2 * 120000u);
  EXPECT_EQ(active(r, tile(0), Cause::offload), 2 * 120000u);
  EXPECT_EQ(active(r, tile(0), Cause::memory), 0u);  // not communication
  expect_consistent(r);
}

// A long transfer in the background takes half of the bandwidth, not the whole until it is done.
TEST(Background, SharesTheMemoryWithTheOtherCalls) {
  Script s;
  s.name("load");
  const auto small = s.segment("small", [&](Code& c) { c.load(10000); });
  const auto large = s.segment("large", [&](Code& c) { c.load(1000000); });
  s.group("A", {tile(0)}, small);
  s.program.groups[0].background = {Call{large, 0, 0}};
  const auto m = s.matrix_shape(1e7);
  s.program.groups[0].calls.push_back(
      {s.segment("work", [&](Code& c) { c[c.compute(Engine::matrix, m)].after_previous = true; }),
       0, 0});
  s.program.seal();
  const RunStatistics& r = s.run(with_dram());
  EXPECT_EQ(state(r, tile(0), TileState::dram_wait), 100000u + 2 * 20000u);
  EXPECT_EQ(r.end, 140000u + 10000000u);
}

// A head lets the engines go on in the background as elsewhere.
TEST(Background, HeadsOfLoadsAreTold) {
  Script s;
  s.name("stream");
  const std::uint16_t w = s.channel("wire");
  const auto stream = s.segment("stream", [&](Code& c) {
    const auto in = c.load(100000);
    c[in].head = 1000;
    c.send(w, 0, {1000}, {in | kHead}, Cause::data);
  });
  const auto receive =
      s.segment("receive", [&](Code& c) { c.recv(w, 0, {1000}, {}, Cause::data); });
  s.group("A", {tile(0)}, stream, 0).peers = {{tile(1)}};
  s.program.groups[0].background = {Call{stream, 0, 0}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}};
  s.program.seal();
  MachineConfig m = mesh(2, 1);
  m.dram.sites = {{0, 0}};
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(1)].finish, 100000u + 2000u + 3000u);
  EXPECT_EQ(r.tiles[tile(0)].finish, 100000u + 200000u);
}

// --- Hidden and exposed -------------------------------------------------------------------------

// B has 5 ns of work, then needs a message of 10 ns + 2 ns: sent at once, 5 ns of it are hidden;
// sent after 3 ns or 7 ns, 2 ns or none: waiting for the sender is exposed too.
class HiddenMessage : public testing::TestWithParam<std::pair<double, Picoseconds>> {};
TEST_P(HiddenMessage, IsWhatTheReceiverDidNotWaitFor) {
  const auto [before, hidden] = GetParam();
  Script s;
  s.name("message");
  const std::uint16_t w = s.channel("wire");
  const auto first = s.matrix_shape(before), own = s.matrix_shape(5000);
  const auto send = s.segment("send", [&](Code& c) {
    const auto a = c.compute(Engine::matrix, first);
    c.send(w, 0, {10000}, {a});
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    c.compute(Engine::matrix, own);
    c.compute(Engine::matrix, own, 1, {c.recv(w, 0, {10000})});
  });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}};
  s.program.seal();
  const RunStatistics& r = s.run(mesh(2, 1));
  const Picoseconds arrival = static_cast<Picoseconds>(before) + 12000;
  EXPECT_EQ(r.end, arrival + 5000);
  EXPECT_EQ(state(r, tile(1), TileState::tensor_wait), arrival - 5000);
  EXPECT_EQ(active(r, tile(1), Cause::tensor) - state(r, tile(1), TileState::tensor_wait), hidden);
  EXPECT_EQ(active(r, tile(0), Cause::tensor), 0u);  // counted where it arrives
  expect_consistent(r);
}
INSTANTIATE_TEST_SUITE_P(SentAfter, HiddenMessage,
                         testing::Values(std::pair{0.0, Picoseconds{5000}},
                                         std::pair{3000.0, Picoseconds{2000}},
                                         std::pair{7000.0, Picoseconds{0}}));

// Two messages at once count once; a wait for another cause hides them.
TEST(Background, WhatIsUnderWayTwiceCountsOnce) {
  Script s;
  s.name("two");
  const std::uint16_t a = s.channel("a"), b = s.channel("b"), fast = s.channel("fast");
  const auto send = s.segment("send", [&](Code& c) {
    c.send(a, 0, {10000}, {}, Cause::data);
    c.send(b, 0, {10000}, {}, Cause::data);
  });
  const auto ask = s.segment("ask", [&](Code& c) { c.send(fast, 0, {1000}, {}, Cause::expert); });
  const auto receive =
      s.segment("receive", [&](Code& c) { c.recv(fast, 1, {1000}, {}, Cause::expert); });
  const auto rest = s.segment("rest", [&](Code& c) {
    c.recv(a, 0, {10000}, {}, Cause::data);
    c.recv(b, 0, {10000}, {}, Cause::data);
  });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}, {tile(2)}};
  s.program.groups[1].background = {Call{rest, 0, 0}};
  s.group("C", {tile(2)}, ask).peers = {{tile(1)}};
  s.program.seal();
  const RunStatistics& r = s.run(mesh(3, 1));
  EXPECT_EQ(r.end, 22000u);  // the two share the link
  EXPECT_EQ(active(r, tile(1), Cause::data), 22000u);
  EXPECT_EQ(state(r, tile(1), TileState::expert_wait), 3000u);
  EXPECT_EQ(state(r, tile(1), TileState::data_wait), 19000u);
  expect_consistent(r);
}

// --- Everything at once -------------------------------------------------------------------------

std::string busy(bool reverse) {
  return in_child([&] {
    Script s;
    s.name("busy");
    MachineConfig machine = mesh(3, 3);
    machine.dies_x = 2;
    machine.sram.bandwidth = Bandwidth(0.7e12);
    machine.dram.policy = DramPolicy::interleaved;
    machine.dram.sites = {{0, 0}, {5, 2}, {3, 1}};
    std::vector<TileId> tiles;
    for (int t = 0; t < machine.tiles(); ++t) tiles.push_back(tile(static_cast<std::uint32_t>(t)));
    const auto p = static_cast<std::uint32_t>(tiles.size());
    const std::uint16_t front = s.channel("front"), back = s.channel("back");
    const auto m = s.matrix_shape(23456, 20000), v = s.vector_shape(777);
    const auto layer = s.segment("layer", [&](Code& c) {
      const auto a = c.compute(Engine::matrix, m, 1, {c.load(3333)});
      c.send(front, 0, {999, p, 1}, {a}, Cause::expert);
      const auto got = c.recv(front, 1, {999, p, 0}, {}, Cause::expert);
      c.store(500, {c.compute(Engine::vector, v, 1, {got})});
    });
    const auto bucket = s.segment("bucket", [&](Code& c) {
      const auto in = c.load(20000);
      c[in].cause = Cause::offload;
      ring_all_reduce(c, back, p, 50021, Cause::data);
      c[c.store(7000, {c.size() - 1})].cause = Cause::offload;
    });
    TileGroup& g = s.group("A", tiles, layer, 0);
    g.peers = ring_peers(tiles);
    for (std::uint32_t i = 0; i < 20; ++i) {
      g.calls.push_back({layer, i, 0, i < 10 ? 0 : i - 9});
      g.background.push_back({bucket, i, 0, i});
    }
    s.program.seal();
    const RunStatistics& r = s.run(machine, reverse);
    expect_consistent(r);
    if (testing::Test::HasFailure()) return std::string(reverse ? "reverse failed" : "failed");
    std::uint64_t read = 0, written = 0;
    for (const DramStatistics& d : r.dram) {
      read += d.bytes_read;
      written += d.bytes_written;
    }
    EXPECT_EQ(read, 20u * p * (3333 + 20000));
    EXPECT_EQ(written, 20u * p * (500 + 7000));
    EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::offload)], 20u * p * 27000);
    if (testing::Test::HasFailure()) return std::string(reverse ? "reverse bytes" : "bytes");
    return fingerprint(r);
  });
}

TEST(Background, ConservesEverythingAndDoesNotDependOnTheOrderOfConstruction) {
  const std::string answer = busy(false);
  EXPECT_GT(answer.size(), 1000u) << answer;
  EXPECT_EQ(busy(true), answer);
}

// --- Deadlocks ----------------------------------------------------------------------------------

std::string deadlock_of(Script& s, const MachineConfig& m) {
  try {
    s.program.seal();
    s.run(m);
  } catch (const DeadlockError& e) {
    return e.what();
  }
  return "no deadlock";
}

TEST(Background, ListsThatWaitForEachOtherAreADeadlock) {
  Overlapped s(1000);
  s.call();
  s.call(1);
  s.background(2);
  const std::string error = deadlock_of(s, mesh(2, 2));
  for (const char* part :
       {"tile (0,0) of A: call 1 of 2 (work) waits for 1 background calls, 0 of which are complete",
        "tile (0,0) of A: background call 0 of 1 (ring) waits for 2 calls, 1 of which are complete",
        "circle: tile (0,0) for the background of tile (0,0) for tile (0,0)",
        "4 tiles with 8 calls outstanding"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

// Over two tiles: A's background needs a message of B's calls, which need B's background, which
// needs a message of A's calls, which need A's background.
TEST(Background, ACircleOverTilesNamesTheBackgrounds) {
  Script s;
  s.name("swap");
  const std::uint16_t to_back = s.channel("to back");
  const auto back = s.segment("back", [&](Code& c) { c.recv(to_back, 0, {100}); });
  // B's calls send on a channel that the calls of A do not use, and the other way round.
  const std::uint16_t other = s.channel("other");
  const auto back2 = s.segment("back 2", [&](Code& c) { c.recv(other, 0, {100}); });
  const auto send = s.segment("send", [&](Code& c) { c.send(other, 0, {100}); });
  const auto send2 = s.segment("send 2", [&](Code& c) { c.send(to_back, 0, {100}); });
  s.group("A", {tile(0)}, send, 0).peers = {{tile(1)}};
  s.group("B", {tile(1)}, send2, 0).peers = {{tile(0)}};
  s.program.groups[0].calls = {Call{send, 0, 0, 1}};
  s.program.groups[0].background = {Call{back, 0, 0}};
  s.program.groups[1].calls = {Call{send2, 0, 0, 1}};
  s.program.groups[1].background = {Call{back2, 0, 0}};
  const std::string error = deadlock_of(s, mesh(2, 1));
  for (const char* part :
       {"tile (0,0) of A: net_recv waits for message 'to back' from tile (1,0) [100 bytes] in "
        "back, "
        "swap (background call 0 of 1)",
        "circle: tile (0,0) for the background of tile (0,0) for tile (1,0) for the background of "
        "tile (1,0) for tile (0,0)",
        "2 tiles with 4 calls outstanding, 2 of them waiting for messages"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace tilewright::test
