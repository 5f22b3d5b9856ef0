// Values of a Hugging Face config.json, as the readers of all architectures take them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <tilewright/base/config.h>
#include <tilewright/workload/decoder.h>

#include "decoder_shape.h"

namespace tilewright {

// These files write null for "not used"; to us that is the same as an absent key only where the
// library's own default is "not used" too, so the two are told apart.
bool given(const Section& s, const std::string& key);
bool flag_or(const Section& s, const std::string& key, bool fallback);
std::int64_t width(const Section& s, const std::string& key, std::int64_t most = kWidest);
std::int64_t width_or(const Section& s, const std::string& key, std::int64_t fallback);
ActivationKind activation(const Section& s, const std::string& key, const std::string& fallback);

/// The first of `architectures`, unless that is absent or empty.
std::optional<std::string> first_architecture(const Section& root);

/// config.json is named after its directory, any other file after itself; `fallback` names text
/// that is no file.
std::string model_name(const std::string& path, const std::string& fallback);

}  // namespace tilewright
