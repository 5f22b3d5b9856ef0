#include "peers.h"

namespace tilewright {

AxisShifts one_axis(std::size_t axis, int shift) {
  AxisShifts shifts{};
  shifts[axis] = shift;
  return shifts;
}

AxisShifts PeerTables::wrapped(const AxisShifts& shifts) const {
  AxisShifts result{};
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    const int degree = axes_[a].degree;
    result[a] = ((shifts[a] % degree) + degree) % degree;
  }
  return result;
}

std::uint32_t PeerTables::along(const AxisShifts& shifts) {
  const AxisShifts key = wrapped(shifts);
  const auto [it, added] =
      numbers_.emplace(key, kFixedPeers + static_cast<std::uint32_t>(tables_.size()));
  if (added) tables_.push_back(key);
  return it->second;
}

std::uint16_t PeerTables::channel(const AxisShifts& shifts, bool background) {
  const AxisShifts key = wrapped(shifts);
  const auto [it, added] = channels_.emplace(std::make_pair(key, background),
                                             static_cast<std::uint16_t>(channel_names_.size()));
  if (!added) return it->second;
  std::string name;
  for (std::size_t a = 0; a < axes_.size(); ++a) {
    if (key[a] != 0)
      name += (name.empty() ? "" : " ") + axes_[a].name + " +" + std::to_string(key[a]);
  }
  channel_names_.push_back(name + (background ? " background" : ""));
  return it->second;
}

Channel PeerTables::stage_channel(SlotPhase phase, int chunk, std::uint16_t lane) {
  const bool forward = phase == SlotPhase::forward;
  if (chunk == 0 && lane == 0) return forward ? Channel::forward : Channel::backward;
  const auto [it, added] = stage_channels_.emplace(
      std::make_tuple(phase, chunk, lane), static_cast<std::uint16_t>(channel_names_.size()));
  if (added) {
    channel_names_.push_back(std::string(forward ? "pipeline forward" : "pipeline backward") +
                             ", chunk " + std::to_string(chunk) +
                             (lane > 0 ? ", lane " + std::to_string(lane) : ""));
  }
  return static_cast<Channel>(it->second);
}

void PeerTables::fill(TileGroup& group, const Placement& placement, int stage, int replica) const {
  const int ranks = static_cast<int>(group.tiles.size());
  group.peers.resize(kFixedPeers + tables_.size());
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    auto& peers = group.peers[kFixedPeers + t];
    peers.reserve(group.tiles.size());
    for (int r = 0; r < ranks; ++r) {
      const int of_stage = replica * ranks + r;
      int peer = of_stage;
      for (std::size_t a = 0; a < axes_.size(); ++a) {
        const int position = of_stage / axes_[a].stride % axes_[a].degree;
        const int moved = (position + tables_[t][a]) % axes_[a].degree;
        peer += (moved - position) * axes_[a].stride;
      }
      peers.push_back(placement.tile(stage, peer / ranks, peer % ranks));
    }
  }
}

}  // namespace tilewright
