#include <cmath>
#include <limits>
#include <unordered_map>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/program/program.h>

#include "agreement.h"
#include "sharing.h"

namespace tilewright {
namespace {

/// Where a fault is, in the program's own terms; "" when no group calls the segment.
std::string place(const Program& program, std::size_t segment, std::size_t instruction) {
  const Segment& s = program.segments[segment];
  std::string group;
  for (const TileGroup& g : program.groups) {
    for (const auto* calls : g.call_lists()) {
      for (const Call& call : *calls) {
        if (call.segment != segment) continue;
        group = fmt::format("group '{}', ", g.name);
        break;
      }
    }
    if (!group.empty()) break;
  }
  return fmt::format("program: {}segment '{}', instruction {} ({})", group, s.name, instruction,
                     program_detail::describe(program, s.code[instruction]));
}

[[noreturn]] void fail(const Program& program, std::size_t segment, std::size_t instruction,
                       const std::string& message) {
  throw InputError(place(program, segment, instruction) + ": " + message);
}

/// The engines an opcode may run on, as text; "" when `engine` is one of them.
std::string wrong_engine(Opcode op, Engine engine) {
  const auto unless = [](bool good, const char* allowed) { return good ? "" : allowed; };
  switch (op) {
    case Opcode::compute:
      return unless(engine == Engine::matrix || engine == Engine::vector, "matrix or vector");
    case Opcode::load:
      return unless(engine == Engine::dma_in, "dma_in");
    case Opcode::store:
      return unless(engine == Engine::dma_out, "dma_out");
    case Opcode::send:
      return unless(engine == Engine::net_send, "net_send");
    case Opcode::recv:
      return unless(engine == Engine::net_recv, "net_recv");
    case Opcode::allocate:
    case Opcode::release:
      return unless(engine == Engine::dma_in || engine == Engine::dma_out, "dma_in or dma_out");
  }
  return "a known opcode";
}

void check_shapes(const Program& program) {
  for (std::size_t i = 0; i < program.shapes.size(); ++i) {
    const ComputeShape& s = program.shapes[i];
    const auto require = [&](bool good, const std::string& message) {
      if (!good) throw InputError(fmt::format("program: shape {}: {}", i, message));
    };
    require(s.engine == Engine::matrix || s.engine == Engine::vector,
            fmt::format("engine is {}; allowed are matrix and vector", to_string(s.engine)));
    require(
        s.format < program.names.size(),
        fmt::format("format {} is not an index of the {} names", s.format, program.names.size()));
    require(s.denominator >= 1, "denominator is 0; at least 1 is needed");
    require(s.batch >= 0 && s.m >= 0 && s.n >= 0 && s.k >= 0,
            fmt::format("extents batch={} m={} n={} k={} must not be negative", s.batch, s.m, s.n,
                        s.k));
    for (const double v : {s.flop, s.elements, s.sram_bytes, s.sram_written, s.dma_in, s.dma_out}) {
      require(std::isfinite(v) && v >= 0,
              fmt::format("flop={}, elements={}, sram_bytes={}, sram_written={}, dma_in={} and "
                          "dma_out={} must be finite and not negative",
                          s.flop, s.elements, s.sram_bytes, s.sram_written, s.dma_in, s.dma_out));
    }
    require(s.sram_written <= s.sram_bytes,
            fmt::format("sram_written={} is part of sram_bytes={}", s.sram_written, s.sram_bytes));
  }
}

void check_instruction(const Program& program, std::size_t segment, std::size_t i) {
  const Instruction& code = program.segments[segment].code[i];
  const auto require = [&](bool good, const auto& message) {
    if (!good) fail(program, segment, i, message());
  };
  const std::string engine = wrong_engine(code.op, code.engine);
  require(engine.empty(), [&] {
    return fmt::format("{} runs on {}, not on {}", to_string(code.op), engine,
                       to_string(code.engine));
  });
  require(code.name < program.names.size(), [&] {
    return fmt::format("name {} is not an index of the {} names", code.name, program.names.size());
  });
  for (const std::uint32_t after : code.after) {
    if (after == kNone) continue;
    const std::uint32_t on = after & ~kHead;
    require(on < i, [&] {
      return fmt::format("depends on instruction {}; a dependence must be on an earlier one", on);
    });
    const Instruction& target = program.segments[segment].code[on];
    require((after & kHead) == 0 || (target.op == Opcode::load && target.head > 0), [&] {
      return fmt::format("depends on the head of instruction {}, which is no load with a head", on);
    });
  }
  require(code.head == 0 || (code.op == Opcode::load && code.head < code.share.total), [&] {
    return fmt::format("head {} belongs to a load of more than as many bytes", code.head);
  });
  require(!code.shared || (code.op == Opcode::load && code.share.parts == 1),
          [] { return std::string("only a load of as many bytes on every rank is shared"); });
  if (code.op == Opcode::load || code.op == Opcode::store) {
    require(code.space != Space::sram, [&] {
      return fmt::format("a {} goes to dram or host, not to sram", to_string(code.op));
    });
    require(code.space != Space::host || code.cause == Cause::offload, [&] {
      return fmt::format("traffic with the host memory has the cause offload, not {}",
                         to_string(code.cause));
    });
  }
  require(code.until == kNone ||
              ((code.op == Opcode::store || code.op == Opcode::compute) && code.until < i),
          [&] {
            return fmt::format(
                "ends with instruction {}; only a store or a compute does, with an earlier one",
                code.until);
          });
  require(code.share.parts >= 1, [] { return std::string("share has 0 parts; at least 1"); });
  require(code.share.stride >= 1, [] { return std::string("share has stride 0; at least 1"); });
  if (code.op == Opcode::compute) {
    require(code.operand < program.shapes.size(), [&] {
      return fmt::format("shape {} does not exist; there are {}", code.operand,
                         program.shapes.size());
    });
    const ComputeShape& shape = program.shapes[code.operand];
    require(shape.engine == code.engine, [&] {
      return fmt::format("shape {} is for the {} engine", code.operand, to_string(shape.engine));
    });
    require(code.amount >= 1 && code.begin < shape.denominator &&
                code.amount <= shape.denominator - code.begin,
            [&] {
              return fmt::format("parts {} to {} are not in 0 .. {}, the denominator of shape {}",
                                 code.begin, std::uint64_t{code.begin} + code.amount,
                                 shape.denominator, code.operand);
            });
  }
  if (code.op == Opcode::send || code.op == Opcode::recv) {
    require(code.channel < program.channels.size(), [&] {
      return fmt::format("channel {} does not exist; there are {}", code.channel,
                         program.channels.size());
    });
  }
}

using TileOwners = std::unordered_map<std::uint32_t, const TileGroup*>;

void check_calls(const Program& program, const TileGroup& group) {
  for (const bool background : {false, true}) {
    const std::vector<Call>& calls = background ? group.background : group.calls;
    const std::vector<Call>& others = background ? group.calls : group.background;
    for (std::size_t c = 0; c < calls.size(); ++c) {
      const auto refuse = [&](const std::string& message) {
        throw InputError(fmt::format("program: group '{}', {} {}: {}", group.name,
                                     background ? "background call" : "call", c, message));
      };
      if (calls[c].segment >= program.segments.size()) {
        refuse(fmt::format("segment {} does not exist; there are {}", calls[c].segment,
                           program.segments.size()));
      }
      if (calls[c].after > others.size()) {
        refuse(fmt::format("waits for {} {}; the group has {}", calls[c].after,
                           background ? "calls" : "background calls", others.size()));
      }
    }
  }
}

TileOwners check_tiles(const Program& program) {
  TileOwners owners;
  for (const TileGroup& group : program.groups) {
    if (group.tiles.empty()) {
      throw InputError(fmt::format("program: group '{}' has no tiles", group.name));
    }
    if (group.first_rank > kNone - group.tiles.size()) {
      throw InputError(fmt::format("program: group '{}': first_rank {} and {} tiles exceed 2^32",
                                   group.name, group.first_rank, group.tiles.size()));
    }
    for (const TileId tile : group.tiles) {
      if (tile == kNoTile) {
        throw InputError(fmt::format("program: group '{}' names no tile for a rank", group.name));
      }
      const auto [owner, added] = owners.emplace(index(tile), &group);
      if (!added) {
        throw InputError(
            fmt::format("program: tile {} is in group '{}' and in group '{}'; a tile "
                        "belongs to one group",
                        index(tile), owner->second->name, group.name));
      }
    }
    check_calls(program, group);
  }
  return owners;
}

/// The segments that a list of calls runs, each once.
std::vector<std::uint32_t> segments_of(const Program& program, const std::vector<Call>& calls) {
  std::vector<bool> seen(program.segments.size());
  std::vector<std::uint32_t> segments;
  for (const Call& call : calls) {
    if (!seen[call.segment]) segments.push_back(call.segment);
    seen[call.segment] = true;
  }
  return segments;
}

[[noreturn]] void fail_in(const Program& program, const TileGroup& group, std::uint32_t segment,
                          std::uint32_t instruction, const std::string& message) {
  const Segment& s = program.segments[segment];
  throw InputError(fmt::format("program: group '{}', segment '{}', instruction {} ({}): {}",
                               group.name, s.name, instruction,
                               program_detail::describe(program, s.code[instruction]), message));
}

/// Where instructions send and receive, by segment.
using Messages = std::vector<std::vector<std::uint32_t>>;

/// What only the other calls of a group may do.
void check_background(const Program& program, const TileGroup& group, const Messages& messages) {
  if (group.background.empty()) return;
  std::vector<std::uint8_t> foreground(program.channels.size());
  for (const std::uint32_t s : segments_of(program, group.calls)) {
    for (const std::uint32_t i : messages[s]) foreground[program.segments[s].code[i].channel] = 1;
  }
  for (const std::uint32_t s : segments_of(program, group.background)) {
    const Segment& segment = program.segments[s];
    for (std::uint32_t i = 0; i < segment.code.size(); ++i) {
      if (segment.code[i].op != Opcode::compute) continue;
      fail_in(program, group, s, i,
              "a background call does not compute; its segments move data only");
    }
    for (const std::uint32_t i : messages[s]) {
      const std::uint16_t channel = segment.code[i].channel;
      if (!foreground[channel]) continue;
      fail_in(program, group, s, i,
              fmt::format("a background call uses channel '{}', and so does another call of the "
                          "group; each of the two needs a channel of its own",
                          program.channels[channel]));
    }
  }
}

/// The peer tables that the segments in `called` use. Marks the instructions that some tiles skip.
void check_peers(Program& program, const TileGroup& group, const TileOwners& owners,
                 const std::vector<std::uint32_t>& called, const Messages& messages) {
  std::vector<bool> seen_table(group.peers.size()), sparse(group.peers.size());
  for (const std::uint32_t s : called) {
    for (const std::uint32_t i : messages[s]) {
      Instruction& code = program.segments[s].code[i];
      const auto refuse = [&](const std::string& message) {
        fail_in(program, group, s, i, message);
      };
      if (code.operand >= group.peers.size()) {
        refuse(fmt::format("peer table {} does not exist; the group has {}", code.operand,
                           group.peers.size()));
      }
      if (seen_table[code.operand]) {
        code.skips = code.skips || sparse[code.operand];
        continue;
      }
      seen_table[code.operand] = true;
      const auto& table = group.peers[code.operand];
      if (table.size() != group.tiles.size()) {
        refuse(fmt::format("peer table {} has {} entries for the {} ranks of the group",
                           code.operand, table.size(), group.tiles.size()));
      }
      for (std::size_t rank = 0; rank < table.size(); ++rank) {
        if (table[rank] == kNoTile) {
          code.skips = sparse[code.operand] = true;
          continue;
        }
        if (table[rank] == group.tiles[rank]) {
          refuse(fmt::format("peer table {} makes rank {} (tile {}) its own peer", code.operand,
                             rank, index(table[rank])));
        }
        if (owners.count(index(table[rank])) == 0) {
          refuse(
              fmt::format("peer table {} gives rank {} the peer tile {}, which belongs to no group",
                          code.operand, rank, index(table[rank])));
        }
      }
    }
  }
}

}  // namespace

namespace program_detail {

std::string describe(const Program& program, const Instruction& instruction) {
  std::string text = to_string(instruction.engine) + " " + to_string(instruction.op);
  if (instruction.name < program.names.size()) {
    text += " '" + program.names[instruction.name] + "'";
  }
  return text;
}

}  // namespace program_detail

Share::Share(std::uint64_t total_, std::uint32_t parts_, std::uint32_t offset_,
             std::uint32_t stride_)
    : total(total_),
      parts(static_cast<std::uint16_t>(parts_)),
      offset(static_cast<std::uint16_t>(offset_)),
      stride(stride_) {
  if (parts_ > kMaxParts || offset_ > kMaxParts) {
    throw InputError(fmt::format("program: a share of {} parts with offset {}; at most {} of each",
                                 parts_, offset_, kMaxParts));
  }
}

std::uint16_t Program::intern(const std::string& name) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] == name) return static_cast<std::uint16_t>(i);
  }
  if (names.size() > std::numeric_limits<std::uint16_t>::max()) {
    throw InputError(fmt::format("program: more than 65536 names, at '{}'", name));
  }
  names.push_back(name);
  return static_cast<std::uint16_t>(names.size() - 1);
}

void Program::seal() {
  check_shapes(*this);
  const TileOwners owners = check_tiles(*this);
  Messages messages(segments.size());
  for (std::size_t s = 0; s < segments.size(); ++s) {
    Segment& segment = segments[s];
    if (segment.code.size() >= kNone) {
      throw InputError(
          fmt::format("program: segment '{}' has more than 2^32 - 2 instructions", segment.name));
    }
    for (auto& stream : segment.streams) stream.clear();
    segment.ends.clear();
    for (std::uint32_t i = 0; i < segment.code.size(); ++i) {
      check_instruction(*this, s, i);
      segment.code[i].skips = false;
      const Instruction& code = segment.code[i];
      segment.streams[static_cast<std::size_t>(code.engine)].push_back(i);
      if (code.until != kNone) {
        segment.ends.resize(segment.code.size(), kNone);
        if (segment.ends[code.until] != kNone) {
          fail(*this, s, i,
               fmt::format("ends with instruction {}, and so does the store {}", code.until,
                           segment.ends[code.until]));
        }
        segment.ends[code.until] = i;
      }
      if (code.op == Opcode::send || code.op == Opcode::recv) messages[s].push_back(i);
    }
  }
  for (const TileGroup& group : groups) {
    for (const auto* calls : group.call_lists()) {
      check_peers(*this, group, owners, segments_of(*this, *calls), messages);
    }
    check_background(*this, group, messages);
  }
  program_detail::check_sharing(*this);
  program_detail::check_agreement(*this);
}

std::string to_string(Engine e) {
  switch (e) {
    case Engine::matrix:
      return "matrix";
    case Engine::vector:
      return "vector";
    case Engine::dma_in:
      return "dma_in";
    case Engine::dma_out:
      return "dma_out";
    case Engine::net_send:
      return "net_send";
    case Engine::net_recv:
      return "net_recv";
  }
  return "unknown engine";
}

std::string to_string(Opcode o) {
  switch (o) {
    case Opcode::compute:
      return "compute";
    case Opcode::load:
      return "load";
    case Opcode::store:
      return "store";
    case Opcode::send:
      return "send";
    case Opcode::recv:
      return "recv";
    case Opcode::allocate:
      return "allocate";
    case Opcode::release:
      return "release";
  }
  return "unknown opcode";
}

std::string to_string(Space s) {
  switch (s) {
    case Space::sram:
      return "sram";
    case Space::dram:
      return "dram";
    case Space::host:
      return "host";
  }
  return "unknown space";
}

std::string to_string(Phase p) {
  switch (p) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::recompute:
      return "recompute";
    case Phase::gradient_sync:
      return "gradient_sync";
    case Phase::optimizer:
      return "optimizer";
  }
  return "unknown phase";
}

std::string to_string(Cause c) {
  switch (c) {
    case Cause::memory:
      return "memory";
    case Cause::tensor:
      return "tensor";
    case Cause::data:
      return "data";
    case Cause::pipeline:
      return "pipeline";
    case Cause::context:
      return "context";
    case Cause::expert:
      return "expert";
    case Cause::resharding:
      return "resharding";
    case Cause::offload:
      return "offload";
  }
  return "unknown cause";
}

}  // namespace tilewright
