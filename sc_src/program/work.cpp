#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include <tilewright/program/work.h>

namespace tilewright {
namespace {

/// The transfers of a segment that add to the same count of a tile.
using Counter = std::uint64_t TileWork::*;

/// What one call of a segment does.
struct SegmentWork {
  TileWork same;  ///< on every rank
  std::vector<std::pair<Counter, Share>> by_rank;
  std::vector<const Instruction*> shared_loads;
};

Counter counter_of(const Instruction& i) {
  const bool host = i.space == Space::host;
  switch (i.op) {
    case Opcode::load:
      return host ? &TileWork::host_read : &TileWork::dram_read;
    case Opcode::store:
      return host ? &TileWork::host_written : &TileWork::dram_written;
    case Opcode::send:
      return &TileWork::sent;
    case Opcode::recv:
      return &TileWork::received;
    default:
      return nullptr;
  }
}

/// Numbers the formats of a program's shapes.
class Formats {
 public:
  Formats(const Program& program, std::vector<std::string>& names) {
    std::map<std::string, std::size_t> known;
    for (const ComputeShape& shape : program.shapes) {
      const std::string& name = program.names[shape.format];
      const auto [at, is_new] = known.emplace(name, names.size());
      if (is_new) names.push_back(name);
      of_shape_.push_back(at->second);
    }
  }
  std::size_t of(std::uint32_t shape) const { return of_shape_[shape]; }

 private:
  std::vector<std::size_t> of_shape_;
};

SegmentWork work_of(const Program& program, const Segment& segment, const Formats& formats,
                    std::size_t format_count) {
  SegmentWork work;
  work.same.flop.resize(format_count);
  work.same.elements.resize(format_count);
  for (const Instruction& i : segment.code) {
    if (i.op == Opcode::compute) {
      const ComputeShape& shape = program.shapes[i.operand];
      const double part = static_cast<double>(i.amount) / shape.denominator;
      const std::size_t format = formats.of(i.operand);
      if (shape.engine == Engine::matrix) {
        work.same.flop[format] += shape.flop * part;
      } else {
        work.same.elements[format] += shape.elements * part;
      }
      work.same.engines_read += (shape.sram_bytes - shape.sram_written) * part;
      work.same.engines_wrote += shape.sram_written * part;
    } else if (const Counter counter = counter_of(i)) {
      if (i.share.parts == 1) {
        work.same.*counter += i.share.total;
      } else {
        work.by_rank.emplace_back(counter, i.share);
      }
      if (i.shared) work.shared_loads.push_back(&i);
    }
  }
  return work;
}

void add(const SegmentWork& work, std::uint64_t times, const TileGroup& group, std::size_t place,
         TileWork& tile) {
  const std::uint32_t rank = group.first_rank + static_cast<std::uint32_t>(place);
  const auto n = static_cast<double>(times);
  tile.flop.resize(work.same.flop.size());
  tile.elements.resize(work.same.elements.size());
  for (std::size_t f = 0; f < tile.flop.size(); ++f) {
    tile.flop[f] += n * work.same.flop[f];
    tile.elements[f] += n * work.same.elements[f];
  }
  tile.engines_read += n * work.same.engines_read;
  tile.engines_wrote += n * work.same.engines_wrote;
  for (const Counter c : {&TileWork::dram_read, &TileWork::dram_written, &TileWork::host_read,
                          &TileWork::host_written, &TileWork::sent, &TileWork::received}) {
    tile.*c += times * (work.same.*c);
  }
  for (const auto& [counter, share] : work.by_rank) tile.*counter += times * share.bytes(rank);
  for (const Instruction* load : work.shared_loads) {
    const TileId first = group.peers[load->operand][place];
    if (first == kNoTile || first == group.tiles[place]) continue;
    (load->space == Space::host ? tile.host_shared : tile.dram_shared) += times * load->share.total;
  }
}

}  // namespace

double TileWork::sram_read() const {
  return engines_read + static_cast<double>(dram_written + host_written + sent);
}

double TileWork::sram_written() const {
  return engines_wrote + static_cast<double>(dram_read + host_read + received);
}

ProgramWork count_work(const Program& program) {
  ProgramWork result;
  const Formats formats(program, result.formats);
  std::vector<SegmentWork> segments;
  for (const Segment& s : program.segments) {
    segments.push_back(work_of(program, s, formats, result.formats.size()));
  }
  std::vector<std::uint64_t> calls(segments.size());
  for (const TileGroup& group : program.groups) {
    std::fill(calls.begin(), calls.end(), 0);
    for (const auto* list : group.call_lists()) {
      for (const Call& call : *list) ++calls[call.segment];
    }
    for (std::size_t rank = 0; rank < group.tiles.size(); ++rank) {
      const TileId t = group.tiles[rank];
      if (result.tiles.size() <= index(t)) result.tiles.resize(index(t) + 1);
      for (std::size_t s = 0; s < segments.size(); ++s) {
        if (calls[s] == 0) continue;
        add(segments[s], calls[s], group, rank, result.tiles[t]);
      }
    }
  }
  return result;
}

}  // namespace tilewright
