// Reads the section `energy` and the tables it names; docs/energy.md documents every key.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/energy.h>

#include "readers.h"

namespace tilewright {

EnergyPerFlop EnergyConfig::matrix_flop(const std::string& format) const {
  const auto found = matrix.find(format);
  return found == matrix.end() ? EnergyPerFlop(0) : found->second;
}

Joules EnergyConfig::vector_element(const std::string& format) const {
  const auto found = vector.find(format);
  return found == vector.end() ? Joules(0) : found->second;
}

namespace {

namespace fs = std::filesystem;

/// What a table by technology node says: of links by the names of their kinds.
struct Technology {
  std::map<std::string, EnergyPerFlop> matrix;
  std::map<std::string, Joules> vector;
  MemoryEnergy sram;
  std::map<std::string, LinkEnergy> links;
};

/// The tables in `folder`, "7nm, hbm2".
std::string names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(folder, error)) {
    if (file.path().extension() == ".yaml") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The table under `table`: a name stands for energy/NAME.yaml beside the platform file; anything
/// with a slash or an extension is a path relative to it.
std::optional<Document> table_of(const Section& section, const Document& platform) {
  if (!section.has("table")) return {};
  const std::string name = section.text("table");
  const bool is_path = name.find('/') != std::string::npos || fs::path(name).has_extension();
  const std::string file = is_path ? name : "energy/" + name + ".yaml";
  const fs::path folder = (fs::path(platform.path()).parent_path() / file).parent_path();
  std::error_code error;
  if (!is_path && !fs::exists(folder / (name + ".yaml"), error)) {
    const std::string known = names_in(folder);
    section.fail("table",
                 fmt::format("there is no table {}.yaml in '{}'; {}", name, folder.string(),
                             known.empty() ? "it holds none" : "known: " + known));
  }
  return load_beside(platform, file, "energy");
}

template <class Value>
Value at(const std::map<std::string, Value>& values, const std::string& key) {
  const auto found = values.find(key);
  return found == values.end() ? Value() : found->second;
}

/// `most` is far above what any machine takes and keeps every sum finite: a slip of the unit.
template <class Quantity>
Quantity limited(const Section& section, const std::string& key, Quantity value, Quantity most) {
  if (value <= most) return value;
  section.fail(key, fmt::format("{} is out of range; wanted: at most {}", to_string(value),
                                to_string(most)));
}

EnergyPerByte energy_per_byte(const Section& section, const std::string& key,
                              EnergyPerByte fallback) {
  return limited(section, key, section.energy_per_byte(key, fallback), EnergyPerByte(1));
}

Watts static_watts(const Section& section, const std::string& key) {
  return limited(section, key, section.watts(key, Watts(0)), Watts(1e6));
}

/// By number format; those that neither the file nor the table names are left out.
void read_matrix_energy(const Section& section, std::map<std::string, EnergyPerFlop>& matrix) {
  for (const std::string& format : number_formats()) {
    if (section.has(format)) {
      matrix[format] = limited(section, format, section.energy_per_flop(format), EnergyPerFlop(1));
    } else if (matrix.count(format) > 0) {
      section.energy_per_flop(format, matrix[format]);  // to be listed as it is used
    }
  }
}

void read_vector_energy(const Section& section, std::map<std::string, Joules>& vector) {
  for (const std::string& format : number_formats()) {
    if (section.has(format)) {
      vector[format] = limited(section, format, section.joules(format), Joules(1));
    } else if (vector.count(format) > 0) {
      section.joules(format, vector[format]);
    }
  }
}

MemoryEnergy read_memory_energy(const Section& section, const MemoryEnergy& table) {
  MemoryEnergy energy;
  energy.read = energy_per_byte(section, "read", table.read);
  energy.write = energy_per_byte(section, "write", table.write);
  return energy;
}

LinkEnergy read_link_energy(const Section& section, const LinkEnergy& table) {
  LinkEnergy energy;
  energy.wire = energy_per_byte(section, "wire", table.wire);
  energy.router = energy_per_byte(section, "router", table.router);
  return energy;
}

/// Kinds of links that a machine may be given energies of: those that it has, and those that it
/// would have in another size, which `--set` may give it.
std::vector<std::string> link_names(const MachineConfig& m) {
  std::vector<std::string> names;
  for (const NamedLinkConfig& kind : m.link_kinds()) names.push_back(kind.name);
  const std::vector<std::string> others =
      m.fabric ? std::vector<std::string>{"device port", "network port", "leaf uplink"}
               : std::vector<std::string>{"on-die", "die-to-die", "wafer-to-wafer"};
  for (const std::string& name : others) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

/// What a table had to assume, for reports.
void read_table_assumptions(const Section& root, const std::string& name, MachineConfig& m) {
  const Section assumed = root.section("assumed");
  for (const std::string& key : assumed.keys()) {
    m.assumptions.push_back(fmt::format("energy of {}: {}: {}", name, key, assumed.text(key)));
  }
}

Technology read_technology(const Document& document, MachineConfig& m) {
  const Section root = document.root();
  Technology t;
  const std::string name = root.text("technology");
  read_matrix_energy(root.section("matrix"), t.matrix);
  read_vector_energy(root.section("vector"), t.vector);
  t.sram = read_memory_energy(root.section("sram"), {});
  const Section links = root.section("links");
  for (const std::string& kind : links.keys()) {
    t.links[kind] = read_link_energy(links.section(kind), {});
  }
  read_table_assumptions(root, name, m);
  root.finish();
  return t;
}

/// A memory with the table that it names.
MemoryEnergy read_memory(const Section& section, const Document& platform, MachineConfig& m) {
  MemoryEnergy energy;
  if (const auto document = table_of(section, platform)) {
    const Section root = document->root();
    const std::string name = root.text("memory");
    energy = read_memory_energy(root, {});
    read_table_assumptions(root, name, m);
    root.finish();
  }
  return read_memory_energy(section, energy);
}

}  // namespace

void read_energy(const Section& section, const Document& platform, MachineConfig& m) {
  Technology technology;
  if (const auto document = table_of(section, platform)) technology = read_technology(*document, m);
  EnergyConfig e;
  e.matrix = technology.matrix;
  read_matrix_energy(section.section("matrix"), e.matrix);
  e.vector = technology.vector;
  read_vector_energy(section.section("vector"), e.vector);
  e.sram = read_memory_energy(section.section("sram"), technology.sram);
  const Section idle = section.section("static");
  e.idle.tile = static_watts(idle, "tile");
  if (!m.dram.sites.empty()) {
    e.dram = read_memory(section.section("dram"), platform, m);
    e.idle.dram = static_watts(idle, "dram");
  }
  if (!m.host.sites.empty()) {
    e.host = read_memory(section.section("host"), platform, m);
    e.idle.host = static_watts(idle, "host");
  }
  if (m.fabric && !m.fabric->switches.empty()) e.idle.switches = static_watts(idle, "switch");
  const Section links = section.section("links");
  const std::size_t kinds = m.link_kinds().size();
  for (const std::string& name : link_names(m)) {
    const bool is_there = e.links.size() < kinds;
    if (!is_there && !links.has(name)) continue;
    const LinkEnergy link = read_link_energy(links.section(name), at(technology.links, name));
    if (is_there) e.links.push_back(link);
  }
  m.energy = e;
}

std::vector<std::string> energy_keys(const MachineConfig& m) {
  std::vector<std::string> keys{"energy.table",        "energy.sram.read",   "energy.sram.write",
                                "energy.dram.table",   "energy.dram.read",   "energy.dram.write",
                                "energy.host.table",   "energy.host.read",   "energy.host.write",
                                "energy.static.tile",  "energy.static.dram", "energy.static.host",
                                "energy.static.switch"};
  for (const std::string& format : number_formats()) {
    keys.push_back("energy.matrix." + format);
    keys.push_back("energy.vector." + format);
  }
  for (const std::string& name : link_names(m)) {
    keys.push_back("energy.links." + name + ".wire");
    keys.push_back("energy.links." + name + ".router");
  }
  return keys;
}

}  // namespace tilewright
