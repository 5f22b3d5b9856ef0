// Reads the values of a section.
#include <algorithm>
#include <cstddef>
#include <limits>
#include <stdexcept>

#include <fmt/format.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>

#include "config_state.h"
#include "number_text.h"

namespace tilewright {
namespace {

using detail::FoundValue;
using detail::Node;
using detail::raise;

constexpr auto kLowest = std::numeric_limits<std::int64_t>::min();
constexpr auto kHighest = std::numeric_limits<std::int64_t>::max();

std::string integer_range(std::int64_t min, std::int64_t max) {
  if (min == kLowest && max == kHighest) return "an integer";
  if (max == kHighest) return fmt::format("an integer of at least {}", min);
  if (min == kLowest) return fmt::format("an integer of at most {}", max);
  return fmt::format("an integer from {} to {}", min, max);
}

std::string number_range(double min, double max) {
  // Limits this far out stand for "none" and would only puzzle the reader.
  constexpr double kFar = 1e300;
  if (min < -kFar && max > kFar) return "a number";
  if (max > kFar) return fmt::format("a number of at least {}", min);
  if (min < -kFar) return fmt::format("a number of at most {}", max);
  return fmt::format("a number from {} to {}", min, max);
}

std::int64_t to_integer(const Node& node, const std::string& place, const std::string& path,
                        std::int64_t min, std::int64_t max) {
  const std::string wanted = integer_range(min, max);
  const std::string found = detail::shown(node);
  if (node.kind != Node::Kind::kScalar)
    raise(place, path, fmt::format("found {}; wanted: {}", found, wanted));
  std::int64_t value = 0;
  switch (detail::read_integer(node.scalar, value)) {
    case detail::IntegerError::kNone:
      break;
    case detail::IntegerError::kNotAnInteger: {
      const auto number = detail::scan_number(node.scalar);
      const bool whole_text =
          number.length > 0 && number.length == detail::trimmed(node.scalar).size();
      raise(place, path,
            fmt::format("{} is not {}; wanted: {}{}", found,
                        whole_text ? "written as an integer" : "an integer", wanted,
                        number.length > 0 && !whole_text ? ", without a unit" : ""));
    }
    case detail::IntegerError::kLeadingZero:
      raise(place, path,
            fmt::format("{} starts with 0, which some readers take as octal; wanted: {}", found,
                        wanted));
    case detail::IntegerError::kOverflow:
      raise(place, path, fmt::format("{} does not fit 64 bits; wanted: {}", found, wanted));
  }
  if (value < min || value > max)
    raise(place, path, fmt::format("{} is out of range; wanted: {}", found, wanted));
  return value;
}

}  // namespace

std::string Section::State::scalar(const FoundValue& value, const std::string& wanted) const {
  if (value.node->kind != Node::Kind::kScalar)
    raise(value.place, value.path,
          fmt::format("found {}; wanted: {}", detail::shown(*value.node), wanted));
  return value.node->scalar;
}

void Section::State::record(const FoundValue& value) {
  content->record(value.path, detail::as_yaml_scalar(value.node->scalar), value.origin);
}

void Section::State::record_default(const std::string& key, std::string text) {
  content->record(path_of(key), std::move(text), "default");
}

template <class Q>
Q Section::State::quantity(const std::string& key, const std::optional<Q>& fallback,
                           Q (*parse)(std::string_view), const std::string& wanted,
                           bool zero_allowed) {
  const auto value = find(key);
  if (!value) {
    if (!fallback) missing(key, wanted);
    record_default(key, to_exact_string(*fallback));
    return *fallback;
  }
  const std::string text = scalar(*value, wanted);
  Q result;
  try {
    result = parse(text);
  } catch (const std::invalid_argument& error) {
    raise(value->place, value->path, error.what());
  }
  if (result == Q() && !zero_allowed)
    raise(
        value->place, value->path,
        fmt::format("'{}' is zero; wanted: {}, more than zero", detail::shown_text(text), wanted));
  record(*value);
  return result;
}

std::string Section::text(const std::string& key) const {
  const std::string wanted = "a text";
  const auto value = state_->find(key);
  if (!value) state_->missing(key, wanted);
  std::string result = state_->scalar(*value, wanted);
  state_->record(*value);
  return result;
}

std::string Section::text(const std::string& key, const std::string& fallback) const {
  if (state_->find(key)) return text(key);
  state_->record_default(key, detail::as_yaml_scalar(fallback));
  return fallback;
}

bool Section::flag(const std::string& key, std::optional<bool> fallback) const {
  const std::string wanted = "true or false";
  const auto value = state_->find(key);
  if (!value) {
    if (!fallback) state_->missing(key, wanted);
    state_->record_default(key, *fallback ? "true" : "false");
    return *fallback;
  }
  const std::string text = state_->scalar(*value, wanted);
  // YAML's own three spellings; yes/no and on/off changed their meaning between versions of YAML.
  const bool is_true = text == "true" || text == "True" || text == "TRUE";
  if (!is_true && text != "false" && text != "False" && text != "FALSE")
    raise(value->place, value->path,
          fmt::format("found {}; wanted: {}", detail::shown(*value->node), wanted));
  state_->record(*value);
  return is_true;
}

std::int64_t Section::integer(const std::string& key, std::int64_t min, std::int64_t max,
                              std::optional<std::int64_t> fallback) const {
  const auto value = state_->find(key);
  if (!value) {
    if (!fallback) state_->missing(key, integer_range(min, max));
    state_->record_default(key, std::to_string(*fallback));
    return *fallback;
  }
  const std::int64_t result = to_integer(*value->node, value->place, value->path, min, max);
  state_->record(*value);
  return result;
}

double Section::number(const std::string& key, double min, double max,
                       std::optional<double> fallback) const {
  const std::string wanted = number_range(min, max);
  const auto value = state_->find(key);
  if (!value) {
    if (!fallback) state_->missing(key, wanted);
    state_->record_default(key, fmt::format("{}", *fallback));
    return *fallback;
  }
  const std::string text = state_->scalar(*value, wanted);
  const auto number = detail::scan_number(detail::trimmed(text));
  const std::string found = detail::shown(*value->node);
  if (number.length == 0)
    raise(value->place, value->path, fmt::format("{} is not a number; wanted: {}", found, wanted));
  if (number.length != detail::trimmed(text).size())
    raise(value->place, value->path,
          fmt::format("{} is not a plain number; wanted: {}, without a unit", found, wanted));
  if (number.out_of_range || number.value < min || number.value > max)
    raise(value->place, value->path, fmt::format("{} is out of range; wanted: {}", found, wanted));
  state_->record(*value);
  return number.value;
}

Bytes Section::bytes(const std::string& key, std::optional<Bytes> fallback) const {
  return state_->quantity<Bytes>(key, fallback, parse_bytes, "an amount of data such as '256 GiB'",
                                 false);
}

Seconds Section::seconds(const std::string& key, std::optional<Seconds> fallback) const {
  return state_->quantity<Seconds>(key, fallback, parse_seconds, "a time such as '10 ns'", true);
}

Bandwidth Section::bandwidth(const std::string& key, std::optional<Bandwidth> fallback) const {
  return state_->quantity<Bandwidth>(key, fallback, parse_bandwidth,
                                     "a bandwidth such as '1024 GB/s'", false);
}

FlopRate Section::flop_rate(const std::string& key, std::optional<FlopRate> fallback) const {
  return state_->quantity<FlopRate>(key, fallback, parse_flop_rate,
                                    "a FLOP rate such as '16 TFLOP/s'", false);
}

Frequency Section::frequency(const std::string& key, std::optional<Frequency> fallback) const {
  return state_->quantity<Frequency>(key, fallback, parse_frequency, "a frequency such as '2 GHz'",
                                     false);
}

Joules Section::joules(const std::string& key, std::optional<Joules> fallback) const {
  return state_->quantity<Joules>(key, fallback, parse_joules, "an energy such as '1.5 pJ'", true);
}

Watts Section::watts(const std::string& key, std::optional<Watts> fallback) const {
  return state_->quantity<Watts>(key, fallback, parse_watts, "a power such as '2 W'", true);
}

EnergyPerByte Section::energy_per_byte(const std::string& key,
                                       std::optional<EnergyPerByte> fallback) const {
  return state_->quantity<EnergyPerByte>(key, fallback, parse_energy_per_byte,
                                         "an energy per byte or bit such as '3.9 pJ/bit'", true);
}

EnergyPerFlop Section::energy_per_flop(const std::string& key,
                                       std::optional<EnergyPerFlop> fallback) const {
  return state_->quantity<EnergyPerFlop>(key, fallback, parse_energy_per_flop,
                                         "an energy per operation such as '1.5 pJ/MAC'", true);
}

std::size_t Section::choice_index(const std::string& key, const std::vector<std::string>& allowed,
                                  const std::optional<std::string>& fallback) const {
  const std::string wanted = fmt::format("one of {}", fmt::join(allowed, ", "));
  const auto index_of = [&allowed](const std::string& name) {
    return static_cast<std::size_t>(std::find(allowed.begin(), allowed.end(), name) -
                                    allowed.begin());
  };
  const auto value = state_->find(key);
  if (!value) {
    if (!fallback) state_->missing(key, wanted);
    const std::size_t index = index_of(*fallback);
    if (index == allowed.size())
      throw InternalError(fmt::format("the default '{}' of key '{}' is not {}", *fallback,
                                      state_->path_of(key), wanted));
    state_->record_default(key, *fallback);
    return index;
  }
  const std::string text = state_->scalar(*value, wanted);
  const std::size_t index = index_of(text);
  if (index == allowed.size()) {
    const std::string near = nearest_name(text, allowed);
    raise(value->place, value->path,
          fmt::format("unknown name {}{} wanted: {}", detail::shown(*value->node),
                      detail::did_you_mean(near), wanted));
  }
  state_->record(*value);
  return index;
}

std::vector<std::string> Section::texts(const std::string& key) const {
  std::vector<std::string> result;
  const auto value = state_->find(key);
  if (!value) {
    state_->record_default(key, "[]");
    return result;
  }
  const std::string wanted = "a list of names such as [a, b]";
  if (value->node->kind != Node::Kind::kList) {
    raise(value->place, value->path,
          fmt::format("found {}; wanted: {}", detail::shown(*value->node), wanted));
  }
  for (const auto& item : value->node->items) {
    if (item->kind != Node::Kind::kScalar) {
      raise(state_->place_of_item(*value, *item), fmt::format("{}[{}]", value->path, result.size()),
            fmt::format("found {}; wanted: {}", detail::shown(*item), wanted));
    }
    result.push_back(item->scalar);
  }
  state_->content->record(value->path, fmt::format("[{}]", fmt::join(result, ", ")), value->origin);
  return result;
}

std::vector<std::int64_t> Section::integers(const std::string& key) const {
  std::vector<std::int64_t> result;
  const auto value = state_->find(key);
  if (!value) {
    state_->record_default(key, "[]");
    return result;
  }
  if (value->node->kind != Node::Kind::kList)
    raise(value->place, value->path,
          fmt::format("found {}; wanted: a list of integers such as [4, 4]",
                      detail::shown(*value->node)));
  for (const auto& item : value->node->items)
    result.push_back(to_integer(*item, state_->place_of_item(*value, *item),
                                fmt::format("{}[{}]", value->path, result.size()), kLowest,
                                kHighest));
  state_->content->record(value->path, fmt::format("[{}]", fmt::join(result, ", ")), value->origin);
  return result;
}

std::vector<std::pair<std::int64_t, std::int64_t>> Section::pairs(const std::string& key) const {
  std::vector<std::pair<std::int64_t, std::int64_t>> result;
  const auto value = state_->find(key);
  if (!value) {
    state_->record_default(key, "[]");
    return result;
  }
  const std::string wanted = "a list of pairs such as [[0, 1], [2, 3]]";
  if (value->node->kind != Node::Kind::kList)
    raise(value->place, value->path,
          fmt::format("found {}; wanted: {}", detail::shown(*value->node), wanted));
  std::vector<detail::NodePtr> items = value->node->items;
  // A lone pair, [4, 4], can mean nothing else than the list that holds it.
  const bool lone = items.size() == 2 && items[0]->kind == Node::Kind::kScalar &&
                    items[1]->kind == Node::Kind::kScalar;
  if (lone) items = {value->node};
  std::vector<std::string> texts;
  for (const auto& item : items) {
    const std::string place = state_->place_of_item(*value, *item);
    const std::string path = lone ? value->path : fmt::format("{}[{}]", value->path, result.size());
    if (item->kind != Node::Kind::kList || item->items.size() != 2)
      raise(place, path,
            fmt::format("found {}; wanted: {}",
                        item->kind == Node::Kind::kList
                            ? fmt::format("a list of {}", item->items.size())
                            : detail::shown(*item),
                        wanted));
    std::int64_t pair[2];
    for (std::size_t i = 0; i < 2; ++i)
      pair[i] = to_integer(*item->items[i], state_->place_of_item(*value, *item->items[i]),
                           fmt::format("{}[{}]", path, i), kLowest, kHighest);
    result.emplace_back(pair[0], pair[1]);
    texts.push_back(fmt::format("[{}, {}]", pair[0], pair[1]));
  }
  state_->content->record(value->path, fmt::format("[{}]", fmt::join(texts, ", ")), value->origin);
  return result;
}

}  // namespace tilewright
