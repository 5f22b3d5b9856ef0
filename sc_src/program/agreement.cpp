#include "agreement.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>

namespace tilewright::program_detail {
namespace {

/// The sends (or receives) of one segment that differ only in the part of the total they carry.
struct SizeClass {
  std::vector<std::uint32_t> offsets;  ///< Share::offset of each instruction
};
/// Share::total, Share::parts, Share::stride
using SizeKey = std::tuple<std::uint64_t, std::uint32_t, std::uint32_t>;

/// The instructions of one segment that use one channel with one peer table, in one direction.
struct ChannelUse {
  std::map<SizeKey, SizeClass> sizes;
  std::uint64_t count = 0;
  std::uint32_t first = 0;  ///< instruction, for messages
};
using UseKey = std::tuple<bool, std::uint16_t, std::uint32_t>;  ///< receive?, channel, peer table
using SegmentUses = std::map<UseKey, ChannelUse>;

/// What one rank of one group does with one peer table over the iteration.
struct Totals {
  std::uint64_t count = 0;
  std::vector<std::uint64_t> bytes;  ///< by tile of the group
  std::uint32_t segment = 0, instruction = 0;
};

/// One end's account of the messages from `source` to `destination`.
struct Record {
  std::uint32_t destination = 0;
  std::uint16_t channel = 0;
  std::uint32_t source = 0;
  bool receives = false;
  std::uint64_t count = 0, bytes = 0;
  std::uint32_t segment = 0, instruction = 0;
  auto order() const {
    return std::tie(destination, channel, source, receives, segment, instruction);
  }
};

SegmentUses uses_of(const Segment& segment) {
  SegmentUses uses;
  for (std::uint32_t i = 0; i < segment.code.size(); ++i) {
    const Instruction& code = segment.code[i];
    if (code.op != Opcode::send && code.op != Opcode::recv) continue;
    const auto [use, added] =
        uses.try_emplace(UseKey{code.op == Opcode::recv, code.channel, code.operand});
    if (added) use->second.first = i;
    ++use->second.count;
    const Share& share = code.share;
    use->second.sizes[{share.total, share.parts, share.stride}].offsets.push_back(share.offset);
  }
  return uses;
}

/// Adds `calls` times the bytes of the class to every tile; that of the first has `first_rank`. A
/// ring collective of p ranks has O(p) instructions in one class, so the sum over instructions is
/// taken for all ranks at once: place i = rank / stride gets one more byte from each instruction
/// whose part (i + offset) mod parts is below the remainder.
void add_bytes(const SizeKey& key, const SizeClass& sizes, std::uint64_t calls,
               std::uint32_t first_rank, std::vector<std::uint64_t>& bytes) {
  const auto [total, parts, stride] = key;
  const std::uint64_t n = sizes.offsets.size();
  const std::uint64_t whole = total / parts * n;
  const std::uint64_t remainder = total % parts;
  if (remainder == 0) {
    for (auto& b : bytes) b += calls * whole;
    return;
  }
  if (n * bytes.size() <= parts) {  // few instructions: not worth a table of all parts
    for (std::uint32_t t = 0; t < bytes.size(); ++t) {
      for (const std::uint32_t offset : sizes.offsets) {
        bytes[t] += calls * Share{total, parts, offset, stride}.bytes(first_rank + t);
      }
    }
    return;
  }
  // at[i]: instructions with offset mod parts < i.
  std::vector<std::uint64_t> at(std::size_t{parts} + 1, 0);
  for (const std::uint32_t offset : sizes.offsets) ++at[offset % parts + 1];
  for (std::size_t i = 1; i < at.size(); ++i) at[i] += at[i - 1];
  for (std::uint32_t t = 0; t < bytes.size(); ++t) {
    // Offsets from (-place) mod parts, `remainder` of them, round the end.
    const std::uint64_t from = (parts - (first_rank + t) / stride % parts) % parts;
    const std::uint64_t to = from + remainder;
    const std::uint64_t more =
        to <= parts ? at[to] - at[from] : at[parts] - at[from] + at[to - parts];
    bytes[t] += calls * (whole + more);
  }
}

/// Which group and rank a tile is, for messages.
using Owners = std::unordered_map<std::uint32_t, std::pair<std::uint32_t, std::uint32_t>>;

std::string name_of(const Program& program, const Owners& owners, std::uint32_t tile) {
  const auto [group, rank] = owners.at(tile);
  return fmt::format("group '{}' rank {} (tile {})", program.groups[group].name, rank, tile);
}

std::string place_of(const Program& program, const Record& r) {
  const Segment& segment = program.segments[r.segment];
  return fmt::format("segment '{}' instruction {} ({})", segment.name, r.instruction,
                     describe(program, segment.code[r.instruction]));
}

[[noreturn]] void fail_pair(const Program& program, const Owners& owners, const Record* send,
                            const Record* recv) {
  const Record& any = send ? *send : *recv;
  const auto amount = [](const Record* r) {
    return r ? fmt::format("{} messages of together {} bytes", r->count, r->bytes)
             : std::string("none");
  };
  std::string text = fmt::format(
      "program: sends and receives disagree on channel '{}': {} sends {}, but {} expects {} from "
      "it",
      program.channels[any.channel], name_of(program, owners, any.source), amount(send),
      name_of(program, owners, any.destination), amount(recv));
  if (send) text += "; sent first by " + place_of(program, *send);
  if (recv) text += "; received first by " + place_of(program, *recv);
  throw InputError(text);
}

std::vector<Record> account(const Program& program) {
  std::vector<SegmentUses> uses;
  uses.reserve(program.segments.size());
  for (const Segment& segment : program.segments) uses.push_back(uses_of(segment));

  std::vector<Record> records;
  std::vector<std::uint64_t> calls(program.segments.size());
  std::vector<std::uint32_t> called;
  for (const TileGroup& group : program.groups) {
    called.clear();
    for (const auto* list : group.call_lists()) {
      for (const Call& call : *list) {
        if (calls[call.segment]++ == 0) called.push_back(call.segment);
      }
    }
    std::map<UseKey, Totals> totals;
    for (const std::uint32_t s : called) {
      for (const auto& [key, use] : uses[s]) {
        const auto [sum, added] = totals.try_emplace(key);
        if (added) {
          sum->second.bytes.resize(group.tiles.size());
          sum->second.segment = s;
          sum->second.instruction = use.first;
        }
        sum->second.count += calls[s] * use.count;
        for (const auto& [size, c] : use.sizes) {
          add_bytes(size, c, calls[s], group.first_rank, sum->second.bytes);
        }
      }
      calls[s] = 0;
    }
    for (const auto& [key, sum] : totals) {
      const auto [receives, channel, table] = key;
      for (std::size_t rank = 0; rank < group.tiles.size(); ++rank) {
        if (group.peers[table][rank] == kNoTile) continue;
        const std::uint32_t self = index(group.tiles[rank]);
        const std::uint32_t peer = index(group.peers[table][rank]);
        records.push_back({receives ? self : peer, channel, receives ? peer : self, receives,
                           sum.count, sum.bytes[rank], sum.segment, sum.instruction});
      }
    }
  }
  return records;
}

}  // namespace

void check_agreement(const Program& program) {
  Owners owners;
  for (std::uint32_t g = 0; g < program.groups.size(); ++g) {
    const auto& tiles = program.groups[g].tiles;
    for (std::uint32_t r = 0; r < tiles.size(); ++r) owners[index(tiles[r])] = {g, r};
  }
  std::vector<Record> records = account(program);
  std::sort(records.begin(), records.end(),
            [](const Record& a, const Record& b) { return a.order() < b.order(); });

  const Record* previous = nullptr;  // the last pair's record, to see a second source
  for (std::size_t i = 0; i < records.size();) {
    const Record& first = records[i];
    Record sends, receives;
    std::size_t j = i;
    for (; j < records.size() && records[j].destination == first.destination &&
           records[j].channel == first.channel && records[j].source == first.source;
         ++j) {
      Record& end = records[j].receives ? receives : sends;
      const std::uint64_t count = end.count, bytes = end.bytes;
      if (count == 0) end = records[j];
      end.count = count + records[j].count;
      end.bytes = bytes + records[j].bytes;
    }
    if (sends.count != receives.count || sends.bytes != receives.bytes) {
      fail_pair(program, owners, sends.count ? &sends : nullptr,
                receives.count ? &receives : nullptr);
    }
    if (previous && previous->destination == first.destination &&
        previous->channel == first.channel) {
      throw InputError(fmt::format(
          "program: channel '{}' of {} has two sources, {} and {}; a tile receives a channel from "
          "one source: use one channel for each",
          program.channels[first.channel], name_of(program, owners, first.destination),
          name_of(program, owners, previous->source), name_of(program, owners, first.source)));
    }
    previous = &first;
    i = j;
  }
}

}  // namespace tilewright::program_detail
