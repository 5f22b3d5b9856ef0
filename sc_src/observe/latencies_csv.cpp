#include <string>

#include <fmt/format.h>

#include <tilewright/observe/result.h>

namespace tilewright {

std::string latencies_csv(const Result& r) {
  std::string csv = "cause,from_s,to_s,count\n";
  for (std::size_t i = 0; i < r.latencies.size(); ++i) {
    for (const LatencyHistogram::Bin& bin : r.latencies[i].bins()) {
      csv += fmt::format("{},{:.12g},{:.12g},{}\n", to_string(static_cast<Cause>(i)),
                         to_seconds(bin.first).value(), to_seconds(bin.last).value(), bin.count);
    }
  }
  return csv;
}

}  // namespace tilewright
