// What Document and Section share. Private to layer base.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include <tilewright/base/config.h>

#include "overrides_state.h"
#include "yaml_tree.h"

namespace tilewright {
namespace detail {

/// What stays the same for all sections of a document. Apart from Document::State, which holds the
/// root section, so that sections can outlive their Document without a cycle of owners.
struct DocumentContent {
  std::string path;  ///< the file name in messages
  std::string kind;
  NodePtr root;
  std::shared_ptr<Overrides::State> overrides;  ///< may be null
  std::vector<ResolvedValue> resolved;
  std::unordered_set<std::string> resolved_paths;

  std::string place(int line) const { return path + ":" + std::to_string(line); }
  void record(const std::string& value_path, std::string text, std::string origin);
};

/// A value and where it was written.
struct FoundValue {
  NodePtr node;
  std::string path;    ///< "noc.link_bandwidth"
  std::string place;   ///< "file:line" or "--set key=value", for errors
  std::string origin;  ///< "file:line" or "--set", for the record
  std::string set;     ///< the --set that the value is inside of, else ""
};

[[noreturn]] void raise(const std::string& place, const std::string& path,
                        const std::string& message);

}  // namespace detail

struct Document::State {
  std::shared_ptr<detail::DocumentContent> content;
  Section root;
};

struct Section::State {
  std::shared_ptr<detail::DocumentContent> content;
  detail::NodePtr node;  ///< a map, or null for a section that the file lacks
  std::string path;      ///< "" for the root
  std::string place;     ///< "file:line" or "--set key=value" of this map
  std::string set;       ///< the --set that this map is inside of, else ""
  bool ignores_unknown = false;
  std::vector<std::string> known;             ///< keys that were asked for, in that order
  std::unordered_set<std::string> known_set;  ///< the same keys
  std::map<std::string, std::shared_ptr<Section::State>> children;  ///< by "key" or "key[i]"

  std::string path_of(const std::string& key) const;
  void know(const std::string& key);
  /// The value of `key`: its override, else what the map holds.
  std::optional<detail::FoundValue> find(const std::string& key);
  /// The value of `key` as text that was written as a plain value, not as a list or a map.
  std::string scalar(const detail::FoundValue& value, const std::string& wanted) const;
  void record(const detail::FoundValue& value);
  void record_default(const std::string& key, std::string text);
  /// The place of an element of a list: its own line, since lists may be long.
  std::string place_of_item(const detail::FoundValue& list, const detail::Node& item) const {
    return list.set.empty() ? content->place(item.line) : list.place;
  }
  template <class Q>
  Q quantity(const std::string& key, const std::optional<Q>& fallback, Q (*parse)(std::string_view),
             const std::string& wanted, bool zero_allowed);
  [[noreturn]] void missing(const std::string& key, const std::string& wanted) const;
  /// The section for a map found under `name`, the same one each time.
  std::shared_ptr<Section::State> child(const std::string& name,
                                        const std::optional<detail::FoundValue>& value);
  void finish() const;
};

}  // namespace tilewright
