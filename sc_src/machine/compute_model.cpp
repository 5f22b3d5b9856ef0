#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/base/integer.h>
#include <tilewright/machine/compute_model.h>

namespace tilewright {
namespace {

double full_flop(const GemmShape& g) {
  return 2.0 * static_cast<double>(g.batch) * static_cast<double>(g.m) * static_cast<double>(g.n) *
         static_cast<double>(g.k);
}

class PeakModel final : public ComputeModel {
 public:
  explicit PeakModel(const MachineConfig& machine) : ComputeModel(machine) {}

  double matrix_seconds(const GemmShape& gemm, const std::string& format) const override {
    return peak_seconds(gemm, format);
  }
};

class SystolicModel final : public ComputeModel {
 public:
  explicit SystolicModel(const MachineConfig& machine)
      : ComputeModel(machine), array_(machine.matrix.systolic) {}

  double matrix_seconds(const GemmShape& gemm, const std::string& format) const override {
    machine_.peak(format);  // refuses an unsupported format
    const double full = full_flop(gemm);
    if (full == 0) return peak_seconds(gemm, format);  // no extents given: only work to count
    const SystolicConfig& s = machine_.matrix.systolic;
    const double rate = s.clock.value() * s.speed.at(format) * machine_.matrix.sparsity_of(format);
    return array_.cycles(gemm) / rate * (gemm.flop / full);
  }

  std::optional<OperandTraffic> traffic(const GemmShape& gemm, int element) const override {
    const double full = full_flop(gemm);
    if (full == 0) return {};
    const OperandTraffic all = array_.traffic(gemm, element, machine_.matrix.accumulator);
    return OperandTraffic{all.read * (gemm.flop / full), all.written * (gemm.flop / full)};
  }

 private:
  SystolicArray array_;
};

class TableModel final : public ComputeModel {
 public:
  explicit TableModel(const MachineConfig& machine) : ComputeModel(machine) {
    std::map<std::string, std::vector<EfficiencyPoint>> by_format;
    for (const EfficiencyPoint& p : machine.matrix.table) by_format[p.format].push_back(p);
    for (const auto& [format, points] : by_format) tables_.emplace(format, points);
  }

  double matrix_seconds(const GemmShape& gemm, const std::string& format) const override {
    const double peak = peak_seconds(gemm, format);
    return full_flop(gemm) == 0 ? peak : peak / table(format).efficiency(gemm);
  }

  std::string caveat(const GemmShape& gemm, const std::string& format) const override {
    if (full_flop(gemm) == 0 || table(format).covers(gemm)) return {};
    return fmt::format("{} × {} × {} in {} lies outside the measured efficiencies", gemm.m, gemm.n,
                       gemm.k, format);
  }

 private:
  const EfficiencyTable& table(const std::string& format) const {
    const auto found = tables_.find(format);
    if (found != tables_.end()) return found->second;
    const auto common = tables_.find("");
    if (common != tables_.end()) return common->second;
    throw InputError(fmt::format("machine '{}': tile.matrix.table has no efficiency for {}",
                                 machine_.name, format));
  }

  std::map<std::string, EfficiencyTable> tables_;
};

}  // namespace

SystolicArray::Extents SystolicArray::extents(const GemmShape& g) const {
  switch (config_.dataflow) {
    case Dataflow::output_stationary:
      return {g.m, g.n, g.k};
    case Dataflow::weight_stationary:
      return {g.k, g.n, g.m};
    case Dataflow::input_stationary:
      break;
  }
  return {g.k, g.m, g.n};
}

std::int64_t SystolicArray::cycles_per_fold(const GemmShape& gemm) const {
  const bool loads_first = config_.dataflow != Dataflow::output_stationary;
  return extents(gemm).steps + (loads_first ? 2 : 1) * config_.rows + config_.columns - 2;
}

std::int64_t SystolicArray::folds(const GemmShape& gemm) const {
  const Extents e = extents(gemm);
  return gemm.batch * ceil_div(e.rows, config_.rows) * ceil_div(e.columns, config_.columns);
}

double SystolicArray::cycles(const GemmShape& gemm) const {
  const std::int64_t folds = ceil_div(this->folds(gemm), config_.arrays);
  if (folds == 0) return 0;
  const auto last = static_cast<double>(cycles_per_fold(gemm));
  if (!config_.pipelined_folds) return static_cast<double>(folds) * last;
  const auto step = static_cast<double>(std::max(extents(gemm).steps, config_.rows));
  return static_cast<double>(folds - 1) * step + last;
}

OperandTraffic SystolicArray::traffic(const GemmShape& g, int element, std::int64_t sum) const {
  const Extents e = extents(g);
  const auto batch = static_cast<double>(g.batch), bytes = static_cast<double>(element),
             partial = static_cast<double>(sum);
  const auto m = static_cast<double>(g.m), n = static_cast<double>(g.n),
             k = static_cast<double>(g.k);
  const auto down = static_cast<double>(ceil_div(e.rows, config_.rows)),
             across = static_cast<double>(ceil_div(e.columns, config_.columns));
  switch (config_.dataflow) {
    case Dataflow::output_stationary:
      return {batch * bytes * (m * k * across + k * n * down), batch * bytes * m * n};
    case Dataflow::weight_stationary:
      return {batch * (bytes * (k * n + m * k * across) + partial * m * n * (down - 1)),
              batch * partial * m * n * down};
    case Dataflow::input_stationary:
      break;
  }
  return {batch * (bytes * (m * k + k * n * across) + partial * m * n * (down - 1)),
          batch * partial * m * n * down};
}

EfficiencyTable::EfficiencyTable(const std::vector<EfficiencyPoint>& points) {
  std::map<std::tuple<double, double, double>, double> grid;  // in the order of values_
  for (const EfficiencyPoint& p : points) {
    const std::array<double, 3> at{std::log(static_cast<double>(p.m)),
                                   std::log(static_cast<double>(p.n)),
                                   std::log(static_cast<double>(p.k))};
    for (std::size_t i = 0; i < 3; ++i) axes_[i].push_back(at[i]);
    grid[{at[0], at[1], at[2]}] = std::log(p.efficiency);
  }
  for (auto& axis : axes_) {
    std::sort(axis.begin(), axis.end());
    axis.erase(std::unique(axis.begin(), axis.end()), axis.end());
  }
  for (const auto& [at, value] : grid) values_.push_back(value);
  if (values_.size() != axes_[0].size() * axes_[1].size() * axes_[2].size() || values_.empty()) {
    throw InputError("tile.matrix.table: the points are not a complete grid");
  }
}

std::string EfficiencyTable::fault(const std::vector<EfficiencyPoint>& points) {
  std::set<std::int64_t> ms, ns, ks;
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const EfficiencyPoint& p : points) {
    ms.insert(p.m);
    ns.insert(p.n);
    ks.insert(p.k);
    if (!seen.insert({p.m, p.n, p.k}).second) {
      return fmt::format("m {}, n {}, k {} is given twice", p.m, p.n, p.k);
    }
  }
  for (const std::int64_t m : ms) {
    for (const std::int64_t n : ns) {
      for (const std::int64_t k : ks) {
        if (seen.count({m, n, k}) == 0) {
          return fmt::format("m {}, n {}, k {} is missing", m, n, k);
        }
      }
    }
  }
  return {};
}

bool EfficiencyTable::covers(const GemmShape& g) const {
  const std::array<std::int64_t, 3> extents{g.m, g.n, g.k};
  for (std::size_t i = 0; i < 3; ++i) {
    const double at = std::log(static_cast<double>(extents[i]));
    // An extent that was never varied says nothing about others.
    if (at < axes_[i].front() || at > axes_[i].back()) return false;
  }
  return true;
}

double EfficiencyTable::efficiency(const GemmShape& g) const {
  const std::array<std::int64_t, 3> extents{g.m, g.n, g.k};
  std::array<std::size_t, 3> low{}, high{};
  std::array<double, 3> part{};  // of the way from low to high
  for (std::size_t i = 0; i < 3; ++i) {
    const std::vector<double>& axis = axes_[i];
    const double at =
        std::clamp(std::log(static_cast<double>(extents[i])), axis.front(), axis.back());
    const auto above = std::upper_bound(axis.begin(), axis.end(), at);
    high[i] = std::min(static_cast<std::size_t>(above - axis.begin()), axis.size() - 1);
    low[i] = above == axis.begin() ? 0 : static_cast<std::size_t>(above - axis.begin()) - 1;
    const double width = axis[high[i]] - axis[low[i]];
    part[i] = width > 0 ? (at - axis[low[i]]) / width : 0;
  }
  double sum = 0;
  for (unsigned corner = 0; corner < 8; ++corner) {
    double weight = 1;
    std::size_t at = 0;
    for (unsigned i = 0; i < 3; ++i) {
      const bool up = (corner >> i & 1u) != 0;
      weight *= up ? part[i] : 1 - part[i];
      at = at * axes_[i].size() + (up ? high[i] : low[i]);
    }
    if (weight > 0) sum += weight * values_[at];
  }
  return std::exp(sum);
}

double ComputeModel::peak_seconds(const GemmShape& gemm, const std::string& format) const {
  return gemm.flop / machine_.peak(format).value();
}

double ComputeModel::vector_seconds(double elements, const std::string& format) const {
  if (elements == 0) return 0;
  const double throughput = machine_.vector.throughput.value();
  if (!(throughput > 0)) throw InputError("the machine has no vector engine (vector.throughput)");
  return elements / throughput * (format == "fp32" ? 2 : 1);
}

std::unique_ptr<ComputeModel> make_compute_model(const MachineConfig& machine) {
  const std::string& model = machine.matrix.model;
  if (model == "peak") return std::make_unique<PeakModel>(machine);
  if (model == "systolic") return std::make_unique<SystolicModel>(machine);
  if (model == "table") return std::make_unique<TableModel>(machine);
  throw InputError("tile.matrix.model: '" + model +
                   "' is not known; allowed: peak, systolic, table");
}

}  // namespace tilewright
