// The version that reports carry.
#pragma once

namespace tilewright {

/// Equal to the project's version in CMakeLists.txt (a test compares them).
constexpr const char* kVersion = "0.1.0";

}  // namespace tilewright
