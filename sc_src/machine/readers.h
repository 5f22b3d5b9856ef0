// The parts of a machine description that are read in files of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

/// Number formats a matrix engine may support.
const std::vector<std::string>& number_formats();

/// The name of a replaceable part; the first of `known` is the default.
std::string read_name(const Section& section, const std::string& key,
                      const std::vector<std::string>& known);

/// Throws InputError unless [x, y] lies inside width × height; `inside` says what that is.
void check_inside(const Section& section, const std::string& key, std::int64_t x, std::int64_t y,
                  int width, int height, const std::string& inside);
/// A list of coordinates inside width × height, none twice.
std::vector<std::pair<int, int>> read_coordinates(const Section& section, const std::string& key,
                                                  int width, int height, const std::string& inside);
/// The order of coordinates by rows.
bool row_major(const std::pair<int, int>& a, const std::pair<int, int>& b);

/// A time the kernel's 1 ps resolution can express.
Seconds read_latency(const Section& section, const std::string& key,
                     std::optional<Seconds> fallback = {});
/// Simulated time is 64 bits of picoseconds: a bandwidth so low that moving one memory's content
/// overflows them is a slip of the unit.
void check_transfer_time(const Section& section, const std::string& key, Bandwidth bandwidth,
                         Bytes amount, const std::string& what);
/// The document of a file named in `document`, its path relative to that.
Document load_beside(const Document& document, const std::string& file, const std::string& kind);

/// `cluster` and edge lists, each in two steps: how many tiles there are, then, when the tile's
/// SRAM is known, what joins them.
void read_cluster_size(const Section& cluster, MachineConfig& m);
void read_cluster(const Section& cluster, MachineConfig& m);
Document read_edge_list_size(const Section& section, const Document& platform, MachineConfig& m);
void read_edge_list(const Document& list, MachineConfig& m);

/// `defects`. The mesh has been read.
void read_defects(const Section& defects, MachineConfig& m);

/// `energy`. All the rest of the machine has been read.
void read_energy(const Section& section, const Document& platform, MachineConfig& m);
/// Paths of the keys that read_energy() knows, for `assumed`.
std::vector<std::string> energy_keys(const MachineConfig& m);

/// Memories are counted in whole bytes of 64 bits; 1 EiB leaves room for sums over many.
Bytes read_capacity(const Section& section);

/// `tile`.
void read_tile(const Section& tile, MachineConfig& m);
/// Paths of the keys of `tile`, for `assumed`.
std::vector<std::string> tile_keys();

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
