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

std::optional<fs::path> replaced_file(const std::string& path) {
  if (path.empty() || path == "-") return {};
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path target = target_of(absolute.string());
  if (written_in_place(target)) return {};
  return target;
}

OutputFile::OutputFile(const std::string& path) : shown_(path), target_(target_of(path)) {
  if (!written_in_place(target_)) {
    temporary_ = target_;
    temporary_ += fmt::format(".{}.tmp", getpid());
  }
  stream_.open(temporary_.empty() ? target_ : temporary_, std::ios::binary | std::ios::trunc);
  if (!stream_) cannot_write(shown_, std::strerror(errno));
}

OutputFile::~OutputFile() {
  if (temporary_.empty()) return;
  std::error_code ignored;
  fs::remove(temporary_, ignored);
}

void OutputFile::commit() {
  stream_.close();
  if (!stream_) cannot_write(shown_, std::strerror(errno));
  if (temporary_.empty()) return;
  std::error_code error;
  fs::rename(temporary_, target_, error);
  if (error) cannot_write(shown_, error.message());
  temporary_.clear();
}

void write_file(const std::string& path, const std::string& content) {
  if (path == "-") {
    std::cout << content;
    return;
  }
  OutputFile file(path);
  file.stream() << content;
  file.commit();
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
