#include "side_files.h"

#include "files.h"
#include "options.h"

namespace tilewright::cli {
namespace po = boost::program_options;

void add_side_options(po::options_description& options) {
  auto add = options.add_options();
  add("link-load", po::value<std::string>()->value_name("FILE"),
      "write the load of every link over time as CSV; the report then names what loads the busiest "
      "one");
  add("heat-map", po::value<std::string>()->value_name("FILE"),
      "draw the mesh with the load of its links as SVG");
  add("latencies", po::value<std::string>()->value_name("FILE"),
      "count how long messages, loads and stores take, by cause, and write the histograms as CSV; "
      "the report then has the percentiles");
  add("power", po::value<std::string>()->value_name("FILE"),
      "write what the machine draws over time as CSV: watts by category in equal intervals");
}

SideFiles::SideFiles(const po::variables_map& values, SimulateOptions& options)
    : load_file_(text_of(values, "link-load")),
      map_file_(text_of(values, "heat-map")),
      latency_file_(text_of(values, "latencies")),
      power_file_(text_of(values, "power")) {
  if (!load_file_.empty()) options.link_load = &load_;
  if (!map_file_.empty()) options.heat_map = &map_;
  options.latencies = !latency_file_.empty();
  if (!power_file_.empty()) options.power = &power_;
}

void SideFiles::write(const Result& result) const {
  if (!load_file_.empty()) write_file(load_file_, load_.str());
  if (!map_file_.empty()) write_file(map_file_, map_.str());
  if (!latency_file_.empty()) write_file(latency_file_, latencies_csv(result));
  if (!power_file_.empty()) write_file(power_file_, power_.str());
}

}  // namespace tilewright::cli
