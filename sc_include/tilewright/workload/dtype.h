// Number formats.
#pragma once

#include <string>

namespace tilewright {

enum class DType { fp32, fp16, bf16, fp8, int8 };

/// Bytes of one element: 4, 2, 2, 1, 1.
constexpr int bytes_of(DType t) {
  return t == DType::fp32 ? 4 : (t == DType::fp16 || t == DType::bf16) ? 2 : 1;
}
std::string to_string(DType t);

}  // namespace tilewright
