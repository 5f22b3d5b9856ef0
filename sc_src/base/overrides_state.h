// The bookkeeping behind Overrides. Private to layer base.
#pragma once

#include <set>
#include <string>
#include <unordered_set>
#include <vector>

#include <tilewright/base/config.h>

#include "yaml_tree.h"

namespace tilewright {

struct Overrides::State {
  struct Item {
    std::string key;
    std::string label;  ///< "--set key=value", the place that errors name
    detail::NodePtr value;
    std::set<std::string> used_by;  ///< kinds of the documents that took this value
    std::string shadowed_by;        ///< label of a more specific override that won
  };
  struct KnownPath {
    std::string kind;
    std::string path;
  };

  std::vector<Item> items;
  std::vector<KnownPath> known;  ///< every path that any document asked for, in that order

  /// A document of this kind asks for `path`: its override, or nullptr. With the kind as prefix
  /// wins over without.
  Item* find(const std::string& kind, const std::string& path);
  /// As find(), and the document takes the value.
  const Item* take(const std::string& kind, const std::string& path);
  /// An override of something inside `path` exists.
  bool any_below(const std::string& kind, const std::string& path) const;
  /// The names N, besides the existing ones, for which an override of `path`.N or of something
  /// below it exists; "" as path is the root. An index ("links[0].x") belongs to the name before
  /// it.
  std::vector<std::string> names_below(const std::string& kind, const std::string& path,
                                       const std::vector<std::string>& existing) const;
  void know(const std::string& kind, const std::string& path);

 private:
  std::unordered_set<std::string> known_set_;
};

}  // namespace tilewright
