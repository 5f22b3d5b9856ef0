// The parts of a machine description that are read in files of their own.
#pragma once

#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

/// Number formats a matrix engine may support.
const std::vector<std::string>& number_formats();

/// The name of a replaceable part; the first of `known` is the default.
std::string read_name(const Section& section, const std::string& key,
                      const std::vector<std::string>& known);

/// `tile.matrix`: the model's name and its own keys.
void read_matrix(const Section& matrix, MatrixConfig& config);
/// Paths of the keys that read_matrix() knows, for `assumed`.
std::vector<std::string> matrix_keys();
/// True when `key`, one of matrix_keys(), is read by the model that `config` names.
bool matrix_key_applies(const std::string& key, const MatrixConfig& config);

/// The address mapping under `key`, fit for `part`.
std::vector<AddressField> read_mapping(const Section& section, const std::string& key,
                                       const MemoryPart& part);

}  // namespace tilewright
