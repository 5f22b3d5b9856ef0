// An immutable copy of a YAML file with line numbers. Private to layer base.
//
// yaml-cpp's own nodes drop duplicate keys, let aliases form cycles and do not tell `null` from
// "null"; its event interface shows all of that, so the tree is built from the events.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace tilewright::detail {

struct Node;
using NodePtr = std::shared_ptr<const Node>;

struct Node {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry {
    std::string key;
    int line;  ///< of the key
    NodePtr value;
  };

  Kind kind = Kind::kNull;
  int line = 0;    ///< from 1
  int height = 0;  ///< levels of lists and maps below and including this one
  std::string scalar;
  std::vector<NodePtr> items;
  std::vector<Entry> entries;

  const Entry* find(const std::string& key) const;
};

/// What error messages call the text, and whether its lines are worth naming.
struct YamlSource {
  std::string name;
  bool has_lines = true;
};

/// Parses one YAML document; nullptr when it holds nothing but comments. Throws InputError: text
/// that is not UTF-8, a syntax error, a duplicate key, a key that is no word, nesting that is too
/// deep, a node that contains itself, a second document.
NodePtr parse_yaml(const std::string& text, const YamlSource& source);

/// The value as an error message shows it: "'1 GB/s'", "a list", "a map", "nothing".
std::string shown(const Node& node);

/// `text` cut to the length of a message, with unprintable characters made visible.
std::string shown_text(const std::string& text);

/// The end of a sentence about an unknown name: "; did you mean 'x'?", or ";" without a near one.
std::string did_you_mean(const std::string& near);

/// `text` as YAML that reads back as this scalar: unchanged where possible, else quoted.
std::string as_yaml_scalar(const std::string& text);

}  // namespace tilewright::detail
