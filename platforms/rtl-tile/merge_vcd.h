// Waves of two writers in one file.
#pragma once

#include <string>
#include <vector>

namespace tilewright::rtl {

/// Writes the signals of all `inputs` (VCD, of one time unit) to `output`, in order of time, each
/// with its scopes. Throws InputError when a file cannot be read, is not VCD or has another unit.
void merge_vcd(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace tilewright::rtl
