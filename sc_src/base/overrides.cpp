#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "number_text.h"
#include "overrides_state.h"

namespace tilewright {
namespace {

using Item = Overrides::State::Item;
using KnownPath = Overrides::State::KnownPath;

bool starts_with(const std::string& text, const std::string& start) {
  return text.compare(0, start.size(), start) == 0;
}

std::string last_name(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::string parent(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

// "noc" for "platform.noc" when some document is of kind "platform".
std::string without_kind(const std::string& key, const std::vector<KnownPath>& known) {
  for (const KnownPath& k : known)
    if (starts_with(key, k.kind + ".")) return key.substr(k.kind.size() + 1);
  return key;
}

std::string nearest_path(const std::string& key, const std::vector<KnownPath>& known) {
  std::vector<std::string> paths;
  for (const KnownPath& k : known) paths.push_back(k.path);
  for (const KnownPath& k : known) paths.push_back(k.kind + "." + k.path);
  // The right name in the wrong place is likelier than a misspelling: link_bandwidth for
  // noc.link_bandwidth.
  const std::string name = last_name(key);
  std::string same_name;
  for (const KnownPath& k : known)
    if (last_name(k.path) == name && same_name.empty()) same_name = k.path;
  std::string near = nearest_name(key, paths);
  if (!near.empty() && (same_name.empty() || last_name(near) == name)) return near;
  if (!same_name.empty()) return same_name;
  std::vector<std::string> names;
  for (const KnownPath& k : known) names.push_back(last_name(k.path));
  const std::string near_name = nearest_name(name, names);
  for (const KnownPath& k : known)
    if (!near_name.empty() && last_name(k.path) == near_name) return k.path;
  return "";
}

// The known keys beside `key`: those of its parent, or of the nearest ancestor that has any.
std::string known_siblings(const std::string& key, const std::vector<KnownPath>& known) {
  constexpr std::size_t kListed = 30;
  std::string level = without_kind(key, known);
  do {
    level = parent(level);
    std::vector<std::string> siblings;
    for (const KnownPath& k : known)
      if (parent(k.path) == level &&
          std::find(siblings.begin(), siblings.end(), k.path) == siblings.end())
        siblings.push_back(k.path);
    if (siblings.empty()) continue;
    const bool more = siblings.size() > kListed;
    if (more) siblings.resize(kListed);
    return fmt::format("known keys: {}{}", fmt::join(siblings, ", "), more ? ", ..." : "");
  } while (!level.empty());
  return "no file of this run has keys";
}

std::string unused_message(const Item& item, const std::vector<KnownPath>& known) {
  if (!item.shadowed_by.empty())
    return fmt::format("{}: has no effect: {} is more specific", item.label, item.shadowed_by);
  for (const KnownPath& k : known)
    if (k.path == item.key || k.kind + "." + k.path == item.key)
      return fmt::format("{}: has no effect: nothing in this run uses the value of '{}'",
                         item.label, item.key);
  const std::string near = nearest_path(item.key, known);
  return fmt::format("{}: unknown key '{}'{} {}", item.label, detail::shown_text(item.key),
                     detail::did_you_mean(near), known_siblings(item.key, known));
}

}  // namespace

Overrides::Overrides(const std::vector<std::string>& items) : state_(std::make_shared<State>()) {
  for (const std::string& text : items) {
    State::Item item;
    item.label = "--set " + detail::shown_text(text);
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos)
      throw InputError(item.label + ": wanted: key=value, such as noc.link_bandwidth=512GB/s");
    item.key = detail::trimmed(std::string_view(text).substr(0, equals));
    if (item.key.empty())
      throw InputError(item.label +
                       ": no key before '='; wanted: key=value, such as "
                       "noc.link_bandwidth=512GB/s");
    for (const State::Item& other : state_->items)
      if (other.key == item.key)
        throw InputError(fmt::format("{}: key '{}' is also given by {}; give it once", item.label,
                                     item.key, other.label));
    item.value = detail::parse_yaml(text.substr(equals + 1), {item.label, false});
    // Nothing behind '=' is a null value, which the reader of the key refuses by name.
    if (!item.value) item.value = std::make_shared<const detail::Node>();
    state_->items.push_back(std::move(item));
  }
}

void Overrides::finish() const {
  if (!state_) return;
  for (const State::Item& item : state_->items) {
    if (item.used_by.empty()) throw InputError(unused_message(item, state_->known));
    if (item.used_by.size() == 1) continue;
    std::vector<std::string> keys;
    for (const std::string& kind : item.used_by) keys.push_back(kind + "." + item.key);
    throw InputError(fmt::format("{}: key '{}' exists in the {}; say which one: {}", item.label,
                                 item.key, fmt::join(item.used_by, " and in the "),
                                 fmt::join(keys, " or ")));
  }
}

Item* Overrides::State::find(const std::string& kind, const std::string& path) {
  Item* plain = nullptr;
  Item* prefixed = nullptr;
  for (Item& item : items) {
    if (item.key == path) plain = &item;
    if (item.key.size() == kind.size() + 1 + path.size() && starts_with(item.key, kind + ".") &&
        item.key.compare(kind.size() + 1, std::string::npos, path) == 0)
      prefixed = &item;
  }
  if (prefixed && plain) plain->shadowed_by = prefixed->label;
  return prefixed ? prefixed : plain;
}

const Item* Overrides::State::take(const std::string& kind, const std::string& path) {
  Item* item = find(kind, path);
  if (item) item->used_by.insert(kind);
  return item;
}

bool Overrides::State::any_below(const std::string& kind, const std::string& path) const {
  return std::any_of(items.begin(), items.end(), [&](const Item& item) {
    for (const std::string& start : {path, kind + "." + path})
      if (starts_with(item.key, start + ".") || starts_with(item.key, start + "[")) return true;
    return false;
  });
}

std::vector<std::string> Overrides::State::names_below(
    const std::string& kind, const std::string& path,
    const std::vector<std::string>& existing) const {
  std::vector<std::string> names = existing;
  const std::string below = path.empty() ? "" : path + ".";
  for (const Item& item : items) {
    for (const std::string& start : {below, kind + "." + below}) {
      // At the root a key without prefix may be meant for any document.
      if (start.empty()) continue;
      if (!starts_with(item.key, start) || item.key.size() == start.size()) continue;
      const std::string rest = item.key.substr(start.size());
      // A name in the file may hold dots itself.
      const bool belongs =
          std::any_of(names.begin(), names.end(), [&rest](const std::string& name) {
            return starts_with(rest, name) &&
                   (rest.size() == name.size() || rest[name.size()] == '.' ||
                    rest[name.size()] == '[');
          });
      if (!belongs) names.push_back(rest.substr(0, rest.find_first_of(".[")));
    }
  }
  names.erase(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(existing.size()));
  return names;
}

void Overrides::State::know(const std::string& kind, const std::string& path) {
  if (known_set_.insert(kind + '\n' + path).second) known.push_back({kind, path});
}

}  // namespace tilewright
