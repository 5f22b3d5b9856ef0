// The text of a DeadlockError: who waits for whom.
#include <algorithm>
#include <string>
#include <vector>

#include <tilewright/hardware/sequencer.h>

namespace tilewright {

std::string Sequencer::name_tile(std::uint32_t tile) const {
  return "tile (" + std::to_string(tile % width_) + "," + std::to_string(tile / width_) + ")";
}

std::string Sequencer::name_place(const Segment& segment, const Instruction& ins) const {
  std::string text = to_string(ins.op) + " in segment " + segment.name;
  if (ins.name < program_.names.size()) text += ", " + program_.names[ins.name];
  return text;
}

std::string Sequencer::explain_deadlock() const {
  constexpr std::size_t kShown = 10;
  std::string text =
      "the machine stopped at " + to_string(to_seconds(end())) + " with work outstanding:";
  std::vector<std::uint32_t> waits_for(cores_.size(), kNil);
  std::size_t stuck = 0, on_message = 0;
  std::uint64_t calls = 0;
  for (std::uint32_t tile = 0; tile < cores_.size(); ++tile) {
    const Core& c = cores_[tile];
    if (c.group == nullptr || c.oldest == c.calls) continue;
    ++stuck;
    calls += c.calls - c.oldest;
    if (c.oldest == c.injected) continue;
    const Blame b = blame(c);
    const Segment& segment = *c.window[b.call % kWindow];
    const Instruction& ins = segment.code[b.index];
    std::string line = "\n  " + name_tile(tile) + " of " + c.group->name + ": " +
                       to_string(ins.engine) + " waits for ";
    if (b.message) {
      ++on_message;
      waits_for[tile] = peer(c, ins);
      line += "message '" + program_.channels[ins.channel] + "' from " +
              name_tile(waits_for[tile]) + " [" + std::to_string(ins.share.bytes(c.rank)) +
              " bytes] in " + segment.name;
    } else {
      line += to_string(ins.op) + " to finish in " + segment.name;
    }
    if (ins.name < program_.names.size()) line += ", " + program_.names[ins.name];
    line += " (call " + std::to_string(b.call) + " of " + std::to_string(c.calls) + ")";
    if (stuck <= kShown) text += line;
  }
  if (stuck > kShown) text += "\n  and " + std::to_string(stuck - kShown) + " more tiles";

  // A cycle, if there is one: follow the waiting from each tile until it repeats itself.
  std::vector<std::uint32_t> seen(cores_.size(), kNil);
  for (std::uint32_t first = 0; first < cores_.size(); ++first) {
    std::uint32_t tile = first;
    while (tile != kNil && seen[tile] == kNil) {
      seen[tile] = first;
      tile = waits_for[tile];
    }
    if (tile == kNil || seen[tile] != first) continue;
    std::vector<std::uint32_t> cycle{tile};
    for (std::uint32_t t = waits_for[tile]; t != tile; t = waits_for[t]) cycle.push_back(t);
    text += "\n  they wait in a circle: ";
    for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i) {
      text += name_tile(cycle[i]) + " for ";
    }
    text += cycle.size() > kShown ? "... for " : "";
    text += name_tile(tile);
    break;
  }
  text += "\n  in all " + std::to_string(stuck) + " tiles with " + std::to_string(calls) +
          " calls outstanding, " + std::to_string(on_message) + " of them waiting for messages";
  return text;
}

}  // namespace tilewright
