// What a machine draws over time.
#pragma once

#include <iosfwd>
#include <memory>

#include <tilewright/hardware/probe.h>
#include <tilewright/machine/machine.h>
#include <tilewright/program/program.h>

namespace tilewright {

class Platform;

/// Watches the work of a platform and the links, and spreads the energy of every event evenly over
/// the time that it takes: of a computation and what it moves through the SRAM over its duration,
/// of a load or store and its way into or out of the SRAM over the controller's service, of a
/// message over the time that it holds each link (SRAM: the first and the last one). The answer of
/// the run does not depend on it.
class Power final : public Probe {
 public:
  /// Before Platform::run(); all arguments outlive this. Throws InputError for a machine without an
  /// energy section.
  Power(const MachineConfig& machine, const Program& program, Platform& platform);
  ~Power() override;

  /// One row for each of up to 128 equal intervals (the last one is cut off by the end): its
  /// beginning and end in seconds, the watts of every category (EnergyModel), their sum. Rows times
  /// their duration sum to the energy of the run.
  void write_csv(std::ostream& out, Picoseconds end);

  void computes(std::uint32_t shape, std::uint32_t amount, Picoseconds start,
                Picoseconds end) override;
  void message_sent(Picoseconds now, const Packet& packet, std::uint16_t name) override;
  void memory_moved(const MemoryMove& move) override;
  void link_claimed(Picoseconds now, std::uint32_t link, Picoseconds head, Picoseconds start,
                    Picoseconds end, const Packet& packet, std::uint64_t bytes) override;
  void tile_changes(Picoseconds, std::uint32_t) override {}
  void dram_changes(Picoseconds, std::uint32_t) override {}

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace tilewright
