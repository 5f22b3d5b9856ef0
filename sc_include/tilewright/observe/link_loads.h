// Who loads which link when.
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include <tilewright/hardware/probe.h>
#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>

namespace tilewright {

class Intervals;
class Platform;

/// Watches the links of a platform. Costs memory per pair of tiles that exchange data, per link on
/// their way. The answer of the run does not depend on it.
class LinkLoads final : public Probe {
 public:
  /// Before Platform::run(); both arguments outlive this.
  LinkLoads(const MachineConfig& machine, const Program& program, Platform& platform);
  ~LinkLoads() override;

  /// One row per link that carries data: its ends, kind, bytes, busy share of the run, then the
  /// busy share of each of up to 128 equal intervals, whose beginnings the header names in
  /// seconds.
  void write_csv(std::ostream& out, Picoseconds end);
  /// The link that is busy for longest, of equal ones the first; all zero if none carries data.
  HottestLink hottest(Picoseconds end) const;

  void link_claimed(Picoseconds now, std::uint32_t link, Picoseconds head, Picoseconds start,
                    Picoseconds end, const Packet& packet, std::uint64_t bytes) override;
  void message_sent(Picoseconds now, const Packet& packet, std::uint16_t name) override;
  void tile_changes(Picoseconds, std::uint32_t) override {}
  void dram_changes(Picoseconds, std::uint32_t) override {}

 private:
  struct Load {
    std::uint64_t bytes = 0;
    Picoseconds busy = 0;
    std::vector<Picoseconds> bins;  // busy time in each interval
    /// Bytes by source, destination, cause and name; memory traffic has kNoName.
    std::map<std::tuple<std::uint32_t, std::uint32_t, Cause, std::uint16_t>, std::uint64_t> flows;
  };
  void cover(Picoseconds end);

  static constexpr std::uint16_t kNoName = 0xffff;
  const MachineConfig& machine_;
  const Program& program_;
  std::vector<std::uint16_t> names_;  // by the slot of a message under way
  Platform& platform_;
  std::unique_ptr<Intervals> intervals_;
  std::vector<Load> loads_;  // by LinkPlace::number
};

/// The mesh of a machine as an SVG drawing: its tiles, and its links coloured by the share of the
/// run in which they were busy. Throws InputError for a machine without a mesh.
std::string heat_map(const MachineConfig& machine, const RunStatistics& run);

}  // namespace tilewright
