// Documents, the structure of sections, and strict keys. Values are read in section_values.cpp.
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/format.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>

#include "config_state.h"

namespace tilewright {
namespace {

// Configurations stay far below a megabyte; the limit is for files named by mistake.
constexpr std::size_t kLargestFile = 64u << 20;

std::string read_file(const std::string& path, const std::string& kind) {
  const auto refuse = [&](const std::string& why) {
    throw InputError(fmt::format("{} file '{}': {}", kind, path, why));
  };
  if (path.empty()) refuse("the name is empty");
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) refuse("is a directory");
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    refuse(fmt::format("cannot be opened: {}", errno ? std::strerror(errno) : "unknown reason"));
  std::string text;
  char buffer[1 << 16];
  while (stream.read(buffer, sizeof buffer), stream.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > kLargestFile)
      refuse(fmt::format("is larger than {} MiB", kLargestFile >> 20));
  }
  if (stream.bad()) refuse("cannot be read");
  return text;
}

}  // namespace

namespace detail {

void DocumentContent::record(const std::string& value_path, std::string text, std::string origin) {
  if (!resolved_paths.insert(value_path).second) return;
  resolved.push_back({value_path, std::move(text), std::move(origin)});
}

void raise(const std::string& place, const std::string& path, const std::string& message) {
  throw InputError(fmt::format("{}: {}{}{}", place, path, path.empty() ? "" : ": ", message));
}

}  // namespace detail

Document Document::load(const std::string& path, const std::string& kind,
                        const Overrides& overrides) {
  return parse(read_file(path, kind), kind, overrides, path);
}

Document Document::parse(const std::string& text, const std::string& kind,
                         const Overrides& overrides, const std::string& name) {
  auto content = std::make_shared<detail::DocumentContent>();
  content->path = name;
  content->kind = kind;
  content->overrides = overrides.state_;
  content->root = detail::parse_yaml(text, {name, true});
  if (!content->root || content->root->kind == detail::Node::Kind::kNull)
    throw InputError(
        fmt::format("{}:1: the {} file is empty; wanted: lines of 'key: value'", name, kind));
  if (content->root->kind != detail::Node::Kind::kMap)
    detail::raise(content->place(content->root->line), "",
                  fmt::format("a {} file must be a map (lines of 'key: value'), found {}", kind,
                              detail::shown(*content->root)));
  auto root = std::make_shared<Section::State>();
  root->content = content;
  root->node = content->root;
  root->place = content->place(content->root->line);
  Document document;
  document.state_ = std::make_shared<State>();
  document.state_->content = content;
  document.state_->root.state_ = root;
  return document;
}

Section Document::root() const { return state_->root; }
const std::string& Document::path() const { return state_->content->path; }
std::vector<ResolvedValue> Document::resolved() const { return state_->content->resolved; }

// ---- what a section knows -----------------------------------------------------------------------

std::string Section::State::path_of(const std::string& key) const {
  if (key.empty()) return path;
  return path.empty() ? key : path + "." + key;
}

void Section::State::know(const std::string& key) {
  if (known_set.insert(key).second) known.push_back(key);
  if (content->overrides) content->overrides->know(content->kind, path_of(key));
}

std::optional<detail::FoundValue> Section::State::find(const std::string& key) {
  know(key);
  const std::string full = path_of(key);
  if (content->overrides) {
    if (const auto* item = content->overrides->take(content->kind, full))
      return detail::FoundValue{item->value, full, item->label, "--set", item->label};
  }
  if (!node) return {};
  const detail::Node::Entry* entry = node->find(key);
  if (!entry) return {};
  if (!set.empty()) return detail::FoundValue{entry->value, full, set, "--set", set};
  const std::string where = content->place(entry->line);
  return detail::FoundValue{entry->value, full, where, where, ""};
}

void Section::State::missing(const std::string& key, const std::string& wanted) const {
  std::string hint;
  if (node) {
    std::vector<std::string> unasked;
    for (const auto& entry : node->entries)
      if (known_set.count(entry.key) == 0) unasked.push_back(entry.key);
    const std::string near = nearest_name(key, unasked);
    if (!near.empty())
      hint = fmt::format("; is '{}' (line {}) a misspelling of it?", detail::shown_text(near),
                         node->find(near)->line);
  }
  detail::raise(
      place, path_of(key),
      fmt::format("this key is missing in the {}; wanted: {}{}", content->kind, wanted, hint));
}

std::shared_ptr<Section::State> Section::State::child(
    const std::string& name, const std::optional<detail::FoundValue>& value) {
  std::shared_ptr<Section::State>& slot = children[name];
  if (slot) return slot;
  slot = std::make_shared<Section::State>();
  slot->content = content;
  slot->path = path_of(name);
  slot->place = place;
  if (value) {
    slot->node = value->node;
    slot->place = value->place;
    slot->set = value->set;
  }
  return slot;
}

void Section::State::finish() const {
  if (ignores_unknown) return;
  if (node) {
    for (const auto& entry : node->entries) {
      if (known_set.count(entry.key) > 0) continue;
      const std::string near = nearest_name(entry.key, known);
      detail::raise(
          set.empty() ? content->place(entry.line) : set, path_of(entry.key),
          fmt::format("unknown key '{}'{} {}", detail::shown_text(entry.key),
                      detail::did_you_mean(near),
                      known.empty() ? "no key is allowed here"
                                    : fmt::format("known keys: {}", fmt::join(known, ", "))));
    }
  }
  for (const auto& nested : children) nested.second->finish();
}

// ---- structure ----------------------------------------------------------------------------------

bool Section::has(const std::string& key) const {
  state_->know(key);
  const auto& content = *state_->content;
  const std::string full = state_->path_of(key);
  if (content.overrides && (content.overrides->find(content.kind, full) ||
                            content.overrides->any_below(content.kind, full)))
    return true;
  return state_->node && state_->node->find(key);
}

bool Section::is_null(const std::string& key) const {
  if (!has(key)) return false;
  const auto& content = *state_->content;
  const std::string full = state_->path_of(key);
  if (content.overrides) {
    if (content.overrides->any_below(content.kind, full)) return false;
    if (const auto* item = content.overrides->find(content.kind, full))
      return item->value->kind == detail::Node::Kind::kNull;
  }
  return state_->node->find(key)->value->kind == detail::Node::Kind::kNull;
}

bool Section::is_map(const std::string& key) const {
  if (!has(key)) return false;
  const auto value = state_->find(key);
  return !value || value->node->kind == detail::Node::Kind::kMap;
}

Section Section::section(const std::string& key) const {
  const auto value = state_->find(key);
  if (value && value->node->kind != detail::Node::Kind::kMap)
    detail::raise(
        value->place, value->path,
        fmt::format("a map of keys is wanted here, found {}", detail::shown(*value->node)));
  Section result;
  result.state_ = state_->child(key, value);
  return result;
}

bool Section::is_list(const std::string& key) const {
  if (!has(key)) return false;
  const auto value = state_->find(key);
  return value && value->node->kind == detail::Node::Kind::kList;
}

std::vector<Section> Section::sections(const std::string& key) const {
  std::vector<Section> result;
  const auto value = state_->find(key);
  if (!value) return result;
  if (value->node->kind != detail::Node::Kind::kList)
    detail::raise(
        value->place, value->path,
        fmt::format("a list of maps is wanted here, found {}", detail::shown(*value->node)));
  for (std::size_t i = 0; i < value->node->items.size(); ++i) {
    const std::string name = fmt::format("{}[{}]", key, i);
    detail::FoundValue item = *value;
    item.node = value->node->items[i];
    item.path = state_->path_of(name);
    item.place = state_->place_of_item(*value, *item.node);
    if (item.set.empty()) item.origin = item.place;
    if (item.node->kind != detail::Node::Kind::kMap)
      detail::raise(
          item.place, item.path,
          fmt::format("a map of keys is wanted here, found {}", detail::shown(*item.node)));
    Section section;
    section.state_ = state_->child(name, item);
    result.push_back(section);
  }
  return result;
}

std::vector<std::string> Section::keys() const {
  std::vector<std::string> result;
  if (state_->node)
    for (const auto& entry : state_->node->entries) result.push_back(entry.key);
  const auto& content = *state_->content;
  if (content.overrides) {
    const auto added = content.overrides->names_below(content.kind, state_->path, result);
    result.insert(result.end(), added.begin(), added.end());
  }
  return result;
}

void Section::finish() const { state_->finish(); }

void Section::ignore_unknown() const { state_->ignores_unknown = true; }

void Section::fail(const std::string& key, const std::string& message) const {
  throw InputError(where(key) + ": " + message);
}

std::string Section::where(const std::string& key) const {
  std::string place = state_->place;
  const std::string full = state_->path_of(key);
  const auto& content = *state_->content;
  const auto* item = content.overrides ? content.overrides->find(content.kind, full) : nullptr;
  const auto* entry = state_->node ? state_->node->find(key) : nullptr;
  if (item) {
    place = item->label;
  } else if (entry && state_->set.empty()) {
    place = content.place(entry->line);
  }
  return full.empty() ? place : place + ": " + full;
}

}  // namespace tilewright
