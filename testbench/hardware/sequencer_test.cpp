// Instruction semantics, attribution, errors.
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

template <class Error>
std::string error_of(Script& s, const MachineConfig& m) {
  try {
    s.run(m);
  } catch (const Error& e) {
    return e.what();
  } catch (const std::exception& e) {
    return std::string("another error: ") + e.what();
  }
  return "no error";
}

void expect_sums(const RunStatistics& r) {
  for (std::uint32_t t = 0; t < r.tiles.size(); ++t) {
    Picoseconds sum = 0;
    for (const Picoseconds time : r.tiles[tile(t)].time) sum += time;
    EXPECT_EQ(sum, r.end) << "tile " << t;
  }
}

TEST(Sequencer, EnginesRunSideBySide) {
  Script s;
  const auto m = s.matrix_shape(1000), v = s.vector_shape(700), v32 = s.vector_shape(700, "fp32");
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, m);
    c.compute(Engine::vector, v);
    c.compute(Engine::vector, v32);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(mesh(1, 1));
  EXPECT_EQ(r.end, 700u + 1400u);  // fp32 elements at half the rate
  EXPECT_EQ(r.tiles[tile(0)].matrix_busy, 1000u);
  EXPECT_EQ(r.tiles[tile(0)].vector_busy, 2100u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 1000u);
  EXPECT_EQ(state(r, tile(0), TileState::vector), 1100u);
  EXPECT_EQ(r.tiles[tile(0)].flop, 1000);
  expect_sums(r);
}

TEST(Sequencer, PiecesSumToTheWhole) {
  Script s;
  const auto m = s.matrix_shape(10000, 0, 7);
  const auto segment = s.segment("ops", [&](Code& c) {
    for (int i = 0; i < 7; ++i) c.compute(Engine::matrix, m);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(mesh(1, 1));
  EXPECT_NEAR(static_cast<double>(r.end), 10000, 4);
  EXPECT_NEAR(r.tiles[tile(0)].flop, 10000, 1e-6);
}

// 1000 FLOP take 1000 ps; 4000 bytes through an SRAM of 1 byte per ps take 4000 ps.
TEST(Sequencer, SramLimitsTheRoof) {
  MachineConfig machine = mesh(1, 1);
  machine.sram.bandwidth = Bandwidth(1e12);
  Script s;
  const auto bound = s.matrix_shape(1000, 4000), free = s.matrix_shape(1000, 500);
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, bound);
    c.compute(Engine::matrix, free);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(machine);
  EXPECT_EQ(r.end, 5000u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 2000u);
  EXPECT_EQ(state(r, tile(0), TileState::sram_stall), 3000u);
}

// Reads and writes go beside each other: 3000 bytes read at 1 a picosecond, 1000 written at half of
// that.
TEST(Sequencer, PortsOfTheirOwnServeReadsAndWritesSideBySide) {
  MachineConfig machine = mesh(1, 1);
  machine.sram.read = Bandwidth(1e12);
  machine.sram.write = Bandwidth(0.5e12);
  Script s;
  const auto reads = s.matrix_shape(1000, 4000), writes = s.matrix_shape(1000, 4000);
  s.program.shapes[reads].sram_written = 1000;
  s.program.shapes[writes].sram_written = 2500;
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, reads);
    c.compute(Engine::matrix, writes);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(machine);
  EXPECT_EQ(r.end, 3000u + 5000u);
  EXPECT_EQ(state(r, tile(0), TileState::sram_stall), 6000u);
}

// 500 bytes of its own, 1500 loaded and 1000 stored, at 1 byte a picosecond.
TEST(Sequencer, LoadsAndStoresThatContendForTheSramTakeTheirTime) {
  MachineConfig machine = mesh(1, 1);
  machine.sram.bandwidth = Bandwidth(1e12);
  Script s;
  const auto shape = s.matrix_shape(1000, 500);
  s.program.shapes[shape].dma_in = 1500;
  s.program.shapes[shape].dma_out = 1000;
  const auto segment = s.segment("ops", [&](Code& c) { c.compute(Engine::matrix, shape); });
  s.group("A", {tile(0)}, segment);
  EXPECT_EQ(s.run(machine).end, 3000u);
}

TEST(Sequencer, RecomputationIsItsOwnState) {
  Script s;
  const auto m = s.matrix_shape(1000);
  const auto segment = s.segment("ops", [&](Code& c) {
    c.compute(Engine::matrix, m, 1, {}, Phase::recompute);
    c.compute(Engine::matrix, m, 1, {}, Phase::backward);
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(mesh(1, 1));
  EXPECT_EQ(state(r, tile(0), TileState::recomputation), 1000u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 1000u);
  EXPECT_EQ(r.tiles[tile(0)].flop, 2000);
  EXPECT_EQ(r.tiles[tile(0)].recomputed_flop, 1000);
}

// Two calls of matrix -> vector: the matrix engine starts the second call while the vector engine
// still works on the first; with after_previous it must not.
TEST(Sequencer, EnginesRunAheadUnlessToldNotTo) {
  const auto run = [](bool after_previous) {
    return in_child([&] {
      Script s;
      const auto m = s.matrix_shape(1000), v = s.vector_shape(1000);
      const auto segment = s.segment("ops", [&](Code& c) {
        const auto a = c.compute(Engine::matrix, m);
        c[a].after_previous = after_previous;
        c.compute(Engine::vector, v, 1, {a});
      });
      s.group("A", {tile(0)}, segment, 10);
      return std::to_string(s.run(mesh(1, 1)).end);
    });
  };
  EXPECT_EQ(run(false), "11000");
  EXPECT_EQ(run(true), "20000");
}

TEST(Sequencer, SymmetricSendThenReceive) {
  Script s;
  const std::uint16_t w = s.channel("swap");
  const auto segment = s.segment("swap", [&](Code& c) {
    const auto sent = c.send(w, 0, {1000});
    c.recv(w, 0, {1000}, {sent});
  });
  s.group("A", {tile(0), tile(1)}, segment, 5).peers = {{tile(1), tile(0)}};
  const RunStatistics& r = s.run(mesh(2, 1));
  EXPECT_EQ(r.end, 2000u + 5 * 1000u);  // sends are buffered and stream
  std::uint64_t sent = 0, received = 0;
  for (const TileStatistics& t : r.tiles) {
    sent += t.bytes_sent;
    received += t.bytes_received;
  }
  EXPECT_EQ(sent, 10000u);
  EXPECT_EQ(received, sent);
}

TEST(Sequencer, EmptySharesMoveNothing) {
  Script s;
  const std::uint16_t w = s.channel("scatter");
  // 1 byte cut in 2 parts: rank 1 has none.
  const auto send = s.segment("send", [&](Code& c) { c.send(w, 0, {1, 2, 0}); });
  const auto receive = s.segment("receive", [&](Code& c) { c.recv(w, 0, {1, 2, 0}); });
  s.group("A", {tile(0), tile(1)}, send).peers = {{tile(2), tile(3)}};
  s.group("B", {tile(2), tile(3)}, receive).peers = {{tile(0), tile(1)}};
  const RunStatistics& r = s.run(mesh(2, 2));
  EXPECT_EQ(r.messages, 1u);
  EXPECT_EQ(r.tiles[tile(3)].finish, 0u);
}

// Two rows of two ranks, a group each, with one segment: the columns exchange parts of 3 bytes cut
// in 2; row 0 sends the 2 bytes of part 0, row 1 the 1 byte of part 1.
TEST(Sequencer, StridedSharesFollowTheAxisAcrossGroups) {
  Script s;
  s.name("exchange");
  const std::uint16_t w = s.channel("column");
  const auto segment = s.segment("exchange", [&](Code& c) {
    c.send(w, 0, {3, 2, 0, 2});
    c.recv(w, 0, {3, 2, 1, 2});
  });
  const std::vector<TileId> rows[] = {{tile(0), tile(1)}, {tile(2), tile(3)}};
  for (std::uint32_t y = 0; y < 2; ++y) {
    TileGroup& g = s.group("row", rows[y], segment);
    g.peers = {rows[1 - y]};
    g.first_rank = 2 * y;
  }
  s.program.seal();
  const RunStatistics& r = s.run(mesh(2, 2));
  for (std::uint32_t t = 0; t < 4; ++t) {
    EXPECT_EQ(r.tiles[tile(t)].bytes_sent, t < 2 ? 2u : 1u);
    EXPECT_EQ(r.tiles[tile(t)].bytes_received, t < 2 ? 1u : 2u);
  }
}

TEST(Sequencer, MessageToItself) {
  Script s = one_message(tile(0), tile(1), 10, 10);
  s.program.groups.pop_back();
  s.program.segments[0].code.push_back(s.program.segments[1].code[0]);
  s.program.groups[0].peers = {{tile(0)}};
  EXPECT_EQ(s.run(mesh(2, 1)).end, 0u);
}

// --- Attribution ------------------------------------------------------------------------------

// The sender computes for 5000 ps first: until then it is the pipeline's bubble, from then on the
// message is on its way.
TEST(Attribution, PipelineWaitBeginsWithTheInjection) {
  Script s;
  const std::uint16_t w = s.channel("pipeline");
  const auto m = s.matrix_shape(5000);
  const auto send = s.segment("send", [&](Code& c) {
    c.send(w, 0, {1000}, {c.compute(Engine::matrix, m)}, Cause::pipeline);
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    c.compute(Engine::matrix, m, 1, {c.recv(w, 0, {1000}, {}, Cause::pipeline)});
  });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}};
  const RunStatistics& r = s.run(mesh(3, 1));
  EXPECT_EQ(r.end, 5000u + 3000u + 5000u);
  EXPECT_EQ(state(r, tile(0), TileState::matrix), 5000u);
  EXPECT_EQ(state(r, tile(0), TileState::bubble), 8000u);
  EXPECT_EQ(state(r, tile(1), TileState::bubble), 5000u);
  EXPECT_EQ(state(r, tile(1), TileState::pipeline_wait), 3000u);
  EXPECT_EQ(state(r, tile(1), TileState::matrix), 5000u);
  EXPECT_EQ(state(r, tile(2), TileState::idle), r.end);
  expect_sums(r);
}

// The matrix engine waits for a vector operator, which waits for a ring's last message, which waits
// for an earlier one: the blame reaches the message.
TEST(Attribution, FollowsTheChainToTheMessage) {
  Script s;
  const std::uint16_t w = s.channel("ring");
  const auto m = s.matrix_shape(1000), v = s.vector_shape(300);
  const std::vector<TileId> tiles{tile(0), tile(1), tile(3), tile(2)};
  const auto segment = s.segment("layer", [&](Code& c) {
    std::uint32_t last = c.compute(Engine::matrix, m);
    for (int i = 0; i < 3; ++i) {
      c.send(w, 0, {500}, {last}, Cause::data);
      last = c.recv(w, 1, {500}, {last}, Cause::data);
    }
    last = c.compute(Engine::vector, v, 1, {last});
    c.compute(Engine::matrix, m, 1, {last});
  });
  s.group("A", tiles, segment).peers = ring_peers(tiles);
  const RunStatistics& r = s.run(mesh(2, 2));
  EXPECT_EQ(r.end, 1000u + 3 * 2500u + 300u + 1000u);
  for (const TileId t : tiles) {
    EXPECT_EQ(state(r, t, TileState::matrix), 2000u);
    EXPECT_EQ(state(r, t, TileState::data_wait), 7500u);
    EXPECT_EQ(state(r, t, TileState::vector), 300u);
  }
  expect_sums(r);
}

// The same for every cause: a tile that waits for a message is in the wait of the message's cause,
// also over the steps of a ring, where each message that comes is followed by the next.
class AttributionOfCauses : public testing::TestWithParam<Cause> {};
TEST_P(AttributionOfCauses, GoesToItsWait) {
  const Cause cause = GetParam();
  Script s;
  const std::uint16_t w = s.channel("ring");
  const auto m = s.matrix_shape(1000);
  const std::vector<TileId> tiles{tile(0), tile(1), tile(3), tile(2)};
  const auto segment = s.segment("layer", [&](Code& c) {
    std::uint32_t last = c.compute(Engine::matrix, m);
    for (int i = 0; i < 3; ++i) {
      c.send(w, 0, {500}, {last}, cause);
      last = c.recv(w, 1, {500}, {}, cause);
    }
    c.compute(Engine::matrix, m, 1, {last});
  });
  s.group("A", tiles, segment, 2).peers = ring_peers(tiles);
  const RunStatistics& r = s.run(mesh(2, 2));
  EXPECT_EQ(r.end, 2u * (2000 + 3 * 2500));
  for (const TileId t : tiles) {
    EXPECT_EQ(state(r, t, TileState::matrix), 4000u);
    EXPECT_EQ(state(r, t, wait_for(cause)), 15000u);
  }
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(cause)], 2u * 4 * 3 * 500);
  expect_sums(r);
}
INSTANTIATE_TEST_SUITE_P(All, AttributionOfCauses,
                         testing::Values(Cause::memory, Cause::tensor, Cause::data, Cause::context,
                                         Cause::expert, Cause::resharding, Cause::offload,
                                         Cause::pipeline),
                         [](const auto& info) { return to_string(info.param); });

TEST(Attribution, LoadsAndStoresAreMemoryWhateverTheirCauseButOffload) {
  MachineConfig machine = mesh(1, 1);
  machine.dram.sites = {{0, 0}};
  Script s;
  const auto segment = s.segment("memory", [&](Code& c) {
    for (const Cause cause : {Cause::tensor, Cause::memory, Cause::offload}) {
      const auto load = c.load(1000, c.size() == 0 ? Code::After{} : Code::After{c.size() - 1});
      c[load].cause = cause;
      c[c.store(500, {load})].cause = cause;
    }
  });
  s.group("A", {tile(0)}, segment);
  const RunStatistics& r = s.run(machine);
  const Picoseconds pair = 100000 + 2000 + 100000 + 1000;
  EXPECT_EQ(state(r, tile(0), TileState::dram_wait), 2 * pair);
  EXPECT_EQ(state(r, tile(0), TileState::offload_wait), pair);
  expect_sums(r);
}

// The matrix engine waits for a store of what the first message brought, while the ring goes on:
// from the first message on it is the store that is waited for, not the second message.
TEST(Attribution, ACollectiveThatGoesOnDoesNotHideAStore) {
  MachineConfig machine = mesh(2, 1);
  machine.dram.sites = {{0, 0}, {1, 0}};
  Script s;
  const std::uint16_t w = s.channel("swap");
  const auto m = s.matrix_shape(1000);
  const auto segment = s.segment("swap", [&](Code& c) {
    c.send(w, 0, {1000});
    const auto first = c.recv(w, 0, {1000});
    c.send(w, 0, {5000}, {first});
    const auto stored = c.store(1000, {first});
    c.recv(w, 0, {5000});
    c.compute(Engine::matrix, m, 1, {stored});
  });
  s.group("A", {tile(0), tile(1)}, segment).peers = {{tile(1), tile(0)}};
  const RunStatistics& r = s.run(machine);
  for (const std::uint32_t t : {0u, 1u}) {
    EXPECT_EQ(state(r, tile(t), TileState::tensor_wait), 3000u);
    EXPECT_EQ(state(r, tile(t), TileState::dram_wait), 100000u + 2000u);
    EXPECT_EQ(state(r, tile(t), TileState::matrix), 1000u);
  }
  expect_sums(r);
}

// A store streams beside a message and takes less time: what is left of it is the message.
TEST(Attribution, AStoreThatOnlyWaitsForAMessageIsTheMessage) {
  MachineConfig machine = mesh(2, 1);
  machine.dram.sites = {{1, 0}};
  Script s;
  s.name("stream");
  const std::uint16_t w = s.channel("wire");
  const auto m = s.matrix_shape(200000);
  const auto send =
      s.segment("send", [&](Code& c) { c.send(w, 0, {1000}, {c.compute(Engine::matrix, m)}); });
  const auto receive = s.segment("receive", [&](Code& c) {
    const auto got = c.recv(w, 0, {1000});
    const auto stored = c.store(1000);
    c[stored].until = got;
    c.compute(Engine::matrix, m, 1, {stored});
  });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}};
  s.program.seal();
  const RunStatistics& r = s.run(machine);
  EXPECT_EQ(r.end, 200000u + 3000u + 200000u);
  EXPECT_EQ(state(r, tile(1), TileState::dram_wait), 102000u);
  EXPECT_EQ(state(r, tile(1), TileState::tensor_wait), 203000u - 102000u);
  expect_sums(r);
}

// Everything at once, on tiles that differ.
TEST(Attribution, SumsToTheRunExactly) {
  Script s;
  const std::uint16_t ring = s.channel("ring"), down = s.channel("down");
  const auto m = s.matrix_shape(12345, 20000, 5), v = s.vector_shape(777, "fp32");
  MachineConfig machine = mesh(3, 3);
  machine.dies_x = 2;
  machine.sram.bandwidth = Bandwidth(0.7e12);
  machine.noc.link.bandwidth = Bandwidth(0.9e12);
  machine.dram.sites = {{0, 0}, {5, 2}};
  machine.spare = {{3, 2}};
  const auto body = [&](Code& c, bool first, bool last) {
    std::uint32_t at = first ? c.load(3333) : c.recv(down, 2, {5001, 4, 1}, {}, Cause::pipeline);
    for (int i = 0; i < 5; ++i) {
      const auto a = c.compute(Engine::matrix, m, 1, {at, c.load(1000)},
                               i == 2 ? Phase::recompute : Phase::forward);
      const auto b = c.compute(Engine::vector, v, 1, {a});
      c.send(ring, 0, {999, 4, 2}, {b});
      at = c.recv(ring, 1, {999, 4, 1}, {b});
      c.store(500, {at});
    }
    if (!last) c.send(down, 3, {5001, 4, 1}, {at}, Cause::pipeline);
  };
  const auto one = s.segment("one", [&](Code& c) { body(c, true, false); });
  const auto two = s.segment("two", [&](Code& c) { body(c, false, true); });
  const std::vector<TileId> a{tile(0), tile(1), tile(7), tile(6)};
  const std::vector<TileId> b{tile(9), tile(10), tile(16), tile(4)};
  const auto peers = [](const std::vector<TileId>& self, const std::vector<TileId>& other) {
    auto p = ring_peers(self);
    p.push_back(other);
    p.push_back(other);
    return p;
  };
  s.group("A", a, one, 9).peers = peers(a, b);
  s.group("B", b, two, 9).peers = peers(b, a);
  const RunStatistics& r = s.run(machine);
  expect_sums(r);
  for (const TileState state_of :
       {TileState::matrix, TileState::vector, TileState::sram_stall, TileState::recomputation,
        TileState::dram_wait, TileState::tensor_wait}) {
    EXPECT_GT(state(r, tile(9), state_of), 0u) << to_string(state_of);
  }
  std::uint64_t sent = 0, received = 0;
  for (const TileStatistics& t : r.tiles) {
    sent += t.bytes_sent;
    received += t.bytes_received;
  }
  EXPECT_EQ(sent, received);
  EXPECT_EQ(sent, 9u * (2 * 5 * 999 + 5001));
  std::uint64_t read = 0;
  for (const DramStatistics& d : r.dram) read += d.bytes_read;
  EXPECT_EQ(read, 9u * 4 * (3333 + 5000 + 5000));
}

// --- Errors -------------------------------------------------------------------------------------

TEST(Errors, MissingSendIsADeadlockThatNamesBothTiles) {
  Script s = one_message(tile(0), tile(3), 100, 100);
  s.program.segments[0].code.clear();
  const std::string error = error_of<DeadlockError>(s, mesh(2, 2));
  EXPECT_NE(error.find("tile (1,1) of B: net_recv waits for message 'wire' from tile (0,0) "
                       "[100 bytes] in receiver"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("1 tiles with 1 calls outstanding"), std::string::npos) << error;
}

TEST(Errors, DeadlockShowsTheCircle) {
  Script s;
  const std::uint16_t w = s.channel("swap");
  const auto segment = s.segment("swap", [&](Code& c) {
    const auto got = c.recv(w, 0, {1000});
    c.send(w, 0, {1000}, {got});
  });
  s.group("A", {tile(0), tile(1)}, segment).peers = {{tile(1), tile(0)}};
  const std::string error = error_of<DeadlockError>(s, mesh(2, 1));
  EXPECT_NE(error.find("circle: tile (0,0) for tile (1,0) for tile (0,0)"), std::string::npos)
      << error;
}

TEST(Errors, SizeMismatchNamesBothEnds) {
  Script s = one_message(tile(0), tile(1), 100, 90);
  const std::string error = error_of<InputError>(s, mesh(2, 1));
  for (const char* part :
       {"tile (1,0) of B", "90 bytes", "tile (0,0) of A", "100 bytes", "'wire'"}) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
}

TEST(Errors, MessageFromAnotherTile) {
  Script s = one_message(tile(0), tile(1), 100, 100);
  s.program.groups[1].peers = {{tile(2)}};
  const std::string error = error_of<InputError>(s, mesh(3, 1));
  EXPECT_NE(error.find("from tile (2,0)"), std::string::npos) << error;
  EXPECT_NE(error.find("got 100 bytes from tile (0,0)"), std::string::npos) << error;
}

TEST(Errors, TileOutsideTheMachine) {
  Script s = one_message(tile(0), tile(9), 100, 100);
  EXPECT_NE(error_of<InputError>(s, mesh(2, 1)).find("tile 9"), std::string::npos);
}

TEST(Errors, SpareTile) {
  Script s = one_message(tile(0), tile(1), 100, 100);
  MachineConfig m = mesh(2, 1);
  m.spare = {{1, 0}};
  EXPECT_NE(error_of<InputError>(s, m).find("spare"), std::string::npos);
}

TEST(Errors, UnsupportedFormat) {
  Script s;
  const auto m = s.matrix_shape(1000);
  s.program.names[0] = "fp7";
  s.group("A", {tile(0)}, s.segment("ops", [&](Code& c) { c.compute(Engine::matrix, m); }));
  EXPECT_NE(error_of<InputError>(s, mesh(1, 1)).find("fp7"), std::string::npos);
}

TEST(Errors, UnknownModelNames) {
  const auto error = [](const std::function<void(MachineConfig&)>& change) {
    return in_child([&] {
      Script s = one_message(tile(0), tile(1), 100, 100);
      MachineConfig m = mesh(2, 1);
      m.dram.sites = {{0, 0}};
      change(m);
      return error_of<InputError>(s, m);
    });
  };
  EXPECT_NE(error([](MachineConfig& m) { m.noc.routing = "zz"; }).find("allowed: xy"),
            std::string::npos);
  EXPECT_NE(error([](MachineConfig& m) { m.matrix.model = "zz"; }).find("allowed: peak"),
            std::string::npos);
  EXPECT_NE(error([](MachineConfig& m) { m.dram.model = "zz"; }).find("allowed: bandwidth"),
            std::string::npos);
}

}  // namespace
}  // namespace tilewright::test
