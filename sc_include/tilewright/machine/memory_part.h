// A DRAM part: organisation, timing and controller queue, as the `banked` model needs them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/base/quantity.h>

namespace tilewright {

/// Parts of an address above the burst offset. A channel has its own command bus (a DIMM's channel
/// or DDR5 half, a GDDR6 half, an HBM channel); pseudo-channels share it, but have data buses and
/// banks of their own.
enum class AddressField { row, bank, group, column, pseudo, channel };

/// Timing in cycles of the command clock, with JEDEC's names. `burst` is the time a burst occupies
/// the data bus; read_to_write counts from a read to a write command.
struct MemoryTiming {
  std::int64_t burst = 0;
  std::int64_t cl = 0, cwl = 0;
  std::int64_t rcd_read = 0, rcd_write = 0, rp = 0, ras = 0;
  /// Column commands: any bank group, same bank group, writes to the same bank group.
  std::int64_t ccd_s = 0, ccd_l = 0, ccd_l_write = 0;
  std::int64_t rrd_s = 0, rrd_l = 0, faw = 0;
  std::int64_t rtp = 0, wr = 0;
  std::int64_t wtr_s = 0, wtr_l = 0, read_to_write = 0;
  std::int64_t rfc = 0, refi = 0;  ///< all-bank refresh; refi 0: no refresh
  /// Cycles that commands occupy their bus.
  std::int64_t activate_slot = 1, precharge_slot = 1, column_slot = 1;
  bool split_bus = false;  ///< row and column commands have a bus each (HBM)
};

struct MemoryPart {
  std::string name;
  Frequency clock{0};  ///< of commands
  Bytes burst{0};
  std::int64_t channels = 1, pseudo = 1;  ///< channels, pseudo-channels of each
  std::int64_t groups = 1, banks = 1;     ///< bank groups of a pseudo-channel, banks of a group
  std::int64_t rows = 1, columns = 1;     ///< columns: bursts per row
  MemoryTiming timing;
  /// From the least significant field upwards: neighbouring bursts differ in mapping[0].
  std::vector<AddressField> mapping;
  /// Bursts the scheduler of a channel sees: reads, writes, and of either for one bank.
  std::int64_t read_queue = 32, write_queue = 32, bank_queue = 8;
  /// Writes wait until this part of their queue is full, and then go until that part is left.
  double drain_high = 0.8, drain_low = 0.2;
  std::vector<std::string> assumptions;

  Bandwidth bandwidth() const;  ///< peak, all channels
  Bytes capacity() const;
  /// Of a burst from a closed row in an idle channel.
  Seconds latency() const;
};

/// Reads and checks a memory file (docs/machine.md, "Memory files"). Throws InputError.
MemoryPart read_memory_part(const Document& document);

}  // namespace tilewright
