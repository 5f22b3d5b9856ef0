// The options of the commands that simulate, for looking at the network.
#pragma once

#include <sstream>
#include <string>

#include <boost/program_options.hpp>

#include <tilewright/simulate/simulate.h>

namespace tilewright::cli {

/// Adds --link-load, --heat-map and --latencies to a command.
void add_link_options(boost::program_options::options_description& options);

/// The files that a run's link loads and latencies go to.
class LinkFiles {
 public:
  /// Sets what `options` asks of the run. Throws InputError when a file cannot be written.
  LinkFiles(const boost::program_options::variables_map& values, SimulateOptions& options);
  /// Writes the files. Call when the run is complete.
  void write(const Result& result) const;

 private:
  std::string load_file_, map_file_, latency_file_;
  std::ostringstream load_, map_;
};

}  // namespace tilewright::cli
