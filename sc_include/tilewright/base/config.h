// Reads YAML (JSON is a subset) with units, origins and strict keys.
//
// A reader asks a Section for the keys it knows; Section::finish() then refuses every key that
// nobody asked for, naming the nearest known one. Each value asked for is recorded with its origin
// (file:line, --set, or default), which is what `tilewright describe` prints.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <tilewright/base/quantity.h>

namespace tilewright {

/// The `--set key=value` arguments of a command line. One object is shared by all documents of a
/// run: a key is looked up by its path inside a document ("noc.link_bandwidth"), optionally
/// prefixed with the document's kind ("platform.noc.link_bandwidth", "model.…", "plan.…").
class Overrides {
 public:
  Overrides() = default;
  /// Each item is "key=value". Throws InputError when '=' is missing or a key is given twice.
  /// The value is YAML: `[4, 4]` and `{a: 1}` work, and the same rules hold as in a file. Of two
  /// that fit a key, the one with the kind as prefix wins.
  explicit Overrides(const std::vector<std::string>& items);

  /// Throws InputError if an override was used by no document (names the nearest key that any
  /// document knows) or by documents of more than one kind (asks for a prefix). Call once all files
  /// are read.
  void finish() const;

  struct State;  ///< shared bookkeeping, private to config.cpp

 private:
  friend class Document;
  friend class Section;
  std::shared_ptr<State> state_;
};

/// One value as it was finally used.
struct ResolvedValue {
  std::string path;    ///< "noc.link_bandwidth"
  std::string value;   ///< as written, or the default in the same notation; reads back as the value
  std::string origin;  ///< "platforms/tx8-wafer.yaml:12", "--set", "default"
};

class Section;

/// A configuration file. Copies share the same content.
class Document {
 public:
  /// Reads `path`. `kind` ("platform", "model", "plan") is the prefix for overrides and is named in
  /// errors. Throws InputError: missing or unreadable file, YAML syntax (file:line), duplicate
  /// key, empty document, or a root that is not a map.
  static Document load(const std::string& path, const std::string& kind,
                       const Overrides& overrides = {});
  /// As load(), from text; `name` stands for the file name in messages. For tests and examples.
  static Document parse(const std::string& text, const std::string& kind,
                        const Overrides& overrides = {}, const std::string& name = "<text>");

  Section root() const;
  const std::string& path() const;
  /// Every value that was asked for, once each, in the order of first asking.
  std::vector<ResolvedValue> resolved() const;

  struct State;

 private:
  friend class Section;
  std::shared_ptr<State> state_;
};

/// A map inside a Document. Accessors without a fallback require the key; all throw InputError
/// naming file, line, key path, the value found and what is allowed. A --set override takes
/// precedence over the file. Copies share the record of known keys.
class Section {
 public:
  bool has(const std::string& key) const;  ///< present in the file or overridden; makes it known
  /// Present, but null (`key:`, `key: null`). All other accessors refuse a null; foreign files such
  /// as Hugging Face configs write it for "not given".
  bool is_null(const std::string& key) const;

  /// Present, as a map of keys: for values that may be a name or a map.
  bool is_map(const std::string& key) const;

  std::string text(const std::string& key) const;
  std::string text(const std::string& key, const std::string& fallback) const;
  bool flag(const std::string& key, std::optional<bool> fallback = {}) const;
  /// An integer in [min, max]. Accepts 1_000 and 51200; refuses 1.5 and 1e3.
  std::int64_t integer(const std::string& key, std::int64_t min, std::int64_t max,
                       std::optional<std::int64_t> fallback = {}) const;
  double number(const std::string& key, double min, double max,
                std::optional<double> fallback = {}) const;
  /// Quantities must be positive (zero allowed only for seconds, energies and powers); all but
  /// these may be `unlimited`. A missing unit is an error that names the units allowed.
  Bytes bytes(const std::string& key, std::optional<Bytes> fallback = {}) const;
  Seconds seconds(const std::string& key, std::optional<Seconds> fallback = {}) const;
  Bandwidth bandwidth(const std::string& key, std::optional<Bandwidth> fallback = {}) const;
  FlopRate flop_rate(const std::string& key, std::optional<FlopRate> fallback = {}) const;
  Frequency frequency(const std::string& key, std::optional<Frequency> fallback = {}) const;
  Joules joules(const std::string& key, std::optional<Joules> fallback = {}) const;
  Watts watts(const std::string& key, std::optional<Watts> fallback = {}) const;
  EnergyPerByte energy_per_byte(const std::string& key,
                                std::optional<EnergyPerByte> fallback = {}) const;
  EnergyPerFlop energy_per_flop(const std::string& key,
                                std::optional<EnergyPerFlop> fallback = {}) const;

  /// One of a fixed set of names; the error lists them and the nearest.
  template <class Enum>
  Enum choice(const std::string& key, const std::vector<std::pair<std::string, Enum>>& names,
              const std::optional<std::string>& fallback = {}) const {
    std::vector<std::string> allowed;
    for (const auto& n : names) allowed.push_back(n.first);
    const std::size_t i = choice_index(key, allowed, fallback);
    return names[i].second;
  }

  /// A nested map; an absent one is an empty section whose required keys then fail by name.
  Section section(const std::string& key) const;
  /// Present, as a list: for values that may be one thing or several.
  bool is_list(const std::string& key) const;
  /// A list of maps / integers / integer pairs; absent = empty. A lone pair [4, 4] is taken for
  /// [[4, 4]]. Element i of a list of maps has the path "key[i]", for overrides too.
  std::vector<Section> sections(const std::string& key) const;
  std::vector<std::int64_t> integers(const std::string& key) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> pairs(const std::string& key) const;
  /// The keys of this map in file order, then those that only overrides name (for maps whose keys
  /// are names chosen by the user). Does not make them known.
  std::vector<std::string> keys() const;

  /// Refuses keys nobody asked for, here and in every nested section that was opened.
  void finish() const;
  /// Accepts whatever else this map holds, and the maps in it, so that finish() here does nothing
  /// (Hugging Face configs carry many keys we do not need).
  void ignore_unknown() const;

  /// Throws InputError "<file>:<line>: <path>: <message>" for the value of `key`, or for the
  /// section itself when `key` is "". "--set key=value" stands for file and line of an override.
  [[noreturn]] void fail(const std::string& key, const std::string& message) const;
  /// "<file>:<line>: <path>" of the value of `key`, for errors found later than reading.
  std::string where(const std::string& key) const;

 private:
  friend class Document;
  struct State;
  std::size_t choice_index(const std::string& key, const std::vector<std::string>& allowed,
                           const std::optional<std::string>& fallback) const;
  std::shared_ptr<State> state_;
};

}  // namespace tilewright
