#include "hugging_face_values.h"

#include <filesystem>
#include <vector>

namespace tilewright {

bool given(const Section& s, const std::string& key) { return s.has(key) && !s.is_null(key); }

bool flag_or(const Section& s, const std::string& key, bool fallback) {
  return given(s, key) ? s.flag(key) : fallback;
}

std::int64_t width(const Section& s, const std::string& key, std::int64_t most) {
  return s.integer(key, 1, most);
}

std::int64_t width_or(const Section& s, const std::string& key, std::int64_t fallback) {
  return given(s, key) ? width(s, key) : fallback;
}

std::string model_name(const std::string& path, const std::string& fallback) {
  const std::filesystem::path file(path);
  if (file.extension().empty()) return fallback;
  if (file.filename() != "config.json") return file.stem().string();
  const std::string directory = file.parent_path().filename().string();
  return directory.empty() || directory == "." || directory == ".." ? fallback : directory;
}

std::optional<std::string> first_architecture(const Section& root) {
  if (!given(root, "architectures")) return std::nullopt;
  const std::vector<std::string> names = root.texts("architectures");
  if (names.empty()) return std::nullopt;
  return names.front();
}

ActivationKind activation(const Section& s, const std::string& key, const std::string& fallback) {
  return s.choice<ActivationKind>(key,
                                  {{"silu", ActivationKind::silu},
                                   {"swish", ActivationKind::silu},
                                   {"gelu", ActivationKind::gelu},
                                   {"gelu_new", ActivationKind::gelu},
                                   {"gelu_fast", ActivationKind::gelu},
                                   {"gelu_python", ActivationKind::gelu},
                                   {"gelu_pytorch_tanh", ActivationKind::gelu},
                                   {"quick_gelu", ActivationKind::gelu},
                                   {"relu", ActivationKind::relu}},
                                  fallback);
}

}  // namespace tilewright
