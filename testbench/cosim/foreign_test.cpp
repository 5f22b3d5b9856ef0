// Memories and initiators of somebody else's on the mesh, with checkers on every socket pair.
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include <cosim/peers.h>
#include <gtest/gtest.h>
#include <support/script.h>

#include <tilewright/cosim/initiator_port.h>
#include <tilewright/cosim/memory_bridge.h>
#include <tilewright/cosim/protocol_checker.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }
DramId dram(std::uint32_t d) { return static_cast<DramId>(d); }

constexpr std::uint64_t kMemory = 1 << 20;  // bytes behind each controller

enum class MemoryKind { strict, casual, loose, built_in };
const char* to_string(MemoryKind kind) {
  const char* names[] = {"Strict", "Casual", "Loose", "BuiltIn"};
  return names[static_cast<int>(kind)];
}
const char* to_string(Initiator::Style style) {
  const char* names[] = {"Blocking", "FourPhases", "EarlyCompletion"};
  return names[static_cast<int>(style)];
}

/// A machine with foreign memories and initiators, and checkers that must stay silent.
class Harness {
 public:
  Harness(Script& script, MachineConfig config, MemoryKind kind, unsigned seed, double stall_ns)
      : machine(std::move(config)) {
    script.streams();
    PlatformOptions options;
    options.bind_memory = checked_sockets();
    if (kind != MemoryKind::built_in) {
      options.external_memory = [=](DramId id) {
        MemoryBridgeConfig bridge;
        bridge.size = kMemory;
        bridge.base = index(id) * (std::uint64_t{1} << 32);
        bridge.outstanding = 8;
        bridge.blocking = kind == MemoryKind::loose;
        const std::string number = std::to_string(index(id));
        bridges.push_back(std::make_unique<MemoryBridge>(("bridge" + number).c_str(), bridge));
        connect_memory(kind, number, bridge.base, seed + index(id), stall_ns);
        return &bridges.back()->in;
      };
    }
    platform = std::make_unique<Platform>("machine", machine, script.program, options);
  }

  /// A checker that takes part in the count of silence.
  ProtocolChecker<>& checker(const std::string& name) {
    ProtocolCheckerConfig config;
    config.report = [](const ProtocolViolation& v) { ADD_FAILURE() << v.text; };
    checkers.push_back(std::make_unique<ProtocolChecker<>>(name.c_str(), config));
    return *checkers.back();
  }
  Initiator& initiator(TileId at, Initiator::Style style, unsigned seed, double stall_ns,
                       InitiatorPortConfig config) {
    const std::string number = std::to_string(initiators.size());
    config.tile = at;
    ports.push_back(std::make_unique<InitiatorPort>(("port" + number).c_str(), config));
    initiators.push_back(
        std::make_unique<Initiator>(("initiator" + number).c_str(), style, seed, stall_ns));
    ProtocolChecker<>& check = checker("initiator_check" + number);
    initiators.back()->out.bind(check.in);
    check.out.bind(ports.back()->in);
    return *initiators.back();
  }
  Initiator& initiator(TileId at, Initiator::Style style, unsigned seed = 1, double stall_ns = 0) {
    return initiator(at, style, seed, stall_ns, port_config());
  }
  InitiatorPortConfig port_config() { return {platform->backplane(), {}, {}, 4096, 16}; }

  void expect_done() const {
    for (const auto& check : checkers) {
      EXPECT_EQ(check->monitor().in_flight(), 0u) << check->name();
      EXPECT_EQ(check->monitor().violations(), 0u) << check->name();
    }
    for (const auto& i : initiators) {
      EXPECT_EQ(i->completed, i->list.size());
      EXPECT_EQ(i->freed, i->list.size());
      for (const auto& t : i->list) {
        EXPECT_EQ(t->get_response_string(), "TLM_OK_RESPONSE");
        EXPECT_EQ(t->get_ref_count(), 0);
      }
    }
  }

  MachineConfig machine;
  std::vector<std::unique_ptr<MemoryBridge>> bridges;
  std::vector<std::unique_ptr<sc_core::sc_module>> memory_modules;
  std::vector<MemoryRules*> memories;
  std::vector<std::unique_ptr<ProtocolChecker<>>> checkers;
  std::vector<std::unique_ptr<InitiatorPort>> ports;
  std::vector<std::unique_ptr<Initiator>> initiators;
  std::unique_ptr<Platform> platform;

 private:
  template <class Memory, class... Arguments>
  void add_memory(const std::string& number, std::uint64_t base, Arguments... arguments) {
    auto memory = std::make_unique<Memory>(("memory" + number).c_str(), arguments...);
    memory->base = base;
    memory->size = kMemory;
    ProtocolChecker<>& check = checker("memory_check" + number);
    bridges.back()->out.bind(check.in);
    check.out.bind(memory->in);
    memories.push_back(memory.get());
    memory_modules.push_back(std::move(memory));
  }
  void connect_memory(MemoryKind kind, const std::string& number, std::uint64_t base, unsigned seed,
                      double stall_ns) {
    if (kind == MemoryKind::strict) {
      add_memory<StrictMemory>(number, base, seed, stall_ns, std::size_t{3});
    } else if (kind == MemoryKind::casual) {
      add_memory<CasualMemory>(number, base, seed, stall_ns);
    } else {
      add_memory<LooseMemory>(number, base, seed, stall_ns);
    }
  }
};

MachineConfig machine(int width, int height, std::vector<std::pair<int, int>> sites) {
  MachineConfig m = mesh(width, height);
  m.dram.capacity = Bytes(kMemory);
  m.dram.sites = std::move(sites);
  return m;
}

// --- Random traffic -----------------------------------------------------------------------------

struct Mix {
  MemoryKind memory;
  Initiator::Style style;
  unsigned seed;
};
void PrintTo(const Mix& m, std::ostream* out) {
  *out << to_string(m.memory) << to_string(m.style) << m.seed;
}

// Tile programs load and store while initiators at an inner tile and at the edge write and then
// read back what they wrote; everybody stalls at random.
class Foreign : public testing::TestWithParam<Mix> {};
TEST_P(Foreign, EverybodyIsServedAndReadsWhatWasWritten) {
  const Mix mix = GetParam();
  Script script;
  const auto segment = script.segment("memory", [](Code& c) {
    for (int i = 0; i < 3; ++i) {
      const auto loaded = c.load(1000 + 77 * i);
      c.store(300, {loaded});
    }
  });
  std::vector<TileId> tiles;
  for (std::uint32_t t = 0; t < 6; ++t) tiles.push_back(tile(t));
  script.group("all", tiles, segment, 2);
  Harness h(script, machine(3, 2, {{0, 0}, {2, 1}}), mix.memory, mix.seed, 20);

  InitiatorPortConfig narrow = h.port_config();
  narrow.interleave = 256;
  narrow.outstanding = 2;
  std::mt19937 random(mix.seed);
  std::vector<Initiator*> initiators;
  for (const std::uint32_t at : {1u, 5u}) {
    initiators.push_back(&h.initiator(tile(at), mix.style, mix.seed + at, 15, narrow));
  }
  std::vector<std::map<std::uint64_t, unsigned char>> shadow(2);
  std::uint64_t written = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::uint64_t n = 0; n < 25; ++n) {  // regions of their own, ragged
      const std::uint64_t address = 0x40000 * (i + 1) + n * 1000 + random() % 300;
      Transaction& t = initiators[i]->add(tlm::TLM_WRITE_COMMAND, address, 1 + random() % 700);
      if (n % 3 == 0) {
        t.enables.resize(n % 2 == 0 ? 5 : t.bytes.size());
        for (auto& enable : t.enables) {
          enable = random() % 2 == 0 ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
        }
        t.set_byte_enable_ptr(t.enables.data());
        t.set_byte_enable_length(static_cast<unsigned>(t.enables.size()));
      }
      for (std::size_t k = 0; k < t.bytes.size(); ++k) {
        t.bytes[k] = static_cast<unsigned char>(random());
        const bool enabled =
            t.enables.empty() || t.enables[k % t.enables.size()] == TLM_BYTE_ENABLED;
        shadow[i][address + k] = enabled ? t.bytes[k] : 0;
      }
      written += t.bytes.size();
    }
  }
  h.platform->run();  // the tile programs
  sc_core::sc_start();
  h.expect_done();

  std::vector<std::vector<Transaction*>> reads(2);
  std::uint64_t read = 0;
  for (std::size_t i = 0; i < 2; ++i) {
    for (std::uint64_t n = 0; n < 12; ++n) {
      const std::uint64_t address = 0x40000 * (i + 1) + random() % 25000;
      reads[i].push_back(&initiators[i]->add(tlm::TLM_READ_COMMAND, address, 1 + random() % 2000));
      read += reads[i].back()->bytes.size();
    }
  }
  sc_core::sc_start();
  h.expect_done();
  for (std::size_t i = 0; i < 2; ++i) {
    for (const Transaction* t : reads[i]) {
      for (std::size_t k = 0; k < t->bytes.size(); ++k) {
        const auto known = shadow[i].find(t->get_address() + k);
        ASSERT_EQ(t->bytes[k], known == shadow[i].end() ? 0 : known->second)
            << "byte " << k << " at " << t->get_address();
      }
    }
    if (mix.style != Initiator::Style::blocking) {
      EXPECT_GT(initiators[i]->most_at_once, 1u);
      EXPECT_GT(initiators[i]->held, 0u) << "END_REQ was never held back";
    }
  }
  // Nothing is lost: 6 tiles × 2 calls of 3 loads and 3 stores.
  const std::uint64_t loads = 12 * (3 * 1000 + 77 * 3), stores = 12 * 3 * 300;
  std::uint64_t by_port_read = 0, by_port_written = 0;
  for (std::uint32_t d = 0; d < 2; ++d) {
    const DramStatistics s = h.platform->backplane().memory.statistics(d);
    by_port_read += s.bytes_read;
    by_port_written += s.bytes_written;
    EXPECT_GT(s.busy, 0u);
  }
  EXPECT_EQ(by_port_read, loads + read);
  EXPECT_EQ(by_port_written, stores + written);
  if (mix.memory != MemoryKind::built_in) {
    EXPECT_EQ(h.memories[0]->bytes_read + h.memories[1]->bytes_read, loads + read);
    EXPECT_EQ(h.memories[0]->bytes_written + h.memories[1]->bytes_written, stores + written);
  }
  if (mix.memory == MemoryKind::strict) {
    for (const auto& m : h.memory_modules) {
      EXPECT_EQ(dynamic_cast<StrictMemory&>(*m).fullest, 3u) << "END_REQ was never held back";
    }
  }
}
std::vector<Mix> mixes() {
  std::vector<Mix> all;
  for (const MemoryKind memory :
       {MemoryKind::strict, MemoryKind::casual, MemoryKind::loose, MemoryKind::built_in}) {
    for (const Initiator::Style style : {Initiator::Style::blocking, Initiator::Style::four_phases,
                                         Initiator::Style::early_completion}) {
      for (unsigned seed = 1; seed <= 4; ++seed) all.push_back({memory, style, seed * 100});
    }
  }
  return all;
}
INSTANTIATE_TEST_SUITE_P(Random, Foreign, testing::ValuesIn(mixes()),
                         testing::PrintToStringParamName());

// --- Times --------------------------------------------------------------------------------------

Script idle() { return {}; }

// An access takes what a load or store of a tile takes (memory_test.cpp): DRAM 100 ns and 2 ps per
// byte, links 2 ns and 1 ps per byte.
class AccessTime : public testing::TestWithParam<Initiator::Style> {};
TEST_P(AccessTime, IsThatOfALoadOrStore) {
  Script script = idle();
  Harness h(script, machine(4, 1, {{0, 0}}), MemoryKind::built_in, 1, 0);
  Initiator& i = h.initiator(tile(3), GetParam());
  i.one_by_one = true;
  Transaction& read = i.add(tlm::TLM_READ_COMMAND, 0x100, 10000);
  Transaction& write = i.add(tlm::TLM_WRITE_COMMAND, 0x100, 10000);
  sc_core::sc_start();
  h.expect_done();
  EXPECT_EQ((read.done - read.begun).value(), 6000u + 100000u + 20000u + 6000u);
  EXPECT_EQ((write.done - write.begun).value(), 6000u + 100000u + 20000u + 6000u);
  // Requests and acknowledgements are too small to count.
  for (const LinkStatistics& link : h.platform->backplane().network.statistics()) {
    EXPECT_EQ(link.bytes, 10000u) << index(link.from) << "->" << index(link.to);
  }
}
INSTANTIATE_TEST_SUITE_P(Initiator, AccessTime,
                         testing::Values(Initiator::Style::blocking, Initiator::Style::four_phases,
                                         Initiator::Style::early_completion),
                         [](const auto& info) { return to_string(info.param); });

TEST(InitiatorPort, InterleavesOverTheControllersItSees) {
  Script script = idle();
  Harness h(script, machine(3, 1, {{0, 0}, {1, 0}, {2, 0}}), MemoryKind::built_in, 1, 0);
  InitiatorPortConfig config = h.port_config();
  config.interleave = 1000;
  config.controllers = {dram(2), dram(0)};
  Initiator& i = h.initiator(tile(1), Initiator::Style::four_phases, 1, 0, config);
  EXPECT_EQ(h.ports[0]->size(), 2 * (kMemory / 1000 * 1000));
  // 500 bytes at each end of blocks 0 to 3: 2, 0, 2, 0.
  Transaction& t = i.add(tlm::TLM_READ_COMMAND, 500, 3000);
  sc_core::sc_start();
  h.expect_done();
  const MemorySystem& memory = h.platform->backplane().memory;
  EXPECT_EQ(memory.statistics(0).bytes_read, 1500u);
  EXPECT_EQ(memory.statistics(1).bytes_read, 0u);
  EXPECT_EQ(memory.statistics(2).bytes_read, 1500u);
  EXPECT_EQ((t.done - t.begun).value(), 2000u + 100000u + 3000u + 2000u);
}

TEST(InitiatorPort, SharesTheControllerWithTiles) {
  Script script;
  const auto segment = script.segment("load", [](Code& c) { c.load(10000); });
  script.group("A", {tile(0)}, segment);
  Harness h(script, machine(3, 1, {{1, 0}}), MemoryKind::built_in, 1, 0);
  Initiator& i = h.initiator(tile(2), Initiator::Style::four_phases);
  Transaction& t = i.add(tlm::TLM_READ_COMMAND, 0, 10000);
  h.platform->run();
  sc_core::sc_start();
  // Both get half of the bandwidth.
  EXPECT_EQ(h.platform->statistics().end, 2000u + 100000u + 40000u + 2000u);
  EXPECT_EQ(t.done.value(), 2000u + 100000u + 40000u + 2000u);
}

TEST(InitiatorPort, ErrorsAreResponses) {
  Script script = idle();
  Harness h(script, machine(2, 1, {{0, 0}}), MemoryKind::built_in, 1, 0);
  Initiator& i = h.initiator(tile(1), Initiator::Style::four_phases);
  Transaction& beyond = i.add(tlm::TLM_READ_COMMAND, kMemory - 4, 5);
  Transaction& wraps = i.add(tlm::TLM_READ_COMMAND, ~std::uint64_t{0} - 1, 5);
  Transaction& streams = i.add(tlm::TLM_WRITE_COMMAND, 0, 8);
  streams.set_streaming_width(4);
  Transaction& last = i.add(tlm::TLM_READ_COMMAND, kMemory - 4, 4);
  Transaction& ignored = i.add(tlm::TLM_IGNORE_COMMAND, 0, 4);
  sc_core::sc_start();
  EXPECT_EQ(i.completed, 5u);
  EXPECT_EQ(beyond.get_response_status(), tlm::TLM_ADDRESS_ERROR_RESPONSE);
  EXPECT_EQ(wraps.get_response_status(), tlm::TLM_ADDRESS_ERROR_RESPONSE);
  EXPECT_EQ(streams.get_response_status(), tlm::TLM_BURST_ERROR_RESPONSE);
  EXPECT_EQ(last.get_response_status(), tlm::TLM_OK_RESPONSE);
  EXPECT_EQ(ignored.get_response_status(), tlm::TLM_OK_RESPONSE);
  EXPECT_EQ(ignored.done, ignored.begun);
}

TEST(InitiatorPort, DebugAccessTakesNoTime) {
  Script script = idle();
  Harness h(script, machine(2, 1, {{0, 0}, {1, 0}}), MemoryKind::built_in, 1, 0);
  Initiator& i = h.initiator(tile(1), Initiator::Style::blocking);
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  std::vector<unsigned char> bytes(10000);
  for (std::size_t k = 0; k < bytes.size(); ++k) bytes[k] = static_cast<unsigned char>(k * 7);
  tlm::tlm_generic_payload payload;
  payload.set_write();
  payload.set_address(3);
  payload.set_data_ptr(bytes.data());
  payload.set_data_length(10000);
  payload.set_streaming_width(10000);
  EXPECT_EQ(i.out->transport_dbg(payload), 10000u);
  Transaction& t = i.add(tlm::TLM_READ_COMMAND, 3, 10000);
  sc_core::sc_start();
  EXPECT_EQ(t.bytes, bytes);
  // Null pointers and wild addresses move nothing.
  payload.set_data_ptr(nullptr);
  EXPECT_EQ(i.out->transport_dbg(payload), 0u);
  payload.set_data_ptr(bytes.data());
  payload.set_address(1 << 30);
  EXPECT_EQ(i.out->transport_dbg(payload), 0u);
}

template <class Make>
std::string input_error(const Make& make) {
  try {
    make();
  } catch (const InputError& e) {
    return e.what();
  }
  return "no error";
}

TEST(InitiatorPort, WrongConfigurationsAreSaidPlainly) {
  Script script = idle();
  Harness h(script, machine(2, 1, {{0, 0}}), MemoryKind::built_in, 1, 0);
  Backplane& b = h.platform->backplane();
  const auto error = [&](const InitiatorPortConfig& config) {
    return input_error([&] { InitiatorPort port("port", config); });
  };
  EXPECT_EQ(error({b, tile(2), {}, 4096, 1}), "port: tile 2 is not among the 2 of the machine");
  EXPECT_EQ(error({b, tile(0), {dram(0), dram(1)}, 4096, 1}),
            "port: DRAM controller 1 is not among the 1 of the machine");
  EXPECT_EQ(error({b, tile(0), {}, 0, 1}), "port: interleave must be above 0");
  EXPECT_EQ(error({b, tile(0), {}, 4096, 0}), "port: outstanding must be above 0");
}

TEST(InitiatorPort, NeedsTheKernelInStep) {
  Script script = idle();
  script.streams();
  Backplane backplane(machine(1, 1, {{0, 0}}), script.program, {{}, false});
  const std::string error = input_error([&] {
    InitiatorPort port("port", InitiatorPortConfig{backplane, {}, {}, 4096, 16});
  });
  EXPECT_EQ(error, "port: needs BackplaneOptions::in_step");
}

// --- The bridge ---------------------------------------------------------------------------------

// A memory that takes 30 ns for every request, however many there are: with k requests at once, n
// blocks take ⌈n/k⌉ × 30 ns.
class FixedMemory : public sc_core::sc_module, public tlm::tlm_fw_transport_if<> {
 public:
  explicit FixedMemory(const sc_core::sc_module_name& name) : sc_core::sc_module(name), in("in") {
    in.bind(*this);
  }
  tlm::tlm_target_socket<32> in;
  tlm::tlm_response_status status = tlm::TLM_OK_RESPONSE;
  void b_transport(tlm::tlm_generic_payload& p, sc_core::sc_time& delay) override {
    p.set_response_status(status);
    delay += ns(30);
  }
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& p, tlm::tlm_phase&,
                                     sc_core::sc_time& delay) override {
    b_transport(p, delay);
    return tlm::TLM_COMPLETED;
  }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload&, tlm::tlm_dmi&) override { return false; }
  unsigned transport_dbg(tlm::tlm_generic_payload&) override { return 0; }
};

struct Width {
  bool blocking;
  std::uint32_t outstanding;
};

/// Tile `at` of a row of four loads once; the controller of tile 0 is a bridge to `memory`.
struct OneLoad {
  OneLoad(std::uint64_t bytes, TileId at, tlm::tlm_target_socket<32>& memory, Width width) {
    const auto segment = script.segment("load", [&](Code& c) { c.load(bytes); });
    script.group("A", {at}, segment);
    script.streams();
    PlatformOptions options;
    options.external_memory = [&](DramId) {
      bridge = std::make_unique<MemoryBridge>(
          "bridge", MemoryBridgeConfig{kMemory, 0, 64, width.outstanding, width.blocking});
      bridge->out.bind(memory);
      return &bridge->in;
    };
    platform =
        std::make_unique<Platform>("machine", machine(4, 1, {{0, 0}}), script.program, options);
  }
  Script script;
  std::unique_ptr<MemoryBridge> bridge;
  std::unique_ptr<Platform> platform;
};

void PrintTo(const Width& w, std::ostream* out) {
  *out << (w.blocking ? "Blocking" : "NonBlocking") << w.outstanding;
}
class BridgeTime : public testing::TestWithParam<Width> {};
TEST_P(BridgeTime, IsThatOfTheBlocksInFlight) {
  FixedMemory memory("memory");
  OneLoad job(64 * 9 + 1, tile(0), memory.in, GetParam());
  job.platform->run();
  const std::uint64_t rounds = (10 + GetParam().outstanding - 1) / GetParam().outstanding;
  EXPECT_EQ(job.platform->statistics().end, rounds * 30000u);
  EXPECT_EQ(job.platform->statistics().dram[dram(0)].busy, rounds * 30000u);
}
INSTANTIATE_TEST_SUITE_P(MemoryBridge, BridgeTime,
                         testing::Values(Width{true, 1}, Width{true, 4}, Width{false, 1},
                                         Width{false, 4}, Width{false, 100}),
                         testing::PrintToStringParamName());

// Data read streams out from the first block on: 3 hops there and back, the blocks one after the
// other (links are faster), nothing added for the last.
TEST(MemoryBridge, DataLeavesWithTheFirstBlock) {
  FixedMemory memory("memory");
  OneLoad job(6400, tile(3), memory.in, {false, 1});
  job.platform->run();
  EXPECT_EQ(job.platform->statistics().end, 6000u + 100 * 30000u + 6000u);
}

// A tile program has no use for an error response.
TEST(MemoryBridge, ErrorsOfTheMemoryStopTheRun) {
  FixedMemory memory("memory");
  memory.status = tlm::TLM_COMMAND_ERROR_RESPONSE;
  OneLoad job(100, tile(0), memory.in, {false, 4});
  EXPECT_EQ(input_error([&] { job.platform->run(); }),
            "machine.dram_port0: the memory answered TLM_COMMAND_ERROR_RESPONSE to a read of 100 "
            "bytes at 0x0");
}

// An error of the memory reaches the initiator.
TEST(MemoryBridge, ErrorsOfTheMemoryReachTheInitiator) {
  Script script = idle();
  Harness h(script, machine(2, 1, {{0, 0}}), MemoryKind::loose, 1, 5);
  h.memories[0]->size = 1000;
  Initiator& i = h.initiator(tile(1), Initiator::Style::four_phases);
  Transaction& good = i.add(tlm::TLM_WRITE_COMMAND, 0, 1000);
  Transaction& bad = i.add(tlm::TLM_READ_COMMAND, 900, 101);
  sc_core::sc_start();
  EXPECT_EQ(good.get_response_status(), tlm::TLM_OK_RESPONSE);
  EXPECT_EQ(bad.get_response_status(), tlm::TLM_ADDRESS_ERROR_RESPONSE);
}

// A memory that never answers is a deadlock that names who waits.
TEST(MemoryBridge, SilenceIsADeadlock) {
  class Silent : public FixedMemory {
   public:
    using FixedMemory::FixedMemory;
    tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload&, tlm::tlm_phase&,
                                       sc_core::sc_time&) override {
      return tlm::TLM_ACCEPTED;
    }
  };
  Silent memory("memory");
  OneLoad job(100, tile(0), memory.in, {false, 4});
  EXPECT_THROW(job.platform->run(), DeadlockError);
}

TEST(MemoryBridge, WrongConfigurationsAreSaidPlainly) {
  const auto error = [](const MemoryBridgeConfig& config) {
    return input_error([&] { MemoryBridge bridge("bridge", config); });
  };
  EXPECT_EQ(error({4096, 0, 48, 1, false}),
            "bridge: block is 48, but must be a power of two up to 1048576");
  EXPECT_EQ(error({1000, 0, 64, 1, false}),
            "bridge: base (0x0) and size (0x3e8) must be multiples of the block of 64 bytes, and "
            "size above 0");
  EXPECT_EQ(error({0, 0, 64, 1, false}),
            "bridge: base (0x0) and size (0x0) must be multiples of the block of 64 bytes, and "
            "size above 0");
  EXPECT_EQ(error({4096, 32, 64, 1, false}),
            "bridge: base (0x20) and size (0x1000) must be multiples of the block of 64 bytes, and "
            "size above 0");
  EXPECT_EQ(error({4096, 0, 64, 0, false}), "bridge: outstanding must be above 0");
}

}  // namespace
}  // namespace tilewright::test
