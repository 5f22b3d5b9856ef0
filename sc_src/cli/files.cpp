#include "files.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include <tilewright/base/error.h>

namespace tilewright::cli {
namespace fs = std::filesystem;
namespace {

[[noreturn]] void cannot_write(const std::string& path, const std::string& why) {
  throw InputError(fmt::format("cannot write '{}': {}", path, why));
}

/// Renaming onto a device or a pipe would replace it by a plain file.
bool written_in_place(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status);
}

/// The file itself where `path` is a link to it, so that the link stays.
fs::path target_of(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  return error ? fs::path(path) : target;
}

void write_stream(const fs::path& path, const std::string& shown, const std::string& content) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << content;
  file.close();
  if (!file) cannot_write(shown, std::strerror(errno));
}

}  // namespace

void check_writable(const std::string& path) {
  if (path.empty() || path == "-") return;
  const fs::path target = target_of(path);
  std::error_code error;
  if (fs::is_directory(target, error)) cannot_write(path, "it is a folder");
  if (written_in_place(target)) return;
  const fs::path folder = target.has_parent_path() ? target.parent_path() : fs::path(".");
  if (!fs::is_directory(folder, error)) {
    cannot_write(path, fmt::format("there is no folder '{}'", folder.string()));
  }
  if (access(folder.c_str(), W_OK) != 0) cannot_write(path, std::strerror(errno));
}

void write_file(const std::string& path, const std::string& content) {
  if (path == "-") {
    std::cout << content;
    return;
  }
  const fs::path target = target_of(path);
  if (written_in_place(target)) {
    write_stream(target, path, content);
    return;
  }
  fs::path temporary = target;
  temporary += fmt::format(".{}.tmp", getpid());
  std::error_code error;
  try {
    write_stream(temporary, path, content);
    fs::rename(temporary, target, error);
    if (error) cannot_write(path, error.message());
  } catch (...) {
    fs::remove(temporary, error);
    throw;
  }
}

std::string model_file(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;  // a missing file is reported by its reader
  const fs::path config = fs::path(path) / "config.json";
  if (fs::exists(config, error)) return config.string();
  std::vector<std::string> found;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    const fs::path extension = entry.path().extension();
    if (extension == ".yaml" || extension == ".yml") found.push_back(entry.path().string());
  }
  if (found.size() == 1) return found.front();
  throw InputError(
      fmt::format("model '{}': the folder holds {}; name the file", path,
                  found.empty() ? std::string("neither a config.json nor a YAML file")
                                : fmt::format("no config.json and {} YAML files", found.size())));
}

}  // namespace tilewright::cli
