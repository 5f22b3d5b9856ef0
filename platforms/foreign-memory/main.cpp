// A mesh of 2 x 2 tiles whose DRAM controllers are two memories of somebody else's, one
// approximately and one loosely timed, and a traffic initiator of somebody else's at an edge tile.
// Protocol checkers stand on the wires between them and us.
#include <cstdio>
#include <exception>

#include <systemc>

#include <tilewright/base/error.h>
#include <tilewright/cosim/initiator_port.h>
#include <tilewright/cosim/memory_bridge.h>
#include <tilewright/cosim/protocol_checker.h>
#include <tilewright/hardware/platform.h>
#include <tilewright/program/text.h>

#include "memory.h"
#include "traffic.h"

using namespace tilewright;

namespace {

// Every tile loads and stores, from and to the memory nearest to it.
const char* const kProgram = R"(tilewright-program 1
segment work
  data: load "input" bytes=16KiB
        store "result" bytes=4KiB after=data
group all
  tiles 0 1 2 3
  call work
  call work
)";

MachineConfig machine() {
  MachineConfig m;
  m.tiles_x = m.tiles_y = 2;
  m.vector.throughput = Frequency(1e12);
  m.sram.capacity = Bytes(3 << 20);
  m.noc.link = {Bandwidth(1e12), Seconds(1e-9)};
  // Of a memory that is not ours, only capacity and place count.
  m.dram.bandwidth = Bandwidth(1);
  m.dram.capacity = Bytes(kMemoryBytes);
  m.dram.sites = {{0, 0}, {1, 1}};
  return m;
}

}  // namespace

int sc_main(int, char**) try {
  const Program program = parse_program(kProgram, "foreign-memory");
  AtMemory at_memory("at_memory");
  LtMemory lt_memory("lt_memory");
  ProtocolChecker<> at_check("at_check"), lt_check("lt_check"), traffic_check("traffic_check");
  at_check.out.bind(at_memory.socket);
  lt_check.out.bind(lt_memory.socket);

  MemoryBridgeConfig config;
  config.size = kMemoryBytes;
  config.block = AtMemory::kBurst;
  MemoryBridge at_bridge("at_bridge", config);
  config.block = 1024;  // the loosely timed one does not care
  config.outstanding = 2;
  config.blocking = true;
  MemoryBridge lt_bridge("lt_bridge", config);
  at_bridge.out.bind(at_check.in);
  lt_bridge.out.bind(lt_check.in);

  PlatformOptions options;
  options.external_memory = [&](DramId id) {
    return id == DramId{0} ? &at_bridge.in : &lt_bridge.in;
  };
  Platform platform("platform", machine(), program, options);

  // The initiator sees both memories as one, in blocks of 4 KiB; it uses their upper halves.
  InitiatorPort port("port", {platform.backplane(), TileId{1}, {}, 4096, 8});
  Traffic traffic("traffic");
  traffic.first = kMemoryBytes;
  traffic.blocks = 256;
  traffic.at_once = 6;
  traffic.socket.bind(traffic_check.in);
  traffic_check.out.bind(port.in);

  platform.run();
  sc_core::sc_start();  // the traffic goes on when the tiles are done

  const RunStatistics& s = platform.statistics();
  std::printf("tiles done after %.3f us\n", static_cast<double>(s.end) * 1e-6);
  std::printf("traffic: %llu transactions, %llu errors, %llu wrong bytes, done after %.3f us\n",
              static_cast<unsigned long long>(traffic.done),
              static_cast<unsigned long long>(traffic.errors),
              static_cast<unsigned long long>(traffic.wrong_bytes),
              traffic.finished.to_seconds() * 1e6);
  std::printf("memories: %llu requests approximately timed (%llu held back), %llu loosely timed\n",
              static_cast<unsigned long long>(at_memory.requests),
              static_cast<unsigned long long>(at_memory.held_back),
              static_cast<unsigned long long>(lt_memory.requests));
  std::uint64_t checked = 0, violations = 0;
  for (const ProtocolChecker<>* checker : {&at_check, &lt_check, &traffic_check}) {
    checked += checker->monitor().completed();
    violations += checker->monitor().violations();
  }
  std::printf("checkers: %llu transactions, %llu violations\n",
              static_cast<unsigned long long>(checked),
              static_cast<unsigned long long>(violations));
  return traffic.errors + traffic.wrong_bytes + violations == 0 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "foreign-memory: %s\n", error.what());
  return exit_code(error);
}
