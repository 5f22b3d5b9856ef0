#include <cstdlib>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/machine.h>

namespace tilewright {

std::string MachineConfig::node_name(TileId node) const {
  const auto all = static_cast<std::uint32_t>(tiles());
  if (fabric && index(node) >= all) return fabric->switches[index(node) - all];
  return fmt::format("({},{})", x(node), y(node));
}

std::vector<std::pair<int, int>> DramConfig::ports(DramId id) const {
  std::vector<std::pair<int, int>> result{sites.at(index(id))};
  const auto further = further_ports.find(id);
  if (further != further_ports.end()) {
    result.insert(result.end(), further->second.begin(), further->second.end());
  }
  return result;
}

bool MachineConfig::is_spare(TileId t) const {
  const std::pair<int, int> at{x(t), y(t)};
  for (const auto& s : spare) {
    if (s == at) return true;
  }
  return false;
}

std::vector<bool> MachineConfig::spare_map() const {
  std::vector<bool> map(static_cast<std::size_t>(tiles()));
  for (const auto& s : spare) map[index(tile(s.first, s.second))] = true;
  return map;
}

std::vector<bool> MachineConfig::dead_map() const {
  std::vector<bool> map(static_cast<std::size_t>(tiles()));
  for (const auto& [x, y] : defects.dead_tiles) map[index(tile(x, y))] = true;
  return map;
}

std::vector<bool> MachineConfig::usable_map() const {
  std::vector<bool> map(static_cast<std::size_t>(tiles()), true);
  for (const auto& [x, y] : spare) map[index(tile(x, y))] = false;
  for (const auto& [x, y] : defects.dead_tiles) map[index(tile(x, y))] = false;
  return map;
}

double MachineConfig::speed(TileId t) const {
  const auto found = defects.speed.find(t);
  return found == defects.speed.end() ? 1 : found->second;
}

Seconds MachineConfig::delay(TileId t) const {
  const auto found = defects.delay.find(t);
  return found == defects.delay.end() ? Seconds(0) : found->second;
}

MachineConfig MachineConfig::without_stragglers() const {
  MachineConfig m = *this;
  m.defects.speed.clear();
  m.defects.delay.clear();
  return m;
}

bool MachineConfig::crosses_die(TileId a, TileId b) const { return die(a) != die(b); }

bool MachineConfig::crosses_wafer(TileId a, TileId b) const {
  const int wide = width() / wafers_x, high = height() / wafers_y;
  return x(a) / wide != x(b) / wide || y(a) / high != y(b) / high;
}

std::vector<NamedLinkConfig> MachineConfig::link_kinds() const {
  if (fabric) return fabric->kinds;
  std::vector<NamedLinkConfig> kinds{{"on-die", noc.link}};
  if (dies_x * dies_y > 1) kinds.push_back({"die-to-die", noc.die_link});
  if (wafers_x * wafers_y > 1) kinds.push_back({"wafer-to-wafer", noc.wafer_link});
  return kinds;
}

int MachineConfig::hops(TileId a, TileId b) const {
  return std::abs(x(a) - x(b)) + std::abs(y(a) - y(b));
}

FlopRate MachineConfig::peak(const std::string& format) const {
  const auto found = matrix.peak.find(format);
  if (found != matrix.peak.end()) return found->second;
  std::vector<std::string> supported;
  for (const auto& p : matrix.peak) supported.push_back(p.first);
  throw InputError(fmt::format(
      "machine '{}': the matrix engine does not support number format '{}'; supported: "
      "{}",
      name, format, supported.empty() ? "none" : fmt::format("{}", fmt::join(supported, ", "))));
}

}  // namespace tilewright
