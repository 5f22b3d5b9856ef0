// From a program to its text.
#include <cstdint>
#include <iterator>
#include <string>
#include <unordered_map>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/program/text.h>

#include "text_fields.h"
#include "text_lexer.h"

namespace tilewright {
namespace program_detail {
namespace {

constexpr std::size_t kColumns = 100;

/// How the entries of a table are referred to: by name where that is unique, else by number.
class References {
 public:
  void add(const std::string& name) {
    quoted_.push_back(quote(name));
    ++uses_[name];
    names_.push_back(&name);
  }
  std::string operator()(std::uint32_t i) const {
    return named(i) ? quoted_[i] : std::to_string(i);
  }
  bool named(std::uint32_t i) const { return i < names_.size() && uses_.at(*names_[i]) == 1; }

 private:
  std::vector<std::string> quoted_;
  std::vector<const std::string*> names_;
  std::unordered_map<std::string, std::uint32_t> uses_;
};

/// Writes the fields of one line.
class FieldWriter {
 public:
  FieldWriter(const Program& program, const References& names, const References& channels,
              std::string& out)
      : program_(program), names_(names), channels_(channels), out_(out) {}

  /// What the next line is called in errors.
  std::string place;

  const ComputeShape* shape_of(const Instruction& i) const {
    return i.operand < program_.shapes.size() ? &program_.shapes[i.operand] : nullptr;
  }

  void shape(const char* key, Use use, std::uint32_t v) {
    put(key, use, v, true, fmt::to_string(v));
  }
  void channel(const char* key, Use use, std::uint16_t v) {
    put(key, use, v, v == 0, channels_(v));
  }
  void name(const char* key, Use use, std::uint32_t v) { put(key, use, v, v == 0, names_(v)); }
  template <class Enum>
  void choice(const char* key, Use use, Enum v, Enum fallback, const std::vector<Enum>&) {
    put(key, use, to_string(v), v == fallback, to_string(v));
  }
  template <class T>
  void count(const char* key, Use use, T v, std::uint64_t fallback, std::uint64_t, std::uint64_t) {
    put(key, use, v, v == fallback, fmt::to_string(v));
  }
  void extent(const char* key, Use use, std::int64_t v, std::int64_t fallback) {
    put(key, use, v, v == fallback, fmt::to_string(v));
  }
  void real(const char* key, Use use, double v, double fallback) {
    put(key, use, v, v == fallback, fmt::format("{}", v));
  }
  void bytes(const char* key, Use use, std::uint64_t v, std::uint64_t fallback) {
    put(key, use, v, v == fallback, fmt::to_string(v));
  }
  void share(const char* key, Use use, const Share& v) {
    const bool whole = v.parts == 1 && v.offset == 0 && v.stride == 1;
    std::string text = fmt::to_string(v.total);
    if (!whole) text += fmt::format("/{}+{}", v.parts, v.offset);
    if (v.stride != 1) text += fmt::format("@{}", v.stride);
    put(key, use, text, whole && v.total == 0, text);
  }
  /// The index of an earlier instruction; kNone when there is none.
  void earlier(const char* key, Use use, std::uint32_t v) {
    put(key, use, v, v == kNone, fmt::to_string(v));
  }
  void after(const char* key, Use use, const Dependences& v, bool previous) {
    std::string text = previous ? "previous" : "";
    std::size_t last = v.size();
    while (last > 0 && v[last - 1] == kNone) --last;
    for (std::size_t k = 0; k < last; ++k) {
      if (!text.empty()) text += ',';
      text += v[k] == kNone         ? "none"
              : (v[k] & kHead) != 0 ? fmt::format("{}.head", v[k] & ~kHead)
                                    : fmt::to_string(v[k]);
    }
    put(key, use, text, text.empty(), text);
  }

 private:
  template <class T>
  void put(const char* key, Use use, const T& value, bool is_default, const std::string& text) {
    if (use == Use::unused) {
      if (is_default) return;
      throw InputError(
          fmt::format("program: {}: has {}={}, which it does not use; as text it would "
                      "be lost",
                      place, key, value));
    }
    if (use == Use::optional && is_default) return;
    fmt::format_to(std::back_inserter(out_), " {}={}", key, text);
  }

  const Program& program_;
  const References& names_;
  const References& channels_;
  std::string& out_;
};

std::string tile_text(TileId t) { return t == kNoTile ? "none" : fmt::to_string(index(t)); }

/// " 0..3 7 none": runs of three and more, up or down, as ranges.
std::string tiles_text(const std::vector<TileId>& tiles) {
  std::string text;
  for (std::size_t i = 0; i < tiles.size();) {
    std::size_t end = i + 1;
    if (end < tiles.size() && tiles[i] != kNoTile) {
      const std::uint32_t step = index(tiles[end]) - index(tiles[i]);  // 1, or -1 modulo 2^32
      if (step == 1 || step + 1 == 0) {
        while (end < tiles.size() && tiles[end] != kNoTile &&
               index(tiles[end]) - index(tiles[end - 1]) == step) {
          ++end;
        }
      }
    }
    if (end - i >= 3) {
      text += fmt::format(" {}..{}", index(tiles[i]), index(tiles[end - 1]));
      i = end;
    } else {
      text += " " + tile_text(tiles[i++]);
    }
  }
  return text;
}

/// The calls of a group; runs of the same segment whose fields stand still, rise or fall are one
/// line.
class CallWriter {
 public:
  CallWriter(const Program& program, const References& segments, std::string& out)
      : program_(program), segments_(segments), out_(out) {}

  void write(const char* statement, const std::vector<Call>& calls) {
    for (std::size_t i = 0; i < calls.size();) {
      const std::size_t end = run_end(calls, i);
      line(statement, calls[i], calls[end - 1], end - i);
      i = end;
    }
  }

 private:
  static std::int64_t step(const Call& from, const Call& to, const CallField& f) {
    return std::int64_t{to.*f.field} - std::int64_t{from.*f.field};
  }

  /// The first call behind the run that begins at `begin`.
  static std::size_t run_end(const std::vector<Call>& calls, std::size_t begin) {
    std::size_t end = begin + 1;
    if (end == calls.size()) return end;
    const Call &first = calls[begin], &second = calls[end];
    for (const CallField& f : kCallFields) {
      const std::int64_t by = step(first, second, f);
      if (by < -1 || by > 1) return end;
      // "None" is no number that a run could begin with or reach.
      if (by != 0 && f.none_allowed && first.*f.field == kNoMicroBatch) return end;
    }
    const auto continues = [&](std::size_t i) {
      if (calls[i].segment != first.segment) return false;
      for (const CallField& f : kCallFields) {
        const std::int64_t by = step(first, second, f);
        if (step(calls[i - 1], calls[i], f) != by) return false;
        if (by != 0 && f.none_allowed && calls[i].*f.field == kNoMicroBatch) return false;
      }
      return true;
    };
    while (end < calls.size() && continues(end)) ++end;
    return end;
  }

  void line(const char* statement, const Call& first, const Call& last, std::size_t count) {
    out_ += fmt::format("  {} {}", statement, segments_(first.segment));
    bool same = true;
    for (const CallField& f : kCallFields) {
      const std::uint32_t from = first.*f.field, to = last.*f.field;
      same = same && from == to;
      if (!f.always_written && from == 0 && to == 0) continue;
      const bool none = f.none_allowed && from == kNoMicroBatch;
      out_ += fmt::format(" {}={}", f.key, none ? "none" : fmt::to_string(from));
      if (to != from) out_ += fmt::format("..{}", to);
    }
    if (same && count > 1) out_ += fmt::format(" times={}", count);
    if (!segments_.named(first.segment) && first.segment < program_.segments.size()) {
      out_ += "  # " + quote(program_.segments[first.segment].name);
    }
    out_ += '\n';
  }

  const Program& program_;
  const References& segments_;
  std::string& out_;
};

class TextWriter {
 public:
  explicit TextWriter(const Program& program)
      : program_(program), fields_(program, names_, channels_, out_) {
    for (const std::string& n : program.names) names_.add(n);
    for (const std::string& c : program.channels) channels_.add(c);
    for (const Segment& s : program.segments) segments_.add(s.name);
  }

  std::string write() {
    out_ = "# A tile program; docs/program.md describes the format.\ntilewright-program 1\n";
    write_tables();
    for (std::size_t s = 0; s < program_.segments.size(); ++s) write_segment(s);
    for (const TileGroup& g : program_.groups) write_group(g);
    return std::move(out_);
  }

 private:
  void write_tables() {
    if (!program_.names.empty()) out_ += '\n';
    std::string line;
    for (const std::string& n : program_.names) {
      const std::string word = " " + quote(n);
      if (!line.empty() && line.size() + word.size() > kColumns) {
        out_ += line + '\n';
        line.clear();
      }
      line += (line.empty() ? "names" : "") + word;
    }
    if (!line.empty()) out_ += line + '\n';
    if (!program_.channels.empty()) out_ += '\n';
    for (std::size_t c = 0; c < program_.channels.size(); ++c) {
      out_ += fmt::format("channel {}: {}\n", c, quote(program_.channels[c]));
    }
    if (!program_.shapes.empty()) out_ += '\n';
    for (std::size_t s = 0; s < program_.shapes.size(); ++s) {
      const ComputeShape& shape = program_.shapes[s];
      fields_.place = fmt::format("shape {} ({})", s, to_string(shape.engine));
      out_ += fmt::format("shape {}: {}", s, to_string(shape.engine));
      shape_fields(fields_, shape);
      out_ += '\n';
    }
  }

  void write_segment(std::size_t s) {
    const Segment& segment = program_.segments[s];
    out_ += fmt::format("\nsegment {}: {}\n", s, quote(segment.name));
    for (std::size_t i = 0; i < segment.code.size(); ++i) {
      const Instruction& code = segment.code[i];
      const std::string op = to_string(code.op);
      fields_.place = fmt::format("segment '{}', instruction {} ({})", segment.name, i, op);
      out_ += fmt::format("  {}: {} {}", i, op, names_(code.name));
      instruction_fields(fields_, code);
      out_ += '\n';
    }
  }

  void write_group(const TileGroup& g) {
    out_ += fmt::format("\ngroup {} stage={} sram_bytes={} dram_bytes={}", quote(g.name), g.stage,
                        g.sram_resident, g.dram_resident);
    if (g.host_resident != 0) out_ += fmt::format(" host_bytes={}", g.host_resident);
    if (g.first_rank != 0) out_ += fmt::format(" first_rank={}", g.first_rank);
    out_ += '\n';
    out_ += "  tiles" + tiles_text(g.tiles) + '\n';
    for (std::size_t p = 0; p < g.peers.size(); ++p) {
      out_ += fmt::format("  peers {}:{}\n", p, tiles_text(g.peers[p]));
    }
    CallWriter calls(program_, segments_, out_);
    calls.write("call", g.calls);
    calls.write("background", g.background);
  }

  const Program& program_;
  References names_, channels_, segments_;
  std::string out_;
  FieldWriter fields_;
};

}  // namespace
}  // namespace program_detail

std::string program_text(const Program& program) {
  return program_detail::TextWriter(program).write();
}

}  // namespace tilewright
