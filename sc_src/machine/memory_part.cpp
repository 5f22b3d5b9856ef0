#include <algorithm>
#include <cmath>
#include <set>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/machine/memory_part.h>

#include "readers.h"

namespace tilewright {
namespace {

const std::vector<std::pair<std::string, AddressField>>& fields() {
  static const std::vector<std::pair<std::string, AddressField>> names{
      {"row", AddressField::row},       {"bank", AddressField::bank},
      {"group", AddressField::group},   {"column", AddressField::column},
      {"pseudo", AddressField::pseudo}, {"channel", AddressField::channel}};
  return names;
}

std::int64_t extent(const MemoryPart& p, AddressField field) {
  switch (field) {
    case AddressField::row:
      return p.rows;
    case AddressField::bank:
      return p.banks;
    case AddressField::group:
      return p.groups;
    case AddressField::column:
      return p.columns;
    case AddressField::pseudo:
      return p.pseudo;
    case AddressField::channel:
      break;
  }
  return p.channels;
}

constexpr std::int64_t kMostCycles = 1'000'000;

void read_timing(const Section& s, const Frequency clock, MemoryTiming& t) {
  const auto cycles = [&](const char* key, std::int64_t least,
                          std::optional<std::int64_t> fallback) {
    return s.integer(key, least, kMostCycles, fallback);
  };
  t.burst = cycles("burst", 1, {});
  t.cl = cycles("cl", 1, {});
  t.cwl = cycles("cwl", 1, {});
  t.rcd_read = cycles("rcd", 1, {});
  t.rcd_write = cycles("rcd_write", 1, t.rcd_read);
  t.rp = cycles("rp", 1, {});
  t.ras = cycles("ras", 1, {});
  t.ccd_s = cycles("ccd_s", 1, {});
  t.ccd_l = cycles("ccd_l", 1, t.ccd_s);
  t.ccd_l_write = cycles("ccd_l_write", 1, t.ccd_l);
  t.rrd_s = cycles("rrd_s", 1, {});
  t.rrd_l = cycles("rrd_l", 1, t.rrd_s);
  t.faw = cycles("faw", 1, {});
  t.rtp = cycles("rtp", 1, {});
  t.wr = cycles("wr", 1, {});
  t.wtr_s = cycles("wtr_s", 1, {});
  t.wtr_l = cycles("wtr_l", 1, t.wtr_s);
  // The buses turn round two cycles after the read data.
  t.read_to_write =
      cycles("read_to_write", 1, std::max<std::int64_t>(1, t.cl + t.burst + 2 - t.cwl));
  const auto from_time = [&](const char* key) {
    return static_cast<std::int64_t>(std::ceil(s.seconds(key).value() * clock.value() - 1e-6));
  };
  t.rfc = from_time("rfc");
  t.refi = from_time("refi");
  if (t.refi > 0 && t.rfc + t.rp >= t.refi) {
    s.fail("rfc", "a refresh takes longer than the time between two; wanted: rfc + rp below refi");
  }
}

void read_commands(const Section& s, MemoryTiming& t) {
  t.activate_slot = s.integer("activate", 1, 64, 1);
  t.precharge_slot = s.integer("precharge", 1, 64, 1);
  t.column_slot = s.integer("column", 1, 64, 1);
  t.split_bus = s.integer("buses", 1, 2, 1) == 2;
}

}  // namespace

Bandwidth MemoryPart::bandwidth() const {
  return Bandwidth(burst.value() * clock.value() / static_cast<double>(timing.burst) *
                   static_cast<double>(channels * pseudo));
}

Bytes MemoryPart::capacity() const {
  return burst * static_cast<double>(channels) * static_cast<double>(pseudo * groups * banks) *
         static_cast<double>(rows) * static_cast<double>(columns);
}

Seconds MemoryPart::latency() const {
  return Seconds(static_cast<double>(timing.rcd_read + timing.cl + timing.burst) / clock.value());
}

std::vector<AddressField> read_mapping(const Section& section, const std::string& key,
                                       const MemoryPart& part) {
  const std::string text = section.text(key);
  std::vector<std::string> known;
  for (const auto& f : fields()) known.push_back(f.first);
  std::vector<AddressField> mapping;
  std::set<AddressField> seen;
  std::stringstream words(text);
  for (std::string word; std::getline(words, word, '-');) {
    const auto found = std::find_if(fields().begin(), fields().end(),
                                    [&](const auto& f) { return f.first == word; });
    if (found == fields().end()) {
      section.fail(key,
                   fmt::format("'{}' in '{}' is not a field; wanted, from the most significant: "
                               "{} joined by '-'",
                               word, text, fmt::join(known, ", ")));
    }
    if (!seen.insert(found->second).second) {
      section.fail(key, fmt::format("'{}' names {} twice", text, word));
    }
    mapping.insert(mapping.begin(), found->second);
  }
  for (const auto& [name, field] : fields()) {
    if (seen.count(field) == 0 && extent(part, field) > 1) {
      section.fail(key, fmt::format("'{}' leaves out {}, of which there are {}", text, name,
                                    extent(part, field)));
    }
  }
  return mapping;
}

MemoryPart read_memory_part(const Document& document) {
  const Section root = document.root();
  MemoryPart p;
  p.name = root.text("memory");
  p.clock = root.frequency("clock");
  if (p.clock.is_unlimited() || p.clock.value() < 1e6 || p.clock.value() > 1e11) {
    root.fail("clock", to_string(p.clock) + " is out of range; wanted: 1 MHz to 100 GHz");
  }
  p.burst = root.bytes("burst");
  if (p.burst.value() < 1 || p.burst.value() > 65536) {
    root.fail("burst", to_string(p.burst) + " is out of range; wanted: 1 B to 64 KiB");
  }
  p.channels = root.integer("channels", 1, 1024, 1);
  p.pseudo = root.integer("pseudo_channels", 1, 16, 1);
  p.groups = root.integer("groups", 1, 64, 1);
  p.banks = root.integer("banks", 1, 64);
  p.rows = root.integer("rows", 1, std::int64_t{1} << 24);
  p.columns = root.integer("columns", 1, 65536);
  read_timing(root.section("timing"), p.clock, p.timing);
  read_commands(root.section("commands"), p.timing);
  p.mapping = read_mapping(root, "mapping", p);
  const Section queue = root.section("queue");
  p.read_queue = queue.integer("reads", 1, 1024, 32);
  p.write_queue = queue.integer("writes", 1, 1024, 32);
  p.bank_queue = queue.integer("reads_per_bank", 1, 1024, 8);
  p.drain_high = queue.number("drain_from", 0, 1, 0.8);
  p.drain_low = queue.number("drain_to", 0, 1, 0.2);
  if (p.drain_low >= p.drain_high) {
    queue.fail("drain_to", "wanted: less than drain_from");
  }
  const Section assumed = root.section("assumed");
  for (const std::string& key : assumed.keys()) {
    p.assumptions.push_back(fmt::format("{}: {}: {}", p.name, key, assumed.text(key)));
  }
  root.finish();
  return p;
}

}  // namespace tilewright
