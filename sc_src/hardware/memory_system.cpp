#include <algorithm>
#include <cmath>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/dram_model.h>
#include <tilewright/hardware/memory_system.h>

namespace tilewright {

MemorySystem::MemorySystem(const MachineConfig& machine, EventQueue& queue, Network& network)
    : queue_(queue),
      network_(network),
      ports_(machine.dram.sites.size(), nullptr),
      capacity_(machine.dram.capacity.value()),
      used_(machine.dram.sites.size(), 0),
      tile_used_(static_cast<std::size_t>(machine.tiles()), 0),
      tile_peak_(static_cast<std::size_t>(machine.tiles()), 0),
      under_way_(static_cast<std::size_t>(machine.tiles())),
      stats_(machine.dram.sites.size()),
      models_(machine.dram.sites.size(), nullptr) {
  if (!machine.dram.sites.empty()) assigned_ = assign_dram(machine);
  for (std::size_t i = 0; i < machine.dram.sites.size(); ++i) {
    const auto [x, y] = machine.dram.sites[i];
    const TileId site = machine.tile(x, y);
    sites_.push_back(index(site));
    stats_[static_cast<DramId>(i)].site = site;
  }
  if (!assigned_.empty()) {
    for (std::uint32_t tile = 0; tile < network.tiles(); ++tile) {
      first_target_.push_back(static_cast<std::uint32_t>(targets_.size()));
      for (const DramId d : assigned_[static_cast<TileId>(tile)]) {
        const std::uint32_t site = sites_[index(d)];
        targets_.push_back({index(d), site, network.path(tile, site), network.path(site, tile)});
      }
    }
  }
  queue.attach(EventClass::write_arrival, *this);
  queue.attach(EventClass::memory_done, *this);
  queue.attach(EventClass::memory_request, *this);
  queue.attach(EventClass::memory_response, *this);
}

void MemorySystem::start(Picoseconds now, const MemoryRequest& request) {
  const std::uint32_t tile = request.tile;
  const bool write = request.write;
  const std::vector<DramId>& drams = assigned_[static_cast<TileId>(tile)];
  const std::uint64_t count = drams.size();
  const auto share = [count](std::uint64_t of, std::uint64_t i) {
    return count == 1 ? of : of / count + (i < of % count ? 1 : 0);
  };
  const std::uint32_t transfer = transfers_.allocate();
  transfers_.all[transfer] = {tile, request.token, 0, 0, client_};
  ++under_way_[tile][write ? 1 : 0];
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t own = share(request.bytes, i), first = share(request.head, i);
    if (own == 0) break;
    const std::uint32_t target = first_target_[tile] + static_cast<std::uint32_t>(i);
    const auto add = [&](std::uint64_t part_bytes, std::uint64_t carried, std::uint32_t rest) {
      const std::uint32_t part = parts_.allocate();
      parts_.all[part] = {part_bytes, carried, kNever,    now,    issued_++, transfer,
                          tile,       kNoOrigin, target, rest,   write,     request.background};
      ++transfers_.all[transfer].parts;
      return part;
    };
    std::uint32_t part = kNoPart;
    if (first > 0 && first < own) {
      part = add(own - first, first, kNoPart);
      part = add(first, 0, part);
      ++transfers_.all[transfer].heads;
    } else {
      part = add(own, 0, kNoPart);
    }
    send(now, part);
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

std::uint32_t MemorySystem::target(std::uint32_t tile, std::uint32_t dram) {
  const auto key = std::make_pair(tile, dram);
  const auto known = foreign_targets_.find(key);
  if (known != foreign_targets_.end()) return known->second;
  const auto target = static_cast<std::uint32_t>(targets_.size());
  const std::uint32_t site = sites_[dram];
  targets_.push_back({dram, site, network_.path(tile, site), network_.path(site, tile)});
  foreign_targets_.emplace(key, target);
  return target;
}

void MemorySystem::access(Picoseconds now, std::uint32_t tile, tlm::tlm_generic_payload& payload,
                          const unsigned char* enables, const std::vector<AccessPiece>& pieces,
                          MemoryClient& client, std::uint32_t token) {
  const std::uint32_t transfer = transfers_.allocate();
  transfers_.all[transfer] = {tile, token, static_cast<std::uint32_t>(pieces.size()), 0, &client};
  for (const AccessPiece& piece : pieces) {
    const std::uint32_t origin = origins_.allocate();
    origins_.all[origin] = {&payload, enables, piece.address, piece.offset};
    const std::uint32_t part = parts_.allocate();
    parts_.all[part] = {piece.bytes, 0, kNever, now, issued_++, transfer, tile, origin,
                        target(tile, piece.dram), kNoPart, payload.is_write(), false};
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
  DramStatistics s = stats_[static_cast<DramId>(id)];
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
        DramPort& port = *ports_[dram(parts_.all[part])];
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
  const std::uint32_t site = target.site;
  const Path& path = target.back;
  DramStatistics& stats = stats_[static_cast<DramId>(target.dram)];
  (p.write ? stats.bytes_written : stats.bytes_read) += p.bytes;
  if (p.write) {
    queue_.push(std::max(now, p.tail) + path.latency, EventClass::memory_done, p.tile, 0, part);
    return;
  }
  if (p.rest != kNoPart) {
    Part& rest = parts_.all[p.rest];
    rest.first_byte = std::min(rest.first_byte, p.first_byte);
    const auto serial = whole_picoseconds(static_cast<double>(p.bytes) * path.ps_per_byte);
    // At zero load the tail is where the controller has just put it, or as far as the slowest link
    // of the way has taken it.
    const Picoseconds tail = std::max(now, p.first_byte + serial);
    queue_.push(tail + path.latency, EventClass::memory_done, p.tile, 0, part);
    return;
  }
  if (site == p.tile) {
    queue_.push(now, EventClass::memory_done, p.tile, 0, part);
    return;
  }
  // The data has been streaming out since its first byte moved, at the pace of the slowest link of
  // its way: only then is the tail of the packet where the controller has just put it.
  const auto serial = whole_picoseconds(static_cast<double>(p.bytes) * path.ps_per_byte);
  const Picoseconds lead = std::min(serial, now - p.first_byte);
  Packet& packet = network_.allocate();
  packet.bytes = p.bytes;
  packet.source = site;
  packet.destination = p.tile;
  packet.link = part;
  packet.channel = 0;
  packet.kind = PacketKind::read_data;
  packet.cause = Cause::memory;
  network_.inject(packet, now, lead);
}

void MemorySystem::part_done(Picoseconds now, std::uint32_t part) {
  const std::uint32_t index = parts_.all[part].transfer;
  const bool head = parts_.all[part].rest != kNoPart, write = parts_.all[part].write;
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
  if (head) now_at.client->memory_head(now, now_at.tile, now_at.token);
  now_at.client->memory_done(now, now_at.tile, now_at.token);
  // Last: observers are told before it changes. Accesses of foreign modules are not the tile's.
  if (origin == kNoOrigin) --under_way_[now_at.tile][write ? 1 : 0];
}

std::string MemorySystem::allocate(std::uint32_t tile, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (!reachable(tile)) return "the tile has no DRAM";
  const std::vector<DramId>& drams = assigned_[static_cast<TileId>(tile)];
  const std::uint64_t count = drams.size();
  const auto share = [&](std::uint64_t i) { return bytes / count + (i < bytes % count ? 1 : 0); };
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t used = used_[index(drams[i])];
    if (static_cast<double>(used) + static_cast<double>(share(i)) > capacity_) {
      return "DRAM controller " + std::to_string(index(drams[i])) + " holds " +
             to_string(Bytes(static_cast<double>(used))) + " of " + to_string(Bytes(capacity_));
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::uint64_t& used = used_[index(drams[i])];
    used += share(i);
    std::uint64_t& peak = stats_[drams[i]].allocated_peak;
    peak = std::max(peak, used);
  }
  tile_used_[tile] += bytes;
  tile_peak_[tile] = std::max(tile_peak_[tile], tile_used_[tile]);
  return {};
}

std::string MemorySystem::release(std::uint32_t tile, std::uint64_t bytes) {
  if (bytes == 0) return {};
  if (bytes > tile_used_[tile]) {
    return "only " + to_string(Bytes(static_cast<double>(tile_used_[tile]))) + " are allocated";
  }
  const std::vector<DramId>& drams = assigned_[static_cast<TileId>(tile)];
  const std::uint64_t count = drams.size();
  for (std::uint64_t i = 0; i < count; ++i) {
    used_[index(drams[i])] -=
        std::min(used_[index(drams[i])], bytes / count + (i < bytes % count ? 1 : 0));
  }
  tile_used_[tile] -= bytes;
  return {};
}

}  // namespace tilewright
