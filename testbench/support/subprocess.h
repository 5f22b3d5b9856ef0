// Runs the tilewright executable as its users do, and catches what it says.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tilewright::testing_support {

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A folder of its own for every test, removed at the end.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tilewright-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
    return path(name);
  }

 private:
  std::filesystem::path path_;
};

struct Outcome {
  int exit_code = -1;  ///< 128 + signal when the process was killed
  std::string out, err;
};

/// Runs `program` with `arguments` in the project's root, so that messages name short paths.
inline Outcome run_program(const std::string& program, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string out = folder.path("out"), err = folder.path("err");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_addchdir_np(&actions, TILEWRIGHT_SOURCE_DIR);
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error("cannot start " + program);
  int status = 0;
  waitpid(child, &status, 0);
  Outcome outcome;
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = read_text(out);
  outcome.err = read_text(err);
  return outcome;
}

/// The executable. What it simulates has a protocol checker on every memory-side socket, which ends
/// the process with exit code 3 when it has anything to say.
inline Outcome tilewright(std::vector<std::string> arguments) {
  const auto has = [&arguments](const char* word) {
    return std::find(arguments.begin(), arguments.end(), word) != arguments.end();
  };
  const std::string command = arguments.empty() ? "" : arguments[0];
  if (command == "run" || command == "compare" || (command == "program" && has("--run"))) {
    arguments.insert(arguments.begin() + 1, "--check-protocol");
  }
  return run_program(TILEWRIGHT_BINARY, arguments);
}

}  // namespace tilewright::testing_support
