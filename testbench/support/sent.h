// What a lowered plan sends.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/plan/lower.h>

namespace tilewright::test {

/// Bytes that all ranks together send on channels whose names start with `prefix`.
inline std::int64_t sent(const LoweredPlan& lowered, const std::string& prefix) {
  std::int64_t bytes = 0;
  const Program& program = lowered.program;
  for (const TileGroup& g : program.groups) {
    for (const std::vector<Call>* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        for (const Instruction& i : program.segments[call.segment].code) {
          if (i.op != Opcode::send || program.channels[i.channel].rfind(prefix, 0) != 0) continue;
          for (std::uint32_t r = 0; r < g.tiles.size(); ++r) {
            if (g.peers[i.operand][r] == kNoTile) continue;
            bytes += static_cast<std::int64_t>(i.share.bytes(g.first_rank + r));
          }
        }
      }
    }
  }
  return bytes;
}

}  // namespace tilewright::test
