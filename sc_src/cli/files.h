// Files the commands read and write.
#pragma once

#include <string>

namespace tilewright::cli {

/// Throws InputError when `path` cannot be written ("" and "-" always can). Asked before a long
/// run, so that its result is not lost.
void check_writable(const std::string& path);

/// Writes `content` to `path` so that a reader sees the old file or the whole new one; "-" is
/// stdout. Throws InputError.
void write_file(const std::string& path, const std::string& content);

/// A model may be named by its folder: the config.json or the only YAML file inside it.
std::string model_file(const std::string& path);

}  // namespace tilewright::cli
