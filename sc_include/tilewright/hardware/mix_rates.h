// What a banked memory sustains for a number of requesters that read and write at once.
#pragma once

#include <cstddef>
#include <map>
#include <utility>

#include <tilewright/machine/memory_part.h>

namespace tilewright {

/// The mean rates of long requests at consecutive addresses in a `banked` memory, by how many
/// requesters read and how many write. Each mix is simulated exactly on one channel the first time
/// it is asked for, some ten milliseconds of host time: `reads` + `writes` streams whose starting
/// rows and banks are drawn (with a fixed seed), over eight intervals between refreshes in two
/// draws, after an interval each to fill the queues. All channels are alike and share every stream.
class MixRates {
 public:
  explicit MixRates(const MemoryPart& part) : part_(part) {}

  /// Bytes per picosecond of every reader and of every writer, all channels together; 0 for those
  /// that there are none of. Beyond 32 of a kind they share what 32 get.
  struct Rates {
    double read = 0, write = 0;
  };
  Rates of(std::size_t reads, std::size_t writes);

 private:
  Rates measure(std::size_t reads, std::size_t writes) const;

  MemoryPart part_;
  std::map<std::pair<std::size_t, std::size_t>, Rates> known_;
};

}  // namespace tilewright
