// More SRAM, more of its ports, more bandwidth and faster engines never make an operator slower:
// 1,000 drawn operators on drawn machines, in closed form, and every tenth of them simulated as
// well.
#include <cmath>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilewright/hardware/platform.h>
#include <tilewright/machine/sram_model.h>
#include <tilewright/plan/cost.h>

#include "../../sc_src/plan/segment_writer.h"

namespace tilewright {
namespace {

constexpr int kPairs = 1000;
constexpr int kSimulated = 10;  // every so many of them

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  std::int64_t integer(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(random_() % static_cast<unsigned>(high - low + 1));
  }
  /// Evenly over the logarithm.
  double scale(double low, double high) {
    return low * std::pow(high / low, random_() / 4294967296.0);
  }
  std::int64_t extent(double low, double high) {
    return static_cast<std::int64_t>(scale(low, high));
  }
  bool chance(unsigned percent) { return random_() % 100 < percent; }

 private:
  std::mt19937 random_;
};

SramBanks draw_banks(Draw& draw) {
  SramBanks b;
  b.banks = draw.integer(1, 64);
  if (draw.chance(50)) {
    b.ports = draw.integer(1, 2);
  } else {
    b.read_ports = draw.integer(1, 3);
    b.write_ports = draw.integer(1, 2);
  }
  b.word = std::int64_t{4} << draw.integer(0, 4);
  b.clock = Frequency(draw.scale(0.2e9, 2e9));
  b.access = draw.chance(50) ? SramAccess::random : SramAccess::strided;
  b.stride = draw.integer(1, 8);
  b.interleave = draw.integer(1, 4);
  return b;
}

/// Two tiles in a row: the operator runs on one, the DRAM is at the other.
struct DrawnMachine {
  MachineConfig config;
  std::optional<SramBanks> banks;  // what its SRAM's rates follow from, if so
};

DrawnMachine draw_machine(Draw& draw) {
  DrawnMachine drawn;
  MachineConfig& m = drawn.config;
  m.name = "drawn";
  m.tiles_x = 2;
  const double flops = draw.scale(0.1e12, 100e12);
  switch (draw.integer(0, 2)) {
    case 0:
      m.matrix.peak["fp16"] = FlopRate(flops);
      break;
    case 1: {
      SystolicConfig& s = m.matrix.systolic;
      m.matrix.model = "systolic";
      s.rows = draw.integer(1, 256);
      s.columns = draw.integer(1, 256);
      s.arrays = draw.integer(1, 4);
      s.dataflow = static_cast<Dataflow>(draw.integer(0, 2));
      s.pipelined_folds = draw.chance(50);
      s.clock = Frequency(draw.scale(0.2e9, 2e9));
      s.speed["fp16"] = 1;
      m.matrix.peak["fp16"] =
          FlopRate(2.0 * static_cast<double>(s.rows * s.columns * s.arrays) * s.clock.value());
      break;
    }
    default:
      m.matrix.model = "table";
      m.matrix.peak["fp16"] = FlopRate(flops);
      for (const std::int64_t n : {64, 4096}) {
        m.matrix.table.push_back({"", n, 512, 512, draw.scale(0.1, 1)});
      }
  }
  m.vector.throughput = Frequency(draw.scale(10e9, 1e12));
  m.sram.capacity = Bytes(std::floor(draw.scale(16e3, 32e6)));
  if (draw.chance(50)) {
    drawn.banks = draw_banks(draw);
    apply_banks(*drawn.banks, m.sram);
  } else if (draw.chance(60)) {
    m.sram.bandwidth = Bandwidth(draw.scale(50e9, 4e12));
  }
  m.sram.contention = draw.chance(20);
  m.noc.link =
      m.noc.die_link = {Bandwidth(draw.scale(10e9, 2e12)), Seconds(draw.scale(1e-9, 1e-7))};
  m.dram.bandwidth = Bandwidth(draw.scale(10e9, 2e12));
  m.dram.capacity = Bytes(1e15);
  m.dram.latency = Seconds(draw.scale(1e-9, 1e-6));
  m.dram.sites = {{1, 0}};
  if (draw.chance(30)) m.matrix.accumulator = 2;
  return drawn;
}

constexpr std::int64_t kElement = 2;

/// Any pass of a convolution.
Kernel draw_convolution(Draw& draw) {
  Convolution c;
  c.pass = static_cast<ConvolutionPass>(draw.integer(0, 2));
  Window::Side side;
  side.in = draw.extent(4, 120);
  side.kernel = 1 + 2 * draw.integer(0, 2);
  side.stride = draw.integer(1, 2);
  side.padding = (side.kernel - 1) / 2;
  side.out = (side.in + 2 * side.padding - side.kernel) / side.stride + 1;
  c.window = {side, side};
  c.samples = draw.extent(1, 16);
  c.groups = draw.chance(20) ? draw.integer(2, 64) : 1;
  c.in_channels = draw.extent(1, 300);
  c.out_channels = draw.extent(1, 300);
  Kernel k;
  k.name = "convolution";
  k.matrix = true;
  k.convolution = c;
  k.gemm = c.gemm();
  const bool gradient = c.pass == ConvolutionPass::weight_gradient;
  k.a = {"a", TensorClass::saved, c.a_elements() * kElement};
  k.b = {"b", gradient ? TensorClass::temporary : TensorClass::weight, c.b_elements() * kElement};
  k.accumulate = gradient && draw.chance(50);
  k.writes = {{"c", k.accumulate ? TensorClass::gradient : TensorClass::temporary,
               c.c_elements() * kElement}};
  if (!gradient && draw.chance(40)) {
    k.vector_elements = static_cast<double>(c.c_elements() * draw.integer(1, 6));
    if (draw.chance(50)) k.reads = {{"z", TensorClass::saved, c.c_elements() * kElement}};
  }
  return k;
}

/// A GEMM, with what is fused to it; a batch of them; fused attention; a vector operator; a
/// convolution.
Kernel draw_kernel(Draw& draw) {
  Kernel k;
  const auto kind = draw.integer(0, 4);
  if (kind == 4) return draw_convolution(draw);
  if (kind == 3) {
    const std::int64_t elements = draw.extent(100, 3e7);
    k.name = "vector";
    k.vector_elements = static_cast<double>(elements * draw.integer(1, 8));
    k.reads = {{"x", TensorClass::temporary, elements * kElement}};
    if (draw.chance(50)) k.reads.push_back({"z", TensorClass::saved, elements * kElement});
    k.writes = {{"y", TensorClass::temporary, elements * kElement}};
    return k;
  }
  k.matrix = true;
  Gemm& g = k.gemm;
  if (kind == 2) {
    const std::int64_t rows = draw.extent(1, 2000), keys = draw.extent(16, 2000),
                       width = draw.integer(1, 256);
    k.name = "attention";
    g.batch = draw.integer(1, 8);
    g.m = rows;
    g.n = 2 * width;
    g.k = keys;
    k.b = {"k", TensorClass::temporary, 2 * g.batch * keys * width * kElement};
    k.reads = {{"q", TensorClass::temporary, g.batch * rows * width * kElement}};
    k.writes = {{"y", TensorClass::temporary, g.batch * rows * width * kElement}};
    k.vector_elements = static_cast<double>(g.batch * rows * keys * 5);
    return k;
  }
  g.batch = kind == 1 ? draw.integer(2, 16) : 1;
  g.m = draw.extent(1, 5000);
  g.n = draw.extent(1, 5000);
  g.k = draw.extent(1, 5000);
  if (draw.chance(20)) g.flop_scale = 0.5;
  k.name = kind == 1 ? "batch" : "gemm";
  // Key-value heads are shared by heads.
  const std::int64_t sharing = kind == 1 && g.batch % 2 == 0 && draw.chance(30) ? 2 : 1;
  k.a = {"a", TensorClass::temporary, g.batch * g.m * g.k * kElement};
  k.b = {"b", kind == 1 ? TensorClass::saved : TensorClass::weight,
         g.batch * g.k * g.n * kElement / sharing};
  const std::int64_t results = g.batch * g.m * g.n;
  k.accumulate = kind == 0 && draw.chance(25);
  k.writes = {
      {"c", k.accumulate ? TensorClass::gradient : TensorClass::temporary, results * kElement}};
  if (!k.accumulate && draw.chance(40)) {
    k.vector_elements = static_cast<double>(results * draw.integer(1, 6));
    if (draw.chance(50)) k.reads = {{"z", TensorClass::saved, results * kElement}};
    if (draw.chance(30)) k.writes.push_back({"mask", TensorClass::saved, results});
  }
  return k;
}

/// An operator and which of its tensors are in SRAM.
struct Case {
  Kernel kernel;
  Residency residency;
};

KernelCost cost_of(const Case& c, const MachineConfig& m, const TileRates& rates) {
  return kernel_cost(c.kernel, c.residency, static_cast<std::int64_t>(m.sram.capacity.value()),
                     DType::fp16, StateBytes{2, 2, 12}, rates);
}

/// What a run gives: picoseconds, and bytes at the controller.
struct Outcome {
  std::int64_t time = 0;
  std::uint64_t read = 0, written = 0;
};

Outcome run(const Case& c, const MachineConfig& m, const KernelCost& cost) {
  Program program;
  const std::vector<GroupAxis> axes;
  const Placement placement;
  const CollectiveChoices choices;
  CollectiveMembers members(axes, placement, m, choices);
  PeerTables peers(members);
  SegmentWriter writer(program, "operator", c.residency, DType::fp16, axes, peers);
  writer.kernel(c.kernel, cost);
  const std::uint32_t segment = writer.finish();
  TileGroup group;
  group.name = "operator";
  group.tiles = {m.tile(0, 0)};
  group.calls = {Call{segment, kNoMicroBatch, 0}};
  program.groups.push_back(group);
  program.channels = peers.channels();
  program.groups.front().peers.assign(kFixedPeers, {kNoTile});
  program.seal();
  auto* platform = new Platform("platform", m, program, {});
  platform->run();
  const RunStatistics& r = platform->statistics();
  const DramStatistics& d = r.dram[DramId(0)];
  return {static_cast<std::int64_t>(r.end), d.bytes_read, d.bytes_written};
}

/// The kernel cannot restart: every simulation has a process of its own.
Outcome simulated(const Case& c, const MachineConfig& m, const KernelCost& cost) {
  int ends[2];
  Outcome outcome;
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  const pid_t child = fork();
  if (child == 0) {
    try {
      outcome = run(c, m, cost);
    } catch (const std::exception& e) {
      fmt::print(stderr, "{}: {}\n", c.kernel.name, e.what());
      _exit(1);
    }
    _exit(write(ends[1], &outcome, sizeof outcome) == sizeof outcome ? 0 : 1);
  }
  close(ends[1]);
  const bool complete = read(ends[0], &outcome, sizeof outcome) == sizeof outcome;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!complete || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("the simulation failed");
  }
  return outcome;
}

struct Improvement {
  const char* name;
  std::function<void(DrawnMachine&, double)> make;
};

const std::vector<Improvement>& improvements() {
  static const std::vector<Improvement> all{
      {"SRAM capacity",
       [](DrawnMachine& m, double f) {
         m.config.sram.capacity = Bytes(std::floor(m.config.sram.capacity.value() * f));
       }},
      {"SRAM bandwidth",
       [](DrawnMachine& m, double f) {
         SramConfig& s = m.config.sram;
         for (Bandwidth* b : {&s.bandwidth, &s.read, &s.write}) *b = *b * f;
       }},
      {"SRAM ports",
       [](DrawnMachine& m, double f) {
         if (!m.banks) return;
         for (std::int64_t* ports :
              {&m.banks->ports, &m.banks->read_ports, &m.banks->write_ports}) {
           *ports += *ports > 0 ? std::max<std::int64_t>(1, std::llround(f)) : 0;
         }
         apply_banks(*m.banks, m.config.sram);
       }},
      {"DRAM bandwidth",
       [](DrawnMachine& m, double f) { m.config.dram.bandwidth = m.config.dram.bandwidth * f; }},
      {"link bandwidth",
       [](DrawnMachine& m, double f) {
         LinkConfig& link = m.config.noc.link;
         link.bandwidth = m.config.noc.die_link.bandwidth = link.bandwidth * f;
       }},
      {"matrix clock",
       [](DrawnMachine& m, double f) {
         MatrixConfig& matrix = m.config.matrix;
         matrix.systolic.clock = matrix.systolic.clock * f;
         matrix.peak["fp16"] = matrix.peak["fp16"] * f;
       }},
      {"vector clock",
       [](DrawnMachine& m, double f) {
         m.config.vector.throughput = m.config.vector.throughput * f;
       }},
      {"prefetch", [](DrawnMachine& m, double) { m.config.dma.prefetch = 1; }},
  };
  return all;
}

/// The closed form leaves out latencies, and how the first and last steps of a few overlap. Where
/// links are slower than the DRAM it is on the safe side.
void expect_agrees(const Outcome& simulated, double seconds, const MachineConfig& m, int pair) {
  if (m.noc.link.bandwidth.value() < m.dram.bandwidth.value()) return;
  const double latencies = 2 * (m.dram.latency.value() + 2 * m.noc.link.latency.value());
  const double time = 1e-12 * static_cast<double>(simulated.time);
  EXPECT_GE(time, 0.85 * seconds) << pair;
  EXPECT_LE(time, 1.05 * seconds + latencies) << pair;
}

// 1 MB in, 1 MB out, 10 us each and of the engine: in turn, or beside each other in 16 steps.
TEST(OperatorSweep, WithoutPrefetchLoadsEnginesAndStoresTakeTurns) {
  constexpr std::int64_t kBytes = 1 << 20;
  DrawnMachine drawn;
  MachineConfig& m = drawn.config;
  m.tiles_x = 2;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  m.vector.throughput = Frequency(kBytes / 10e-6);
  m.sram.capacity = Bytes(1 << 20);
  m.noc.link = m.noc.die_link = {Bandwidth::unlimited(), Seconds(1e-9)};
  m.dram.bandwidth = Bandwidth(kBytes / 10e-6);
  m.dram.capacity = Bytes(1e9);
  m.dram.latency = Seconds(1e-8);
  m.dram.sites = {{1, 0}};
  Case c{};
  c.kernel.name = "vector";
  c.kernel.vector_elements = kBytes;
  c.kernel.reads = {{"x", TensorClass::temporary, kBytes}};
  c.kernel.writes = {{"y", TensorClass::temporary, kBytes}};
  for (const int prefetch : {0, 1}) {
    m.dma.prefetch = prefetch;
    const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
    const KernelCost cost = cost_of(c, m, rates);
    const double seconds = kernel_seconds(c.kernel, cost, rates);
    const Outcome o = simulated(c, m, cost);
    if (prefetch == 0) {
      EXPECT_NEAR(seconds, 30e-6, 1e-12);
      EXPECT_NEAR(static_cast<double>(o.time), 30e6 + 2 * (10e3 + 2 * 1e3), 2);  // two round trips
    } else {
      // 15/16 of the stores beside the loads, the last step's engine and store behind them.
      EXPECT_NEAR(seconds, 10e-6 * (1 + 15.0 / 16 + 1.0 / 16 + 1.0 / 16), 1e-12);
      EXPECT_LT(o.time, 21'000'000);
    }
  }
}

TEST(OperatorSweep, AThousandOperatorsAreNeverSlowerOnMachinesThatAreBetterInOneWay) {
  int feasible = 0, compared = 0, faster = 0;
  for (int i = 0; i < kPairs; ++i) {
    Draw draw(static_cast<unsigned>(i));
    DrawnMachine drawn = draw_machine(draw);
    if (i % 5 == 4) drawn.config.dma.prefetch = 0;
    const MachineConfig& m = drawn.config;
    Case c{draw_kernel(draw), {}};
    for (bool& in : c.residency.in_sram) in = draw.chance(15);
    const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
    const KernelCost cost = cost_of(c, m, rates);
    const double before = kernel_seconds(c.kernel, cost, rates);
    if (!cost.feasible) continue;
    ++feasible;
    const bool simulate = i % kSimulated == 0;
    Outcome base;
    if (simulate) {
      base = simulated(c, m, cost);
      EXPECT_EQ(base.read, static_cast<std::uint64_t>(cost.load)) << i;
      EXPECT_EQ(base.written, static_cast<std::uint64_t>(cost.store)) << i;
      expect_agrees(base, before, m, i);
    }
    for (const Improvement& improvement : improvements()) {
      const double factor = draw.scale(1.01, 8);
      DrawnMachine improved = drawn;
      improvement.make(improved, factor);
      const MachineConfig& better = improved.config;
      const TileRates better_rates = tile_rates(better, DType::fp16, {m.tile(0, 0)});
      const KernelCost better_cost = cost_of(c, better, better_rates);
      const std::string where = fmt::format(
          "pair {} ({} {}x{}x{}x{}), {} times {:.2f}", i, c.kernel.name, c.kernel.gemm.batch,
          c.kernel.gemm.m, c.kernel.gemm.n, c.kernel.gemm.k, improvement.name, factor);
      ASSERT_TRUE(better_cost.feasible) << where;
      const double after = kernel_seconds(c.kernel, better_cost, better_rates);
      EXPECT_LE(after, before) << where;
      faster += after < before ? 1 : 0;
      if (!simulate) continue;
      ++compared;
      // Pieces of an operator are cut at whole picoseconds.
      EXPECT_LE(simulated(c, better, better_cost).time, base.time + 3) << where;
    }
  }
  EXPECT_GE(feasible, kPairs * 9 / 10);
  EXPECT_GE(faster, feasible);
  fmt::print("{} pairs, {} improvements of {} faster, {} simulated\n", feasible, faster,
             feasible * improvements().size(), compared);
}

/// The drawn machine with one of the memory files in place of its DRAM's figures.
void use_memory_file(MachineConfig& m, Draw& draw) {
  static const std::vector<std::string> names{"ddr4-3200",   "ddr5-4800", "lpddr4-3200",
                                              "lpddr5-6400", "gddr6-14",  "hbm2-2.0",
                                              "hbm2e-3.2",   "hbm3-6.4"};
  const auto name = names[static_cast<std::size_t>(draw.integer(0, 7))];
  DramConfig& d = m.dram;
  d.model = "banked";
  d.part = read_memory_part(
      Document::load(TILEWRIGHT_SOURCE_DIR "/platforms/memories/" + name + ".yaml", "memory"));
  d.bandwidth = d.part.bandwidth();
  d.capacity = d.part.capacity();
  d.latency = d.part.latency();
}

// Rows, banks, refresh and the turns of reads and writes are what they are at any clock.
TEST(OperatorSweep, AFasterClockOfABankedMemoryIsNeverSlower) {
  int compared = 0, faster = 0;
  for (int i = 0; i < 80; ++i) {
    Draw draw(static_cast<unsigned>(kPairs + i));
    MachineConfig m = draw_machine(draw).config;
    use_memory_file(m, draw);
    const Case c{draw_kernel(draw), {}};
    const auto time = [&] {
      const TileRates rates = tile_rates(m, DType::fp16, {m.tile(0, 0)});
      const KernelCost cost = cost_of(c, m, rates);
      EXPECT_TRUE(cost.feasible) << i;
      const Outcome o = simulated(c, m, cost);
      EXPECT_EQ(o.read, static_cast<std::uint64_t>(cost.load)) << i;
      EXPECT_EQ(o.written, static_cast<std::uint64_t>(cost.store)) << i;
      return o.time;
    };
    const auto before = time();
    const double factor = draw.scale(1.05, 4);
    m.dram.part.clock = m.dram.part.clock * factor;
    m.dram.bandwidth = m.dram.part.bandwidth();
    m.dram.latency = m.dram.part.latency();
    const auto after = time();
    EXPECT_LE(after, before) << fmt::format("pair {}, {} on {}, clock times {:.2f}", i,
                                            c.kernel.name, m.dram.part.name, factor);
    ++compared;
    faster += after < before ? 1 : 0;
  }
  EXPECT_EQ(compared, 80);
  EXPECT_GE(faster, 30);
}

}  // namespace
}  // namespace tilewright
