// Every combination of the ways to split a training that is valid on a small machine runs to the
// end, and every invalid one is refused with a reason.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/checked.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/work.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

constexpr int kPlans = 800;
constexpr unsigned kSecondsEach = 60;  // a simulation that takes longer hangs

MachineConfig small_machine() {
  MachineConfig m;
  m.name = "small";
  m.tiles_x = m.tiles_y = 4;
  for (const char* format : {"fp16", "bf16", "fp32"}) m.matrix.peak[format] = FlopRate(16e12);
  m.vector.throughput = Frequency(512e9);
  m.sram.capacity = Bytes(1 << 20);
  m.sram.bandwidth = Bandwidth(2e12);
  m.noc.link = m.noc.die_link = {Bandwidth(64e9), Seconds(2e-9)};
  m.dram.bandwidth = Bandwidth(100e9);
  m.dram.capacity = Bytes(1e9);
  m.dram.latency = Seconds(1e-7);
  m.dram.sites = {{0, 0}, {3, 0}, {0, 3}, {3, 3}};
  m.noc.multicast = true;
  m.host.bandwidth = Bandwidth(20e9);
  m.host.capacity = Bytes(1e9);
  m.host.latency = Seconds(1e-6);
  m.host.sites = {{1, 1}, {2, 2}};
  return m;
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[random_() % values.size()];
  }
  bool chance(unsigned percent) { return random_() % 100 < percent; }

 private:
  std::mt19937 random_;
};

DecoderConfig draw_model(Draw& draw) {
  DecoderConfig c;
  c.name = "drawn";
  c.layers = draw.one_of({4, 6, 8});
  c.hidden = 64;
  c.heads = draw.one_of({4, 8});
  c.kv_heads = draw.chance(30) ? c.heads / 2 : c.heads;
  c.head_dim = 64 / c.heads;
  c.ffn = draw.one_of({128, 192});
  c.vocab = draw.chance(70) ? 96 : 0;
  c.sequence = c.max_positions = 32;
  c.dropout = draw.chance(50);
  c.gated_mlp = draw.chance(40);
  c.tied_embeddings = c.vocab > 0 && draw.chance(40);
  if (draw.chance(40)) {
    c.experts.count = draw.one_of({4, 8});
    c.experts.top_k = draw.one_of({1, 2});
    c.experts.ffn = 64;
    if (draw.chance(30)) c.experts.shared_ffn = 64;
  }
  return c;
}

/// One or two rules: kinds, sets of operators, some layers, some stages.
Recomputation draw_recomputation(Draw& draw, int pipeline) {
  Recomputation r;
  const int rules = draw.one_of({1, 1, 2});
  for (int i = 0; i < rules; ++i) {
    RecomputationRule rule = Recomputation::full.rules[0];
    if (draw.chance(70)) rule = Recomputation::selective.rules[0];
    if (draw.chance(60)) {
      rule.dropped = {};
      for (int role = 0; role < kOpRoles; ++role) {
        // Those that not every model has make a plan that is refused.
        const bool everywhere = role >= static_cast<int>(OpRole::attention_norm) &&
                                role <= static_cast<int>(OpRole::mlp_norm) &&
                                role != static_cast<int>(OpRole::rotary);
        if (draw.chance(everywhere ? 30 : 1))
          rule.dropped.roles.set(static_cast<std::size_t>(role));
      }
    }
    rule.where.every = draw.one_of({1, 1, 2, 3});
    if (draw.chance(30)) rule.where.stages = {draw.chance(50) ? 0 : pipeline - 1};
    r.rules.push_back(rule);
  }
  return r;
}

PlanConfig draw_plan(Draw& draw, bool experts) {
  PlanConfig p;
  p.name = "drawn";
  auto degree = [&draw, left = 16](std::initializer_list<int> values) mutable -> int {
    const int n = draw.one_of(values);
    if (n > left && draw.chance(95)) return 1;  // mostly plans that fit the machine
    left /= n;
    return n;
  };
  p.tensor = degree({1, 1, 2, 2, 4, 3, 8});
  p.pipeline = degree({1, 1, 2, 2, 3, 4});
  p.data = degree({1, 2, 2, 3, 4});
  p.context = degree({1, 1, 1, 2, 4});
  if (experts ? draw.chance(60) : draw.chance(5)) p.expert = draw.chance(90) ? p.data : 2;
  if (p.tensor == 4 && draw.chance(40)) p.tensor_shape = {2, 2};
  if (p.tensor == 8 && draw.chance(80)) p.tensor_shape = {2, 2, 2};
  p.sequence_parallel = draw.chance(40);
  p.scatter_gather = draw.chance(30);
  p.zero = draw.one_of({0, 0, 1, 2, 3});
  p.micro_batch = draw.one_of({1, 2, 3});
  p.global_batch = draw.one_of({8, 12, 24, 13});
  p.schedule = draw.one_of({ScheduleKind::one_f_one_b, ScheduleKind::one_f_one_b,
                            ScheduleKind::gpipe, ScheduleKind::interleaved, ScheduleKind::zb_h1,
                            ScheduleKind::zb_h2, ScheduleKind::zb_v});
  p.interleaved_chunks = draw.one_of({2, 2, 3, 4});
  p.recomputation = draw.one_of({Recomputation::none, Recomputation::full});
  p.optimizer = draw.one_of({OptimizerKind::adam, OptimizerKind::adam, OptimizerKind::none});
  p.precision = draw.one_of({DType::fp16, DType::fp32});
  p.placement = draw.chance(70) ? PlacementKind::block : PlacementKind::serpentine;
  if (draw.chance(20)) {
    p.placement_order.assign(kRankOrder.begin(), kRankOrder.end());
    std::rotate(p.placement_order.begin(), p.placement_order.begin() + draw.one_of({1, 2, 3, 4}),
                p.placement_order.end());
  }
  if (draw.chance(15)) p.partition = PartitionPreset::streaming;
  if (draw.chance(15)) p.partition = PartitionPreset::accpar;
  if (draw.chance(30)) p.overlap.tensor_chunks = draw.one_of({2, 3});
  if (draw.chance(40)) p.overlap.bucket = draw.one_of({1, 50'000, 10'000'000});
  p.overlap.prefetch = draw.one_of({0, 1, 2});
  if (draw.chance(40)) p.uneven = Uneven::pad;
  if (draw.chance(30)) {
    const auto axis = p.tensor_shape.empty() ? "tensor" : draw.one_of({"tensor_x", "tensor_y"});
    const OpRole role = draw.one_of({OpRole::qkv, OpRole::scores, OpRole::softmax, OpRole::context,
                                     OpRole::projection, OpRole::mlp_norm, OpRole::mlp_up,
                                     OpRole::mlp_down, OpRole::head, OpRole::mlp_residual});
    const std::optional<Dim> dim = draw.one_of<std::optional<Dim>>(
        {std::nullopt, Dim::batch, Dim::head, Dim::row, Dim::col, Dim::red});
    p.cuts.push_back({role, axis, dim, "partition.operators"});
  }
  if (draw.chance(40)) p.recomputation = draw_recomputation(draw, p.pipeline);
  p.fp32_gradients = draw.chance(20);
  p.fuse_attention = draw.chance(30);
  if (draw.chance(30)) {
    p.offload.activations = BlockRule{draw.one_of({1, 1, 2}), {}};
    if (draw.chance(30)) p.offload.activations->stages = {draw.chance(50) ? 0 : p.pipeline - 1};
  }
  p.overlap.ring_attention = draw.chance(p.fuse_attention ? 60 : 2);
  p.offload.optimizer = draw.chance(20);
  p.offload.weights = draw.chance(20);
  p.fuse_pointwise = p.fuse_attention || draw.chance(70);
  p.fuse_norm = p.fuse_pointwise && draw.chance(30);
  p.multicast = p.tensor > 1 && p.tensor_shape.empty() && draw.chance(50);
  return p;
}

std::string text_of(const DecoderConfig& c, const PlanConfig& p) {
  std::string cuts;
  for (const OperatorCut& cut : p.cuts) {
    cuts += fmt::format(" {}:{}={}", to_string(cut.role), cut.axis,
                        cut.dim ? std::to_string(static_cast<int>(*cut.dim)) : "none");
  }
  return fmt::format(
      "layers {} heads {}/{} window {} ffn {} vocab {} tied {} gated {} experts {}/{}+{} | p{} "
      "t{}{} c{} d{} "
      "e{} sp{} zero{} batch {}/{} schedule {} recompute {} fused {} ring {} optimizer {} "
      "precision {} "
      "preset {} "
      "uneven {} placement {}{} offload {}{}",
      c.layers, c.heads, c.kv_heads, c.sliding_window, c.ffn, c.vocab, c.tied_embeddings,
      c.gated_mlp, c.experts.count, c.experts.top_k, c.experts.shared_ffn, p.pipeline, p.tensor,
      p.tensor_shape.empty() ? "" : " (2-D)", p.context, p.data, p.expert, p.sequence_parallel,
      p.zero, p.global_batch, p.micro_batch, static_cast<int>(p.schedule),
      to_string(p.recomputation),
      (p.fuse_attention ? 2 : int{p.fuse_pointwise}) + 10 * int{p.fuse_norm},
      p.overlap.ring_attention, static_cast<int>(p.optimizer), static_cast<int>(p.precision),
      static_cast<int>(p.partition), static_cast<int>(p.uneven), static_cast<int>(p.placement),
      cuts, to_string(p.offload), p.multicast ? " multicast" : "");
}

enum Outcome { ran = 0, refused = 10, wrong = 11, crashed = 12 };

/// What tiles sent, received, loaded and stored against what their instructions say; empty when all
/// of it is the same.
std::string lost_bytes(const Program& program, const RunStatistics& run) {
  const ProgramWork work = count_work(program);
  TileWork all;
  std::uint64_t sent = 0, received = 0;
  for (std::uint32_t t = 0; t < run.tiles.size(); ++t) {
    const TileStatistics& tile = run.tiles[TileId{t}];
    const TileWork own = t < work.tiles.size() ? work.tiles[TileId{t}] : TileWork();
    if (tile.bytes_sent != own.sent || tile.bytes_received != own.received) {
      return fmt::format("tile {} sent {} of {} bytes and received {} of {}", t, tile.bytes_sent,
                         own.sent, tile.bytes_received, own.received);
    }
    sent += own.sent;
    received += own.received;
    all.dram_read += own.dram_read - own.dram_shared;
    all.dram_written += own.dram_written;
    all.host_read += own.host_read;
    all.host_written += own.host_written;
  }
  if (sent != received) return fmt::format("{} bytes sent, {} received", sent, received);
  const auto memory = [](const char* name, const IdVector<DramId, DramStatistics>& controllers,
                         std::uint64_t read, std::uint64_t written) -> std::string {
    std::uint64_t was_read = 0, was_written = 0;
    for (const DramStatistics& c : controllers) {
      was_read += c.bytes_read;
      was_written += c.bytes_written;
    }
    if (was_read == read && was_written == written) return "";
    return fmt::format("{}: {} of {} bytes read, {} of {} written", name, was_read, read,
                       was_written, written);
  };
  return memory("DRAM", run.dram, all.dram_read, all.dram_written) +
         memory("host memory", run.host, all.host_read, all.host_written);
}

/// Where tiles allocated more than the memory plan has; empty when nowhere.
std::string beyond_memory_plan(const LoweredPlan& lowered, const RunStatistics& run) {
  for (const TileGroup& group : lowered.program.groups) {
    const StagePlan& stage = lowered.stages[group.stage];
    for (const TileId t : group.tiles) {
      const TileStatistics& tile = run.tiles[t];
      const auto within = [](std::uint64_t peak, std::int64_t planned) {
        return static_cast<std::int64_t>(peak) <= planned;
      };
      if (within(tile.sram_peak, stage.sram_bytes()) &&
          within(tile.dram_peak, stage.dram_bytes()) &&
          within(tile.host_peak, stage.host_bytes())) {
        continue;
      }
      return fmt::format("tile {} of {}: SRAM {} of {}, DRAM {} of {}, host {} of {} bytes",
                         index(t), group.name, tile.sram_peak, stage.sram_bytes(), tile.dram_peak,
                         stage.dram_bytes(), tile.host_peak, stage.host_bytes());
    }
  }
  return "";
}

/// Runs one plan; what is wrong goes to `report`.
Outcome run(const MachineConfig& machine, const DecoderConfig& model, const PlanConfig& plan,
            std::string& report) {
  Graph graph;
  try {
    graph = build_graph(model);
    SimulateOptions options = test::checked();
    RunStatistics counted;
    options.on_statistics = [&counted](const RunStatistics& run) { counted = run; };
    const Result r = simulate(machine, graph, plan, options);
    const LoweredPlan lowered = lower(graph, plan, machine);
    report = lost_bytes(lowered.program, counted) + beyond_memory_plan(lowered, counted);
    if (!(r.iteration_time.value() > 0)) report = "no time passed";
    // Padding, repetition and recomputation only add work.
    if (r.flops_hardware.value() < r.flops_model.value() * (1 - 1e-9)) {
      report = fmt::format("{} FLOP done of {}", r.flops_hardware.value(), r.flops_model.value());
    }
    if (r.parameters != graph.parameters()) report = "parameters differ";
    return report.empty() ? ran : wrong;
  } catch (const InputError& e) {
    report = e.what();
    return report.size() > 20 ? refused : wrong;
  } catch (const std::exception& e) {
    report = e.what();
    return crashed;
  }
}

TEST(PlanSweep, EveryPlanRunsOrIsRefused) {
  const MachineConfig machine = small_machine();
  int counts[16] = {};
  std::map<std::string, int> reasons;
  for (int i = 0; i < kPlans; ++i) {
    Draw draw(1000 + static_cast<unsigned>(i));
    DecoderConfig model = draw_model(draw);
    const PlanConfig plan = draw_plan(draw, model.experts.count > 0);
    if (draw.chance(40)) model.sliding_window = draw.one_of({1, 4, 8, 12, 20});
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    // The kernel cannot restart: every simulation has a process of its own.
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(kSecondsEach);
      std::string report;
      const Outcome outcome = run(machine, model, plan, report);
      const auto written = write(pipe_ends[1], report.data(), report.size());
      _exit(written == static_cast<ssize_t>(report.size()) ? outcome : crashed);
    }
    close(pipe_ends[1]);
    std::string report(4096, '\0');
    std::size_t length = 0;
    for (ssize_t n; length < report.size() &&
                    (n = read(pipe_ends[0], report.data() + length, report.size() - length)) > 0;) {
      length += static_cast<std::size_t>(n);
    }
    report.resize(length);
    close(pipe_ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const bool ended = WIFEXITED(status);
    const int code = ended ? WEXITSTATUS(status) : crashed;
    ++counts[code & 15];
    if (code == refused) ++reasons[report.substr(0, report.find('\n')).substr(0, 60)];
    EXPECT_TRUE(code == ran || code == refused)
        << "plan " << i << ": " << text_of(model, plan) << "\n  "
        << (ended ? report : "killed by signal " + std::to_string(WTERMSIG(status)));
  }
  // The sweep is worth something only if a good part of it runs.
  EXPECT_GE(counts[ran], kPlans / 3);
  RecordProperty("ran", counts[ran]);
  RecordProperty("refused", counts[refused]);
  std::printf("%d plans ran, %d were refused\n", counts[ran], counts[refused]);
  if (std::getenv("TILEWRIGHT_SWEEP_REASONS") != nullptr) {
    for (const auto& [reason, n] : reasons) std::printf("%4d  %s\n", n, reason.c_str());
  }
}

}  // namespace
}  // namespace tilewright
