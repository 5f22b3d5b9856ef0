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
  return text + ", instruction " + std::to_string(&ins - segment.code.data() + 1);
}

bool Sequencer::sends_in_background(const TileGroup& group, std::uint16_t channel) const {
  for (const Call& call : group.background) {
    for (const Instruction& i : program_.segments[call.segment].code) {
      if (i.op == Opcode::send && i.channel == channel) return true;
    }
  }
  return false;
}

bool Sequencer::loads_in_background(const TileGroup& group, std::uint32_t table) const {
  for (const Call& call : group.background) {
    for (const Instruction& i : program_.segments[call.segment].code) {
      if (i.op == Opcode::load && i.shared && i.operand == table) return true;
    }
  }
  return false;
}

std::string Sequencer::explain_wait(std::uint32_t tile, const Core& c, std::uint32_t& on) const {
  const char* const kind = c.background ? "background call " : "call ";
  std::string text = "\n  " + name_tile(tile) + " of " + c.group->name + ": ";
  const auto beside = [&](std::uint32_t of) {
    return static_cast<std::uint32_t>(cores_.size()) + cores_[of].beside;
  };
  if (c.oldest == c.injected) {
    const Call& call = (*c.group->call_lists()[c.background])[c.oldest];
    const std::uint32_t own = cores_[tile].beside;
    std::uint32_t complete = 0;
    if (c.background) {
      on = tile;
      complete = cores_[tile].oldest;
    } else if (own != kNil) {
      on = beside(tile);
      complete = background_[own].oldest;
    }
    return text + kind + std::to_string(c.oldest) + " of " + std::to_string(c.calls) + " (" +
           program_.segments[call.segment].name + ") waits for " + std::to_string(call.after) +
           (c.background ? " calls, " : " background calls, ") + std::to_string(complete) +
           " of which are complete";
  }
  const Blame b = blame(c);
  const Segment& segment = *c.window[b.call % kWindow];
  const Instruction& ins = segment.code[b.index];
  text += to_string(ins.engine) + " waits for ";
  if (b.message) {
    const std::uint32_t source = peer(c, ins);
    const TileGroup* group = cores_[source].group;
    on = group != nullptr && sends_in_background(*group, ins.channel) ? beside(source) : source;
    text += "message '" + program_.channels[ins.channel] + "' from " + name_tile(source) + " [" +
            std::to_string(ins.share.bytes(c.rank)) + " bytes] in " + segment.name;
  } else {
    text += to_string(ins.op) + " to finish in " + segment.name;
    const std::uint32_t sharers = ins.shared ? sharers_of(tile, ins) : kNone;
    if (sharers != kNone) {
      for (const std::uint32_t other : memory_.missing(sharers)) {
        text += (on == kNil ? ", shared with " : " and ") + name_tile(other);
        const TileGroup* group = cores_[other].group;
        on = group != nullptr && loads_in_background(*group, ins.operand) ? beside(other) : other;
      }
      if (on != kNil) text += ", which has not come to it";
    }
  }
  if (ins.name < program_.names.size()) text += ", " + program_.names[ins.name];
  return text + " (" + kind + std::to_string(b.call) + " of " + std::to_string(c.calls) + ")";
}

std::string Sequencer::explain_deadlock() const {
  constexpr std::size_t kShown = 10;
  std::string text =
      "the machine stopped at " + to_string(to_seconds(end())) + " with work outstanding:";
  // Who waits for whom: the lists of calls, by tile, and behind them those of the background.
  std::vector<std::uint32_t> waits_for(cores_.size() + background_.size(), kNil);
  std::vector<std::uint32_t> tile_of(waits_for.size());
  std::size_t stuck = 0, on_message = 0;
  std::uint64_t calls = 0;
  for (std::uint32_t tile = 0; tile < cores_.size(); ++tile) {
    bool is_stuck = false;
    const auto add = [&](const Core& c, std::size_t node) {
      tile_of[node] = tile;
      if (c.group == nullptr || c.oldest == c.calls) return;
      is_stuck = true;
      calls += c.calls - c.oldest;
      const std::string line = explain_wait(tile, c, waits_for[node]);
      if (c.oldest < c.injected && blame(c).message) ++on_message;
      if (stuck < kShown) text += line;
    };
    add(cores_[tile], tile);
    const std::uint32_t beside = cores_[tile].beside;
    if (beside != kNil) add(background_[beside], cores_.size() + beside);
    if (is_stuck) ++stuck;
  }
  if (stuck > kShown) text += "\n  and " + std::to_string(stuck - kShown) + " more tiles";

  // A cycle, if there is one: follow the waiting from each until it repeats itself.
  const auto name = [&](std::uint32_t node) {
    return (node < cores_.size() ? "" : "the background of ") + name_tile(tile_of[node]);
  };
  std::vector<std::uint32_t> seen(waits_for.size(), kNil);
  for (std::uint32_t first = 0; first < waits_for.size(); ++first) {
    std::uint32_t node = first;
    while (node != kNil && seen[node] == kNil) {
      seen[node] = first;
      node = waits_for[node];
    }
    if (node == kNil || seen[node] != first) continue;
    std::vector<std::uint32_t> cycle{node};
    for (std::uint32_t n = waits_for[node]; n != node; n = waits_for[n]) cycle.push_back(n);
    text += "\n  they wait in a circle: ";
    for (std::size_t i = 0; i < std::min(cycle.size(), kShown); ++i)
      text += name(cycle[i]) + " for ";
    text += cycle.size() > kShown ? "... for " : "";
    text += name(node);
    break;
  }
  text += "\n  in all " + std::to_string(stuck) + " tiles with " + std::to_string(calls) +
          " calls outstanding, " + std::to_string(on_message) + " of them waiting for messages";
  return text;
}

}  // namespace tilewright
