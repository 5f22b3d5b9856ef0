// Waveforms of a run, for GTKWave and other viewers (traces/README.md).
#pragma once

#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/hardware/probe.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

class Platform;

struct WaveOptions {
  std::ostream* vcd = nullptr;     ///< takes the value change dump; null: no waves
  std::ostream* groups = nullptr;  ///< takes the matching GTKWave save file; null: none
  std::string name = "waves.vcd";  ///< of the dump, as a file beside the save file
  /// Globs over names such as "tiles.t3_0", "tiles.*.state", "links.t0_0_to_t1_0", "stages.*",
  /// "controllers.dram0": `*` and `?` stand for any characters, dots included, [0-3] for one of a
  /// set; what fits a scope selects all in it. Empty: all stages, and the first tile of each.
  std::vector<std::string> scopes;
  Picoseconds from = 0, to = ~Picoseconds{0};  ///< both included
};

/// Watches a platform and writes what the options select. The answer of the run does not depend
/// on it.
class Waves final : public Probe {
 public:
  /// Before Platform::run(); all arguments outlive this. Throws InputError for a pattern that fits
  /// nothing.
  Waves(const WaveOptions& options, const MachineConfig& machine, const Program& program,
        Platform& platform);
  ~Waves() override;

  /// Writes what is left of a run that has ended at `end`.
  void finish(Picoseconds end);
  /// The same of a run that has failed: up to the last change heard of.
  void finish();

  void tile_changes(Picoseconds now, std::uint32_t tile) override;
  void dram_changes(Picoseconds now, std::uint32_t id) override;
  void link_claimed(Picoseconds now, std::uint32_t link, Picoseconds head, Picoseconds start,
                    Picoseconds end, const Packet& packet, std::uint64_t bytes) override;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tilewright
