// Loads, stores, the DRAM controllers and allocation.
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

// DRAM: 100 ns, then 2 ps per byte. Links: 2 ns and 1 ps per byte.
MachineConfig machine(int width, int height, std::vector<std::pair<int, int>> sites) {
  MachineConfig m = mesh(width, height);
  m.dram.sites = std::move(sites);
  return m;
}

Script one(const std::function<void(Code&)>& write, TileId t) {
  Script s;
  const auto segment = s.segment("memory", write);
  s.group("A", {t}, segment);
  return s;
}

TEST(Memory, LoadWithSlowDram) {
  Script s = one([](Code& c) { c.load(10000); }, tile(3));
  const RunStatistics& r = s.run(machine(4, 1, {{0, 0}}));
  // request over 3 hops, DRAM latency, 2 ps per byte, 3 hops back
  EXPECT_EQ(r.end, 6000u + 100000u + 20000u + 6000u);
  EXPECT_EQ(r.message_hops, 3u);
  EXPECT_EQ(r.messages, 0u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].bytes_read, 10000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].busy, 20000u);
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::memory)], 10000u);
  EXPECT_EQ(state(r, tile(3), TileState::dram_wait), r.end);
}

// The head's bytes are told of early, and take the links with the rest.
TEST(Memory, EveryByteOfALoadWithAHeadTakesTheLinks) {
  for (const std::uint64_t head : {0u, 1u, 4000u, 9999u}) {
    const std::string result = in_child([head] {
      MachineConfig m = machine(3, 1, {{0, 0}});
      m.noc.link.bandwidth = Bandwidth(0.25e12);  // 4 ps per byte
      Script s = one(
          [head](Code& c) {
            for (int i = 0; i < 2; ++i) c[c.load(10000)].head = head;
          },
          tile(2));
      const RunStatistics& r = s.run(m);
      std::string text = std::to_string(r.end);
      for (const LinkStatistics& link : r.links) {
        if (link.from < link.to) text += " " + std::to_string(link.bytes);
      }
      return text;
    });
    // Request, DRAM, two loads one behind the other at the pace of the links, and back.
    EXPECT_EQ(result, std::to_string(4000 + 100000 + 2 * 40000 + 4000) + " 20000 20000") << head;
  }
}

TEST(Memory, LoadWithSlowLinks) {
  MachineConfig m = machine(4, 1, {{0, 0}});
  m.noc.link.bandwidth = Bandwidth(0.25e12);
  Script s = one([](Code& c) { c.load(10000); }, tile(3));
  EXPECT_EQ(s.run(m).end, 6000u + 100000u + 40000u + 6000u);
}

// The slow link is not the first one of the way.
TEST(Memory, LoadAcrossASlowDieLink) {
  MachineConfig m = machine(2, 1, {{0, 0}});
  m.dies_x = 2;
  Script s = one([](Code& c) { c.load(10000); }, tile(3));
  const Picoseconds way = 2 * 2000 + 10000;
  EXPECT_EQ(s.run(m).end, 2 * way + 100000u + 40000u);
}

TEST(Memory, LoadOnTheSite) {
  Script s = one([](Code& c) { c.load(10000); }, tile(0));
  const RunStatistics& r = s.run(machine(2, 1, {{0, 0}}));
  EXPECT_EQ(r.end, 100000u + 20000u);
  EXPECT_EQ(r.message_hops, 0u);
}

TEST(Memory, StoreWithSlowDram) {
  Script s = one([](Code& c) { c.store(10000); }, tile(3));
  const RunStatistics& r = s.run(machine(4, 1, {{0, 0}}));
  // head to the site, DRAM, acknowledgement
  EXPECT_EQ(r.end, 6000u + 100000u + 20000u + 6000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].bytes_written, 10000u);
}

TEST(Memory, StoreWithSlowLinks) {
  MachineConfig m = machine(4, 1, {{0, 0}});
  m.noc.link.bandwidth = Bandwidth(0.01e12);
  Script s = one([](Code& c) { c.store(10000); }, tile(3));
  EXPECT_EQ(s.run(m).end, 6000u + 1000000u + 6000u);  // the tail comes after the controller's time
}

TEST(Memory, StoreOnTheSite) {
  Script s = one([](Code& c) { c.store(10000); }, tile(0));
  EXPECT_EQ(s.run(machine(2, 1, {{0, 0}})).end, 100000u + 20000u);
}

TEST(Memory, LoadsOfOneTileFollowEachOther) {
  Script s = one(
      [](Code& c) {
        for (int i = 0; i < 10; ++i) c.load(10000);
      },
      tile(1));
  EXPECT_EQ(s.run(machine(2, 1, {{0, 0}})).end, 2000u + 100000u + 10 * 20000u + 2000u);
}

// Both tiles load through ports of their own, from one controller.
// Four loads of 20,000 ps each behind 100,000 ps of latency: all latencies beside each other, one
// after the other, or two by two (the second of a pair is 20,000 ps behind, and so on for the
// next).
TEST(Memory, ALimitOfOutstandingRequestsExposesTheLatency) {
  const auto end = [](std::int64_t outstanding) {
    return std::stoull(in_child([outstanding] {
      MachineConfig m = machine(1, 1, {{0, 0}});
      m.dma.outstanding = outstanding;
      Script s = one(
          [](Code& c) {
            for (int i = 0; i < 3; ++i) c.load(10000);
            c.store(10000);
          },
          tile(0));
      const RunStatistics& r = s.run(m);
      return std::to_string(r.end) + " " +
             std::to_string(r.dram[static_cast<DramId>(0)].bytes_read);
    }));
  };
  EXPECT_EQ(end(0), 100000u + 4 * 20000u);
  EXPECT_EQ(end(4), 100000u + 4 * 20000u);
  EXPECT_EQ(end(1), 4 * (100000u + 20000u));
  EXPECT_EQ(end(2), 2 * (100000u + 20000u) + 20000u);
  EXPECT_LE(end(3), end(2));
}

TEST(Memory, APortOnEveryTileOfAConcentratedEdge) {
  MachineConfig m = machine(1, 2, {{0, 0}});
  m.dram.further_ports[DramId{0}] = {{0, 1}};
  Script s;
  s.group("A", {tile(0), tile(1)}, s.segment("load", [](Code& c) { c.load(10000); }));
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 100000u + 2 * 20000u);
  EXPECT_EQ(r.message_hops, 0u);
  ASSERT_EQ(r.dram.size(), 1u);
  EXPECT_EQ(r.dram[DramId{0}].bytes_read, 20000u);
}

TEST(Memory, InterleavedLoadsUseEveryController) {
  MachineConfig m = machine(3, 1, {{0, 0}, {2, 0}});
  m.dram.policy = DramPolicy::interleaved;
  Script s = one([](Code& c) { c.load(10001); }, tile(1));
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 2000u + 100000u + 2 * 5001u + 2000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].bytes_read, 5001u);
  EXPECT_EQ(r.dram[static_cast<DramId>(1)].bytes_read, 5000u);
}

// Two tiles at equal distance, 10 kB and 30 kB: each gets half of the bandwidth until the smaller
// one is through (at 40 ns), then the other gets all (20 kB at 2 ps: 40 ns more).
TEST(Memory, TwoTilesShareAControllerFairly) {
  Script s;
  const auto small = s.segment("small", [](Code& c) { c.load(10000); });
  const auto large = s.segment("large", [](Code& c) { c.load(30000); });
  s.group("A", {tile(0)}, small);
  s.group("B", {tile(2)}, large);
  const RunStatistics& r = s.run(machine(3, 1, {{1, 0}}));
  EXPECT_EQ(r.tiles[tile(0)].finish, 2000u + 100000u + 40000u + 2000u);
  EXPECT_EQ(r.tiles[tile(2)].finish, 2000u + 100000u + 80000u + 2000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].busy, 80000u);
}

// A tile with many requests queued does not delay one with a single request by more than its share.
TEST(Memory, OneRequestIsNotHeldUpByManyOfAnotherTile) {
  Script s;
  const auto many = s.segment("many", [](Code& c) {
    for (int i = 0; i < 20; ++i) c.load(10000);
  });
  const auto single = s.segment("single", [](Code& c) { c.load(10000); });
  s.group("A", {tile(0)}, many);
  s.group("B", {tile(2)}, single);
  const RunStatistics& r = s.run(machine(3, 1, {{1, 0}}));
  EXPECT_EQ(r.tiles[tile(2)].finish, 2000u + 100000u + 40000u + 2000u);
  EXPECT_EQ(r.tiles[tile(0)].finish, 2000u + 100000u + 21 * 20000u + 2000u);
}

TEST(Memory, UnlimitedDramWithoutLatency) {
  MachineConfig m = machine(2, 1, {{0, 0}});
  m.dram.bandwidth = Bandwidth::unlimited();
  m.dram.latency = Seconds(0);
  Script s = one(
      [](Code& c) {
        const auto a = c.load(10000);
        c.store(10000, {a});
      },
      tile(1));
  EXPECT_EQ(s.run(m).end, (2000u + 10000u + 2000u) * 2);
}

// n blocks, double buffered: the load of block i+2 waits for the computation of block i.
// n·max(load, compute) + one fill.
class Overlap : public testing::TestWithParam<std::uint64_t> {};
TEST_P(Overlap, IsTheLargerOfLoadAndCompute) {
  const std::uint64_t compute = GetParam(), load = 20000;
  const std::uint32_t n = 20;
  Script s;
  const auto shape = s.matrix_shape(static_cast<double>(compute) * n, 0, n);
  const auto segment = s.segment("blocks", [&](Code& c) {
    std::vector<std::uint32_t> computed;
    for (std::uint32_t i = 0; i < n; ++i) {
      const auto loaded = c.load(10000, i < 2 ? Code::After{} : Code::After{computed[i - 2]});
      computed.push_back(c.compute(Engine::matrix, shape, 1, {loaded}));
    }
  });
  s.group("A", {tile(0)}, segment);
  MachineConfig m = machine(2, 1, {{0, 0}});
  m.dram.latency = Seconds(0);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, compute >= load ? n * compute + load : n * load + compute);
  EXPECT_EQ(r.tiles[tile(0)].matrix_busy, n * compute);
}
INSTANTIATE_TEST_SUITE_P(Compute, Overlap, testing::Values(5000, 20000, 33000));

TEST(Memory, EmptyTransfersCompleteAtOnce) {
  Script s = one(
      [](Code& c) {
        const auto a = c.load(0);
        c.store(0, {a});
      },
      tile(1));
  EXPECT_EQ(s.run(machine(2, 1, {{0, 0}})).end, 0u);
}

TEST(Memory, HighWaterMarks) {
  MachineConfig m = machine(2, 1, {{0, 0}});
  Script s = one(
      [](Code& c) {
        c.memory(Opcode::allocate, Engine::dma_in, 1000, Space::sram);
        c.memory(Opcode::release, Engine::dma_in, 600, Space::sram);
        c.memory(Opcode::allocate, Engine::dma_in, 500, Space::sram);
        c.memory(Opcode::allocate, Engine::dma_out, 7000, Space::dram);
        c.memory(Opcode::release, Engine::dma_out, 7000, Space::dram);
      },
      tile(1));
  s.program.groups[0].sram_resident = 50;
  s.program.groups[0].dram_resident = 30;
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(1)].sram_peak, 1050u);
  EXPECT_EQ(r.tiles[tile(1)].dram_peak, 7030u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].allocated_peak, 7030u);
}

std::string error_of(Script& s, const MachineConfig& m) {
  try {
    s.run(m);
  } catch (const InputError& e) {
    return e.what();
  }
  return "no InputError";
}

TEST(Memory, SramOverCapacityIsAnError) {
  Script s = one([](Code& c) { c.memory(Opcode::allocate, Engine::dma_in, 2 << 20, Space::sram); },
                 tile(1));
  const std::string error = error_of(s, machine(2, 1, {{0, 0}}));
  EXPECT_NE(error.find("tile (1,0) of A"), std::string::npos) << error;
  EXPECT_NE(error.find("2.000 MiB"), std::string::npos) << error;
}

TEST(Memory, DramOverCapacityIsAnError) {
  Script s =
      one([](Code& c) { c.memory(Opcode::allocate, Engine::dma_in, 2000000000, Space::dram); },
          tile(1));
  const std::string error = error_of(s, machine(2, 1, {{0, 0}}));
  EXPECT_NE(error.find("DRAM controller 0"), std::string::npos) << error;
}

TEST(Memory, ResidentDataMustFit) {
  Script s = one([](Code& c) { c.load(1); }, tile(1));
  s.program.groups[0].sram_resident = 2 << 20;
  EXPECT_NE(error_of(s, machine(2, 1, {{0, 0}})).find("resident"), std::string::npos);
}

TEST(Memory, LoadsNeedDram) {
  Script s = one([](Code& c) { c.load(1000); }, tile(1));
  EXPECT_NE(error_of(s, mesh(2, 1)).find("uses DRAM"), std::string::npos);
}

// --- The second memory tier ---------------------------------------------------------------------

// Host memory: 500 ns, then 10 ps per byte.
MachineConfig with_host(MachineConfig m, std::vector<std::pair<int, int>> sites) {
  m.host.bandwidth = Bandwidth(0.1e12);
  m.host.capacity = Bytes(1e10);
  m.host.latency = Seconds(500e-9);
  m.host.sites = std::move(sites);
  return m;
}

std::uint32_t host(Code& c, Opcode op, std::uint64_t bytes, const Code::After& after = {}) {
  const std::uint32_t i = c.memory(op, op == Opcode::load ? Engine::dma_in : Engine::dma_out, bytes,
                                   Space::host, after);
  c[i].cause = Cause::offload;
  return i;
}

TEST(HostMemory, TakesItsOwnLatencyAndBandwidth) {
  Script s = one(
      [](Code& c) {
        const auto in = host(c, Opcode::load, 10000);
        host(c, Opcode::store, 3000, {in});
      },
      tile(2));
  const RunStatistics& r = s.run(with_host(machine(4, 1, {{2, 0}}), {{0, 0}}));
  // Each: two hops there, latency, bytes, two hops back.
  EXPECT_EQ(r.end, (4000u + 500000 + 100000 + 4000) + (4000 + 500000 + 30000 + 4000));
  EXPECT_EQ(state(r, tile(2), TileState::offload_wait), r.end);
  EXPECT_EQ(r.tiles[tile(2)].active[static_cast<std::size_t>(Cause::offload)], r.end);
  ASSERT_EQ(r.host.size(), 1u);
  const DramStatistics& h = r.host[static_cast<DramId>(0)];
  EXPECT_EQ(h.site, tile(0));
  EXPECT_EQ(h.bytes_read, 10000u);
  EXPECT_EQ(h.bytes_written, 3000u);
  EXPECT_EQ(h.busy, 130000u);
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::offload)], 13000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].bytes_read, 0u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].busy, 0u);
}

// Ten loads from each, issued in turns by one tile: each memory works at its full rate throughout,
// so the run takes as long as the slower one alone. The two may share a site.
TEST(HostMemory, BothMemoriesWorkAtFullRateAtOnce) {
  for (const auto& site : {std::pair{2, 0}, std::pair{0, 0}}) {
    const std::string run = in_child([&] {
      Script s = one(
          [](Code& c) {
            for (int i = 0; i < 10; ++i) {
              c.load(50000);
              host(c, Opcode::load, 10000);
            }
          },
          tile(1));
      const RunStatistics& r = s.run(with_host(machine(3, 1, {{0, 0}}), {site}));
      return std::to_string(r.end) + ' ' + std::to_string(r.dram[static_cast<DramId>(0)].busy) +
             ' ' + std::to_string(r.host[static_cast<DramId>(0)].busy);
    });
    // DRAM: 100 ns + 10 · 50000 · 2 ps; host: 500 ns + 10 · 10000 · 10 ps.
    EXPECT_EQ(run, std::to_string(2000 + 500000 + 1000000 + 2000) + " 1000000 1000000");
  }
}

TEST(HostMemory, InterleavesOverItsOwnControllers) {
  MachineConfig m = with_host(machine(4, 1, {{1, 0}}), {{0, 0}, {2, 0}});
  m.host.policy = DramPolicy::interleaved;
  Script s = one([](Code& c) { host(c, Opcode::load, 10001); }, tile(1));
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 2000u + 500000 + 50010 + 2000);
  EXPECT_EQ(r.host[static_cast<DramId>(0)].bytes_read, 5001u);
  EXPECT_EQ(r.host[static_cast<DramId>(1)].bytes_read, 5000u);
}

TEST(HostMemory, CapacityIsItsOwn) {
  MachineConfig m = with_host(machine(2, 1, {{0, 0}}), {{1, 0}});
  Script s = one(
      [](Code& c) {
        c.memory(Opcode::allocate, Engine::dma_in, 7000000000, Space::host);  // more than the DRAM
        c.memory(Opcode::allocate, Engine::dma_in, 1000, Space::dram);
        c.memory(Opcode::release, Engine::dma_in, 7000000000, Space::host);
      },
      tile(0));
  s.program.groups[0].host_resident = 2000;
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.tiles[tile(0)].host_peak, 7000002000u);
  EXPECT_EQ(r.tiles[tile(0)].dram_peak, 1000u);
  EXPECT_EQ(r.host[static_cast<DramId>(0)].allocated_peak, 7000002000u);
  EXPECT_EQ(r.dram[static_cast<DramId>(0)].allocated_peak, 1000u);
}

TEST(HostMemory, CapacityIsEnforced) {
  const MachineConfig m = with_host(machine(2, 1, {{0, 0}}), {{1, 0}});
  const std::string error = in_child([&] {
    Script s =
        one([](Code& c) { c.memory(Opcode::allocate, Engine::dma_in, 11000000000, Space::host); },
            tile(0));
    return error_of(s, m);
  });
  EXPECT_NE(error.find("tile (0,0) of A, allocate in segment memory"), std::string::npos) << error;
  EXPECT_NE(error.find("host memory controller 0 holds 0 B of 9.313 GiB"), std::string::npos)
      << error;
  const std::string resident = in_child([&] {
    Script s = one([](Code& c) { c.load(1); }, tile(0));
    s.program.groups[0].host_resident = 20000000000;
    return error_of(s, m);
  });
  EXPECT_NE(resident.find("no room for 18.63 GiB of resident data: host memory controller 0"),
            std::string::npos)
      << resident;
}

TEST(HostMemory, MustExistToBeUsed) {
  const std::string error = in_child([] {
    Script s = one([](Code& c) { host(c, Opcode::load, 1000); }, tile(1));
    return error_of(s, machine(2, 1, {{0, 0}}));
  });
  EXPECT_NE(error.find("tile (1,0) of A uses host memory (load in segment memory, instruction 1), "
                       "but the machine "
                       "has none for it"),
            std::string::npos)
      << error;
  const std::string resident = in_child([] {
    Script s = one([](Code& c) { c.load(1); }, tile(0));
    s.program.groups[0].host_resident = 1;
    return error_of(s, machine(2, 1, {{0, 0}}));
  });
  EXPECT_NE(resident.find("of resident data: the tile has no host memory"), std::string::npos)
      << resident;
}

}  // namespace
}  // namespace tilewright::test
