// A tile's state, for observers (see Platform::view()).
#include <algorithm>

#include <tilewright/hardware/sequencer.h>

namespace tilewright {

TileView Sequencer::view(std::uint32_t tile) const {
  const Core& c = cores_[tile];
  const Core* beside = c.beside != kNil ? &background_[c.beside] : nullptr;
  TileView v;
  v.sent = c.sent + (beside != nullptr ? beside->sent : 0);
  v.received = c.received + (beside != nullptr ? beside->received : 0);
  if (const SramBank* sram = wires_[tile].sram) {
    v.sram_used = sram->used();
    v.sram_peak = sram->peak();
  }
  v.dram_used = memory_.tile_used(tile, Space::dram);
  v.loads = memory_.under_way(tile, false);
  v.stores = memory_.under_way(tile, true);
  v.state = state(c, tile);
  if (c.group == nullptr) return v;

  for (unsigned e = 0; e < 2; ++e) {
    if (!(c.busy & (1u << e))) continue;
    const std::uint32_t slot = c.running[e] >> kSlotShift;
    v.engines[e] = work(c, c.oldest + (slot - c.oldest) % kWindow, c.running[e] & kIndexMask);
  }
  if (c.state >= kRunning && c.state < kPipeline) v.stall_from = c.stall_from[c.state - kRunning];
  const auto transfer = [&](Engine engine) {
    const Issued own = last_issued(c, engine);
    const Issued other = beside != nullptr ? last_issued(*beside, engine) : Issued();
    return own.under_way || !other.under_way ? own.work : other.work;
  };
  const auto at = [&v](Engine e) -> TileView::Work& {
    return v.engines[static_cast<std::size_t>(e)];
  };
  if (v.loads > 0) at(Engine::dma_in) = transfer(Engine::dma_in);
  if (v.stores > 0) at(Engine::dma_out) = transfer(Engine::dma_out);
  at(Engine::net_recv) = awaited_message(c);
  if (beside != nullptr && at(Engine::net_recv).instruction == nullptr) {
    at(Engine::net_recv) = awaited_message(*beside);
  }

  if (c.oldest < c.injected) {
    v.call = &calls_of(c)[c.oldest];
    for (const Engine e : {Engine::matrix, Engine::vector}) {
      const Call* call = last_issued(c, e).work.call;
      if (call != nullptr) v.call = std::max(v.call, call);  // of one array
    }
  }
  if (beside != nullptr && beside->oldest < beside->injected) {
    v.background = work(*beside, beside->oldest, oldest_incomplete(*beside));
  }
  return v;
}

/// As settle() will attribute the time from now on.
TileState Sequencer::state(const Core& c, std::uint32_t tile) const {
  if (c.state < kTileStates) return static_cast<TileState>(c.state);
  if (c.state == kPipeline) {
    const Mailbox& box = mailbox(tile, in_hand(c).channel);
    return box.head == kNil ? TileState::bubble : TileState::pipeline_wait;
  }
  if (c.state == kInactive) return c.group == nullptr ? TileState::idle : TileState::bubble;
  return computing(c, c.state - kRunning);
}

const std::vector<Call>& Sequencer::calls_of(const Core& c) {
  return *c.group->call_lists()[c.background];
}

/// An instruction of a call in the window.
TileView::Work Sequencer::work(const Core& c, std::uint32_t call, std::uint32_t index) {
  return {&c.window[call % kWindow]->code[index], &calls_of(c)[call]};
}

/// The receive that waits for its message, if there is one.
TileView::Work Sequencer::awaited_message(const Core& c) {
  constexpr auto kRecv = static_cast<unsigned>(Engine::net_recv);
  if (c.blocked[kRecv] != kMessage) return {};
  const std::uint32_t call = c.call[kRecv];
  return work(c, call, c.window[call % kWindow]->streams[kRecv][c.position[kRecv]]);
}

/// The last instruction that an engine has issued of the calls in the window, if there is one.
Sequencer::Issued Sequencer::last_issued(const Core& c, Engine engine) {
  const auto e = static_cast<unsigned>(engine);
  std::uint32_t call = c.call[e];
  std::size_t issued = c.position[e];
  for (; issued == 0 && call > c.oldest; issued = c.window[call % kWindow]->streams[e].size()) {
    --call;
  }
  if (issued == 0) return {};
  const std::uint32_t slot = call % kWindow, index = c.window[slot]->streams[e][issued - 1];
  return {work(c, call, index), !is_done(c, slot, index)};
}

}  // namespace tilewright
