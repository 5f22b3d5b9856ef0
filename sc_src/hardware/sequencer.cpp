#include <algorithm>
#include <string>

#include <tilewright/base/error.h>
#include <tilewright/hardware/sequencer.h>

namespace tilewright {

namespace {
constexpr unsigned bit(Engine e) { return 1u << static_cast<unsigned>(e); }
constexpr unsigned kRecv = static_cast<unsigned>(Engine::net_recv);

// Share::bytes() with one division, and none for what is not divided.
std::uint64_t share_bytes(const Share& share, std::uint32_t rank) {
  if (share.parts == 1) return share.total;
  if (share.stride != 1) rank /= share.stride;
  std::uint64_t part = std::uint64_t{rank} + share.offset;
  if (part >= share.parts) part -= share.parts;
  if (part >= share.parts) part %= share.parts;
  if (share.total >> 32 == 0) {
    const auto total = static_cast<std::uint32_t>(share.total);
    const std::uint32_t whole = total / share.parts;
    return whole + (part < total - whole * share.parts ? 1 : 0);
  }
  const std::uint64_t whole = share.total / share.parts;
  return whole + (part < share.total - whole * share.parts ? 1 : 0);
}
bool is_empty(const Share& share, std::uint32_t rank) {
  return share.total < share.parts && share_bytes(share, rank) == 0;
}
}  // namespace

Sequencer::Sequencer(const MachineConfig& machine, const Program& program, EventQueue& queue,
                     Network& network, MemorySystem& memory)
    : program_(program),
      queue_(queue),
      network_(network),
      memory_(memory),
      width_(static_cast<std::uint32_t>(machine.width())),
      channels_(static_cast<std::uint32_t>(program.channels.size())),
      cores_(network.tiles()),
      announced_(program.channels.size(), 0),
      transits_(std::size_t{network.tiles()} * kCauses),
      share_(machine.collective_share),
      sharing_(share_ > 0 ? network.tiles() : 0),
      sram_config_(machine.sram),
      sram_shares_(machine.sram.contention ? network.tiles() : 0),
      wires_(network.tiles()),
      requests_(std::size_t{network.tiles()} * 2),
      call_inputs_(network.tiles()),
      compute_returns_(network.tiles()),
      stats_(network.tiles()) {
  check(machine);
  for (const NamedLinkConfig& kind : machine.link_kinds()) {
    link_rate_ = std::max(link_rate_, 1e-12 * kind.link.bandwidth.value());
  }
  memory_rate_[static_cast<std::size_t>(Space::dram)] = 1e-12 * machine.dram.bandwidth.value();
  memory_rate_[static_cast<std::size_t>(Space::host)] = 1e-12 * machine.host.bandwidth.value();
  // Messages that may overtake each other take their places when they are injected.
  if (!network.in_order()) announced_.assign(announced_.size(), 1);
  for (const Segment& s : program.segments) {
    for (const Instruction& i : s.code) {
      if (i.op != Opcode::send && i.op != Opcode::recv) continue;
      if (i.channel >= channels_) {
        throw InputError(name_place(s, i) + ": channel " + std::to_string(i.channel) +
                         " does not exist");
      }
      if (i.cause == Cause::pipeline) announced_[i.channel] = 1;
    }
  }
  mailboxes_.resize(std::size_t{network.tiles()} * channels_);
  for (std::uint32_t t = 0; t < network.tiles(); ++t) {
    call_inputs_[t].sequencer = this;
    compute_returns_[t].sequencer = this;
  }

  build_cores();
  join_sharers();
  queue.attach(EventClass::delivery, *this);
  queue.attach(EventClass::compute, *this);
  memory.set_client(*this);
}

void Sequencer::build_cores() {
  const auto words_of = [this](const std::vector<Call>& calls) {
    std::size_t longest = 0;
    for (const Call& c : calls) {
      longest = std::max(longest, program_.segments[c.segment].code.size());
    }
    return static_cast<std::uint32_t>((longest + 63) / 64);
  };
  constexpr std::size_t kBitSets = 2 * kWindow;
  struct Plan {
    const TileGroup* group;
    std::uint32_t words, background_words;
  };
  std::vector<Plan> plans;
  std::size_t words = 0, beside = 0;
  for (const TileGroup& g : program_.groups) {
    plans.push_back({&g, words_of(g.calls), words_of(g.background)});
    words += (plans.back().words + plans.back().background_words) * kBitSets * g.tiles.size();
    if (!g.background.empty()) beside += g.tiles.size();
  }
  done_bits_.resize(words);
  background_.reserve(beside);
  std::uint64_t* next = done_bits_.data();
  const auto build = [&next](Core& c, const TileGroup& group, std::size_t place,
                             const std::vector<Call>& calls, std::uint32_t own_words) {
    c.group = &group;
    c.rank = group.first_rank + static_cast<std::uint32_t>(place);
    c.calls = static_cast<std::uint32_t>(calls.size());
    c.words = own_words;
    c.done = next;
    next += own_words * kBitSets;
  };
  for (const auto& [group, own_words, background_words] : plans) {
    for (std::size_t place = 0; place < group->tiles.size(); ++place) {
      Core& c = cores_[index(group->tiles[place])];
      build(c, *group, place, group->calls, own_words);
      if (!group->background.empty()) {
        c.beside = static_cast<std::uint32_t>(background_.size());
        background_.emplace_back();
        build(background_.back(), *group, place, group->background, background_words);
        background_.back().background = true;
      }
      if (c.calls > 0 || c.beside != kNil) c.state = static_cast<std::uint8_t>(TileState::bubble);
    }
  }
}

void Sequencer::join_sharers() {
  for (const SharingSet& set : sharing_sets(program_)) {
    std::vector<std::uint32_t> tiles;
    for (const TileId t : set.tiles) tiles.push_back(index(t));
    const std::uint32_t sharers = memory_.add_sharers(tiles, set.space);
    for (const std::uint32_t t : tiles) sharers_[{t, set.table, set.space}] = sharers;
  }
}

/// kNone for a tile that shares its loads by that table with no other.
std::uint32_t Sequencer::sharers_of(std::uint32_t tile, const Instruction& load) const {
  const auto it = sharers_.find({tile, load.operand, load.space});
  return it != sharers_.end() ? it->second : kNone;
}

void Sequencer::check(const MachineConfig& machine) const {
  std::vector<const TileGroup*> owner(network_.tiles(), nullptr);
  const std::vector<bool> usable = machine.usable_map();
  const Topology& topology = network_.topology();
  for (const TileGroup& g : program_.groups) {
    for (const TileId t : g.tiles) {
      if (index(t) >= network_.tiles()) {
        throw InputError(g.name + ": tile " + std::to_string(index(t)) +
                         " is not on the machine, which has " + std::to_string(network_.tiles()) +
                         " tiles");
      }
      if (!usable[index(t)]) {
        throw InputError(g.name + ": " + name_tile(index(t)) + " is a " +
                         (topology.dead(index(t)) ? "dead" : "spare") + " tile");
      }
      if (owner[index(t)] != nullptr) {
        throw InputError(name_tile(index(t)) + " belongs to both " + owner[index(t)]->name +
                         " and " + g.name);
      }
      owner[index(t)] = &g;
    }
    for (const auto& table : g.peers) {
      for (const TileId t : table) {
        if (t != kNoTile && index(t) >= network_.tiles()) {
          throw InputError(g.name + ": peer tile " + std::to_string(index(t)) +
                           " is not on the machine");
        }
        if (t != kNoTile && topology.dead(index(t))) {
          throw InputError(g.name + ": peer " + name_tile(index(t)) + " is a dead tile");
        }
      }
    }
    for (const auto* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        if (call.segment >= program_.segments.size()) {
          throw InputError(g.name + ": a call names a segment that does not exist");
        }
      }
    }
  }
  std::vector<std::uint8_t> seen(program_.segments.size(), 0);
  const auto check_segment = [&](const TileGroup& g, const Call& call) {
    if (seen[call.segment] != 0) return;
    seen[call.segment] = 1;
    const Segment& s = program_.segments[call.segment];
    std::size_t streamed = 0;
    for (const auto& stream : s.streams) streamed += stream.size();
    if (streamed != s.code.size()) {
      throw InputError("segment " + s.name + ": the program is not sealed");
    }
    if (s.code.size() >= kIndexMask - 16) throw InputError("segment " + s.name + " is too long");
    for (const Instruction& i : s.code) {
      const bool uses_memory = i.op == Opcode::load || i.op == Opcode::store ||
                               (i.op == Opcode::allocate && i.space != Space::sram);
      if (!uses_memory || i.share.total == 0) continue;
      for (const TileId t : g.tiles) {
        if (memory_.reachable(index(t), i.space)) continue;
        throw InputError(name_tile(index(t)) + " of " + g.name + " uses " +
                         (i.space == Space::host ? "host memory" : "DRAM") + " (" +
                         name_place(s, i) + "), but the machine has none for it");
      }
    }
  };
  for (const TileGroup& g : program_.groups) {
    for (const auto* calls : g.call_lists()) {
      for (const Call& call : *calls) check_segment(g, call);
    }
  }
}

void Sequencer::allocate_resident() {
  for (const TileGroup& g : program_.groups) {
    for (const TileId t : g.tiles) {
      const auto fail = [&](std::uint64_t bytes, const std::string& why) {
        throw InputError(name_tile(index(t)) + " of " + g.name + ": no room for " +
                         to_string(Bytes(static_cast<double>(bytes))) +
                         " of resident data: " + why);
      };
      SramBank& sram = *wires_[index(t)].sram;
      if (!sram.allocate(g.sram_resident)) fail(g.sram_resident, "the SRAM is smaller");
      for (const auto& [space, bytes] :
           {std::pair{Space::dram, g.dram_resident}, {Space::host, g.host_resident}}) {
        const std::string error = memory_.allocate(index(t), space, bytes);
        if (!error.empty()) fail(bytes, error);
      }
    }
  }
}

// --- Calls and events ---------------------------------------------------------------------------

tlm::tlm_sync_enum Sequencer::CallInput::nb_transport_fw(CallRequest& request, CallPhase&,
                                                         sc_core::sc_time&) {
  sequencer->accept(request);
  return tlm::TLM_ACCEPTED;
}

void Sequencer::accept(const CallRequest& request) {
  const auto [tile, call, background] = request;
  Core& tile_core = cores_[tile];
  if (background && tile_core.beside == kNil) throw InternalError("the tile has no background");
  Core& c = background ? background_[tile_core.beside] : tile_core;
  if (c.injected - c.oldest >= kWindow || call != c.injected) {
    throw InternalError("a call was injected out of turn");
  }
  const Picoseconds now = queue_.now();
  settle(now, tile, tile_core);
  const std::uint32_t slot = call % kWindow;
  const Segment& segment = program_.segments[(*c.group->call_lists()[background])[call].segment];
  c.window[slot] = &segment;
  c.remaining[slot] = static_cast<std::uint32_t>(segment.code.size());
  std::fill_n(c.done + slot * c.words, c.words, 0);
  std::fill_n(half_done(c, slot), c.words, 0);
  ++c.injected;
  if (c.remaining[slot] == 0) retire(tile, c);
  for (unsigned e = 0; e < kEngines; ++e) {
    if (c.blocked[e] == kNoCall) c.ready |= static_cast<std::uint8_t>(1u << e);
  }
  run(now, tile, c);
  judge(tile_core);
}

void Sequencer::handle(Picoseconds now, EventClass type, std::uint32_t tile, const Event* events,
                       std::size_t count) {
  if (type == EventClass::compute) {
    for (std::size_t i = 0; i < count; ++i) compute_done(now, tile, events[i].port());
    return;
  }
  // Deliveries. Several at one time are taken in order of injection.
  Core& c = cores_[tile];
  settle(now, tile, c);
  bool same_state = true;
  if (count == 1) {
    same_state = deliver(tile, c, network_.packet(static_cast<std::uint32_t>(events->slot())));
  } else {
    delivered_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      delivered_[i] = &network_.packet(static_cast<std::uint32_t>(events[i].slot()));
    }
    std::sort(delivered_.begin(), delivered_.end(),
              [](const Packet* a, const Packet* b) { return a->sequence < b->sequence; });
    for (Packet* p : delivered_) same_state &= deliver(tile, c, *p);
  }
  if (!same_state) judge(c);
}

/// Whether the state of the tile needs no new judgement.
bool Sequencer::deliver(std::uint32_t tile, Core& c, Packet& p) {
  if (p.kind == PacketKind::read_data) {
    const std::uint32_t part = p.link;
    network_.free(p);
    memory_.part_done(queue_.now(), part);  // judges
    return true;
  }
  p.arrived = true;
  if (latencies_ != nullptr) {
    (*latencies_)[static_cast<std::size_t>(p.cause)].add(queue_.now() - p.injected);
  }
  arrive(queue_.now(), tile, p.cause);
  if (!sram_shares_.empty()) pass_sram(queue_.now(), tile, p.bytes, true, link_rate_);
  const std::uint16_t channel = p.channel;  // the packet is gone once received
  Core* receiver = &c;
  const auto waits = [&] {
    return receiver->blocked[kRecv] == kMessage && receiver->channel == channel;
  };
  bool awaited = waits();
  if (!awaited && c.beside != kNil) {
    receiver = &background_[c.beside];
    awaited = waits();
  }
  if (!announced_[channel]) {
    if (awaited) {
      incoming_ = &p;  // the mailbox is empty
    } else {
      append(mailbox(tile, channel), p);
    }
  }
  c.waiting += p.bytes;
  if (!awaited) {
    c.waiting_peak = std::max(c.waiting_peak, c.waiting);
    return true;
  }
  Core& r = *receiver;
  const std::uint32_t matrix = r.blocked[0], vector = r.blocked[1];
  r.ready |= bit(Engine::net_recv);
  run(queue_.now(), tile, r);
  if (r.background && (c.busy != 0 || c.oldest < c.injected)) return true;
  // Often what the engines wait for in the end is still to come: a transfer, or a later message of
  // the same collective.
  return r.blocked[0] == matrix && r.blocked[1] == vector &&
         !is_done(r, r.awaited >> kSlotShift, r.awaited & kIndexMask) &&
         (!r.awaits_message || (waits() && c.state < kTileStates));
}

void Sequencer::memory_done(Picoseconds now, std::uint32_t tile, std::uint32_t token) {
  Core &tile_core = cores_[tile], &c = core_of(tile, token);
  settle(now, tile, tile_core);
  const std::uint32_t slot = token >> kSlotShift, index = token & kIndexMask;
  const Cause cause = c.window[slot]->code[index].cause;
  if (cause == Cause::offload) arrive(now, tile, cause);
  finish(now, tile, c, slot, index);
  run(now, tile, c);
  judge(tile_core);
}

/// Completes an instruction, or notes that it only waits for the one it streams beside.
void Sequencer::finish(Picoseconds now, std::uint32_t tile, Core& c, std::uint32_t slot,
                       std::uint32_t index) {
  const std::uint32_t until = c.window[slot]->code[index].until;
  if (until != kNone && !is_done(c, slot, until)) {
    half_done(c, slot)[index / 64] |= std::uint64_t{1} << (index % 64);
  } else {
    complete(now, tile, c, slot, index);
  }
}

void Sequencer::memory_head(Picoseconds now, std::uint32_t tile, std::uint32_t token) {
  Core &tile_core = cores_[tile], &c = core_of(tile, token);
  settle(now, tile, tile_core);
  const std::uint32_t slot = token >> kSlotShift, index = token & kIndexMask;
  half_done(c, slot)[index / 64] |= std::uint64_t{1} << (index % 64);
  wake(c, (token & ~kBackgroundBit) | kHeadBit);
  run(now, tile, c);
  judge(tile_core);
}

tlm::tlm_sync_enum Sequencer::ComputeReturn::nb_transport_bw(ComputeRequest& request, ComputePhase&,
                                                             sc_core::sc_time& delay) {
  Sequencer& s = *sequencer;
  const Picoseconds now = s.queue_.now(), at = now + delay.value();
  const auto engine = static_cast<unsigned>(request.engine);
  Core& c = s.cores_[request.tile];
  const Picoseconds duration = at - c.started_at[engine];
  c.stall_from[engine] = at - std::min(request.stall, duration);
  TileStatistics& stats = s.stats_[static_cast<TileId>(request.tile)];
  (engine == 0 ? stats.matrix_busy : stats.vector_busy) += duration;
  for (Probe* probe : s.work_probes_) {
    probe->computes(request.shape, request.amount, c.started_at[engine], at);
  }
  if (at == now) {
    s.compute_done(now, request.tile, engine);
  } else {
    s.queue_.push(at, EventClass::compute, request.tile, engine, 0);
  }
  return tlm::TLM_COMPLETED;
}

void Sequencer::compute_done(Picoseconds now, std::uint32_t tile, unsigned engine) {
  Core& c = cores_[tile];
  settle(now, tile, c);
  if (!sram_shares_.empty() && held_up(now, tile, engine)) return;
  if (!sharing_.empty() && extend(now, tile, c, engine)) return;
  c.busy &= static_cast<std::uint8_t>(~(1u << engine));
  c.ready |= static_cast<std::uint8_t>(1u << engine);
  const std::uint32_t key = c.running[engine];
  finish(now, tile, c, key >> kSlotShift, key & kIndexMask);
  run(now, tile, c);
  judge(c);
}

/// Whether background calls have held up a computation since it began, or was last extended: it
/// goes on for what they took. They may take some of that as well, so it is looked at again then.
bool Sequencer::extend(Picoseconds now, std::uint32_t tile, Core& c, unsigned engine) {
  Sharing& s = sharing_[tile];
  const Picoseconds taken =
      whole_picoseconds(share_ * static_cast<double>(s.time(now) - s.begun[engine]));
  const Picoseconds more = taken - s.extended[engine];
  if (more == 0) return false;
  s.extended[engine] = taken;
  c.stall_from[engine] = kNever;
  TileStatistics& stats = stats_[static_cast<TileId>(tile)];
  (engine == 0 ? stats.matrix_busy : stats.vector_busy) += more;
  queue_.push(now + more, EventClass::compute, tile, engine, 0);
  return true;
}

/// Notes when the background of a tile begins and ceases to wait for a message.
void Sequencer::note_receive(Picoseconds now, std::uint32_t tile, const Core& c) {
  Sharing& s = sharing_[tile];
  const bool waits = c.blocked[kRecv] == kMessage;
  if (waits == (s.since != kNever)) return;
  s.ended = s.time(now);
  s.since = waits ? now : kNever;
}

// --- Issue --------------------------------------------------------------------------------------

void Sequencer::run(Picoseconds now, std::uint32_t tile, Core& c) {
  while (c.ready != 0) {
    const auto engine = static_cast<unsigned>(__builtin_ctz(c.ready));
    c.ready &= static_cast<std::uint8_t>(c.ready - 1);
    advance(now, tile, c, engine);
  }
  if (c.background && !sharing_.empty()) note_receive(now, tile, c);
}

// Issues from one engine until it blocks, and notes on what.
void Sequencer::advance(Picoseconds now, std::uint32_t tile, Core& c, unsigned engine) {
  // A message of no bytes, or with no peer for this tile.
  const auto is_skipped = [&c](const Instruction& ins) {
    return is_empty(ins.share, c.rank) || (ins.skips && peer(c, ins) == index(kNoTile));
  };
  for (;;) {
    c.blocked[engine] = kReady;
    const Segment* segment = nullptr;
    for (;;) {
      if (c.call[engine] == c.injected) {
        c.blocked[engine] = kNoCall;
        return;
      }
      segment = c.window[c.call[engine] % kWindow];
      if (c.position[engine] < segment->streams[engine].size()) break;
      ++c.call[engine];
      c.position[engine] = 0;
    }
    const std::uint32_t slot = c.call[engine] % kWindow;
    const std::uint32_t index = segment->streams[engine][c.position[engine]];
    const Instruction& ins = segment->code[index];
    const std::uint32_t key = (slot << kSlotShift) | index;
    if (c.busy & (1u << engine)) {
      c.blocked[engine] = kBusy;
      return;
    }
    if (ins.after_previous && c.call[engine] != c.oldest) {
      c.blocked[engine] = kPrevious;
      return;
    }
    for (const std::uint32_t dependence : ins.after) {
      if (dependence == kNone) continue;
      std::uint32_t on = dependence;
      if (dependence & kHead) {
        on &= ~kHead;
        if ((half_done(c, slot)[on / 64] >> (on % 64)) & 1u) continue;
        if (is_done(c, slot, on)) continue;  // no head on this rank
        on |= kHeadBit;
      } else if (is_done(c, slot, on)) {
        continue;
      }
      c.blocked[engine] = (slot << kSlotShift) | on;
      return;
    }
    if (!c.started) {
      c.started = true;
      c.first_start = now;
    }
    bool complete_now = true;
    switch (ins.op) {
      case Opcode::compute:
        complete_now = compute(now, tile, c, ins, key);
        break;
      case Opcode::load:
      case Opcode::store: {
        const std::uint64_t bytes = share_bytes(ins.share, c.rank);
        if (bytes == 0) break;
        MemoryRequest request;
        request.tile = tile;
        request.token = c.background ? key | kBackgroundBit : key;
        request.bytes = bytes;
        request.head = ins.head < bytes ? ins.head : 0;
        request.write = ins.op == Opcode::store;
        request.background = c.background;
        request.space = ins.space;
        if (ins.shared) request.sharers = sharers_of(tile, ins);
        if (ins.cause == Cause::offload) depart(now, tile, ins.cause);
        memory_.start(now, request);
        if (!sram_shares_.empty() && c.background) {
          pass_sram(now, tile, bytes, !request.write,
                    memory_rate_[static_cast<std::size_t>(ins.space)]);
        }
        bytes_by_cause_[static_cast<std::size_t>(ins.cause)] += bytes;
        complete_now = false;
        break;
      }
      case Opcode::send:
        if (!is_skipped(ins)) send(now, tile, c, ins);
        break;
      case Opcode::recv:
        if (!is_skipped(ins) && !receive(tile, c, *segment, ins)) {
          c.channel = ins.channel;
          c.blocked[engine] = kMessage;
          return;
        }
        break;
      case Opcode::allocate:
      case Opcode::release:
        allocate(tile, c, *segment, ins);
        break;
    }
    ++c.position[engine];
    if (complete_now) finish(now, tile, c, slot, index);
  }
}

void Sequencer::complete(Picoseconds now, std::uint32_t tile, Core& c, std::uint32_t slot,
                         std::uint32_t index) {
  c.done[slot * c.words + index / 64] |= std::uint64_t{1} << (index % 64);
  c.finish = now;
  const std::uint32_t key = (slot << kSlotShift) | index;
  wake(c, key);
  const Segment& segment = *c.window[slot];
  const Instruction& ins = segment.code[index];
  // Whoever waits for the head of a load that had none to wait for.
  if (ins.op == Opcode::load && ins.head != 0) wake(c, key | kHeadBit);
  if (!segment.ends.empty()) {
    const std::uint32_t beside = segment.ends[index];
    if (beside != kNone && (half_done(c, slot)[beside / 64] >> (beside % 64)) & 1u) {
      complete(now, tile, c, slot, beside);
    }
  }
  if (--c.remaining[slot] == 0) retire(tile, c);
}

/// Readies the engines that wait for an instruction, or for the head of a load.
void Sequencer::wake(Core& c, std::uint32_t key) {
  for (unsigned e = 0; e < kEngines; ++e) {
    if (c.blocked[e] == key) c.ready |= static_cast<std::uint8_t>(1u << e);
  }
}

void Sequencer::retire(std::uint32_t tile, Core& c) {
  while (c.oldest < c.injected && c.remaining[c.oldest % kWindow] == 0) {
    CallRequest request{tile, c.oldest, c.background};
    ++c.oldest;
    CallPhase phase = CallPhase::end;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    wires_[tile].driver->nb_transport_bw(request, phase, delay);
  }
  for (unsigned e = 0; e < kEngines; ++e) {
    if (c.blocked[e] == kPrevious) c.ready |= static_cast<std::uint8_t>(1u << e);
  }
}

bool Sequencer::compute(Picoseconds now, std::uint32_t tile, Core& c, const Instruction& ins,
                        std::uint32_t key) {
  const auto engine = static_cast<unsigned>(ins.engine);
  ComputeRequest& request = requests_[std::size_t{tile} * 2 + engine];
  request = {tile, ins.operand, ins.begin, ins.amount, ins.engine, 0};
  TileStatistics& stats = stats_[static_cast<TileId>(tile)];
  if (engine == 0) {
    const ComputeShape& shape = program_.shapes[ins.operand];
    const double flop = shape.flop * ins.amount / shape.denominator;
    stats.flop += flop;
    if (ins.phase == Phase::recompute) stats.recomputed_flop += flop;
  }
  const auto mask = static_cast<std::uint8_t>(1u << engine);
  c.recompute = static_cast<std::uint8_t>(ins.phase == Phase::recompute ? c.recompute | mask
                                                                        : c.recompute & ~mask);
  c.running[engine] = key;
  c.started_at[engine] = now;
  c.stall_from[engine] = kNever;
  ComputePhase phase = ComputePhase::begin;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  c.busy |= mask;
  if (!sharing_.empty()) {
    sharing_[tile].begun[engine] = sharing_[tile].time(now);
    sharing_[tile].extended[engine] = 0;
  }
  if (wires_[tile].compute->nb_transport_fw(request, phase, delay) != tlm::TLM_COMPLETED) {
    return false;
  }
  Picoseconds duration = delay.value();
  for (Probe* probe : work_probes_) {
    probe->computes(request.shape, request.amount, now, now + duration);
  }
  if (duration == 0) {
    c.busy &= static_cast<std::uint8_t>(~mask);
    return true;
  }
  c.stall_from[engine] = now + duration - std::min(request.stall, duration);
  if (!sram_shares_.empty()) {
    contend(now, tile, ins, duration);
    duration = sram_shares_[tile].end(now, engine) - now;
  }
  (engine == 0 ? stats.matrix_busy : stats.vector_busy) += duration;
  queue_.push(now + duration, EventClass::compute, tile, engine, 0);
  return false;
}

// --- Messages -----------------------------------------------------------------------------------

void Sequencer::send(Picoseconds now, std::uint32_t tile, Core& c, const Instruction& ins) {
  const std::uint64_t bytes = share_bytes(ins.share, c.rank);
  Packet& p = network_.allocate();
  p.bytes = bytes;
  p.source = tile;
  p.destination = peer(c, ins);
  p.link = kNil;
  p.channel = ins.channel;
  p.kind = PacketKind::message;
  p.cause = ins.cause;
  c.sent += bytes;
  ++messages_;
  bytes_by_cause_[static_cast<std::size_t>(ins.cause)] += bytes;
  for (Probe* probe : work_probes_) probe->message_sent(now, p, ins.name);
  if (!sram_shares_.empty()) pass_sram(now, tile, bytes, false, link_rate_);
  network_.inject(p, now);
  depart(now, p.destination, ins.cause);
  if (!announced_[ins.channel]) return;
  Probe* probe = cores_[p.destination].probe;
  if (probe != nullptr) probe->tile_changes(now, p.destination);
  append(mailbox(p.destination, ins.channel), p);
}

void Sequencer::append(Mailbox& box, Packet& p) {
  p.link = kNil;
  if (box.tail == kNil) {
    box.head = p.slot;
  } else {
    network_.packet(box.tail).link = p.slot;
  }
  box.tail = p.slot;
}

bool Sequencer::receive(std::uint32_t tile, Core& c, const Segment& segment,
                        const Instruction& ins) {
  Packet* packet = incoming_;
  if (packet != nullptr) {
    incoming_ = nullptr;
  } else {
    Mailbox& box = mailbox(tile, ins.channel);
    if (box.head == kNil) return false;
    packet = &network_.packet(box.head);
    if (!packet->arrived) return false;
    box.head = packet->link;
    if (box.head == kNil) box.tail = kNil;
  }
  Packet& p = *packet;
  const std::uint64_t bytes = share_bytes(ins.share, c.rank);
  const std::uint32_t source = peer(c, ins);
  if (p.source != source || p.bytes != bytes) {
    const auto text = [this](std::uint64_t n) {
      return std::to_string(n) + (n == 1 ? " byte" : " bytes");
    };
    throw InputError(name_tile(tile) + " of " + c.group->name + ", " + name_place(segment, ins) +
                     ": expected " + text(bytes) + " from " + name_tile(source) + " on channel '" +
                     program_.channels[ins.channel] + "', got " + text(p.bytes) + " from " +
                     name_tile(p.source) +
                     (cores_[p.source].group ? " of " + cores_[p.source].group->name : ""));
  }
  c.received += bytes;
  cores_[tile].waiting -= bytes;
  network_.free(p);
  return true;
}

// --- Allocation ---------------------------------------------------------------------------------

void Sequencer::allocate(std::uint32_t tile, const Core& c, const Segment& segment,
                         const Instruction& ins) {
  const std::uint64_t bytes = share_bytes(ins.share, c.rank);
  const bool take = ins.op == Opcode::allocate;
  SramBank& sram = *wires_[tile].sram;
  std::string error;
  if (ins.space != Space::sram) {
    error =
        take ? memory_.allocate(tile, ins.space, bytes) : memory_.release(tile, ins.space, bytes);
  } else if (!(take ? sram.allocate(bytes) : sram.release(bytes))) {
    error = to_string(Bytes(static_cast<double>(sram.used()))) + " of the SRAM are in use";
  }
  if (error.empty()) return;
  throw InputError(name_tile(tile) + " of " + c.group->name + ", " + name_place(segment, ins) +
                   ": cannot " + (take ? "allocate " : "release ") +
                   to_string(Bytes(static_cast<double>(bytes))) + ": " + error);
}

}  // namespace tilewright
