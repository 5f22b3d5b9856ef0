// From text to a program.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/program/text.h>

#include "text_reader_fields.h"

namespace tilewright {
namespace program_detail {
namespace {

/// Nothing real is larger, and a slip of the pen should not fill the memory.
constexpr std::uint64_t kMaxCalls = 16'777'216;
constexpr std::uint64_t kMaxTiles = 16'777'216;

/// |last - first| + 1.
std::uint64_t length(std::uint32_t first, std::uint32_t last) {
  return std::uint64_t{first < last ? last - first : first - last} + 1;
}
/// Entry `i` of first .. last, which may rise, fall, or stand still.
std::uint32_t nth(std::uint32_t first, std::uint32_t last, std::uint64_t i) {
  const auto step = static_cast<std::uint32_t>(i);
  return first == last ? first : first < last ? first + step : first - step;
}

class TextReader {
 public:
  TextReader(const std::string& text, const std::string& file) : text_(text), file_(file) {}

  Program read() {
    std::string_view rest = text_;
    for (std::size_t number = 1; !rest.empty(); ++number) {
      const std::size_t end = rest.find('\n');
      const Location at(file_, number);
      const std::vector<Token> tokens = split_line(rest.substr(0, end), at);
      if (!tokens.empty()) read_line(at, tokens);
      rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
    }
    if (!started_) {
      throw InputError(fmt::format(
          "{}: not a tile program: its first line must be 'tilewright-program 1'", file_));
    }
    try {
      program_.seal();
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", file_, error.what()));
    }
    return std::move(program_);
  }

 private:
  using Tokens = std::vector<Token>;

  void read_line(const Location& at, const Tokens& tokens) {
    const Token& word = tokens.front();
    if (!started_) {
      begin(at, tokens);
      return;
    }
    using Reader = void (TextReader::*)(const Location&, const Tokens&);
    static const std::map<std::string, Reader> statements{
        {"names", &TextReader::read_names},    {"channel", &TextReader::read_channel},
        {"shape", &TextReader::read_shape},    {"segment", &TextReader::read_segment},
        {"group", &TextReader::read_group},    {"tiles", &TextReader::read_tiles},
        {"peers", &TextReader::read_peers},    {"call", &TextReader::read_call},
        {"background", &TextReader::read_call}};
    if (word.key.empty() && !word.quoted) {
      const auto statement = statements.find(word.value);
      if (statement != statements.end()) {
        (this->*statement->second)(at, tokens);
        return;
      }
      const Token& op = word.is_label() && tokens.size() > 1 ? tokens[1] : word;
      for (const Opcode known : choices(Opcode::compute, Opcode::release)) {
        if (op.key.empty() && op.value == to_string(known)) {
          read_instruction(at, tokens, known);
          return;
        }
      }
    }
    std::vector<std::string> allowed;
    for (const auto& [name, reader] : statements) allowed.push_back(name);
    for (const Opcode o : choices(Opcode::compute, Opcode::release))
      allowed.push_back(to_string(o));
    const Token& wrong = word.is_label() && tokens.size() > 1 ? tokens[1] : word;
    at.fail(wrong.raw, fmt::format("not a statement; allowed are {}{}", list_text(allowed),
                                   suggestion(wrong.value, allowed)));
  }

  void begin(const Location& at, const Tokens& tokens) {
    if (tokens[0].raw != "tilewright-program") {
      at.fail(tokens[0].raw, "not a tile program: its first line must be 'tilewright-program 1'");
    }
    if (tokens.size() != 2 || tokens[1].raw != "1") {
      at.fail(tokens.size() > 1 ? tokens[1].raw : tokens[0].raw,
              "unknown version of the format; this Tilewright reads 'tilewright-program 1'");
    }
    started_ = true;
  }

  // --- tables ---

  void read_names(const Location& at, const Tokens& tokens) {
    for (std::size_t i = 1; i < tokens.size(); ++i) {
      if (!tokens[i].key.empty())
        at.fail(tokens[i].raw, "a name is expected; quote one that holds '='");
      if (program_.names.size() > UINT16_MAX) at.fail(tokens[i].raw, "more than 65536 names");
      program_.names.push_back(tokens[i].value);
      tables_.names.add(at, nullptr);
      tables_.names.alias(tokens[i].value);
    }
  }

  void read_channel(const Location& at, const Tokens& tokens) {
    const Token& name = labelled_name(at, tokens, tables_.channels);
    if (program_.channels.size() > UINT16_MAX) at.fail(name.raw, "more than 65536 channels");
    program_.channels.push_back(name.value);
    end_of(at, tokens, name);
  }

  void read_shape(const Location& at, const Tokens& tokens) {
    const std::size_t first = label(at, tokens, tables_.shapes);
    const Token& engine = word(at, tokens, first, "'matrix' or 'vector'");
    ComputeShape shape;
    if (engine.raw == "vector") {
      shape.engine = Engine::vector;
    } else if (engine.raw != "matrix") {
      at.fail(engine.raw, "a shape is for the engine 'matrix' or 'vector'");
    }
    FieldReader fields(at, engine, tokens, first + 1, program_, tables_);
    shape_fields(fields, shape);
    fields.finish();
    program_.shapes.push_back(shape);
  }

  // --- segments ---

  void read_segment(const Location& at, const Tokens& tokens) {
    const Token& name = labelled_name(at, tokens, tables_.segments);
    program_.segments.emplace_back();
    program_.segments.back().name = name.value;
    tables_.instructions.clear();
    in_group_ = false;
    end_of(at, tokens, name);
  }

  void read_instruction(const Location& at, const Tokens& tokens, Opcode op) {
    if (program_.segments.empty() || in_group_) {
      at.fail(tokens.front().raw,
              "an instruction stands below its 'segment' line, before any 'group'");
    }
    const Token* label = tokens[0].is_label() ? &tokens[0] : nullptr;
    const std::size_t first = label ? 1 : 0;
    const Token& name = word(at, tokens, first + 1, "the name of an operator (any text)");
    Instruction code;
    code.op = op;
    code.name = static_cast<std::uint16_t>(intern_name(at, name, program_, tables_.names));
    FieldReader fields(at, tokens[first], tokens, first + 2, program_, tables_);
    instruction_fields(fields, code);
    fields.finish();
    program_.segments.back().code.push_back(code);
    tables_.instructions.add(at, label);
  }

  // --- groups ---

  void read_group(const Location& at, const Tokens& tokens) {
    const Token& name = word(at, tokens, 1, "the group's name");
    TileGroup group;
    group.name = name.value;
    FieldReader fields(at, tokens[0], tokens, 2, program_, tables_);
    fields.count("stage", Use::shown, group.stage, program_.groups.size(), 0, UINT32_MAX);
    fields.bytes("sram_bytes", Use::shown, group.sram_resident, 0);
    fields.bytes("dram_bytes", Use::shown, group.dram_resident, 0);
    fields.bytes("host_bytes", Use::optional, group.host_resident, 0);
    fields.count("first_rank", Use::optional, group.first_rank, 0, 0, kNone - kMaxTiles);
    fields.finish();
    program_.groups.push_back(std::move(group));
    in_group_ = true;
  }

  void read_tiles(const Location& at, const Tokens& tokens) {
    TileGroup& group = current_group(at, tokens[0]);
    if (!group.tiles.empty()) at.fail(tokens[0].raw, "the group has its tiles already");
    group.tiles = tile_list(at, tokens, 1);
  }

  void read_peers(const Location& at, const Tokens& tokens) {
    TileGroup& group = current_group(at, tokens[0]);
    std::size_t first = 1;
    if (tokens.size() > 1 && tokens[1].is_label()) {
      const std::string expected = fmt::format("{}:", group.peers.size());
      if (tokens[1].raw != expected) {
        at.fail(tokens[1].raw,
                fmt::format("the group's next peer table is '{}'; tables come in order", expected));
      }
      first = 2;
    }
    group.peers.push_back(tile_list(at, tokens, first));
  }

  /// `call` or `background`.
  void read_call(const Location& at, const Tokens& tokens) {
    TileGroup& group = current_group(at, tokens[0]);
    std::vector<Call>& calls = tokens[0].value == "call" ? group.calls : group.background;
    const Token& segment = word(at, tokens, 1, "a segment");
    Call first, last;
    first.segment = tables_.segments.find(at, segment, segment.value, segment.quoted);
    std::uint64_t times = 1;
    FieldReader fields(at, tokens[0], tokens, 2, program_, tables_);
    std::uint64_t run = 1;
    const char* runs = nullptr;  // the key of the first run of the line
    for (const CallField& f : kCallFields) {
      fields.range(f.key, first.*f.field, last.*f.field, f.none_allowed);
      const std::uint64_t own = length(first.*f.field, last.*f.field);
      if (own == 1) continue;
      if (runs != nullptr && own != run) {
        at.fail(tokens[0].raw, fmt::format("{} runs over {} values and {} over {}; the runs of one "
                                           "call must be equally long",
                                           runs, run, f.key, own));
      }
      run = own;
      runs = f.key;
    }
    fields.count("times", Use::shown, times, 1, 1, kMaxCalls);
    fields.finish();
    if (run > kMaxCalls || calls.size() + run * times > kMaxCalls) {
      at.fail(tokens[0].raw, fmt::format("the group has more than {} calls", kMaxCalls));
    }
    for (std::uint64_t t = 0; t < times; ++t) {
      for (std::uint64_t i = 0; i < run; ++i) {
        calls.push_back(first);
        for (const CallField& f : kCallFields) {
          calls.back().*f.field = nth(first.*f.field, last.*f.field, i);
        }
      }
    }
  }

  TileGroup& current_group(const Location& at, const Token& token) {
    if (!in_group_) at.fail(token.raw, "this stands below a 'group' line");
    return program_.groups.back();
  }

  std::vector<TileId> tile_list(const Location& at, const Tokens& tokens, std::size_t first) {
    std::vector<TileId> tiles;
    for (std::size_t i = first; i < tokens.size(); ++i) {
      const Token& token = tokens[i];
      if (!token.key.empty() || token.quoted) {
        at.fail(token.raw,
                "not a tile; allowed are tile numbers, ranges such as 0..15, and 'none'");
      }
      if (token.value == "none") {
        tiles.push_back(kNoTile);
        continue;
      }
      const std::size_t dots = token.value.find("..");
      const auto number = [&](const std::string& text) {
        if (!is_number(text)) {
          at.fail(token.raw,
                  "not a tile; allowed are tile numbers, ranges such as 0..15, and 'none'");
        }
        return static_cast<std::uint32_t>(parse_count(at, token, text, 0, kNone - 1));
      };
      const std::uint32_t from = number(token.value.substr(0, dots));
      const std::uint32_t to =
          dots == std::string::npos ? from : number(token.value.substr(dots + 2));
      if (tiles.size() + length(from, to) > kMaxTiles) {
        at.fail(token.raw, fmt::format("more than {} tiles", kMaxTiles));
      }
      for (std::uint64_t k = 0; k < length(from, to); ++k) {
        tiles.push_back(static_cast<TileId>(nth(from, to, k)));
      }
    }
    return tiles;
  }

  // --- words ---

  /// Adds an entry to `table`; the position behind its label, if there is one.
  static std::size_t label(const Location& at, const Tokens& tokens, Table& table) {
    const bool labelled = tokens.size() > 1 && tokens[1].is_label();
    table.add(at, labelled ? &tokens[1] : nullptr);
    return labelled ? 2 : 1;
  }

  const Token& labelled_name(const Location& at, const Tokens& tokens, Table& table) {
    const Token& name = word(at, tokens, label(at, tokens, table), "a name");
    table.alias(name.value);
    return name;
  }

  static const Token& word(const Location& at, const Tokens& tokens, std::size_t i,
                           const char* expected) {
    if (i >= tokens.size()) {
      at.fail(tokens.back().raw, fmt::format("{} is missing behind it", expected));
    }
    if (!tokens[i].key.empty()) {
      at.fail(tokens[i].raw, fmt::format("{} is expected here", expected));
    }
    return tokens[i];
  }

  static void end_of(const Location& at, const Tokens& tokens, const Token& last) {
    if (&last != &tokens.back()) {
      at.fail((&last + 1)->raw, "nothing is expected here; quote a name that holds blanks");
    }
  }

  const std::string& text_;
  const std::string& file_;
  bool started_ = false, in_group_ = false;
  Program program_;
  Tables tables_;
};

}  // namespace
}  // namespace program_detail

Program parse_program(const std::string& text, const std::string& name) {
  return program_detail::TextReader(text, name).read();
}

Program load_program(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(fmt::format("cannot read '{}': it is a folder", path));
  }
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (file) text << file.rdbuf();
  if (!file || file.bad()) {
    throw InputError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  }
  return parse_program(text.str(), path);
}

}  // namespace tilewright
