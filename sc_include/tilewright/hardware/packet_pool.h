// Packets by slot number, in chunks that never move.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <tilewright/hardware/protocol.h>

namespace tilewright {

class PacketPool {
 public:
  Packet& operator[](std::uint32_t slot) { return chunks_[slot >> kShift][slot & kMask]; }

  /// A packet with its slot set and everything else as its last user left it.
  Packet& allocate() {
    if (free_.empty()) grow();
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return (*this)[slot];
  }
  void free(Packet& p) { free_.push_back(p.slot); }

  std::size_t in_use() const { return (chunks_.size() << kShift) - free_.size(); }

 private:
  static constexpr unsigned kShift = 10;
  static constexpr std::uint32_t kMask = (1u << kShift) - 1;

  void grow() {
    const auto first = static_cast<std::uint32_t>(chunks_.size() << kShift);
    chunks_.push_back(std::make_unique<Packet[]>(kMask + 1));
    for (std::uint32_t i = kMask + 1; i-- > 0;) {
      chunks_.back()[i].slot = first + i;
      free_.push_back(first + i);
    }
  }

  std::vector<std::unique_ptr<Packet[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

}  // namespace tilewright
