// The files that a command writes, checked before it begins.
#pragma once

#include <string>

#include <boost/program_options.hpp>

#include <tilewright/base/config.h>

namespace tilewright::cli {

/// Asked before a long run, so that neither its result nor a file of the user is lost. Throws
/// InputError when a file cannot be written, when two outputs of `command` go to stdout or to the
/// same file, or when one would replace a program or trace that the command reads. Returns whether
/// an output goes to stdout, where it takes the place of the report.
bool check_outputs(const boost::program_options::variables_map& values, const std::string& command);

/// Throws InputError when an output would replace the file of `option` or a file that it names.
void check_kept(const boost::program_options::variables_map& values, const std::string& option,
                const Document& document);

}  // namespace tilewright::cli
