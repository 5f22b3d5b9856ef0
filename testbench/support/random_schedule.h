// Schedules to test with.
#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <tuple>

#include <tilewright/plan/schedule.h>

namespace tilewright::test {

/// A schedule that lets stages run slots that are ready in any order: complete, without deadlock.
inline Schedule random_schedule(std::mt19937& random, int stages, std::uint32_t m) {
  Schedule s;
  s.micro_batches = m;
  s.chunks = static_cast<int>(random() % 3) + 1;
  s.layout = s.chunks == 2 && random() % 2 == 0 ? ChunkLayout::vee : ChunkLayout::interleaved;
  s.split_backward = random() % 2 == 0;
  s.orders.resize(static_cast<std::size_t>(stages));
  std::set<std::tuple<SlotPhase, int, std::uint32_t>> open;
  for (std::uint32_t i = 0; i < m; ++i) open.insert({SlotPhase::forward, 0, i});
  while (!open.empty()) {
    auto pick = open.begin();
    std::advance(pick, random() % open.size());
    const auto [phase, v, i] = *pick;
    open.erase(pick);
    s.orders[static_cast<std::size_t>(s.stage_of(v))].push_back(
        {i, static_cast<std::uint16_t>(s.chunk_of(v)), phase});
    const int last = s.virtual_stages() - 1;
    if (phase == SlotPhase::forward && v < last) open.insert({SlotPhase::forward, v + 1, i});
    if (phase == SlotPhase::forward && v == last) open.insert({SlotPhase::backward, v, i});
    if (phase == SlotPhase::backward && v > 0) open.insert({SlotPhase::backward, v - 1, i});
    if (phase == SlotPhase::backward && s.split_backward) open.insert({SlotPhase::weight, v, i});
  }
  return s;
}

}  // namespace tilewright::test
