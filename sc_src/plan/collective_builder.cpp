#include "collective_builder.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <tuple>

namespace tilewright {

std::uint32_t ScheduleBuilder::table(std::string name, std::vector<int> to) {
  schedule.tables.push_back({std::move(name), std::move(to)});
  return static_cast<std::uint32_t>(schedule.tables.size() - 1);
}

std::uint32_t ScheduleBuilder::send(std::uint32_t table, std::int64_t bytes, std::uint32_t after,
                                    Blocks blocks) {
  CollectiveOp op;
  op.table = table;
  op.bytes = bytes;
  op.after = after;
  op.blocks = std::move(blocks);
  schedule.ops.push_back(std::move(op));
  return static_cast<std::uint32_t>(schedule.ops.size() - 1);
}

std::uint32_t ScheduleBuilder::receive(std::uint32_t table, std::int64_t bytes, bool adds) {
  CollectiveOp op;
  op.send = false;
  op.table = table;
  op.bytes = bytes;
  op.adds = adds;
  schedule.ops.push_back(std::move(op));
  const auto number = static_cast<std::uint32_t>(schedule.ops.size() - 1);
  if (adds) schedule.last_sum = number;
  return number;
}

void ScheduleBuilder::merge(const std::vector<Strand>& strands) {
  struct Event {
    double time;
    bool send;
    std::size_t strand, step;
  };
  std::vector<Event> events;
  std::vector<std::vector<std::uint32_t>> received(strands.size());
  for (std::size_t s = 0; s < strands.size(); ++s) {
    received[s].resize(strands[s].size(), kNoOp);
    for (std::size_t i = 0; i < strands[s].size(); ++i) {
      events.push_back({strands[s][i].start, true, s, i});
      events.push_back({strands[s][i].end, false, s, i});
    }
  }
  // At one time what has arrived comes before what goes on; each strand keeps its own order.
  std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tie(a.time, a.send, a.step) < std::tie(b.time, b.send, b.step);
  });
  for (const Event& e : events) {
    const CollectiveStep& step = strands[e.strand][e.step];
    std::uint32_t op;
    if (e.send) {
      const std::uint32_t after =
          step.after < 0 ? kNoOp : received[e.strand][static_cast<std::size_t>(step.after)];
      op = send(step.table, step.bytes, after, step.blocks);
    } else {
      op = receive(step.table, step.bytes, step.adds);
      received[e.strand][e.step] = op;
    }
    if (!step.rotation) continue;
    // What arrives is named by its sender's place.
    const auto members = static_cast<std::uint32_t>(schedule.tables[step.table].to.size());
    schedule.ops[op].rotation = e.send ? *step.rotation : (*step.rotation + members - 1) % members;
  }
}

void ScheduleBuilder::blocks(int count, std::int64_t bytes) { blocks(count, bytes, 0, 0); }

void ScheduleBuilder::blocks(int first, std::int64_t first_bytes, int others,
                             std::int64_t other_bytes) {
  schedule.blocks = first + others;
  schedule.first_blocks = first;
  schedule.first_bytes = first_bytes;
  schedule.other_bytes = other_bytes;
}

std::vector<int> run_of(int first, int count) {
  std::vector<int> blocks(static_cast<std::size_t>(count));
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

void append(Strand& strand, CollectiveStep step, double seconds_per_byte, double earliest) {
  step.after = static_cast<int>(strand.size()) - 1;
  step.start = std::max(earliest, strand.empty() ? 0 : strand.back().end);
  step.end = step.start + static_cast<double>(step.bytes) * seconds_per_byte;
  strand.push_back(std::move(step));
}

namespace {

void ring_steps(Strand& strand, const RingPass& pass, int shift, bool adds) {
  struct Round {
    std::vector<int> order, place;  // members by place, and the reverse
  };
  const int p = static_cast<int>(pass.order.size());
  const auto round =
      std::make_shared<Round>(Round{pass.order, std::vector<int>(pass.order.size())});
  for (int i = 0; i < p; ++i) {
    round->place[static_cast<std::size_t>(pass.order[static_cast<std::size_t>(i)])] = i;
  }
  for (int i = 0; i + 1 < p; ++i) {
    const int rotation = ((shift - i) % p + p) % p;
    CollectiveStep step;
    step.table = pass.table;
    step.bytes = pass.bytes;
    step.adds = adds;
    if (pass.rotates) step.rotation = static_cast<std::uint32_t>(rotation);
    step.blocks = [round, first = pass.first_block, rotation, p](int member) {
      const int place = (round->place[static_cast<std::size_t>(member)] + rotation) % p;
      return std::vector<int>{first + round->order[static_cast<std::size_t>(place)]};
    };
    append(strand, std::move(step), pass.seconds);
  }
}

}  // namespace

void ring_reduce(Strand& strand, const RingPass& pass, int shift) {
  ring_steps(strand, pass, shift, true);
}

void ring_gather(Strand& strand, const RingPass& pass, int shift) {
  ring_steps(strand, pass, shift, false);
}

std::vector<int> next_of(int members, const std::vector<std::vector<int>>& orders) {
  std::vector<int> to(static_cast<std::size_t>(members), -1);
  for (const std::vector<int>& order : orders) {
    if (order.size() < 2) continue;
    for (std::size_t i = 0; i < order.size(); ++i) {
      to[static_cast<std::size_t>(order[i])] = order[(i + 1) % order.size()];
    }
  }
  return to;
}

std::int64_t piece_count(const CollectiveGroup& group, std::int64_t bytes, int depth) {
  // (pieces + depth - 1) (bytes / pieces / β + α) is least for pieces² = (depth - 1) bytes / (α β).
  constexpr double kMost = 512;  // instructions are kept; more would gain little
  constexpr double kSmallest = 64;
  const double seconds = std::max(group.row_seconds, group.column_seconds);
  const double most = std::max(1.0, std::min(kMost, static_cast<double>(bytes) / kSmallest));
  double pieces = most;
  if (group.hop_seconds > 0) {
    pieces = std::sqrt((depth - 1) * static_cast<double>(bytes) * seconds / group.hop_seconds);
  }
  return static_cast<std::int64_t>(std::clamp(std::round(pieces), 1.0, most));
}

}  // namespace tilewright
