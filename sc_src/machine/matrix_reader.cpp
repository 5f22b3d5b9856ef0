#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

#include <tilewright/machine/compute_model.h>

#include "readers.h"

namespace tilewright {
namespace {

// Extents and array sizes up to this leave room for products of two in 64 bits.
constexpr std::int64_t kMostCells = std::int64_t{1} << 20;
constexpr std::int64_t kLargestExtent = std::int64_t{1} << 40;

void read_accumulator(const Section& matrix, MatrixConfig& config) {
  const Bytes sum = matrix.bytes("accumulator", Bytes(static_cast<double>(config.accumulator)));
  if (sum.value() != 2 && sum.value() != 4) {
    matrix.fail("accumulator",
                fmt::format("{} is not the size of a sum; wanted: 2 B or 4 B", to_string(sum)));
  }
  config.accumulator = static_cast<std::int64_t>(sum.value());
}

/// One factor for all formats, or a map of those of some.
void read_sparsity(const Section& matrix, MatrixConfig& config) {
  constexpr double kMost = 1024;
  if (!matrix.is_map("sparsity")) {
    const double all = matrix.number("sparsity", 1, kMost, 1);
    for (const std::string& format : number_formats()) config.sparsity[format] = all;
    return;
  }
  const Section sparsity = matrix.section("sparsity");
  for (const std::string& format : number_formats()) {
    config.sparsity[format] = sparsity.number(format, 1, kMost, 1);
  }
}

void read_rates(const Section& matrix, MatrixConfig& config) {
  for (const std::string& format : number_formats()) {
    if (matrix.has(format))
      config.peak[format] = matrix.flop_rate(format) * config.sparsity_of(format);
  }
  if (config.peak.empty()) {
    matrix.fail("", fmt::format("no number format has a peak rate; wanted: at least one of {}, "
                                "such as 'fp16: 16 TFLOP/s'",
                                fmt::join(number_formats(), ", ")));
  }
}

void read_systolic(const Section& matrix, MatrixConfig& config) {
  SystolicConfig& s = config.systolic;
  s.rows = matrix.integer("rows", 1, kMostCells);
  s.columns = matrix.integer("columns", 1, kMostCells);
  s.arrays = matrix.integer("arrays", 1, kMostCells, 1);
  s.dataflow = matrix.choice<Dataflow>("dataflow", {{"os", Dataflow::output_stationary},
                                                    {"ws", Dataflow::weight_stationary},
                                                    {"is", Dataflow::input_stationary}});
  s.pipelined_folds = matrix.flag("pipelined_folds", false);
  s.clock = matrix.frequency("clock");
  if (s.clock.is_unlimited()) matrix.fail("clock", "a clock must be finite, such as '1 GHz'");
  const Section speed = matrix.section("speed");
  for (const std::string& format : number_formats()) {
    if (!speed.has(format)) continue;
    s.speed[format] = speed.number(format, 1e-6, 1e6);
    const double cells = static_cast<double>(s.rows) * static_cast<double>(s.columns) *
                         static_cast<double>(s.arrays);
    config.peak[format] =
        FlopRate(2 * cells * s.clock.value() * s.speed[format] * config.sparsity_of(format));
  }
  if (config.peak.empty()) {
    matrix.fail("speed", fmt::format("no number format is supported; wanted: at least one of {}, "
                                     "such as '{{ fp16: 1, int8: 2 }}' (1 = one "
                                     "multiply-accumulate per cell and cycle)",
                                     fmt::join(number_formats(), ", ")));
  }
}

void read_table(const Section& matrix, MatrixConfig& config) {
  std::map<std::string, std::vector<EfficiencyPoint>> by_format;
  const std::vector<Section> points = matrix.sections("table");
  for (const Section& point : points) {
    EfficiencyPoint p;
    if (point.has("format")) {
      std::vector<std::pair<std::string, std::string>> names;
      for (const auto& peak : config.peak) names.emplace_back(peak.first, peak.first);
      p.format = point.choice<std::string>("format", names);
    }
    p.m = point.integer("m", 1, kLargestExtent);
    p.n = point.integer("n", 1, kLargestExtent);
    p.k = point.integer("k", 1, kLargestExtent);
    p.efficiency = point.number("efficiency", 1e-6, 1);
    by_format[p.format].push_back(p);
    config.table.push_back(p);
  }
  if (config.table.empty()) {
    matrix.fail("table", "no measurement is given; wanted: a list of { m, n, k, efficiency }");
  }
  for (const auto& [format, group] : by_format) {
    const std::string fault = EfficiencyTable::fault(group);
    if (fault.empty()) continue;
    matrix.fail("table",
                fmt::format("{}{}; wanted: every combination of the m, n and k values, once each",
                            format.empty() ? "" : format + ": ", fault));
  }
  if (by_format.count("") > 0) return;
  for (const auto& peak : config.peak) {
    if (by_format.count(peak.first) > 0) continue;
    matrix.fail("table", fmt::format("no point holds for {}; wanted: points of this format, or "
                                     "points without one, which hold for all others",
                                     peak.first));
  }
}

}  // namespace

const std::vector<std::string>& number_formats() {
  static const std::vector<std::string> names{"fp32", "fp16", "bf16", "fp8", "int8"};
  return names;
}

void read_matrix(const Section& matrix, MatrixConfig& config) {
  config.model = read_name(matrix, "model", {"peak", "systolic", "table"});
  read_sparsity(matrix, config);
  read_accumulator(matrix, config);
  if (config.model == "systolic") {
    read_systolic(matrix, config);
  } else {
    read_rates(matrix, config);
  }
  if (config.model == "table") read_table(matrix, config);
}

std::vector<std::string> matrix_keys() {
  std::vector<std::string> keys;
  for (const char* key : {"model", "sparsity", "accumulator", "rows", "columns", "arrays",
                          "dataflow", "pipelined_folds", "clock", "speed", "table"}) {
    keys.push_back(std::string("tile.matrix.") + key);
  }
  for (const std::string& f : number_formats()) {
    keys.push_back("tile.matrix." + f);
    keys.push_back("tile.matrix.speed." + f);
    keys.push_back("tile.matrix.sparsity." + f);
  }
  return keys;
}

bool matrix_key_applies(const std::string& key, const MatrixConfig& config) {
  const std::string name = key.substr(key.find_last_of('.') + 1);
  if (name == "model" || name == "sparsity" || name == "accumulator") return true;
  if (key.find(".sparsity.") != std::string::npos) return config.peak.count(name) > 0;
  const bool systolic = config.model == "systolic";
  const auto& formats = number_formats();
  if (std::find(formats.begin(), formats.end(), name) != formats.end()) {
    return systolic == (key.find(".speed.") != std::string::npos) && config.peak.count(name) > 0;
  }
  return name == "table" ? config.model == "table" : systolic;
}

}  // namespace tilewright
