// `tilewright describe --operator`: how the kernels of one operator are blocked, and what bounds
// them.
#include <algorithm>
#include <array>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/placement.h>
#include <tilewright/plan/stage_plan.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

/// A kernel as the stages that run it alike see it.
struct Entry {
  const Kernel* kernel;
  std::string text;
  Json json;
  std::set<int> stages;
};

std::string bytes_text(std::int64_t bytes) { return to_string(Bytes(static_cast<double>(bytes))); }

/// The operators of a kernel: mlp_up and activation of "mlp_up+activation", mlp_up of
/// "mlp_up.dgrad".
std::vector<std::string> operators_of(const std::string& kernel) {
  std::vector<std::string> names;
  std::istringstream parts(kernel);
  for (std::string part; std::getline(parts, part, '+');) {
    names.push_back(part.substr(0, part.find('.')));
  }
  return names;
}

std::string buffers_text(int buffers) {
  return buffers == 0 ? "resident" : buffers == 1 ? "one buffer" : "double-buffered";
}

/// Seconds by what takes them, each alone.
std::vector<std::pair<std::string, double>> times(const Kernel& k, const KernelCost& c,
                                                  const TileRates& rates) {
  const auto over = [](std::int64_t bytes, double rate) {
    return bytes > 0 ? static_cast<double>(bytes) / rate : 0.0;
  };
  const double vector =
      k.vector_elements > 0 ? rates.engines->vector_seconds(k.vector_elements, rates.format) : 0;
  return {{"matrix", matrix_seconds(k, rates)},
          {"vector", vector},
          {"SRAM", rates.dram.sram.seconds(static_cast<double>((c.sram + c.beside).read),
                                           static_cast<double>((c.sram + c.beside).written))},
          {"DRAM", over(c.load - c.spared + c.store, rates.dram.dram)},
          {"links to DRAM", over(std::max(c.load, c.store), rates.dram.way)},
          {"host memory", over(c.host_load + c.host_store, rates.host.dram)}};
}

const char* pass_name(ConvolutionPass pass) {
  return pass == ConvolutionPass::forward          ? "forward"
         : pass == ConvolutionPass::input_gradient ? "input gradient"
                                                   : "weight gradient";
}

void describe_convolution(Entry& e, const Convolution& c, const PixelBlock& pixels) {
  const auto& [height, width] = c.window;
  e.text += fmt::format(
      "    {:<14} {}: {} images, {} x {} pixels of {} channels to {} x {} of {}{}, kernel {} x {}, "
      "stride {}\n",
      "convolution", pass_name(c.pass), c.samples, height.in, width.in,
      grouped(c.groups * c.in_channels), height.out, width.out, grouped(c.groups * c.out_channels),
      c.groups > 1 ? fmt::format(" in {} groups", c.groups) : "", height.kernel, width.kernel,
      height.stride);
  e.text += fmt::format("    {:<14} {} images x {} rows x {} columns of the {}\n", "pixel blocks",
                        pixels.samples, pixels.rows, pixels.columns,
                        c.pass == ConvolutionPass::input_gradient ? "input" : "output");
  e.json["convolution"] = {{"pass", pass_name(c.pass)},
                           {"samples", c.samples},
                           {"groups", c.groups},
                           {"in_channels", c.in_channels},
                           {"out_channels", c.out_channels},
                           {"block_samples", pixels.samples},
                           {"block_rows", pixels.rows},
                           {"block_columns", pixels.columns}};
}

void describe_blocking(Entry& e, const Blocking& b) {
  const Gemm& g = e.kernel->gemm;
  e.text += fmt::format("    {:<14} {}{} x {} x {} (m x n x k)\n", "GEMM",
                        g.batch > 1 ? fmt::format("{} of ", grouped(g.batch)) : "", grouped(g.m),
                        grouped(g.n), grouped(g.k));
  e.text += fmt::format("    {:<14} {}\n", "loop order", to_string(b.order));
  e.text += fmt::format("    {:<14} {} x {} x {}, {} of them; {} of SRAM\n", "blocks", b.block_m,
                        b.block_n, b.block_k, grouped(b.blocks), bytes_text(b.footprint));
  e.text += fmt::format("    {:<14} A {}, B {}\n", "buffers", buffers_text(b.a_buffers),
                        buffers_text(b.b_buffers));
  if (b.in_place) {
    e.text += fmt::format("    {:<14} made in the place of their sums, leave between blocks\n",
                          "results");
  }
  e.text += fmt::format("    {:<14} A {}, B {}, C {}\n", "of the loads", bytes_text(b.a_traffic),
                        bytes_text(b.b_traffic), bytes_text(b.c_read));
  e.json["gemm"] = {{"batch", g.batch}, {"m", g.m}, {"n", g.n}, {"k", g.k}};
  e.json["blocking"] = {{"order", to_string(b.order)},
                        {"m", b.block_m},
                        {"n", b.block_n},
                        {"k", b.block_k},
                        {"blocks", b.blocks},
                        {"a_buffers", b.a_buffers},
                        {"b_buffers", b.b_buffers},
                        {"in_place", b.in_place},
                        {"sram_bytes", b.footprint},
                        {"a_bytes", b.a_traffic},
                        {"b_bytes", b.b_traffic},
                        {"c_read_bytes", b.c_read},
                        {"c_write_bytes", b.c_write}};
}

Entry entry_of(const Kernel& k, const KernelCost& c, const TileRates& rates) {
  Entry e{&k, {}, {}, {}};
  e.json["kernel"] = k.name;
  e.json["phase"] = to_string(k.phase);
  if (k.convolution && c.pixels) describe_convolution(e, *k.convolution, *c.pixels);
  if (c.blocking) describe_blocking(e, *c.blocking);
  e.text += fmt::format("    {:<14} {} bytes loaded, {} stored, in {} steps\n", "DRAM",
                        grouped(c.load), grouped(c.store), grouped(c.pipelining.steps));
  e.json["load_bytes"] = c.load;
  e.json["store_bytes"] = c.store;
  e.json["steps"] = c.pipelining.steps;
  const double flop = k.matrix ? k.gemm.flop() : 0;
  e.text += fmt::format("    {:<14} {}, {} vector element passes\n", "work", to_string(Flop(flop)),
                        grouped(static_cast<std::int64_t>(k.vector_elements)));
  e.json["flop"] = flop;
  e.json["vector_elements"] = k.vector_elements;
  std::string list, bound = "nothing";
  double most = 0;
  for (const auto& [what, seconds] : times(k, c, rates)) {
    e.json["seconds"][what] = seconds;
    if (seconds == 0) continue;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ", what, to_string(Seconds(seconds)));
    if (seconds <= most) continue;
    most = seconds;
    bound = what;
  }
  const double all = kernel_seconds(k, c, rates);
  e.text += fmt::format("    {:<14} {}; each alone: {}\n", "time", to_string(Seconds(all)), list);
  e.text += fmt::format("    {:<14} {}\n", "bound by", bound);
  e.json["seconds"]["all"] = all;
  e.json["bound_by"] = bound;
  return e;
}

/// The entries of one stage's chain, added to those of the stages before it.
void collect(StagePlanner& planner, const StagePlan& stage, const std::string& name,
             std::int64_t samples, std::vector<Entry>& entries, std::set<std::string>& known) {
  for (const std::size_t position : stage.positions()) {
    const std::uint32_t variant = planner.variant(stage.stage, position);
    const BlockKernels& kernels = planner.kernels(variant, samples);
    const BlockCosts& costs = planner.costs(variant, samples, stage.residency, stage.sram_resident);
    using List = std::pair<const std::vector<Kernel>*, const std::vector<KernelCost>*>;
    for (const auto& [list, cost] :
         {List{&kernels.forward, &costs.forward}, List{&kernels.recompute, &costs.recompute},
          List{&kernels.backward, &costs.backward}, List{&kernels.weight, &costs.weight}}) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        const Kernel& k = (*list)[i];
        if (k.collective) continue;
        const std::vector<std::string> operators = operators_of(k.name);
        known.insert(operators.begin(), operators.end());
        if (std::find(operators.begin(), operators.end(), name) == operators.end()) continue;
        Entry e = entry_of(k, (*cost)[i], planner.rates());
        const auto same = std::find_if(entries.begin(), entries.end(),
                                       [&](const Entry& o) { return o.json == e.json; });
        (same == entries.end() ? *entries.insert(same, std::move(e)) : *same)
            .stages.insert(stage.stage);
      }
    }
  }
}

}  // namespace

void describe_operator(Description& out, const Inputs& inputs, const std::string& name) {
  const PlanConfig& plan = inputs.plan->config;
  const MachineConfig& machine = inputs.platform->machine;
  const Placement placement = place(plan, machine);
  StagePlanner planner(inputs.model->graph, plan, machine, placement);
  std::vector<Entry> entries;
  std::set<std::string> known;
  for (const StagePlan& stage : planner.plan_stages()) {
    collect(planner, stage, name, plan.group_micro_batch(), entries, known);
  }
  if (entries.empty()) {
    throw InputError(fmt::format("describe: --operator {}: no kernel has this name; operators: {}",
                                 name, fmt::join(known, ", ")));
  }
  out.heading(fmt::format("Operator {}, a micro-batch of {} samples on one tile", name,
                          grouped(plan.group_micro_batch())));
  out.json["operator"] = Json::array();
  for (Entry& e : entries) {
    out.text += fmt::format("  {}, {}, stages {}\n{}", e.kernel->name, to_string(e.kernel->phase),
                            ranges({e.stages.begin(), e.stages.end()}), e.text);
    e.json["stages"] = e.stages;
    out.json["operator"].push_back(std::move(e.json));
  }
}

}  // namespace tilewright::cli
