// A user's own schedule: reading and writing.
#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include <tilewright/plan/schedule.h>
#include <tilewright/plan/schedule_file.h>

#include "schedule_check.h"

namespace tilewright {
namespace {

constexpr int kMostChunks = 1024;

/// Takes a number from the front of `text`.
bool take_number(std::string_view& text, std::uint32_t most, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value > most) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool parse_slot(std::string_view text, Slot& slot) {
  const std::size_t phase = std::string_view("FBW").find(text.empty() ? ' ' : text.front());
  if (phase == std::string_view::npos) return false;
  text.remove_prefix(1);
  slot = {};
  slot.phase = static_cast<SlotPhase>(phase);
  if (!take_number(text, 0xfffffffeu, slot.micro_batch)) return false;
  if (text.empty()) return true;
  std::uint32_t chunk = 0;
  if (text.front() != '.') return false;
  text.remove_prefix(1);
  if (!take_number(text, kMostChunks, chunk)) return false;
  slot.chunk = static_cast<std::uint16_t>(chunk);
  return text.empty();
}

StageOrder read_order(const Section& orders, const std::string& key, int chunks) {
  StageOrder order;
  const std::string line = orders.text(key);
  constexpr std::string_view kBlanks = " \t\n";
  for (std::size_t at = line.find_first_not_of(kBlanks); at != std::string::npos;) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    const std::string word = line.substr(at, end - at);
    Slot slot;
    if (!parse_slot(word, slot)) {
      orders.fail(key, fmt::format("'{}' is no slot; wanted: F, B or W and the number of a "
                                   "micro-batch{}, such as {}",
                                   word, chunks > 1 ? ", a dot and the number of a chunk" : "",
                                   chunks > 1 ? "F0.1" : "F0"));
    }
    order.push_back(slot);
    at = line.find_first_not_of(kBlanks, end);
  }
  return order;
}

bool has(const Schedule& s, SlotPhase phase) {
  return std::any_of(s.orders.begin(), s.orders.end(), [&](const StageOrder& order) {
    return std::any_of(order.begin(), order.end(),
                       [&](const Slot& slot) { return slot.phase == phase; });
  });
}

}  // namespace

Schedule read_schedule(const Document& document, int stages, std::uint32_t micro_batches,
                       bool training) {
  const Section root = document.root();
  Schedule s;
  s.name = root.text("schedule");
  s.micro_batches = micro_batches;
  s.chunks = static_cast<int>(root.integer("chunks", 1, kMostChunks, 1));
  if (root.has("layout")) {
    s.layout = root.choice<ChunkLayout>(
        "layout", {{"interleaved", ChunkLayout::interleaved}, {"v", ChunkLayout::vee}});
    if (s.layout == ChunkLayout::vee && s.chunks != 2) {
      root.fail("layout", fmt::format("a V has two chunks per stage, chunks is {}", s.chunks));
    }
  }
  const Section orders = root.section("stages");
  const std::size_t listed = orders.keys().size();
  if (listed != static_cast<std::size_t>(stages)) {
    root.fail("stages", fmt::format("the orders of {} stages are listed, the plan has {}; wanted: "
                                    "one line for each, numbered from 0",
                                    listed, stages));
  }
  for (int stage = 0; stage < stages; ++stage) {
    s.orders.push_back(read_order(orders, std::to_string(stage), s.chunks));
  }
  s.backward = training;
  s.split_backward = training && has(s, SlotPhase::weight);
  for (int stage = 0; stage < stages; ++stage) {
    const std::string fault = order_fault(s, stage);
    if (fault.empty()) continue;
    orders.fail(
        std::to_string(stage),
        fmt::format("{}; wanted: every slot of {} micro-batches{} once: {}", fault, micro_batches,
                    s.chunks > 1 ? fmt::format(" in {} chunks", s.chunks) : "",
                    !training          ? "F"
                    : s.split_backward ? "F, B and W"
                                       : "F and B"));
  }
  const std::string deadlock = deadlock_text(s);
  if (!deadlock.empty()) root.fail("stages", deadlock);
  root.finish();
  return s;
}

std::string why_no_schedule_file(const PlanConfig& plan) {
  const std::size_t most = plan.micro_batch_count(0);
  const std::size_t fewest = plan.micro_batch_count(plan.replicas() - 1);
  if (most == fewest) return "";
  return fmt::format(
      "the replicas have {} to {} micro-batches; wanted: equal numbers, for which "
      "one file can list the slots",
      fewest, most);
}

std::string schedule_text(const Schedule& s, const std::string& name) {
  std::string text = fmt::format("schedule: {}\n", name);
  if (s.chunks > 1) {
    text += fmt::format("chunks: {}\nlayout: {}\n", s.chunks,
                        s.layout == ChunkLayout::vee ? "v" : "interleaved");
  }
  text += "stages:\n";
  for (int stage = 0; stage < s.stages(); ++stage) {
    text += fmt::format("  {}:", stage);
    for (const Slot& slot : s.orders[static_cast<std::size_t>(stage)]) {
      text += ' ';
      text += to_text(slot, s.chunks);
    }
    text += '\n';
  }
  return text;
}

}  // namespace tilewright
