#include "peers.h"

namespace tilewright {

PeerTables::Run PeerTables::run(CollectiveKind kind, AxisSet axes, std::int64_t bytes,
                                bool background) {
  Run run;
  run.schedule = members_.schedule(kind, axes, bytes);
  const CollectiveAlgorithm algorithm = members_.algorithm(kind, axes, bytes);
  for (const CollectiveTable& table : run.schedule.tables) {
    const Key key(axes, algorithm, kind == CollectiveKind::broadcast, table.name);
    const auto [number, is_new] = numbers_.emplace(key, static_cast<std::uint32_t>(tables_.size()));
    if (is_new) tables_.push_back({key, kind, bytes});
    const auto [channel, opened] = channels_.emplace(
        std::make_pair(key, background), static_cast<std::uint16_t>(channel_names_.size()));
    if (opened) {
      channel_names_.push_back(members_.name(axes) + " " + table.name +
                               (background ? " background" : ""));
    }
    const std::uint32_t to = kFixedPeers + 2 * number->second;
    run.ways.push_back({to, to + 1, channel->second});
  }
  return run;
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

std::uint32_t PeerTables::sharers() {
  if (!sharers_) {
    sharers_ = static_cast<std::uint32_t>(tables_.size());
    tables_.emplace_back();
  }
  return kFixedPeers + 2 * *sharers_;
}

void PeerTables::fill(TileGroup& group, const Placement& placement, int stage, int replica) {
  const auto ranks = static_cast<int>(group.tiles.size());
  group.peers.resize(kFixedPeers + 2 * tables_.size());
  if (known_stage_ != stage) known_.clear();
  known_stage_ = stage;
  for (std::size_t t = 0; t < tables_.size(); ++t) {
    if (sharers_ == t) {
      for (int r = 0; r < ranks; ++r) {
        group.peers[kFixedPeers + 2 * t].push_back(
            placement.tile(stage, replica, first_sharer_(stage, replica, r)));
      }
      continue;
    }
    const auto& [axes, algorithm, rooted, name] = tables_[t].key;
    auto& peers = known_[{tables_[t].kind, axes, tables_[t].bytes}];
    if (peers.empty()) peers = members_.peers(tables_[t].kind, axes, tables_[t].bytes, stage);
    const auto fill = [&](std::size_t number, const std::vector<int>& of_stage) {
      auto& table = group.peers[kFixedPeers + number];
      table.reserve(group.tiles.size());
      for (int r = 0; r < ranks; ++r) {
        const int peer = of_stage[static_cast<std::size_t>(replica * ranks + r)];
        table.push_back(peer < 0 ? kNoTile : placement.tile(stage, peer / ranks, peer % ranks));
      }
    };
    fill(2 * t, peers.at(name).to);
    fill(2 * t + 1, peers.at(name).from);
  }
}

}  // namespace tilewright
