#include "options.h"

#include <iostream>
#include <sstream>

#include <fmt/format.h>

#include <tilewright/base/error.h>

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

std::string help_text(const CommandOptions& command) {
  std::ostringstream text;
  text << command.summary << "\n\nOptions:\n"
       << command.options << "\nExample:\n"
       << command.example << '\n';
  return text.str();
}

std::vector<std::string> names(const po::options_description& options) {
  std::vector<std::string> result;
  for (const auto& option : options.options()) result.push_back("--" + option->long_name());
  return result;
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string found;
  // An abbreviation that fits one name only is likelier than a misspelling of another.
  if (word.find_first_not_of('-') != std::string::npos) {
    int fitting = 0;
    for (const std::string& candidate : known) {
      if (candidate.rfind(word, 0) != 0) continue;
      found = candidate;
      ++fitting;
    }
    if (fitting != 1) found.clear();
  }
  if (found.empty()) found = nearest_name(word, known);
  return found.empty() ? "" : fmt::format("; did you mean '{}'?", found);
}

std::optional<po::variables_map> parse(const CommandOptions& command,
                                       const std::vector<std::string>& arguments) {
  const std::string see = fmt::format(" (see 'tilewright {} --help')", command.name);
  try {
    // Abbreviated options are refused: what they mean would change when options are added.
    namespace style = po::command_line_style;
    const auto parsed = po::command_line_parser(arguments)
                            .options(command.options)
                            .style(style::unix_style & ~style::allow_guessing)
                            .run();
    for (const auto& option : parsed.options) {
      if (option.string_key.empty()) {
        const std::string& word = option.value.empty() ? option.string_key : option.value.front();
        throw InputError(fmt::format("{}: '{}' is not an option{}", command.name, word, see));
      }
    }
    po::variables_map values;
    po::store(parsed, values);
    if (values.count("help") > 0) {
      std::cout << help_text(command);
      return std::nullopt;
    }
    po::notify(values);
    return values;
  } catch (const po::unknown_option& error) {
    const std::string word = error.get_option_name();
    throw InputError(fmt::format("{}: unknown option '{}'{}{}", command.name, word,
                                 did_you_mean(word, names(command.options)), see));
  } catch (const po::error& error) {
    throw InputError(fmt::format("{}: {}{}", command.name, error.what(), see));
  }
}

std::string text_of(const po::variables_map& values, const std::string& option) {
  return values.count(option) > 0 ? values[option].as<std::string>() : std::string();
}

std::vector<std::string> list_of(const po::variables_map& values, const std::string& option) {
  return values.count(option) > 0 ? values[option].as<std::vector<std::string>>()
                                  : std::vector<std::string>();
}

void require_options(const po::variables_map& values, const std::string& command,
                     const std::vector<std::string>& needed) {
  std::string missing;
  for (const std::string& option : needed) {
    if (values.count(option) == 0) missing += (missing.empty() ? "--" : ", --") + option;
  }
  if (missing.empty()) return;
  throw InputError(fmt::format("{}: missing {} (see 'tilewright {} --help')", command, missing,
                               command.substr(0, command.find(' '))));
}

}  // namespace tilewright::cli
