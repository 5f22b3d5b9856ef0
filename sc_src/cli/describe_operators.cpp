// The operators of a job, one by one, and its roofline.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/observe/roofline.h>
#include <tilewright/plan/operators.h>

#include "describe.h"

namespace tilewright::cli {
namespace {

/// What takes longest of an operator when each part of the tile works by itself.
std::string bound(const OperatorCost& o) {
  const std::vector<std::pair<double, const char*>> parts{{o.matrix_seconds, "matrix"},
                                                          {o.vector_seconds, "vector"},
                                                          {o.sram_seconds, "sram"},
                                                          {o.dram_seconds, "dram"}};
  return std::max_element(parts.begin(), parts.end(),
                          [](auto& a, auto& b) { return a.first < b.first; })
      ->second;
}

}  // namespace

std::string ranges(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

Roofline job_roofline(const Inputs& inputs) {
  const PlanConfig& plan = inputs.plan->config;
  const MachineConfig& m = inputs.platform->machine;
  const Graph& graph = inputs.model->graph;
  const OperatorTable table = list_operators(graph, plan, m);
  Roofline r;
  r.title = fmt::format("{} with plan {} on {}", graph.model, plan.name, m.name);
  r.format = table.rates.format;
  r.matrix_peak = m.peak(r.format).value();
  // fp32 runs at half the rate of 16 bits.
  r.vector_peak = 1 / table.rates.engines->vector_seconds(1, r.format);
  r.dram_bandwidth = table.rates.dram.dram;
  r.sram_bandwidth = table.rates.dram.sram.bandwidth.value();
  for (const OperatorCost& o : table.operators) {
    RooflineOperator mark;
    mark.name = o.name;
    mark.phase = to_string(o.phase);
    mark.stages = ranges(o.stages);
    mark.bound = bound(o);
    mark.matrix = o.flop > 0;
    mark.operations = mark.matrix ? o.flop : o.elements;
    mark.dram_bytes = o.dram_bytes;
    mark.sram_bytes = o.sram_bytes;
    mark.seconds = o.seconds;
    mark.calls = o.calls;
    r.operators.push_back(mark);
  }
  return r;
}

void describe_operators(Description& out, const Roofline& roofline) {
  Json operators = Json::array();
  for (const RooflineOperator& o : roofline.operators) {
    const auto intensity = [](double v, double bytes) { return bytes > 0 ? Json(v) : Json(); };
    operators.push_back(
        Json{{"name", o.name},
             {"phase", o.phase},
             {"stages", o.stages},
             {"engine", o.matrix ? "matrix" : "vector"},
             {"operations", o.operations},
             {"dram_bytes", o.dram_bytes},
             {"sram_bytes", o.sram_bytes},
             {"operations_per_dram_byte", intensity(o.dram_intensity(), o.dram_bytes)},
             {"operations_per_sram_byte", intensity(o.sram_intensity(), o.sram_bytes)},
             {"seconds", o.seconds},
             {"calls", o.calls},
             {"operations_per_s", o.rate()},
             {"roof_per_s", roof(roofline, o)},
             {"bound_by", o.bound}});
  }
  out.json["job"]["operators"] = std::move(operators);
}

}  // namespace tilewright::cli
