// What each tile's time is spent on (see Sequencer).
#include <algorithm>
#include <utility>

#include <tilewright/hardware/sequencer.h>

namespace tilewright {

namespace {
// The causes of the states tensor_wait ... offload_wait.
constexpr auto kFirstWait = static_cast<std::uint8_t>(TileState::tensor_wait);
constexpr auto kLastWait = static_cast<std::uint8_t>(TileState::offload_wait);
constexpr std::array kWaitCauses{Cause::tensor, Cause::data,       Cause::context,
                                 Cause::expert, Cause::resharding, Cause::offload};
static_assert(kWaitCauses.size() == kLastWait - kFirstWait + 1);
}  // namespace

// Attributes the time since the last event at the tile to the state it has been in.
void Sequencer::attribute(Picoseconds now, std::uint32_t tile, Core& c) {
  if (c.state == kInactive || now == c.since) return;
  auto& time = stats_[static_cast<TileId>(tile)].time;
  const auto add = [&time](TileState s, Picoseconds t) { time[static_cast<std::size_t>(s)] += t; };
  const Picoseconds since = c.since;
  c.since = now;
  if (c.state < kTileStates) {
    time[c.state] += now - since;
    if (c.state < kFirstWait || c.state > kLastWait) return;
    Transit& t = transit(tile, kWaitCauses[c.state - kFirstWait]);
    t.overdue += (t.count > 0 ? std::max(t.since, since) : now) - since;
  } else if (c.state == kPipeline) {
    // The message that is waited for has entered the mailbox when it was injected.
    const Mailbox& box = mailbox(tile, in_hand(c).channel);
    Picoseconds injected = now;
    if (box.head != kNil) {
      injected = std::clamp(network_.packet(box.head).injected, since, now);
    }
    add(TileState::bubble, injected - since);
    add(TileState::pipeline_wait, now - injected);
  } else {
    const unsigned engine = c.state - kRunning;
    const Picoseconds stall = std::clamp(c.stall_from[engine], since, now);
    add(computing(c, engine), stall - since);
    add(TileState::sram_stall, now - stall);
  }
}

TileState Sequencer::computing(const Core& c, unsigned engine) {
  if (c.recompute & (1u << engine)) return TileState::recomputation;
  return engine == 0 ? TileState::matrix : TileState::vector;
}

// Decides the state from now on; all earlier time is settled.
void Sequencer::judge(Core& c) {
  if (c.state == kInactive) return;
  if (c.busy & 3u) {
    c.state = static_cast<std::uint8_t>(kRunning + (c.busy & 1u ? 0 : 1));
    return;
  }
  Core& at = in_hand(c);
  if (c.oldest == c.calls && at.oldest == at.calls) {
    c.state = kInactive;
    return;
  }
  TileState state = TileState::bubble;  // between calls
  if (at.oldest < at.injected) {
    const Blame b = blame(at);
    const Cause cause = at.window[b.call % kWindow]->code[b.index].cause;
    at.awaited = b.awaited;
    at.awaits_message = b.message;
    if (!b.message) {
      state = cause == Cause::offload ? TileState::offload_wait : TileState::dram_wait;
    } else if (cause == Cause::pipeline) {
      c.state = kPipeline;
      return;
    } else {
      state = wait_for(cause);
    }
  }
  c.state = static_cast<std::uint8_t>(state);
}

std::uint32_t Sequencer::oldest_incomplete(const Core& c) {
  const std::uint64_t* words = c.done + c.oldest % kWindow * c.words;
  std::uint32_t i = 0;
  while (~words[i] == 0) ++i;
  return i * 64 + static_cast<std::uint32_t>(__builtin_ctzll(~words[i]));
}

// Each step leads to an instruction earlier in the program, so this ends.
Sequencer::Blame Sequencer::blame(const Core& c) const {
  const auto head = [&c](unsigned e) {
    return c.window[c.call[e] % kWindow]->streams[e][c.position[e]];
  };
  // The end of the oldest call is what an engine waits for that has nothing to do before it.
  const auto waits_for_end = [&c](unsigned e) {
    return c.blocked[e] == kNoCall || c.blocked[e] == kPrevious;
  };
  std::uint32_t call = c.oldest, index = 0;
  if (waits_for_end(0) && waits_for_end(1)) {
    index = oldest_incomplete(c);
  } else {
    bool found = false;
    for (unsigned e = 0; e < 2; ++e) {
      if (c.blocked[e] == kNoCall) continue;
      const std::uint32_t own_call = c.call[e], own_index = head(e);
      if (!found || own_call < call || (own_call == call && own_index < index)) {
        call = own_call;
        index = own_index;
      }
      found = true;
    }
  }
  for (;;) {
    const std::uint32_t slot = call % kWindow, own = (slot << kSlotShift) | index;
    const Instruction& ins = c.window[slot]->code[index];
    const auto e = static_cast<unsigned>(ins.engine);
    const std::uint32_t on = c.blocked[e];
    const std::uint32_t next_call = on == kNoCall ? call + 1 : c.call[e];
    const std::uint32_t next = on == kNoCall ? 0 : head(e);
    if (next_call > call || (next_call == call && next > index)) {  // issued
      if (ins.until == kNone || ((half_done(c, slot)[index / 64] >> (index % 64)) & 1u) == 0) {
        return {call, index, own, false};
      }
      index = ins.until;  // all there is left of it is what it streams beside
      continue;
    }
    if (on == kMessage) return {next_call, next, own, true};
    call = next_call;  // not issued: wait for the engine's next instruction
    index = next;
    if (on == kBusy) return {call, index, own, false};
    if (on == kPrevious) {
      call = c.oldest;
      index = oldest_incomplete(c);
    } else {
      index = on & kIndexMask;
    }
  }
}

Picoseconds Sequencer::end() const {
  Picoseconds end = 0;
  for (const Core& c : cores_) end = std::max(end, c.finish);
  for (const Core& c : background_) end = std::max(end, c.finish);
  return end;
}

IdVector<TileId, TileStatistics> Sequencer::statistics(Picoseconds end) {
  for (std::uint32_t tile = 0; tile < cores_.size(); ++tile) {
    const Core& c = cores_[tile];
    TileStatistics& s = stats_[static_cast<TileId>(tile)];
    const TileState rest = c.group == nullptr ? TileState::idle : TileState::bubble;
    s.time[static_cast<std::size_t>(rest)] += end - c.since;
    s.first_start = c.first_start;
    s.finish = c.finish;
    s.bytes_sent = c.sent;
    s.bytes_received = c.received;
    s.waiting_peak = c.waiting_peak;
    if (c.beside != kNil) {
      const Core& b = background_[c.beside];
      if (b.started && (!c.started || b.first_start < s.first_start)) s.first_start = b.first_start;
      s.finish = std::max(s.finish, b.finish);
      s.bytes_sent += b.sent;
      s.bytes_received += b.received;
    }
    for (int i = 0; i < kCauses; ++i) {
      const auto cause = static_cast<Cause>(i);
      const Transit& t = transit(tile, cause);
      if (cause != Cause::memory) s.active[i] = t.under_way + t.overdue;
    }
    s.sram_peak = wires_[tile].sram != nullptr ? wires_[tile].sram->peak() : 0;
    s.dram_peak = memory_.tile_peak(tile, Space::dram);
    s.host_peak = memory_.tile_peak(tile, Space::host);
  }
  return std::move(stats_);
}

}  // namespace tilewright
