#include "wave_sources.h"

#include <cctype>

namespace tilewright {
namespace {

constexpr std::uint64_t kNothing = VcdWriter::kNothing;
constexpr unsigned kCountBits = 32, kByteBits = 64;

VcdWriter::Text text_of(const std::vector<std::string>& names) {
  return [&names](std::uint64_t value) { return names[value]; };
}

template <class Enum>
std::vector<std::string> names_of(int count) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) names.push_back(to_string(static_cast<Enum>(i)));
  return names;
}

std::uint64_t micro_batch_of(const Call* call) {
  return call == nullptr || call->micro_batch == kNoMicroBatch ? kNothing : call->micro_batch;
}

}  // namespace

WaveNames::WaveNames(const Program& program)
    : states(names_of<TileState>(kTileStates)),
      phases(names_of<Phase>(kPhases)),
      operators(program.names),
      channels(program.channels) {
  for (const Segment& s : program.segments) {
    const Instruction* last = nullptr;
    for (const Instruction& i : s.code) {
      if (last == nullptr || i.op == Opcode::compute || last->op != Opcode::compute) last = &i;
    }
    slots.push_back(last != nullptr ? last->phase : Phase::forward);
  }
}

WorkSignals::WorkSignals(WaveSignals& signals, const WaveNames& names, const std::string& scope)
    : busy_(signals.wire(scope, "busy", 1)),
      operator_(signals.text(scope, "operator", text_of(names.operators))),
      phase_(signals.text(scope, "phase", text_of(names.phases))),
      layer_(signals.wire(scope, "layer", kCountBits)),
      micro_batch_(signals.wire(scope, "micro_batch", kCountBits)),
      operators_(names.operators.size()) {}

void WorkSignals::set(WaveSignals& signals, Picoseconds now, const TileView::Work& work) const {
  const Instruction* i = work.instruction;
  signals.set(busy_, now, i != nullptr ? 1 : 0);
  signals.set(operator_, now, i != nullptr && i->name < operators_ ? i->name : kNothing);
  signals.set(phase_, now, i != nullptr ? static_cast<std::uint64_t>(i->phase) : kNothing);
  signals.set(layer_, now, i != nullptr ? work.call->layer : kNothing);
  signals.set(micro_batch_, now, micro_batch_of(work.call));
}

// --- Tiles --------------------------------------------------------------------------------------

TileWaves::TileWaves(WaveSignals& signals, const WaveNames& names, const Platform& platform,
                     TileId tile, bool background, const std::string& scope)
    : signals_(signals), platform_(platform), tile_(tile) {
  state_ = signals.text(scope, "state", text_of(names.states));
  for (int e = 0; e < kEngines; ++e) {
    const auto engine = static_cast<Engine>(e);
    const std::string own = scope + "." + to_string(engine);
    if (engine != Engine::net_send) {  // is never busy: sends are complete when they are injected
      engines_[static_cast<std::size_t>(e)] = WorkSignals(signals, names, own);
    }
    switch (engine) {
      case Engine::dma_in:
        loads_ = signals.wire(own, "under_way", kCountBits);
        break;
      case Engine::dma_out:
        stores_ = signals.wire(own, "under_way", kCountBits);
        break;
      case Engine::net_send:
        sent_ = signals.wire(own, "bytes", kByteBits);
        break;
      case Engine::net_recv:
        channel_ = signals.text(own, "channel", text_of(names.channels));
        received_ = signals.wire(own, "bytes", kByteBits);
        break;
      default:
        break;
    }
  }
  if (background) background_ = WorkSignals(signals, names, scope + ".background");
  sram_used_ = signals.wire(scope + ".sram", "used", kByteBits);
  sram_peak_ = signals.wire(scope + ".sram", "peak", kByteBits);
  dram_used_ = signals.wire(scope + ".dram", "used", kByteBits);
}

Picoseconds TileWaves::sample(Picoseconds now) {
  const TileView view = platform_.view(tile_);
  signals_.set(state_, now, static_cast<std::uint64_t>(view.state_at(now)));
  for (std::size_t e = 0; e < engines_.size(); ++e) {
    engines_[e].set(signals_, now, view.engines[e]);
  }
  background_.set(signals_, now, view.background);
  const TileView::Work& receive = view.engines[static_cast<std::size_t>(Engine::net_recv)];
  signals_.set(channel_, now,
               receive.instruction != nullptr ? receive.instruction->channel : kNothing);
  signals_.set(loads_, now, view.loads);
  signals_.set(stores_, now, view.stores);
  signals_.set(sent_, now, view.sent);
  signals_.set(received_, now, view.received);
  signals_.set(sram_used_, now, view.sram_used);
  signals_.set(sram_peak_, now, view.sram_peak);
  signals_.set(dram_used_, now, view.dram_used);
  return now < view.stall_from ? view.stall_from : VcdWriter::kForever;
}

// --- Stages -------------------------------------------------------------------------------------

StageWaves::StageWaves(WaveSignals& signals, const WaveNames& names, const Platform& platform,
                       TileId tile, const std::string& scope)
    : signals_(signals), names_(names), platform_(platform), tile_(tile) {
  // "F12": forward of micro-batch 12; "optimizer": of no micro-batch.
  slot_ = signals.text(scope, "slot", [&names](std::uint64_t value) {
    const std::string& phase = names.phases[value >> 32];
    const auto micro_batch = static_cast<std::uint32_t>(value);
    if (micro_batch == kNoMicroBatch) return phase;
    return static_cast<char>(std::toupper(phase.front())) + std::to_string(micro_batch);
  });
  phase_ = signals.text(scope, "phase", text_of(names.phases));
  micro_batch_ = signals.wire(scope, "micro_batch", kCountBits);
  layer_ = signals.wire(scope, "layer", kCountBits);
  state_ = signals.text(scope, "state", text_of(names.states));
}

Picoseconds StageWaves::sample(Picoseconds now) {
  const TileView view = platform_.view(tile_);
  const TileState state = view.state_at(now);
  signals_.set(state_, now, static_cast<std::uint64_t>(state));
  // What it has begun does not count while it waits for its neighbour.
  const Call* call = view.call != nullptr ? view.call : view.background.call;
  if (state == TileState::bubble || state == TileState::pipeline_wait) call = nullptr;
  const auto phase =
      call != nullptr ? static_cast<std::uint64_t>(names_.slots[call->segment]) : kNothing;
  signals_.set(slot_, now, call != nullptr ? phase << 32 | call->micro_batch : kNothing);
  signals_.set(phase_, now, phase);
  signals_.set(micro_batch_, now, micro_batch_of(call));
  signals_.set(layer_, now, call != nullptr ? call->layer : kNothing);
  return now < view.stall_from ? view.stall_from : VcdWriter::kForever;
}

// --- DRAM controllers ---------------------------------------------------------------------------

DramWaves::DramWaves(WaveSignals& signals, const Platform& platform, DramId dram,
                     const std::string& scope)
    : signals_(signals),
      platform_(platform),
      dram_(dram),
      queue_(signals.wire(scope, "queue", kCountBits)) {}

Picoseconds DramWaves::sample(Picoseconds now) {
  signals_.set(queue_, now, platform_.dram_queue(dram_));
  return VcdWriter::kForever;
}

RowWaves::RowWaves(WaveSignals& signals, std::unique_ptr<RowReplay> rows, const std::string& scope)
    : signals_(signals), rows_(std::move(rows)) {
  for (std::size_t b = 0; b < rows_->banks(); ++b) {
    banks_.push_back(signals.wire(scope, "bank" + std::to_string(b), kCountBits));
  }
}

Picoseconds RowWaves::sample(Picoseconds now) {
  rows_->update();
  while (rows_->next() <= now) rows_->advance();
  for (std::size_t b = 0; b < banks_.size(); ++b) {
    const std::int64_t row = rows_->row(b);
    signals_.set(banks_[b], now,
                 row == RowReplay::kClosed ? kNothing : static_cast<std::uint64_t>(row));
  }
  return rows_->next();
}

// --- Links --------------------------------------------------------------------------------------

LinkWaves::LinkWaves(WaveSignals& signals, const std::string& scope)
    : signals_(signals),
      busy_(signals.wire(scope, "busy", 1, 0)),
      queue_(signals.wire(scope, "queue", kCountBits, 0)) {}

void LinkWaves::claim(Picoseconds head, Picoseconds start, Picoseconds end) {
  if (end > start) {
    signals_.add(busy_, start, 1);
    signals_.add(busy_, end, -1);
  }
  if (start > head) {
    signals_.add(queue_, head, 1);
    signals_.add(queue_, start, -1);
  }
}

}  // namespace tilewright
