// The options of the commands that simulate, for files beside the report.
#pragma once

#include <sstream>
#include <string>

#include <boost/program_options.hpp>

#include <tilewright/simulate/simulate.h>

namespace tilewright::cli {

/// Adds --link-load, --heat-map, --latencies and --power to a command.
void add_side_options(boost::program_options::options_description& options);

/// The files that a run's loads, latencies and powers go to.
class SideFiles {
 public:
  /// Sets what `options` asks of the run.
  SideFiles(const boost::program_options::variables_map& values, SimulateOptions& options);
  /// Writes the files. Call when the run is complete.
  void write(const Result& result) const;

 private:
  std::string load_file_, map_file_, latency_file_, power_file_;
  std::ostringstream load_, map_, power_;
};

}  // namespace tilewright::cli
