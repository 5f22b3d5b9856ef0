// Loads that several tiles make together.
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

std::uint32_t MemorySystem::add_sharers(std::vector<std::uint32_t> tiles, Space space) {
  const Topology& topology = network_.topology();
  const auto share = [&](std::uint32_t a, std::uint32_t b) {
    return fmt::format("tile {} and tile {} share loads", topology.name(a), topology.name(b));
  };
  if (const std::string reason = network_.copies_nothing(); !reason.empty()) {
    throw InputError(fmt::format("{}: {}", share(tiles[0], tiles[1]), reason));
  }
  const auto controllers = [&](std::uint32_t tile) {
    std::vector<std::uint32_t> numbers;
    const TargetRange all = targets(tier(space), tile);
    for (std::uint32_t t = all.first; t < all.last; ++t) numbers.push_back(targets_[t].controller);
    return numbers;
  };
  for (const std::uint32_t tile : tiles) {
    if (controllers(tile) == controllers(tiles.front())) continue;
    throw InputError(fmt::format("{}, but their traffic goes to different controllers of the {}",
                                 share(tiles.front(), tile), tier(space).name));
  }
  Sharers s;
  s.tiles = std::move(tiles);
  std::sort(s.tiles.begin(), s.tiles.end());
  s.came.resize(s.tiles.size());
  sharers_.push_back(std::move(s));
  return static_cast<std::uint32_t>(sharers_.size() - 1);
}

std::vector<std::uint32_t> MemorySystem::missing(std::uint32_t sharers) const {
  std::vector<std::uint32_t> tiles;
  const Sharers& s = sharers_[sharers];
  for (std::size_t i = 0; i < s.tiles.size(); ++i) {
    if (!s.meetings.empty() && s.came[i] == s.begun) tiles.push_back(s.tiles[i]);
  }
  return tiles;
}

void MemorySystem::meet(Picoseconds now, const MemoryRequest& request) {
  Sharers& s = sharers_[request.sharers];
  const auto own = std::lower_bound(s.tiles.begin(), s.tiles.end(), request.tile);
  // The loads of a set begin in order, since each tile makes them in order.
  const std::uint64_t turn = s.came[static_cast<std::size_t>(own - s.tiles.begin())]++ - s.begun;
  if (turn == s.meetings.size()) s.meetings.push_back({request, 0, kNoTransfer});
  Meeting& meeting = s.meetings[turn];
  if (meeting.request.bytes != request.bytes || meeting.request.head != request.head ||
      meeting.request.space != request.space) {
    const auto text = [this](const MemoryRequest& r) {
      return fmt::format("tile {} loads {} bytes (head {}) of the {}",
                         network_.topology().name(r.tile), r.bytes, r.head, tier(r.space).name);
    };
    throw InputError(fmt::format("a load that tiles share differs between them: {}, {}",
                                 text(meeting.request), text(request)));
  }
  const std::uint32_t transfer = add_transfer(now, request);
  if (meeting.came == 0 || request.tile == s.tiles.front()) {
    transfers_.all[transfer].next = meeting.transfer;
    meeting.transfer = transfer;
    meeting.request = request;
  } else {
    std::uint32_t& next = transfers_.all[meeting.transfer].next;
    transfers_.all[transfer].next = next;
    next = transfer;
  }
  if (++meeting.came < s.tiles.size()) return;
  const Meeting complete = meeting;
  s.meetings.pop_front();
  ++s.begun;
  enqueue(now, complete.request, complete.transfer);
}

Picoseconds MemorySystem::last_request(Picoseconds now, const MemoryRequest& request,
                                       std::uint32_t transfer, std::uint32_t i) const {
  const auto latency = [&](std::uint32_t tile) {
    return targets_[targets(tier(request.space), tile).first + i].there.latency;
  };
  // With a limit the first tile asks when it is its turn.
  const Picoseconds asked = queues_.empty() ? transfers_.all[transfer].started : now;
  Picoseconds last = asked + latency(request.tile);
  for (std::uint32_t t = transfers_.all[transfer].next; t != kNoTransfer;) {
    const Transfer& other = transfers_.all[t];
    last = std::max(last, other.started + latency(other.tile));
    t = other.next;
  }
  return last;
}

std::uint32_t MemorySystem::count_tiles(std::uint32_t transfer) const {
  std::uint32_t tiles = 0;
  for (; transfer != kNoTransfer; transfer = transfers_.all[transfer].next) ++tiles;
  return tiles;
}

/// The controller has moved the last byte of a part that several tiles read.
void MemorySystem::share_out(Picoseconds now, std::uint32_t part) {
  leaving_.clear();
  const auto leave = [&](std::uint32_t of) {
    Picoseconds lead = 0;
    if (Packet* packet = pack(now, of, lead)) leaving_.push_back({packet, lead});
  };
  const Part own = parts_.all[part];  // the pool grows
  const Tier& memory =
      tiers_[targets_[own.target].controller >= tiers_[1].first_controller ? 1 : 0];
  const std::uint32_t place = own.target - targets(memory, own.tile).first;
  std::uint32_t next = transfers_.all[own.transfer].next;
  leave(part);
  for (; next != kNoTransfer; next = transfers_.all[next].next) {
    Part p = own;
    p.transfer = next;
    p.tile = transfers_.all[next].tile;
    p.target = targets(memory, p.tile).first + place;
    p.order = issued_++;
    const std::uint32_t copy = parts_.allocate();
    parts_.all[copy] = p;
    leave(copy);
  }
  // One packet from each of the controller's ports that tiles of the set use. It may have left as
  // early as for the slowest of its ways: the others only get their tails as soon.
  std::stable_sort(leaving_.begin(), leaving_.end(), [](const Leaving& a, const Leaving& b) {
    return a.packet->source < b.packet->source;
  });
  for (std::size_t i = 0; i < leaving_.size();) {
    copies_.clear();
    Picoseconds lead = 0;
    const std::uint32_t site = leaving_[i].packet->source;
    for (; i < leaving_.size() && leaving_[i].packet->source == site; ++i) {
      copies_.push_back(leaving_[i].packet);
      lead = std::max(lead, leaving_[i].lead);
    }
    network_.inject(copies_, now, lead);
  }
}

}  // namespace tilewright
