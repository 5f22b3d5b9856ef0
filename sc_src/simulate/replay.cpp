#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/compute_model.h>
#include <tilewright/simulate/replay.h>

#include "run_platform.h"

namespace tilewright {
namespace {

/// Matrix work of one tile in seconds: at the peak rate of each shape's format, and as the
/// machine's matrix engine takes.
struct MatrixWork {
  double all = 0, recomputed = 0, engine = 0;
  void add(const MatrixWork& o, double times) {
    all += o.all * times;
    recomputed += o.recomputed * times;
    engine += o.engine * times;
  }
};

MatrixWork segment_work(const MachineConfig& machine, const ComputeModel& model,
                        const Program& program, const Segment& segment) {
  MatrixWork work;
  for (const Instruction& i : segment.code) {
    if (i.op != Opcode::compute || i.engine != Engine::matrix) continue;
    const ComputeShape& shape = program.shapes[i.operand];
    const std::string& format = program.names[shape.format];
    const double part = static_cast<double>(i.amount) / shape.denominator;
    const double seconds = shape.flop * part / machine.peak(format).value();
    work.all += seconds;
    work.engine +=
        part * model.matrix_seconds({shape.batch, shape.m, shape.n, shape.k, shape.flop}, format);
    if (i.phase == Phase::recompute) work.recomputed += seconds;
  }
  return work;
}

/// Per tile of each group, over the iteration.
std::vector<MatrixWork> group_work(const MachineConfig& machine, const Program& program) {
  std::vector<MatrixWork> segments;
  segments.reserve(program.segments.size());
  const auto model = make_compute_model(machine);
  for (const Segment& s : program.segments) {
    segments.push_back(segment_work(machine, *model, program, s));
  }
  std::vector<MatrixWork> groups;
  std::vector<std::uint64_t> calls(segments.size());
  for (const TileGroup& group : program.groups) {
    std::fill(calls.begin(), calls.end(), 0);
    for (const Call& call : group.calls) ++calls[call.segment];
    MatrixWork work;
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (calls[s] > 0) work.add(segments[s], static_cast<double>(calls[s]));
    }
    groups.push_back(work);
  }
  return groups;
}

void fill_work(const MachineConfig& machine, const Program& program, const RunStatistics& run,
               Result& result) {
  double flop = 0, recomputed = 0;
  for (const TileStatistics& t : run.tiles) {
    flop += t.flop;
    recomputed += t.recomputed_flop;
  }
  result.flops_hardware = Flop(flop);
  result.flops_model = Flop(flop - recomputed);
  result.flops_convention = "as the program's shapes count them";
  MatrixWork work;
  const std::vector<MatrixWork> groups = group_work(machine, program);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    work.add(groups[g], static_cast<double>(program.groups[g].tiles.size()));
    double slowest = 1;
    for (const TileId t : program.groups[g].tiles) slowest = std::min(slowest, machine.speed(t));
    result.bounds.compute = std::max(result.bounds.compute, Seconds(groups[g].engine / slowest));
  }
  const double tile_seconds = result.tiles_used * result.iteration_time.value();
  if (tile_seconds > 0) {
    result.hfu = work.all / tile_seconds;
    result.mfu = (work.all - work.recomputed) / tile_seconds;
  }
}

void fill_stages(const Program& program, const RunStatistics& run, Result& result) {
  std::map<std::uint32_t, std::vector<TileId>> tiles;
  for (const TileGroup& group : program.groups) {
    auto& stage = tiles[group.stage];
    stage.insert(stage.end(), group.tiles.begin(), group.tiles.end());
  }
  for (const auto& [stage, list] : tiles) {
    StageResult r;
    r.stage = static_cast<int>(stage);
    summarise_stage(run, list, r);
    result.stages.push_back(r);
  }
}

}  // namespace

Result replay(const MachineConfig& machine, const Program& program, const std::string& name,
              const SimulateOptions& options) {
  Result result;
  const RunStatistics& run = run_platform(machine, program, options, result);

  options.enter("report");
  result.machine = machine.name;
  result.model = name;
  summarise(machine, run, result);
  fill_work(machine, program, run, result);
  fill_stages(program, run, result);
  summarise_stragglers(machine, program, result);
  summarise_energy(machine, program, run, result);
  for (const std::string& a : machine.assumptions) result.notes.push_back("assumed: " + a);
  return result;
}

}  // namespace tilewright
