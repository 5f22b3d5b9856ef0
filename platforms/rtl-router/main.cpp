// A mesh of 4 x 4 routers at flit fidelity, one of which is RTL: a virtual-channel router in
// SystemVerilog (rtl/), verilated. Random traffic passes; every packet must take the cycles that it
// takes where all routers are the model's, which a second run in a process of its own finds out.
//
//   rtl-router [LOAD [CYCLES [VCD]]]     flits per cycle and tile (0.3), cycles of traffic (2000)
//                                        and a file for the waves of the RTL
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <systemc>
#include <unistd.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/flit_mesh.h>

#include "rtl_router.h"

using namespace tilewright;

namespace {

constexpr std::uint32_t kRtl = 5;  // at (1, 1)
constexpr Picoseconds kPeriod = 1000;

FlitConfig mesh() {
  FlitConfig c;
  c.width = c.height = 4;
  c.virtual_channels = c.buffer_flits = 4;
  return c;
}

/// Packets of one to eight flits from and to anywhere, injected at random cycles.
class Traffic : public EventHandler {
 public:
  Traffic(EventQueue& queue, FlitNetwork& network, double load, std::uint64_t cycles)
      : queue_(queue), network_(network) {
    std::mt19937 random(1);
    const std::uint32_t tiles = network.tiles();
    for (std::uint64_t cycle = 0; cycle < cycles; ++cycle) {
      for (std::uint32_t t = 0; t < tiles; ++t) {
        const auto draw = [&](std::uint32_t below) {
          return static_cast<std::uint32_t>(random() % below);
        };
        const double chance = static_cast<double>(random()) / 4294967296.0;
        if (chance >= load / 4.5) continue;  // 4.5 flits on average
        const std::uint32_t to = draw(tiles);
        packets_.push_back({cycle, t, to, 1 + draw(8)});
      }
    }
    latency_.resize(packets_.size());
    queue.attach(EventClass::delivery, *this);
    queue.attach_agent(1, *this);
    if (!packets_.empty()) {
      queue.push(packets_[0].cycle * kPeriod, EventClass::agent, 0, 0, 1);
    }
  }

  void handle(Picoseconds now, EventClass type, std::uint32_t, const Event* events,
              std::size_t count) override {
    if (type == EventClass::agent) return inject(now);
    for (std::size_t i = 0; i < count; ++i) {
      Packet& p = network_.packet(static_cast<std::uint32_t>(events[i].slot()));
      latency_[p.sequence] = static_cast<std::uint32_t>((now - p.injected) / kPeriod);
      network_.free(p);
    }
  }

  /// Of each packet, in cycles.
  const std::vector<std::uint32_t>& latency() const { return latency_; }

 private:
  struct Planned {
    std::uint64_t cycle;
    std::uint32_t source, destination, flits;
  };
  void inject(Picoseconds now) {
    for (; next_ < packets_.size() && packets_[next_].cycle * kPeriod == now; ++next_) {
      const Planned& planned = packets_[next_];
      Packet& p = network_.allocate();
      p.source = planned.source;
      p.destination = planned.destination;
      p.bytes = std::uint64_t{planned.flits} * 32;
      p.sequence = static_cast<std::uint32_t>(next_);
      network_.inject(p, now);
    }
    if (next_ < packets_.size()) {
      queue_.push(packets_[next_].cycle * kPeriod, EventClass::agent, 0, 0, 1);
    }
  }

  EventQueue& queue_;
  FlitNetwork& network_;
  std::vector<Planned> packets_;
  std::vector<std::uint32_t> latency_;
  std::size_t next_ = 0;
};

/// The whole of an argument as a number.
template <class T>
T number(const std::string& name, const std::string& text, T least, T most,
         const std::string& allowed) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (stop != end || error != std::errc() || !(value >= least && value <= most)) {
    throw InputError(name + ": '" + text + "' is not allowed; allowed: " + allowed);
  }
  return value;
}

/// The latencies with model routers alone, found by a child: one process, one simulation.
std::vector<std::uint32_t> model_latencies(double load, std::uint64_t cycles) {
  int ends[2];
  if (pipe(ends) != 0) throw InternalError("pipe failed");
  if (fork() == 0) {
    EventQueue queue("events");
    FlitMesh mesh_("mesh", mesh(), queue, 0);
    const Traffic traffic(queue, mesh_.network, load, cycles);
    sc_core::sc_start();
    std::FILE* out = fdopen(ends[1], "w");
    std::fwrite(traffic.latency().data(), sizeof(std::uint32_t), traffic.latency().size(), out);
    std::fclose(out);
    _exit(queue.failed() ? 1 : 0);
  }
  close(ends[1]);
  std::vector<std::uint32_t> latency;
  std::FILE* in = fdopen(ends[0], "r");
  for (std::uint32_t one = 0; std::fread(&one, sizeof one, 1, in) == 1;) latency.push_back(one);
  std::fclose(in);
  wait(nullptr);
  return latency;
}

}  // namespace

int sc_main(int argc, char** argv) try {
  if (argc > 4) throw InputError("usage: rtl-router [LOAD [CYCLES [VCD]]]");
  const double load = argc > 1 ? number("LOAD", argv[1], 1e-6, 1.0, "0.000001 to 1") : 0.3;
  const std::uint64_t cycles =
      argc > 2 ? number<std::uint64_t>("CYCLES", argv[2], 1, 1000000, "1 to 1000000") : 2000;
  if (argc == 4 && !std::ofstream(argv[3])) {
    throw InputError("VCD: cannot write '" + std::string(argv[3]) + "'");
  }
  const std::vector<std::uint32_t> expected = model_latencies(load, cycles);
  if (expected.empty()) throw InputError("no tile sent a packet; wanted: more LOAD or CYCLES");

  EventQueue queue("events");
  FlitMesh network("mesh", mesh(), queue, 0);
  const auto router = rtl::make_rtl_router_4x4("rtl_router", network.network, kRtl);
  const Traffic traffic(queue, network.network, load, cycles);
  if (argc == 4) {
    sc_core::sc_start(sc_core::SC_ZERO_TIME);
    router->trace(argv[3]);
  }
  sc_core::sc_start();
  queue.rethrow();
  if (argc == 4) router->end_trace();

  std::size_t differing = traffic.latency().size() != expected.size();
  double sum = 0;
  for (std::size_t i = 0; i < traffic.latency().size(); ++i) {
    sum += traffic.latency()[i];
    differing += i < expected.size() && traffic.latency()[i] != expected[i];
  }
  std::printf("%zu packets, %.2f cycles on average; %llu of %llu flits passed the RTL router\n",
              traffic.latency().size(), sum / static_cast<double>(traffic.latency().size()),
              static_cast<unsigned long long>(router->flits()),
              static_cast<unsigned long long>(network.network.flits_left()));
  std::printf("%zu packets took another time than with model routers alone\n", differing);
  return differing == 0 && network.network.at_rest() ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "rtl-router: %s\n", error.what());
  return exit_code(error);
}
