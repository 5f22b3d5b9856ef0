// Reading a command's options, with messages that help.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

namespace tilewright::cli {

/// What a command accepts and how it presents itself.
struct CommandOptions {
  std::string name;     ///< "run"
  std::string summary;  ///< first line of its help
  std::string example;  ///< shown at the end of its help
  boost::program_options::options_description options;
};

/// Parses `arguments`. Throws InputError for an unknown option (names the nearest known one), a
/// missing or repeated value, or an argument that is no option. Prints the command's help and
/// returns nothing when --help is among them.
std::optional<boost::program_options::variables_map> parse(
    const CommandOptions& command, const std::vector<std::string>& arguments);

/// The value of a text option, "" when absent.
std::string text_of(const boost::program_options::variables_map& values, const std::string& option);
/// All values of an option that may be repeated.
std::vector<std::string> list_of(const boost::program_options::variables_map& values,
                                 const std::string& option);

/// Throws InputError when `command` ("program --run") is not given all of the `needed` options.
void require_options(const boost::program_options::variables_map& values,
                     const std::string& command, const std::vector<std::string>& needed);

/// "; did you mean 'x'?" or "". Beyond misspellings it also finds what `word` is the beginning of.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

}  // namespace tilewright::cli
