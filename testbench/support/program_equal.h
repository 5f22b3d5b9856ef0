// Whether two programs are equal, field by field.
#pragma once

#include <cstring>
#include <string>

#include <fmt/format.h>

#include <tilewright/program/program.h>

namespace tilewright::test {

inline bool equal(const Share& a, const Share& b) {
  const auto& [total, parts, offset, stride] = a;
  return total == b.total && parts == b.parts && offset == b.offset && stride == b.stride;
}

// The structured bindings stop compiling when a struct gains a field: add it here and to the text
// format (sc_src/program/text_fields.h, docs/program.md).
inline bool equal(const Instruction& a, const Instruction& b) {
  const auto& [op, engine, phase, cause, after_previous, space, name, channel, skips, shared, after,
               operand, share, amount, begin, until, head] = a;
  return op == b.op && engine == b.engine && phase == b.phase && cause == b.cause &&
         after_previous == b.after_previous && space == b.space && name == b.name &&
         channel == b.channel && after == b.after && operand == b.operand && amount == b.amount &&
         equal(share, b.share) && head == b.head && begin == b.begin && until == b.until &&
         skips == b.skips && shared == b.shared;
}

inline bool equal(const ComputeShape& a, const ComputeShape& b) {
  const auto& [engine, format, denominator, batch, m, n, k, flop, elements, sram_bytes,
               sram_written, dma_in, dma_out] = a;
  return engine == b.engine && format == b.format && denominator == b.denominator &&
         batch == b.batch && m == b.m && n == b.n && k == b.k && flop == b.flop &&
         elements == b.elements && sram_bytes == b.sram_bytes && sram_written == b.sram_written &&
         dma_in == b.dma_in && dma_out == b.dma_out;
}

inline bool equal(const Call& a, const Call& b) {
  const auto& [segment, micro_batch, layer, after] = a;
  return segment == b.segment && micro_batch == b.micro_batch && layer == b.layer &&
         after == b.after;
}

template <class T>
bool equal(const std::vector<T>& a, const std::vector<T>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!equal(a[i], b[i])) return false;
  }
  return true;
}

inline bool equal(const Segment& a, const Segment& b) {
  return a.name == b.name && equal(a.code, b.code) && a.streams == b.streams;
}

inline bool equal(const TileGroup& a, const TileGroup& b) {
  const auto& [name, stage, first_rank, tiles, calls, background, peers, sram, dram, host] = a;
  return name == b.name && stage == b.stage && first_rank == b.first_rank && tiles == b.tiles &&
         equal(calls, b.calls) && equal(background, b.background) && peers == b.peers &&
         sram == b.sram_resident && dram == b.dram_resident && host == b.host_resident;
}

/// "" when equal, else which part differs.
inline std::string difference(const Program& a, const Program& b) {
  const auto& [names, shapes, segments, groups, channels] = a;
  if (names != b.names) return "names";
  if (channels != b.channels) return "channels";
  if (!equal(shapes, b.shapes)) return "shapes";
  if (segments.size() != b.segments.size()) return "number of segments";
  for (std::size_t i = 0; i < segments.size(); ++i) {
    if (!equal(segments[i], b.segments[i])) return fmt::format("segment {}", i);
  }
  if (groups.size() != b.groups.size()) return "number of groups";
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (!equal(groups[i], b.groups[i])) return fmt::format("group {}", i);
  }
  return "";
}

}  // namespace tilewright::test
