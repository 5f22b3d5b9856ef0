// The options of the commands that simulate, for writing waveforms.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <boost/program_options.hpp>

#include <tilewright/observe/result.h>
#include <tilewright/observe/waves.h>

#include "files.h"

namespace tilewright::cli {

/// Adds --vcd, --vcd-scope, --vcd-from and --vcd-to to a command.
void add_wave_options(boost::program_options::options_description& options);

/// Where the signal groups of the waves in `vcd` go: beside it, with the extension .gtkw; "" where
/// nothing can lie beside it, as of a device.
std::string wave_groups_file(const std::string& vcd);

/// The files that a run's waveforms go to.
class WaveFiles {
 public:
  /// Reads the options and opens the files: FILE, and beside it FILE with .gtkw for its extension.
  /// Throws InputError in the name of `command`.
  WaveFiles(const boost::program_options::variables_map& values, const std::string& command);

  /// What SimulateOptions takes; without --vcd it asks for nothing.
  const WaveOptions& options() const { return options_; }
  /// Calls `run` and completes the files; says on stderr when the window lies behind the end. The
  /// files stay when it throws, too, if it came so far: waves show why.
  Result guard(const std::function<Result()>& run);

 private:
  void commit();
  void keep();

  WaveOptions options_;
  std::unique_ptr<OutputFile> vcd_, groups_;
};

}  // namespace tilewright::cli
