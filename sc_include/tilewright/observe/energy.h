// What a run takes in energy (docs/energy.md).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

/// The coefficients of a machine, event by event, and the categories that they are counted in: the
/// matrix engines, the vector engines, the SRAMs, DRAM, host memory, every kind of links, then what
/// tiles, DRAM controllers, host controllers and switches draw all the time.
class EnergyModel {
 public:
  static constexpr std::size_t kMatrix = 0, kVector = 1, kSram = 2, kDram = 3, kHost = 4,
                               kFirstLink = 5, kIdleParts = 4;

  /// The machine has an energy section, and outlives this.
  explicit EnergyModel(const MachineConfig& machine);

  const std::vector<std::string>& categories() const { return categories_; }
  std::size_t link_category(LinkKind kind) const {
    return kFirstLink + static_cast<std::size_t>(kind);
  }
  std::size_t idle_tiles() const { return categories_.size() - kIdleParts; }

  Joules matrix(const std::string& format, double flop) const;
  Joules vector(const std::string& format, double elements) const;
  Joules sram(double read, double written) const;
  Joules memory(Space space, double read, double written) const;
  Joules link(LinkKind kind, double bytes) const;
  /// What is drawn all the time, by category; 0 in those that are not static.
  const std::vector<Watts>& idle() const { return idle_; }

 private:
  const EnergyConfig& energy_;
  MatrixConfig matrix_;
  std::vector<std::string> categories_;
  std::vector<Watts> idle_;
};

/// By category, of the tiles of one stage: their engines and SRAMs, their loads and stores, what
/// they draw all the time.
struct StageEnergy {
  int stage = 0;
  std::vector<Joules> joules;
  Joules total() const;
};

/// Of one iteration. The stages and what no stage has sum to the categories, these to the total.
struct EnergyResult {
  std::vector<std::string> categories;
  std::vector<Joules> joules;  ///< by category
  Joules total{0};
  std::vector<StageEnergy> stages;
  /// By category: links, controllers and switches, tiles in no stage, memory traffic of foreign
  /// modules.
  std::vector<Joules> shared;
};

}  // namespace tilewright
