// What the waves show of tiles, stages, links and DRAM controllers.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <tilewright/hardware/platform.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/program/program.h>

#include "wave_signals.h"

namespace tilewright {

/// What values are called.
struct WaveNames {
  explicit WaveNames(const Program& program);

  std::vector<std::string> states, phases, operators, channels;
  /// By segment: the phase of its last computation, or else of its last instruction.
  std::vector<Phase> slots;
};

/// Signals that are read from the machine when it has changed.
class WaveSource {
 public:
  virtual ~WaveSource() = default;
  /// Notes the values at `now`. Returns when they change next if nothing happens on the machine.
  virtual Picoseconds sample(Picoseconds now) = 0;

  Picoseconds due = VcdWriter::kForever;
  bool touched = false;
};

/// What somebody has in hand.
class WorkSignals {
 public:
  WorkSignals() = default;  ///< none
  WorkSignals(WaveSignals& signals, const WaveNames& names, const std::string& scope);
  void set(WaveSignals& signals, Picoseconds now, const TileView::Work& work) const;

 private:
  WaveSignals::Signal *busy_ = nullptr, *operator_ = nullptr, *phase_ = nullptr, *layer_ = nullptr,
                      *micro_batch_ = nullptr;
  std::size_t operators_ = 0;  // that have names
};

class TileWaves final : public WaveSource {
 public:
  /// `background`: the tile has background calls.
  TileWaves(WaveSignals& signals, const WaveNames& names, const Platform& platform, TileId tile,
            bool background, const std::string& scope);
  Picoseconds sample(Picoseconds now) override;

 private:
  using Signal = WaveSignals::Signal;

  WaveSignals& signals_;
  const Platform& platform_;
  TileId tile_;
  Signal* state_;
  std::array<WorkSignals, kEngines> engines_{};
  WorkSignals background_;
  Signal *loads_, *stores_, *sent_, *received_, *channel_;
  Signal *sram_used_, *sram_peak_, *dram_used_;
};

/// The slot that a pipeline stage runs, as one of its tiles sees it.
class StageWaves final : public WaveSource {
 public:
  StageWaves(WaveSignals& signals, const WaveNames& names, const Platform& platform, TileId tile,
             const std::string& scope);
  Picoseconds sample(Picoseconds now) override;

 private:
  using Signal = WaveSignals::Signal;

  WaveSignals& signals_;
  const WaveNames& names_;
  const Platform& platform_;
  TileId tile_;
  Signal *slot_, *phase_, *micro_batch_, *layer_, *state_;
};

class DramWaves final : public WaveSource {
 public:
  DramWaves(WaveSignals& signals, const Platform& platform, DramId dram, const std::string& scope);
  Picoseconds sample(Picoseconds now) override;

 private:
  WaveSignals& signals_;
  const Platform& platform_;
  DramId dram_;
  WaveSignals::Signal* queue_;
};

/// The open rows of one channel of a controller.
class RowWaves final : public WaveSource {
 public:
  RowWaves(WaveSignals& signals, std::unique_ptr<RowReplay> rows, const std::string& scope);
  Picoseconds sample(Picoseconds now) override;

 private:
  WaveSignals& signals_;
  std::unique_ptr<RowReplay> rows_;
  std::vector<WaveSignals::Signal*> banks_;
};

/// A link. What it does is known when a packet claims it, ahead of time.
class LinkWaves {
 public:
  LinkWaves(WaveSignals& signals, const std::string& scope);
  void claim(Picoseconds head, Picoseconds start, Picoseconds end);

 private:
  WaveSignals& signals_;
  WaveSignals::Signal *busy_, *queue_;
};

}  // namespace tilewright
