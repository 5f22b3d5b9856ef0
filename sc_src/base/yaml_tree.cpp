#include "yaml_tree.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <sstream>
#include <unordered_map>

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <tilewright/base/error.h>

namespace tilewright::detail {
namespace {

// Far more than any configuration needs, far less than what exhausts the stack of a recursive walk.
constexpr int kDeepest = 100;

int line_of(const YAML::Mark& mark) { return mark.line + 1; }

std::string place(const YamlSource& source, int line) {
  return source.has_lines ? fmt::format("{}:{}", source.name, line) : source.name;
}

class Builder : public YAML::EventHandler {
 public:
  explicit Builder(const YamlSource& source) : source_(source) {}

  const NodePtr& root() const { return root_; }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (seen_document_)
      fail(line_of(mark), "a second document starts here ('---'); a file holds exactly one");
    seen_document_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.line = line_of(mark);
    add(std::move(node), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                const std::string& value) override {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.line = line_of(mark);
    node.scalar = value;
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(line_of(mark), "an alias refers to the value it is part of");
    add(found->second, line_of(mark));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::kList, line_of(mark), anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::kMap, line_of(mark), anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor;
    std::optional<Node::Entry> pending;       // a key whose value has not come yet
    std::unordered_map<std::string, int> at;  // the line of each key
  };

  [[noreturn]] void fail(int line, const std::string& message) const {
    std::string path;
    for (const Frame& frame : frames_) {
      if (frame.pending) {
        path += (path.empty() ? "" : ".") + frame.pending->key;
      } else if (frame.node.kind == Node::Kind::kList) {
        path += fmt::format("[{}]", frame.node.items.size());
      }
    }
    throw InputError(
        fmt::format("{}: {}{}{}", place(source_, line), path, path.empty() ? "" : ": ", message));
  }

  bool expects_key() const {
    return !frames_.empty() && frames_.back().node.kind == Node::Kind::kMap &&
           !frames_.back().pending;
  }

  void open(Node::Kind kind, int line, YAML::anchor_t anchor) {
    // yaml-cpp also takes a bracket that the text never closes for the start of a key.
    if (expects_key())
      fail(line, "not valid YAML: a bracket is not closed, or a list or a map stands as a key");
    if (frames_.size() >= kDeepest) too_deep(line);
    Frame frame;
    frame.node.kind = kind;
    frame.node.line = line;
    frame.anchor = anchor;
    frames_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    ++frame.node.height;
    add(std::move(frame.node), frame.anchor);
  }

  void add(Node&& node, YAML::anchor_t anchor) {
    const int line = node.line;
    auto shared = std::make_shared<const Node>(std::move(node));
    if (anchor != YAML::NullAnchor) anchors_[anchor] = shared;
    add(std::move(shared), line);
  }

  void add(NodePtr node, int line) {
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    if (expects_key()) {
      add_key(*node, line);
      return;
    }
    Frame& parent = frames_.back();
    parent.node.height = std::max(parent.node.height, node->height);
    // Aliases can stack levels that the nesting of the text does not show.
    if (static_cast<int>(frames_.size()) + node->height > kDeepest) too_deep(line);
    if (parent.node.kind == Node::Kind::kList) {
      parent.node.items.push_back(std::move(node));
    } else {
      parent.pending->value = std::move(node);
      parent.node.entries.push_back(std::move(*parent.pending));
      parent.pending.reset();
    }
  }

  void add_key(const Node& node, int line) {
    if (node.kind != Node::Kind::kScalar || node.scalar.empty())
      fail(line, fmt::format("a key must be a word, found {}", shown(node)));
    Frame& parent = frames_.back();
    const auto [first, is_new] = parent.at.emplace(node.scalar, line);
    if (!is_new)
      fail(line, fmt::format("key '{}' is given twice (first on line {})", shown_text(node.scalar),
                             first->second));
    parent.pending = Node::Entry{node.scalar, line, nullptr};
  }

  [[noreturn]] void too_deep(int line) const {
    throw InputError(
        fmt::format("{}: nested too deeply (more than {} levels)", place(source_, line), kDeepest));
  }

  const YamlSource& source_;
  bool seen_document_ = false;
  std::vector<Frame> frames_;
  std::unordered_map<YAML::anchor_t, NodePtr> anchors_;
  NodePtr root_;
};

// The length of the UTF-8 character at `at`, or 0 when it is none (also surrogates, overlong
// forms).
std::size_t utf8_length(const std::string& text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0u) == 0x80u; };
  const unsigned first = byte(0);
  if (first < 0x80u) return 1;
  if (first >= 0xc2u && first < 0xe0u) return follows(1) ? 2 : 0;
  if (first >= 0xe0u && first < 0xf0u) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0u && byte(1) < 0xa0u) return 0;
    if (first == 0xedu && byte(1) >= 0xa0u) return 0;
    return 3;
  }
  if (first >= 0xf0u && first < 0xf5u) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0u && byte(1) < 0x90u) return 0;
    if (first == 0xf4u && byte(1) >= 0x90u) return 0;
    return 4;
  }
  return 0;
}

void check_characters(const std::string& text, const YamlSource& source) {
  int line = 1;
  for (std::size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    const std::size_t length = utf8_length(text, at);
    if (length == 0)
      throw InputError(fmt::format("{}: not UTF-8 text (byte 0x{:02x} at offset {})",
                                   place(source, line), byte, at));
    if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
      throw InputError(fmt::format("{}: not plain text (control character 0x{:02x})",
                                   place(source, line), byte));
    if (byte == '\n') ++line;
    at += length;
  }
}

}  // namespace

const Node::Entry* Node::find(const std::string& key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

NodePtr parse_yaml(const std::string& text, const YamlSource& source) {
  check_characters(text, source);
  Builder builder(source);
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    if (error.mark.is_null())
      throw InputError(fmt::format("{}: not valid YAML: {}", source.name, error.msg));
    throw InputError(fmt::format("{}: not valid YAML: {} (column {})",
                                 place(source, line_of(error.mark)), error.msg,
                                 error.mark.column + 1));
  }
  return builder.root();
}

std::string shown_text(const std::string& text) {
  constexpr std::size_t kShown = 60;
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (result.size() >= kShown) return result + "...";
    const std::size_t length = std::max<std::size_t>(1, utf8_length(text, at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == '\n') {
      result += "\\n";
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result.append(text, at, length);
    }
    at += length;
  }
  return result;
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing (null)";
    case Node::Kind::kScalar:
      return "'" + shown_text(node.scalar) + "'";
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a map";
  }
  return "";
}

std::string did_you_mean(const std::string& near) {
  return near.empty() ? ";" : fmt::format("; did you mean '{}'?", shown_text(near));
}

std::string as_yaml_scalar(const std::string& text) {
  try {
    const NodePtr node = parse_yaml(text, {"", false});
    if (node && node->kind == Node::Kind::kScalar && node->scalar == text) return text;
  } catch (const InputError&) {
    // not plain YAML: quoted below
  }
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace tilewright::detail
