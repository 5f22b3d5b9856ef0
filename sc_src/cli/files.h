// Files the commands read and write.
#pragma once

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace tilewright::cli {

/// Throws InputError when `path` cannot be written ("" and "-" always can).
void check_writable(const std::string& path);

/// The file that writing to `path` makes or replaces, under the one name that it has whatever links
/// lead to it. Nothing for stdout, devices and pipes, which several may write to.
std::optional<std::filesystem::path> replaced_file(const std::string& path);

/// A file that is written bit by bit. Until commit() a reader sees the old one; without it nothing
/// is left behind. A device or a pipe is written to directly.
class OutputFile {
 public:
  /// Throws InputError, as commit().
  explicit OutputFile(const std::string& path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  std::ostream& stream() { return stream_; }
  void commit();

 private:
  std::string shown_;
  std::filesystem::path target_, temporary_;  // temporary_ empty: written in place, or committed
  std::ofstream stream_;
};

/// Writes `content` to `path` so that a reader sees the old file or the whole new one; "-" is
/// stdout. Throws InputError.
void write_file(const std::string& path, const std::string& content);

/// A model may be named by its folder: the config.json or the only YAML file inside it.
std::string model_file(const std::string& path);

}  // namespace tilewright::cli
