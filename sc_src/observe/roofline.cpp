// What a tile can do at most, and the operators as a table.
#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <tilewright/observe/roofline.h>

namespace tilewright {
namespace {

double per_byte(double operations, double bytes) {
  return bytes > 0 ? operations / bytes : std::numeric_limits<double>::infinity();
}

double feed(double intensity, double bandwidth) {
  const double infinity = std::numeric_limits<double>::infinity();
  return intensity == infinity || bandwidth == infinity ? infinity : intensity * bandwidth;
}

}  // namespace

double RooflineOperator::dram_intensity() const { return per_byte(operations, dram_bytes); }
double RooflineOperator::sram_intensity() const { return per_byte(operations, sram_bytes); }

double roof(const Roofline& roofline, const RooflineOperator& o) {
  return std::min({o.matrix ? roofline.matrix_peak : roofline.vector_peak,
                   feed(o.dram_intensity(), roofline.dram_bandwidth),
                   feed(o.sram_intensity(), roofline.sram_bandwidth)});
}

std::string roofline_csv(const Roofline& roofline) {
  std::string csv =
      "operator,phase,stages,engine,operations,dram_bytes,sram_bytes,operations_per_dram_byte,"
      "operations_per_sram_byte,seconds,calls,operations_per_s,roof_per_s,reached,bound_by\n";
  for (const RooflineOperator& o : roofline.operators) {
    const double most = roof(roofline, o);
    csv += fmt::format("\"{}\",{},\"{}\",{},{},{},{},{},{},{},{},{},{},{},{}\n", o.name, o.phase,
                       o.stages, o.matrix ? "matrix" : "vector", o.operations, o.dram_bytes,
                       o.sram_bytes, o.dram_intensity(), o.sram_intensity(), o.seconds, o.calls,
                       o.rate(), most, most > 0 ? o.rate() / most : 0, o.bound);
  }
  return csv;
}

}  // namespace tilewright
