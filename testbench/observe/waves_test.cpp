// What the waves of a run show, by hand and against the counters.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <support/script.h>
#include <support/vcd.h>

#include <tilewright/observe/waves.h>

namespace tilewright::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

struct Watched {
  VcdFile vcd;
  RunStatistics run;
  std::string text, groups;
};

/// Runs the script with waves of what fits `scopes`.
Watched watch(Script& script, const MachineConfig& machine, const std::vector<std::string>& scopes,
              Picoseconds from = 0, Picoseconds to = ~Picoseconds{0}, bool in_step = true) {
  script.streams();
  std::ostringstream vcd, groups;
  WaveOptions options;
  options.vcd = &vcd;
  options.groups = &groups;
  options.scopes = scopes;
  options.from = from;
  options.to = to;
  PlatformOptions platform_options;
  platform_options.in_step = in_step;
  auto* platform = new Platform("machine", machine, script.program, platform_options);
  Waves waves(options, machine, script.program, *platform);
  platform->run();
  waves.finish(platform->statistics().end);
  return {VcdFile::parse(vcd.str()), platform->statistics(), vcd.str(), groups.str()};
}

/// Machines of script.h with a controller at tile (0,0).
MachineConfig mesh_with_dram(int width, int height) {
  MachineConfig machine = mesh(width, height);
  machine.dram.sites = {{0, 0}};
  return machine;
}

// 1000 bytes from the tile's own DRAM take 100 ns + 2 ns; then 1000 FLOP take 1 ns, and their 4000
// bytes through the SRAM 3 ns more.
TEST(Waves, ALoadAndAComputationByHand) {
  MachineConfig machine = mesh_with_dram(1, 1);
  machine.sram.bandwidth = Bandwidth(1e12);
  Script s;
  const auto shape = s.matrix_shape(1000, 4000);
  const auto segment = s.segment("ops", [&](Code& c) {
    c.memory(Opcode::allocate, Engine::dma_in, 5000, Space::sram);
    const auto loaded = c.load(1000);
    const auto a = c.compute(Engine::matrix, shape, 1, {loaded}, Phase::backward);
    c.memory(Opcode::release, Engine::dma_out, 2000, Space::sram, {a});
    c[a].name = s.name("GEMM one");
  });
  TileGroup& group = s.group("A", {tile(0)}, segment);
  group.sram_resident = 100;
  group.calls[0].layer = 3;
  group.calls[0].micro_batch = 9;
  const VcdFile vcd = watch(s, machine, {"*"}).vcd;
  EXPECT_EQ(vcd.history("tiles.t0_0.state"),
            "0 dram_wait, 102000 matrix, 103000 sram_stall, 106000 bubble");
  EXPECT_EQ(vcd.history("tiles.t0_0.matrix.busy"), "0 0, 102000 1, 106000 0");
  EXPECT_EQ(vcd.history("tiles.t0_0.matrix.operator"), "0 -, 102000 GEMM_one, 106000 -");
  EXPECT_EQ(vcd.history("tiles.t0_0.matrix.phase"), "0 -, 102000 backward, 106000 -");
  EXPECT_EQ(vcd.history("tiles.t0_0.matrix.layer"), "0 z, 102000 3, 106000 z");
  EXPECT_EQ(vcd.history("tiles.t0_0.matrix.micro_batch"), "0 z, 102000 9, 106000 z");
  EXPECT_EQ(vcd.history("tiles.t0_0.vector.busy"), "0 0");
  EXPECT_EQ(vcd.history("tiles.t0_0.dma_in.busy"), "0 1, 102000 0");
  EXPECT_EQ(vcd.history("tiles.t0_0.dma_in.under_way"), "0 1, 102000 0");
  EXPECT_EQ(vcd.history("tiles.t0_0.sram.used"), "0 5100, 106000 3100");
  EXPECT_EQ(vcd.history("controllers.dram0.queue"), "0 1, 102000 0");
  EXPECT_EQ(vcd.history("stages.A.slot"), "0 B9, 106000 -");
  EXPECT_EQ(vcd.history("stages.A.state"), vcd.history("tiles.t0_0.state"));
  EXPECT_EQ(vcd.end, 106000u);
}

// The second of two messages waits for the first: 1 byte per ps.
TEST(Waves, ALinkAndWhoWaitsForIt) {
  Script s = one_message(tile(0), tile(1), 1000, 1000);
  for (auto* code : {&s.program.segments[0].code, &s.program.segments[1].code}) {
    code->push_back(code->front());
  }
  const VcdFile vcd = watch(s, mesh(3, 1), {"links"}).vcd;
  EXPECT_EQ(vcd.signals.size(), 8u);
  EXPECT_EQ(vcd.history("links.t0_0_to_t1_0.busy"), "0 1, 2000 0");
  EXPECT_EQ(vcd.history("links.t0_0_to_t1_0.queue"), "0 1, 1000 0");
  EXPECT_EQ(vcd.history("links.t1_0_to_t2_0.busy"), "0 0");
}

// The request comes after 2 ns, the first byte moves 100 ns later and the last 2 ns after that. The
// link is twice as fast as the DRAM, so it carries the 1000 bytes in the last ns before that, which
// the model knows only afterwards.
TEST(Waves, DataReadHasBeenOnItsWay) {
  Script s;
  const auto segment = s.segment("ops", [&](Code& c) { c.load(1000); });
  s.group("A", {tile(1)}, segment);
  const VcdFile vcd = watch(s, mesh_with_dram(2, 1), {"links", "tiles.t1_0"}).vcd;
  EXPECT_EQ(vcd.history("links.t0_0_to_t1_0.busy"), "0 0, 103000 1, 104000 0");
  EXPECT_EQ(vcd.history("tiles.t1_0.dma_in.busy"), "0 1, 106000 0");
}

// The receiver is in a bubble until the message leaves after 5 ns, and then waits for 2 ns of hop
// and 3 ns of bytes: nothing happens at its own tile in between.
TEST(Waves, AMessageThatLeavesChangesTheStateOfWhoWaits) {
  Script s;
  const auto channel = s.channel("forward");
  const auto shape = s.matrix_shape(5000);
  const auto sender = s.segment("sender", [&](Code& c) {
    const auto a = c.compute(Engine::matrix, shape);
    c.send(channel, 0, {3000}, {a}, Cause::pipeline);
  });
  const auto receiver = s.segment("receiver", [&](Code& c) {
    const auto got = c.recv(channel, 0, {3000}, {}, Cause::pipeline);
    c.compute(Engine::matrix, shape, 1, {got});
  });
  s.group("first stage", {tile(0)}, sender).peers = {{tile(1)}};
  s.group("second stage", {tile(1)}, receiver).peers = {{tile(0)}};
  const VcdFile vcd = watch(s, mesh(2, 1), {"tiles.t1_0", "stages"}).vcd;
  EXPECT_EQ(vcd.history("tiles.t1_0.state"),
            "0 bubble, 5000 pipeline_wait, 10000 matrix, 15000 bubble");
  EXPECT_EQ(vcd.history("tiles.t1_0.net_recv.channel"), "0 forward, 10000 -");
  EXPECT_EQ(vcd.history("tiles.t1_0.net_recv.bytes"), "0 0, 10000 3000");
  EXPECT_EQ(vcd.history("stages.first_stage.slot"), "0 F0, 5000 -");
  EXPECT_EQ(vcd.history("stages.second_stage.slot"), "0 -, 10000 F0, 15000 -");
}

/// Four tiles on which everything happens: loads and stores near and far, both engines, stalls,
/// recomputation, an all-reduce, allocations, a chain of messages between two stages, and an
/// all-reduce with a load and a store of its own in the background of the second.
Script busy_program() {
  Script s;
  const auto ring = s.channel("ring"), chain = s.channel("chain");
  const auto m = s.matrix_shape(3000, 8000, 4), v = s.vector_shape(1000);
  const auto body = [&](Code& c, bool sends) {
    const auto room = c.memory(Opcode::allocate, Engine::dma_in, 20000, Space::sram);
    c.memory(Opcode::allocate, Engine::dma_in, 700, Space::dram);
    c[room].after_previous = true;
    std::uint32_t got = room;
    if (!sends) got = c.recv(chain, 2, {4000}, {}, Cause::pipeline);
    const auto loaded = c.load(5000);
    const auto more = c.load(2500);
    const auto a = c.compute(Engine::matrix, m, 3, {loaded, got});
    const auto b = c.compute(Engine::matrix, m, 1, {more}, Phase::recompute);
    const auto w = c.compute(Engine::vector, v, 1, {a});
    ring_all_reduce(c, ring, 2, 6001);
    c.store(3000, {b, w});
    if (sends) c.send(chain, 2, {4000}, {b}, Cause::pipeline);
    const auto last = c.compute(Engine::vector, v, 1, {b});
    c.memory(Opcode::release, Engine::dma_out, 20000, Space::sram, {last});
    c.memory(Opcode::release, Engine::dma_out, 700, Space::dram, {last});
  };
  const auto first = s.segment("first", [&](Code& c) { body(c, true); });
  const auto second = s.segment("second", [&](Code& c) { body(c, false); });
  TileGroup& a = s.group("A", {tile(0), tile(1)}, first, 6);
  a.peers = ring_peers(a.tiles);
  a.peers.push_back({tile(2), tile(3)});
  a.sram_resident = 1234;
  TileGroup& b = s.group("B", {tile(2), tile(3)}, second, 6);
  b.peers = ring_peers(b.tiles);
  b.peers.push_back({tile(0), tile(1)});
  b.dram_resident = 50;
  const auto gradients = s.channel("gradients");
  const auto reduce = s.segment("reduce", [&](Code& c) {
    const auto loaded = c.load(4000);
    const auto sent = c.send(gradients, 0, {30000}, {loaded}, Cause::data);
    const auto got = c.recv(gradients, 1, {30000}, {sent}, Cause::data);
    c.store(6000, {got});
  });
  for (std::uint32_t i = 0; i < 3; ++i)
    b.background.push_back({reduce, kNoMicroBatch, 0, 2 * i + 2});
  for (TileGroup& g : s.program.groups) {
    for (std::uint32_t i = 0; i < g.calls.size(); ++i) g.calls[i].micro_batch = i;
  }
  return s;
}

MachineConfig busy_machine() {
  MachineConfig machine = mesh_with_dram(2, 2);
  machine.sram.bandwidth = Bandwidth(1e12);
  return machine;
}

/// The same with a memory of banks and rows.
MachineConfig banked_machine() {
  MachineConfig machine = busy_machine();
  DramConfig& dram = machine.dram;
  dram.model = "banked";
  dram.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/hbm2-2.0.yaml", "memory"));
  dram.bandwidth = dram.part.bandwidth();
  dram.latency = dram.part.latency();
  return machine;
}

TEST(Waves, EqualTheCounters) {
  Script s = busy_program();
  const Watched w = watch(s, busy_machine(), {"*"});
  const VcdFile& vcd = w.vcd;
  EXPECT_EQ(vcd.end, w.run.end);
  for (std::uint32_t t = 0; t < 4; ++t) {
    SCOPED_TRACE("tile " + std::to_string(t));
    const TileStatistics& counted = w.run.tiles[tile(t)];
    const std::string name = "tiles.t" + std::to_string(t % 2) + "_" + std::to_string(t / 2) + ".";
    for (int i = 0; i < kTileStates; ++i) {
      const auto state = static_cast<TileState>(i);
      EXPECT_EQ(vcd.time(name + "state", to_string(state)),
                counted.time[static_cast<std::size_t>(i)])
          << to_string(state);
    }
    EXPECT_GT(vcd.time(name + "state", "sram_stall"), 0u);
    EXPECT_EQ(vcd.time(name + "matrix.busy", "1"), counted.matrix_busy);
    EXPECT_EQ(vcd.time(name + "vector.busy", "1"), counted.vector_busy);
    EXPECT_EQ(vcd.time(name + "matrix.operator", "-") + counted.matrix_busy, w.run.end);
    EXPECT_EQ(vcd.at(name + "net_send.bytes", vcd.end), std::to_string(counted.bytes_sent));
    EXPECT_EQ(vcd.at(name + "net_recv.bytes", vcd.end), std::to_string(counted.bytes_received));
    EXPECT_EQ(vcd.at(name + "sram.peak", vcd.end), std::to_string(counted.sram_peak));
    EXPECT_EQ(vcd.largest(name + "sram.used"), counted.sram_peak);
    EXPECT_EQ(vcd.largest(name + "dram.used"), counted.dram_peak);
    EXPECT_EQ(vcd.at(name + "dma_in.under_way", vcd.end), "0");
    EXPECT_EQ(vcd.at(name + "dma_out.under_way", vcd.end), "0");
  }
  ASSERT_EQ(w.run.links.size(), 8u);
  for (const LinkStatistics& link : w.run.links) {
    const auto place = [](TileId t) {
      return "t" + std::to_string(index(t) % 2) + "_" + std::to_string(index(t) / 2);
    };
    const std::string name = "links." + place(link.from) + "_to_" + place(link.to);
    EXPECT_EQ(vcd.time(name + ".busy", "1"), link.bytes) << name;  // at 1 byte per ps
    EXPECT_EQ(vcd.at(name + ".queue", vcd.end), "0");
  }
  EXPECT_GT(vcd.largest("links.t0_0_to_t1_0.queue"), 0u);
  EXPECT_GT(vcd.largest("controllers.dram0.queue"), 1u);
  EXPECT_EQ(vcd.at("controllers.dram0.queue", vcd.end), "0");
}

/// By whether the memory has banks.
class OnMachine : public testing::TestWithParam<bool> {
 protected:
  static MachineConfig machine() { return GetParam() ? banked_machine() : busy_machine(); }
};
INSTANTIATE_TEST_SUITE_P(Waves, OnMachine, testing::Bool());

TEST_P(OnMachine, WavesDoNotChangeTheRun) {
  const std::string without = in_child([] {
    Script s = busy_program();
    return fingerprint(s.run(machine()));
  });
  Script s = busy_program();
  EXPECT_EQ(fingerprint(watch(s, machine(), {"*"}).run), without);
}

TEST(Waves, TheSameBytesWhenTheQueueRunsAheadOfTheKernel) {
  const std::string ahead = in_child([] {
    Script s = busy_program();
    return watch(s, busy_machine(), {"*"}, 0, ~Picoseconds{0}, false).text;
  });
  Script s = busy_program();
  EXPECT_EQ(watch(s, busy_machine(), {"*"}).text, ahead);
}

// A window shows what the whole shows at every instant of it.
TEST_P(OnMachine, AWindowIsAPieceOfTheWhole) {
  const auto text = [](Picoseconds from, Picoseconds to) {
    return in_child([&] {
      Script s = busy_program();
      return watch(s, machine(), {"*"}, from, to).text;
    });
  };
  const VcdFile whole = VcdFile::parse(text(0, ~Picoseconds{0}));
  const std::uint64_t end = whole.end;
  const std::pair<std::uint64_t, std::uint64_t> windows[] = {{0, end / 3},
                                                             {end / 5, end / 2},
                                                             {end / 3 + 1, end / 3 + 1},
                                                             {end / 2 + 777, end},
                                                             {end, end}};
  for (const auto& [from, to] : windows) {
    SCOPED_TRACE(std::to_string(from) + " to " + std::to_string(to));
    const VcdFile piece = VcdFile::parse(text(from, to));
    EXPECT_EQ(piece.begin, from);
    EXPECT_EQ(piece.end, to);
    ASSERT_EQ(piece.signals.size(), whole.signals.size());
    for (const auto& [name, signal] : whole.signals) {
      EXPECT_EQ(piece.at(name, from), whole.at(name, from)) << name;
      std::vector<std::pair<std::uint64_t, std::string>> expected;
      for (const auto& change : signal.changes) {
        if (change.first > from && change.first <= to) expected.push_back(change);
      }
      auto found = piece.signal(name).changes;
      found.erase(found.begin());
      EXPECT_EQ(found, expected) << name;
    }
  }
}

TEST(Waves, PatternsSelectScopesAndSignals) {
  const auto names = [](const std::vector<std::string>& scopes) {
    return in_child([&] {
      Script s = busy_program();
      std::string text;
      const Watched w = watch(s, busy_machine(), scopes);
      for (const auto& [name, signal] : w.vcd.signals) text += name + " ";
      return text;
    });
  };
  EXPECT_EQ(names({"tiles.*.state"}),
            "tiles.t0_0.state tiles.t0_1.state tiles.t1_0.state tiles.t1_1.state ");
  EXPECT_EQ(names({"tiles.t[1]_?.sram"}),
            "tiles.t1_0.sram.peak tiles.t1_0.sram.used tiles.t1_1.sram.peak tiles.t1_1.sram.used ");
  EXPECT_EQ(names({"links.t0_0_to_*.busy", "controllers"}),
            "controllers.dram0.queue links.t0_0_to_t0_1.busy links.t0_0_to_t1_0.busy ");
  EXPECT_EQ(names({"stages.A.slot", "stages.A.slot"}), "stages.A.slot ");
  // Without a pattern: the stages and the first tile of each.
  EXPECT_THAT(names({}), AllOf(HasSubstr("stages.A.slot"), HasSubstr("stages.B.slot"),
                               HasSubstr("tiles.t0_0.state"), HasSubstr("tiles.t0_1.state"),
                               Not(HasSubstr("tiles.t1_0")), Not(HasSubstr("links"))));
}

TEST(Waves, APatternThatNamesNothingIsRefused) {
  Script s = busy_program();
  try {
    watch(s, busy_machine(), {"stages", "tiles.t0-0"});
    FAIL() << "no error";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("nothing is named 'tiles.t0-0'"),
                                HasSubstr("did you mean 'tiles.t0_0'"), HasSubstr("stages.A"),
                                HasSubstr("links.t0_0_to_t1_0"), HasSubstr("controllers.dram0")));
  }
}

// 1000 ps of computation; the background sends 3000 bytes over one hop of 2 ns as soon as the first
// of two calls is done, and each waits for the other's message.
TEST(Waves, TheBackgroundHasSignalsOfItsOwn) {
  Script s;
  const auto ring = s.channel("ring");
  const auto shape = s.matrix_shape(1000);
  const auto work = s.segment("work", [&](Code& c) {
    const auto a = c.compute(Engine::matrix, shape, 1, {}, Phase::backward);
    c[a].after_previous = true;
  });
  const auto exchange = s.segment("exchange", [&](Code& c) {
    const auto sent = c.send(ring, 0, {3000}, {}, Cause::data);
    const auto got = c.recv(ring, 0, {3000}, {sent}, Cause::data);
    c[sent].phase = c[got].phase = Phase::gradient_sync;
    c[got].name = s.name("all_reduce");
  });
  TileGroup& group = s.group("A", {tile(0), tile(1)}, work, 2);
  group.peers = {{tile(1), tile(0)}};
  group.background = {{exchange, kNoMicroBatch, 7, 1}};
  s.group("B", {tile(2)}, work);
  const VcdFile vcd = watch(s, mesh(3, 1), {"tiles", "stages"}).vcd;
  EXPECT_EQ(vcd.history("tiles.t0_0.state"), "0 matrix, 2000 data_wait, 6000 bubble");
  EXPECT_EQ(vcd.history("tiles.t0_0.background.busy"), "0 0, 1000 1, 6000 0");
  EXPECT_EQ(vcd.history("tiles.t0_0.background.operator"), "0 -, 1000 all_reduce, 6000 -");
  EXPECT_EQ(vcd.history("tiles.t0_0.background.phase"), "0 -, 1000 gradient_sync, 6000 -");
  EXPECT_EQ(vcd.history("tiles.t0_0.background.layer"), "0 z, 1000 7, 6000 z");
  EXPECT_EQ(vcd.history("tiles.t0_0.net_recv.channel"), "0 -, 1000 ring, 6000 -");
  EXPECT_EQ(vcd.history("tiles.t0_0.net_recv.bytes"), "0 0, 6000 3000");
  EXPECT_EQ(vcd.history("stages.A.slot"), "0 B0, 2000 gradient_sync, 6000 -");
  EXPECT_EQ(vcd.signals.count("tiles.t2_0.background.busy"), 0u);
}

// A slot belongs to the phase of its last computation: a backward pass may begin by recomputing.
TEST(Waves, AStageShowsItsSlots) {
  Script s;
  const auto m = s.matrix_shape(1000);
  const auto forward = s.segment("forward", [&](Code& c) { c.compute(Engine::matrix, m); });
  const auto backward = s.segment("backward", [&](Code& c) {
    const auto a = c.compute(Engine::matrix, m, 1, {}, Phase::recompute);
    c.compute(Engine::matrix, m, 1, {a}, Phase::backward);
    c.memory(Opcode::release, Engine::dma_out, 0, Space::sram, {a});
  });
  const auto update =
      s.segment("update", [&](Code& c) { c.compute(Engine::matrix, m, 1, {}, Phase::optimizer); });
  TileGroup& group = s.group("stage 0", {tile(0)}, forward, 0);
  group.calls = {{forward, 0, 1},  {forward, 0, 2},  {forward, 1, 1},           {forward, 1, 2},
                 {backward, 0, 2}, {backward, 0, 1}, {update, kNoMicroBatch, 1}};
  s.group("stage 0", {tile(1)}, forward);  // a second one of this name
  const VcdFile vcd = watch(s, mesh(2, 1), {"stages"}).vcd;
  EXPECT_EQ(vcd.history("stages.stage_0.slot"), "0 F0, 2000 F1, 4000 B0, 8000 optimizer, 9000 -");
  EXPECT_EQ(vcd.history("stages.stage_0.phase"),
            "0 forward, 4000 backward, 8000 optimizer, 9000 -");
  EXPECT_EQ(vcd.history("stages.stage_0.layer"), "0 1, 1000 2, 2000 1, 3000 2, 6000 1, 9000 z");
  EXPECT_EQ(vcd.history("stages.stage_0.micro_batch"), "0 0, 2000 1, 4000 0, 8000 z");
  EXPECT_EQ(vcd.history("stages.stage_0_1.slot"), "0 F0, 1000 -");
}

TEST(Waves, TheSignalGroupsNameSignalsOfTheDump) {
  Script s = busy_program();
  const Watched w = watch(s, busy_machine(), {"*"});
  std::istringstream lines(w.groups);
  std::string line;
  std::size_t named = 0, open = 0;
  while (std::getline(lines, line)) {
    if (line == "@800200" || line == "@c00200") ++open;
    if (line == "@1000200" || line == "@1401200") {
      ASSERT_GT(open, 0u);
      --open;
    }
    if (line.rfind("+{", 0) != 0) continue;
    std::string name = line.substr(line.find("} ") + 2);
    const std::size_t range = name.find('[');
    const VcdFile::Signal& signal = w.vcd.signal(name.substr(0, range));
    EXPECT_EQ(range == std::string::npos ? "" : name.substr(range),
              signal.bits == 1 ? "" : "[" + std::to_string(signal.bits - 1) + ":0]");
    ++named;
  }
  EXPECT_EQ(open, 0u);
  EXPECT_EQ(named, w.vcd.signals.size() + 2);  // the slots of two stages once more
  EXPECT_THAT(w.groups, HasSubstr("+{A} stages.A.slot\n"));
}

}  // namespace
}  // namespace tilewright::test
