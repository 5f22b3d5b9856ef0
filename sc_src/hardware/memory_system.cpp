#include <algorithm>
#include <cmath>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

namespace {
/// Part i of `bytes` cut evenly into `count`.
std::uint64_t share(std::uint64_t bytes, std::uint64_t count, std::uint64_t i) {
  return bytes / count + (i < bytes % count ? 1 : 0);
}
}  // namespace

MemorySystem::MemorySystem(const MachineConfig& machine, EventQueue& queue, Network& network)
    : queue_(queue),
      network_(network),
      under_way_(network.tiles()),
      outstanding_(machine.dma.outstanding),
      queues_(outstanding_ > 0 ? network.tiles() : 0) {
  add_tier(tiers_[0], "DRAM", machine, machine.dram);
  add_tier(tiers_[1], "host memory", machine, machine.host);
  queue.attach(EventClass::write_arrival, *this);
  queue.attach(EventClass::memory_done, *this);
  queue.attach(EventClass::memory_request, *this);
  queue.attach(EventClass::memory_response, *this);
}

void MemorySystem::add_tier(Tier& tier, const std::string& name, const MachineConfig& machine,
                            const DramConfig& config) {
  const auto first = static_cast<std::uint32_t>(stats_.size());
  tier.name = name;
  tier.first_controller = first;
  tier.capacity = config.capacity.value();
  tier.used.resize(network_.tiles());
  tier.peak.resize(network_.tiles());
  for (std::uint32_t d = 0; d < config.sites.size(); ++d) {
    sites_.emplace_back();
    for (const auto& [x, y] : config.ports(static_cast<DramId>(d))) {
      sites_.back().push_back(index(machine.tile(x, y)));
    }
    stats_.emplace_back();
    stats_.back().site = static_cast<TileId>(sites_.back().front());
  }
  ports_.resize(stats_.size());
  models_.resize(stats_.size());
  used_.resize(stats_.size());
  const auto assigned = assign_controllers(machine, config);
  for (std::uint32_t tile = 0; tile < network_.tiles(); ++tile) {
    tier.first_target.push_back(static_cast<std::uint32_t>(targets_.size()));
    for (const DramId d : assigned[static_cast<TileId>(tile)]) add_target(tile, first + index(d));
  }
  tier.first_target.push_back(static_cast<std::uint32_t>(targets_.size()));
}

void MemorySystem::start(Picoseconds now, const MemoryRequest& request) {
  ++under_way_[request.tile][request.write ? 1 : 0];
  if (request.sharers != kNone) return meet(now, request);
  enqueue(now, request, add_transfer(now, request));
}

std::uint32_t MemorySystem::add_transfer(Picoseconds now, const MemoryRequest& request) {
  const std::uint32_t transfer = transfers_.allocate();
  transfers_.all[transfer] = {request.tile,
                              request.token,
                              0,
                              0,
                              client_,
                              now,
                              request.space == Space::host ? Cause::offload : Cause::memory,
                              false,
                              kNoTransfer};
  return transfer;
}

void MemorySystem::enqueue(Picoseconds now, const MemoryRequest& request, std::uint32_t transfer) {
  if (!queues_.empty()) {
    transfers_.all[transfer].queued = true;
    Queue& q = queues_[request.tile];
    if (q.active == outstanding_) {
      q.waiting.emplace_back(request, transfer);
      return;
    }
    ++q.active;
  }
  begin(now, request, transfer);
}

void MemorySystem::begin_next(Picoseconds now, std::uint32_t tile) {
  Queue& q = queues_[tile];
  if (q.waiting.empty()) {
    --q.active;
    return;
  }
  const auto [request, transfer] = q.waiting.front();
  q.waiting.pop_front();
  begin(now, request, transfer);
}

void MemorySystem::begin(Picoseconds now, const MemoryRequest& request, std::uint32_t transfer) {
  const std::uint32_t tile = request.tile;
  const bool write = request.write;
  const TargetRange all = targets(tier(request.space), tile);
  const std::uint64_t count = all.size(), burst = network_.burst();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t own = share(request.bytes, count, i), first = share(request.head, count, i);
    if (own == 0) break;
    const std::uint32_t target = all.first + static_cast<std::uint32_t>(i);
    const auto add = [&](std::uint64_t part_bytes, std::uint64_t carried, std::uint32_t rest,
                         bool head) {
      const std::uint32_t part = parts_.allocate();
      parts_.all[part] = {part_bytes, carried, kNever, now,   issued_++,          transfer, tile,
                          kNoOrigin,  target,  rest,   write, request.background, head};
      ++transfers_.all[transfer].parts;
      if (head) ++transfers_.all[transfer].heads;
      return part;
    };
    if (burst != Network::kWhole && targets_[target].site != tile) {
      for (std::uint64_t at = 0; at < own;) {
        const bool head = first < own && at < first;
        const std::uint64_t bytes = std::min(burst, (head ? first : own) - at);
        send(now, add(bytes, 0, kNoPart, head));
        at += bytes;
      }
      continue;
    }
    std::uint32_t part = kNoPart;
    if (first > 0 && first < own) {
      part = add(own - first, first, kNoPart, false);
      part = add(first, 0, part, true);
    } else {
      part = add(own, 0, kNoPart, false);
    }
    send(request.sharers == kNone
             ? now
             : last_request(now, request, transfer, static_cast<std::uint32_t>(i)) -
                   targets_[target].there.latency,
         part);
  }
  const Transfer& own = transfers_.all[transfer];
  for (std::uint32_t other = own.next; other != kNoTransfer;) {
    Transfer& t = transfers_.all[other];
    t.parts = own.parts;
    t.heads = own.heads;
    other = t.next;
  }
}

// Sends a read's request or a write's data, all of the part and the one behind it, to the site.
void MemorySystem::send(Picoseconds now, std::uint32_t part) {
  const Part& p = parts_.all[part];
  const Target& target = targets_[p.target];
  if (!p.write || target.site == p.tile) {
    queue_.push(now + target.there.latency, EventClass::memory_request, target.site, 0, part);
    return;
  }
  Packet& packet = network_.allocate();
  packet.bytes = p.bytes;
  packet.source = p.tile;
  packet.destination = target.site;
  packet.link = part;
  packet.channel = 0;
  packet.kind = PacketKind::write_data;
  packet.cause = Cause::memory;
  network_.inject(packet, now);
}

std::uint32_t MemorySystem::add_target(std::uint32_t tile, std::uint32_t controller) {
  std::uint32_t site = sites_[controller].front();
  Path there = network_.path(tile, site);
  for (const std::uint32_t other : sites_[controller]) {
    const Path path = network_.path(tile, other);
    if (path.hops >= there.hops) continue;
    site = other;
    there = path;
  }
  targets_.push_back({controller, site, there, network_.path(site, tile)});
  return static_cast<std::uint32_t>(targets_.size() - 1);
}

std::uint32_t MemorySystem::foreign_target(std::uint32_t tile, std::uint32_t controller) {
  const auto key = std::make_pair(tile, controller);
  const auto known = foreign_targets_.find(key);
  if (known != foreign_targets_.end()) return known->second;
  return foreign_targets_[key] = add_target(tile, controller);
}

void MemorySystem::access(Picoseconds now, std::uint32_t tile, tlm::tlm_generic_payload& payload,
                          const unsigned char* enables, const std::vector<AccessPiece>& pieces,
                          MemoryClient& client, std::uint32_t token) {
  const std::uint32_t transfer = transfers_.allocate();
  transfers_.all[transfer] = {
      tile,  token,      static_cast<std::uint32_t>(pieces.size()), 0, &client, now, Cause::memory,
      false, kNoTransfer};
  for (const AccessPiece& piece : pieces) {
    const std::uint32_t origin = origins_.allocate();
    origins_.all[origin] = {&payload, enables, piece.address, piece.offset};
    const std::uint32_t part = parts_.allocate();
    parts_.all[part] = {piece.bytes,
                        0,
                        kNever,
                        now,
                        issued_++,
                        transfer,
                        tile,
                        origin,
                        foreign_target(tile, piece.dram),
                        kNoPart,
                        payload.is_write(),
                        false,
                        false};
    send(now, part);
  }
}

std::uint64_t MemorySystem::debug_access(tlm::tlm_generic_payload& payload,
                                         const std::vector<AccessPiece>& pieces) {
  std::uint64_t moved = 0;
  for (const AccessPiece& piece : pieces) {
    tlm::tlm_generic_payload part;
    part.set_command(payload.get_command());
    part.set_address(piece.address);
    part.set_data_ptr(payload.get_data_ptr() + piece.offset);
    part.set_data_length(static_cast<unsigned>(piece.bytes));
    part.set_streaming_width(static_cast<unsigned>(piece.bytes));
    const std::uint64_t now_moved = ports_[piece.dram]->out->transport_dbg(part);
    moved += now_moved;
    if (now_moved < piece.bytes) break;
  }
  return moved;
}

DramStatistics MemorySystem::statistics(std::uint32_t id) const {
  DramStatistics s = stats_[id];
  s.busy = models_[id] != nullptr ? models_[id]->busy() : ports_[id]->busy();
  return s;
}

void MemorySystem::handle(Picoseconds now, EventClass type, std::uint32_t, const Event* events,
                          std::size_t count) {
  arrivals_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    auto part = static_cast<std::uint32_t>(events[i].slot());
    if (type == EventClass::write_arrival) {
      Packet& p = network_.packet(part);
      part = p.link;
      parts_.all[part].tail = p.tail;
      network_.free(p);
    }
    arrivals_.push_back(part);
  }
  // What comes at one time is taken in order of issue: a tile's own requests stay first in, first
  // out.
  if (count > 1) {
    std::sort(arrivals_.begin(), arrivals_.end(), [this](std::uint32_t a, std::uint32_t b) {
      return parts_.all[a].order < parts_.all[b].order;
    });
  }
  for (const std::uint32_t part : arrivals_) {
    switch (type) {
      case EventClass::write_arrival:
      case EventClass::memory_request: {
        DramPort& port = *ports_[controller(parts_.all[part])];
        const std::uint32_t rest = parts_.all[part].rest;
        port.request(part);
        if (rest != kNoPart) port.request(rest);
        break;
      }
      case EventClass::memory_response:
        responded(now, part);
        break;
      default:
        part_done(now, part);
        break;
    }
  }
}

// The controller has moved the last byte of a part.
void MemorySystem::responded(Picoseconds now, std::uint32_t part) {
  const Part& p = parts_.all[part];
  const Target& target = targets_[p.target];
  DramStatistics& stats = stats_[target.controller];
  (p.write ? stats.bytes_written : stats.bytes_read) += p.bytes;
  for (Probe* probe : work_probes_) {
    const bool host = target.controller >= tiers_[1].first_controller;
    probe->memory_moved({host ? Space::host : Space::dram, p.write, p.origin != kNoOrigin, p.bytes,
                         std::min(p.first_byte, now), now, count_tiles(p.transfer)});
  }
  if (p.write) {
    queue_.push(std::max(now, p.tail) + target.back.latency, EventClass::memory_done, p.tile, 0,
                part);
    return;
  }
  if (transfers_.all[p.transfer].next != kNoTransfer) return share_out(now, part);
  Picoseconds lead = 0;
  if (Packet* packet = pack(now, part, lead)) network_.inject(*packet, now, lead);
}

Packet* MemorySystem::pack(Picoseconds now, std::uint32_t part, Picoseconds& lead) {
  const Part& p = parts_.all[part];
  const Target& target = targets_[p.target];
  const Path& path = target.back;
  if (p.rest != kNoPart) {
    Part& rest = parts_.all[p.rest];
    rest.first_byte = std::min(rest.first_byte, p.first_byte);
    const auto serial = whole_picoseconds(static_cast<double>(p.bytes) * path.ps_per_byte);
    // At zero load the tail is where the controller has just put it, or as far as the slowest link
    // of the way has taken it.
    const Picoseconds tail =
        std::max(now, p.first_byte + serial) +
        whole_picoseconds(static_cast<double>(p.bytes) * path.stored_ps_per_byte);
    queue_.push(tail + path.latency, EventClass::memory_done, p.tile, 0, part);
    return nullptr;
  }
  if (target.site == p.tile) {
    queue_.push(now, EventClass::memory_done, p.tile, 0, part);
    return nullptr;
  }
  // The data, with that of the head, has been streaming out since its first byte moved, at the pace
  // of the slowest link of its way: only then is the tail of the packet where the controller has
  // just put it.
  const std::uint64_t bytes = p.bytes + p.carried;
  const auto serial = whole_picoseconds(static_cast<double>(bytes) * path.ps_per_byte);
  lead = std::min(serial, now - p.first_byte);
  Packet& packet = network_.allocate();
  packet.bytes = bytes;
  packet.source = target.site;
  packet.destination = p.tile;
  packet.link = part;
  packet.channel = 0;
  packet.kind = PacketKind::read_data;
  packet.cause = Cause::memory;
  return &packet;
}

void MemorySystem::part_done(Picoseconds now, std::uint32_t part) {
  const std::uint32_t index = parts_.all[part].transfer;
  const bool head = parts_.all[part].head, write = parts_.all[part].write;
  const std::uint32_t origin = parts_.all[part].origin;
  if (origin != kNoOrigin) origins_.free.push_back(origin);
  parts_.free.push_back(part);
  Transfer& transfer = transfers_.all[index];
  --transfer.parts;
  const Transfer now_at = transfer;
  if (head && --transfer.heads == 0 && now_at.parts > 0) {
    now_at.client->memory_head(now, now_at.tile, now_at.token);
  }
  if (now_at.parts > 0) return;
  transfers_.free.push_back(index);
  if (now_at.queued) begin_next(now, now_at.tile);
  if (latencies_ != nullptr && origin == kNoOrigin) {
    (*latencies_)[static_cast<std::size_t>(now_at.cause)].add(now - now_at.started);
  }
  if (head) now_at.client->memory_head(now, now_at.tile, now_at.token);
  now_at.client->memory_done(now, now_at.tile, now_at.token);
  // Last: observers are told before it changes. Accesses of foreign modules are not the tile's.
  if (origin == kNoOrigin) --under_way_[now_at.tile][write ? 1 : 0];
}

std::string MemorySystem::allocate(std::uint32_t tile, Space space, std::uint64_t bytes) {
  if (bytes == 0) return {};
  Tier& memory = tier(space);
  const TargetRange all = targets(memory, tile);
  const std::uint64_t count = all.size();
  if (count == 0) return "the tile has no " + memory.name;
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t controller = targets_[all.first + i].controller;
    const std::uint64_t used = used_[controller];
    if (static_cast<double>(used) + static_cast<double>(share(bytes, count, i)) <=
        memory.capacity) {
      continue;
    }
    const std::uint32_t own = controller - memory.first_controller;
    return memory.name + " controller " + std::to_string(own) + " holds " +
           to_string(Bytes(static_cast<double>(used))) + " of " + to_string(Bytes(memory.capacity));
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint32_t controller = targets_[all.first + i].controller;
    used_[controller] += share(bytes, count, i);
    std::uint64_t& peak = stats_[controller].allocated_peak;
    peak = std::max(peak, used_[controller]);
  }
  memory.used[tile] += bytes;
  memory.peak[tile] = std::max(memory.peak[tile], memory.used[tile]);
  return {};
}

std::string MemorySystem::release(std::uint32_t tile, Space space, std::uint64_t bytes) {
  if (bytes == 0) return {};
  Tier& memory = tier(space);
  if (bytes > memory.used[tile]) {
    return "only " + to_string(Bytes(static_cast<double>(memory.used[tile]))) + " are allocated";
  }
  const TargetRange all = targets(memory, tile);
  for (std::uint64_t i = 0; i < all.size(); ++i) {
    std::uint64_t& used = used_[targets_[all.first + i].controller];
    used -= std::min(used, share(bytes, all.size(), i));
  }
  memory.used[tile] -= bytes;
  return {};
}

}  // namespace tilewright
