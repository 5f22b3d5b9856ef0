// The commands of the `tilewright` executable.
#pragma once

#include <string>
#include <vector>

namespace tilewright::cli {

/// Arguments after the command's name. The commands print their result to stdout and throw on
/// failure; the caller turns exceptions into messages and exit codes.
void run_command(const std::vector<std::string>& arguments);
void compare_command(const std::vector<std::string>& arguments);
void describe_command(const std::vector<std::string>& arguments);
void network_command(const std::vector<std::string>& arguments);
void collective_command(const std::vector<std::string>& arguments);
void program_command(const std::vector<std::string>& arguments);

}  // namespace tilewright::cli
