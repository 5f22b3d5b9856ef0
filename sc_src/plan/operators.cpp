#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <tilewright/plan/operators.h>

namespace tilewright {
namespace {

/// Collects kernels, equal ones once.
class Collector {
 public:
  explicit Collector(OperatorTable& table) : table_(table) {}

  void add(const Kernel& k, const KernelCost& cost, int stage, double calls) {
    if (k.collective) return;
    OperatorCost o = measure(k, cost);
    const auto [at, is_new] = known_.emplace(
        std::make_tuple(o.name, o.phase, o.flop, o.elements, o.dram_bytes, o.sram_bytes, o.seconds),
        table_.operators.size());
    if (is_new) table_.operators.push_back(o);
    OperatorCost& entry = table_.operators[at->second];
    if (entry.stages.empty() || entry.stages.back() != stage) entry.stages.push_back(stage);
    entry.calls += calls;
  }

 private:
  OperatorCost measure(const Kernel& k, const KernelCost& cost) const {
    const TileRates& rates = table_.rates;
    OperatorCost o;
    o.name = k.name;
    o.phase = k.phase;
    o.flop = k.matrix ? k.gemm.flop() : 0;
    o.elements = k.vector_elements;
    o.dram_bytes = static_cast<double>(cost.load - cost.spared + cost.store);
    o.sram_bytes = static_cast<double>(cost.sram.total());
    o.seconds = kernel_seconds(k, cost, rates);
    o.matrix_seconds = tilewright::matrix_seconds(k, rates);
    if (o.elements > 0) o.vector_seconds = rates.engines->vector_seconds(o.elements, rates.format);
    const SramBytes through = cost.sram + cost.beside;
    o.sram_seconds = rates.dram.sram.seconds(static_cast<double>(through.read),
                                             static_cast<double>(through.written));
    if (o.dram_bytes > 0) o.dram_seconds = o.dram_bytes / rates.dram.dram;
    return o;
  }

  OperatorTable& table_;
  std::map<std::tuple<std::string, Phase, double, double, double, double, double>, std::size_t>
      known_;
};

}  // namespace

OperatorTable list_operators(const Graph& graph, const PlanConfig& plan,
                             const MachineConfig& machine) {
  check_plan(plan, graph, machine);
  const Placement placement = place(plan, machine);
  StagePlanner planner(graph, plan, machine, placement);
  OperatorTable table;
  const std::vector<StagePlan> stages = planner.plan_stages();
  table.rates = planner.rates();
  Collector collector(table);
  const auto micro_batches = static_cast<double>(plan.micro_batches(0).size());
  for (const StagePlan& s : stages) {
    for (const std::size_t position : s.positions()) {
      const std::uint32_t v = planner.variant(s.stage, position);
      const BlockKernels& k = planner.kernels(v, plan.group_micro_batch());
      const BlockCosts& c =
          planner.costs(v, plan.group_micro_batch(), s.residency, s.sram_resident);
      for (const auto& [kernels, costs] : {std::pair{&k.forward, &c.forward},
                                           {&k.recompute, &c.recompute},
                                           {&k.backward, &c.backward},
                                           {&k.weight, &c.weight}}) {
        for (std::size_t i = 0; i < kernels->size(); ++i) {
          collector.add((*kernels)[i], (*costs)[i], s.stage, micro_batches);
        }
      }
    }
    if (plan.mode == Mode::training && plan.optimizer != OptimizerKind::none) {
      const std::int64_t parameters = planner.sharding().optimizer(s.parameters_by_axes);
      collector.add(optimizer_kernel(plan, parameters), planner.optimizer_cost(s), s.stage, 1);
    }
  }
  return table;
}

}  // namespace tilewright
