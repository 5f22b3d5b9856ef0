// A tile's state, for observers (see Platform::view()).
#include <algorithm>

#include <tilewright/hardware/sequencer.h>

namespace tilewright {

TileView Sequencer::view(std::uint32_t tile) const {
  const Core& c = cores_[tile];
  TileView v;
  v.sent = c.sent;
  v.received = c.received;
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
    v.engines[e] = {&c.window[slot]->code[c.running[e] & kIndexMask], &call_in(c, slot)};
  }
  if (c.state >= kRunning && c.state < kPipeline) v.stall_from = c.stall_from[c.state - kRunning];
  if (v.loads > 0)
    v.engines[static_cast<unsigned>(Engine::dma_in)] = last_issued(c, Engine::dma_in);
  if (v.stores > 0) {
    v.engines[static_cast<unsigned>(Engine::dma_out)] = last_issued(c, Engine::dma_out);
  }
  const auto recv = static_cast<unsigned>(Engine::net_recv);
  if (c.blocked[recv] == kMessage) {
    const std::uint32_t slot = c.call[recv] % kWindow;
    const std::uint32_t index = c.window[slot]->streams[recv][c.position[recv]];
    v.engines[recv] = {&c.window[slot]->code[index], &call_in(c, slot)};
  }

  if (c.oldest < c.injected) {
    v.call = &c.group->calls[c.oldest];
    for (const Engine e : {Engine::matrix, Engine::vector}) {
      const Call* call = last_issued(c, e).call;
      if (call != nullptr) v.call = std::max(v.call, call);  // of one array
    }
  }
  return v;
}

/// As settle() will attribute the time from now on.
TileState Sequencer::state(const Core& c, std::uint32_t tile) const {
  if (c.state < kTileStates) return static_cast<TileState>(c.state);
  if (c.state == kPipeline) {
    return mailbox(tile, c.channel).head == kNil ? TileState::bubble : TileState::pipeline_wait;
  }
  if (c.state == kInactive) return c.group == nullptr ? TileState::idle : TileState::bubble;
  return computing(c, c.state - kRunning);
}

const Call& Sequencer::call_in(const Core& c, std::uint32_t slot) const {
  return c.group->calls[c.oldest + (slot - c.oldest) % kWindow];
}

/// The last instruction that an engine has issued, of the calls in the window; nothing if none.
TileView::Work Sequencer::last_issued(const Core& c, Engine engine) const {
  const auto e = static_cast<unsigned>(engine);
  std::uint32_t call = c.call[e];
  std::size_t issued = c.position[e];
  for (; issued == 0 && call > c.oldest; issued = c.window[call % kWindow]->streams[e].size()) {
    --call;
  }
  if (issued == 0) return {};
  const Segment& segment = *c.window[call % kWindow];
  return {&segment.code[segment.streams[e][issued - 1]], &c.group->calls[call]};
}

}  // namespace tilewright
