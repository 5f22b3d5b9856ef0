#include "outcome.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/quantity.h>

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostLinks = 10;

/// {"first": a, "second": b, "relative": (b - a) / a}; null where a is 0 and b is not.
Json pair_of(double a, double b) {
  Json relative;
  if (a == b) {
    relative = 0.0;
  } else if (a != 0) {
    relative = (b - a) / a;
  }
  return Json{{"first", a}, {"second", b}, {"relative", relative}};
}

/// Of every key of either object, in the order of `a`.
Json pairs_of(const Json& a, const Json& b) {
  Json result = Json::object();
  const auto number = [](const Json& j, const std::string& key) {
    return j.contains(key) && j[key].is_number() ? j[key].get<double>() : 0;
  };
  for (const Json& object : {a, b}) {
    for (const auto& [key, value] : object.items()) {
      if (!value.is_object() && !result.contains(key)) {
        result[key] = pair_of(number(a, key), number(b, key));
      }
    }
  }
  return result;
}

/// pairs_of() every object within.
Json nested_pairs_of(const Json& a, const Json& b) {
  Json result = Json::object();
  for (const Json& object : {a, b}) {
    for (const auto& [key, value] : object.items()) {
      if (result.contains(key)) continue;
      result[key] = pairs_of(a.value(key, Json::object()), b.value(key, Json::object()));
    }
  }
  return result;
}

Json stages_of(const Json& a, const Json& b) {
  Json result = Json::array();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    Json stage{{"stage", a[i]["stage"].get<int>()}};
    stage["busy_s"] = pair_of(a[i]["busy_s"], b[i]["busy_s"]);
    stage["breakdown_s"] = pairs_of(a[i]["breakdown_s"], b[i]["breakdown_s"]);
    result.push_back(std::move(stage));
  }
  return result;
}

/// The links whose share of the time in use differs most, and how many differ at all.
Json links_of(const Outcome& first, const Outcome& second) {
  struct Difference {
    double size;
    Json link;
  };
  const double end_a = first.result["iteration_time_s"], end_b = second.result["iteration_time_s"];
  const auto share = [](double busy, double end) { return end > 0 ? busy / end : 0; };
  std::vector<Difference> all;
  std::size_t rerouted = 0;
  for (std::size_t i = 0; i < first.links.size(); ++i) {
    const Json &a = first.links[i], &b = second.links[i];
    const double busy_a = share(a["busy_s"], end_a), busy_b = share(b["busy_s"], end_b);
    if (a["bytes"] != b["bytes"]) ++rerouted;
    if (busy_a == busy_b && a["bytes"] == b["bytes"]) continue;
    all.push_back({std::abs(busy_b - busy_a), Json{{"from", a["from"]},
                                                   {"to", a["to"]},
                                                   {"kind", a["kind"]},
                                                   {"busy", pair_of(busy_a, busy_b)},
                                                   {"bytes", pair_of(a["bytes"], b["bytes"])}}});
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Difference& a, const Difference& b) { return a.size > b.size; });
  Json most = Json::array();
  for (std::size_t i = 0; i < std::min(all.size(), kMostLinks); ++i) most.push_back(all[i].link);
  return Json{{"all", first.links.size()},
              {"differ", all.size()},
              {"carry_other_bytes", rerouted},
              {"most", std::move(most)}};
}

// --- Text ----------------------------------------------------------------------------------------

std::string relative_text(const Json& pair) {
  if (pair["relative"].is_null()) return "from nothing";
  const double r = pair["relative"];
  return r == 0 ? "=" : fmt::format("{:+.2f} %", 100 * r);
}

std::string row(const std::string& name, const std::string& first, const std::string& second,
                const std::string& difference) {
  return fmt::format("  {:<34}{:>14}{:>18}{:>16}\n", name, first, second, difference);
}

std::string time_row(const std::string& name, const Json& pair) {
  return row(name, to_string(Seconds(pair["first"])), to_string(Seconds(pair["second"])),
             relative_text(pair));
}

/// A row for every time that is not 0 in both.
std::string time_rows(const Json& pairs) {
  std::string text;
  for (const auto& [name, pair] : pairs.items()) {
    if (pair["first"] != 0 || pair["second"] != 0) text += time_row(name, pair);
  }
  return text;
}

std::string percent(double share) { return fmt::format("{:.2f} %", 100 * share); }

std::string links_text(const Json& links) {
  const auto number = [&links](const char* key) { return links[key].get<std::size_t>(); };
  if (number("differ") == 0) return "All links carry the same bytes and are busy alike.\n";
  std::string text =
      fmt::format("Links: {} of {} carry other bytes. Those whose share of the time differs most\n",
                  number("carry_other_bytes"), number("all"));
  for (const Json& link : links["most"]) {
    const Json &busy = link["busy"], &bytes = link["bytes"];
    const double more = busy["second"].get<double>() - busy["first"].get<double>();
    text += row(fmt::format("{}->{} {}", link["from"].get<std::string>(),
                            link["to"].get<std::string>(), link["kind"].get<std::string>()),
                percent(busy["first"]), percent(busy["second"]),
                fmt::format("{:+.2f} points", 100 * more));
    if (bytes["first"] == bytes["second"]) continue;
    text += row("  bytes", to_string(Bytes(bytes["first"])), to_string(Bytes(bytes["second"])),
                relative_text(bytes));
  }
  return text;
}

}  // namespace

std::string outcome_text(const MachineConfig& machine, const Result& result,
                         const RunStatistics& run) {
  const std::vector<NamedLinkConfig> kinds = machine.link_kinds();
  Json links = Json::array();
  for (const LinkStatistics& l : run.links) {
    links.push_back(Json{{"from", machine.node_name(l.from)},
                         {"to", machine.node_name(l.to)},
                         {"kind", kinds[static_cast<std::size_t>(l.kind)].name},
                         {"bytes", l.bytes},
                         {"busy_s", to_seconds(l.busy).value()}});
  }
  const Json both{{"result", Json::parse(json_report(result))}, {"links", links}};
  return both.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Outcome outcome_of(const std::string& name, const std::string& text) {
  Json both = Json::parse(text);
  return {name, std::move(both["result"]), std::move(both["links"])};
}

Json differences(const Outcome& first, const Outcome& second) {
  const Json &a = first.result, &b = second.result;
  const auto side = [](const Outcome& o) {
    return Json{{"name", o.name}, {"fidelity", o.result["fidelity"]}, {"notes", o.result["notes"]}};
  };
  Json j;
  j["tilewright"] = a["tilewright"];
  j["machine"] = a["machine"];
  j["model"] = a["model"];
  j["plan"] = a["plan"];
  j["first"] = side(first);
  j["second"] = side(second);
  j["iteration_time_s"] = pair_of(a["iteration_time_s"], b["iteration_time_s"]);
  j["breakdown_s"] = pairs_of(a["breakdown_s"], b["breakdown_s"]);
  j["communication_s"] = nested_pairs_of(a["communication_s"], b["communication_s"]);
  j["latency_s"] = nested_pairs_of(a["latency_s"], b["latency_s"]);
  j["stages"] = stages_of(a["stages"], b["stages"]);
  j["traffic_bytes"] = pairs_of(a["traffic_bytes"], b["traffic_bytes"]);
  j["links"] = links_of(first, second);
  return j;
}

std::string differences_text(const Json& j) {
  const auto text_of = [&j](const char* key) { return j[key].get<std::string>(); };
  std::string text = text_of("model");
  if (!text_of("plan").empty()) text += " with plan " + text_of("plan");
  text += fmt::format(" on {}\n\n", text_of("machine"));
  for (const char* const side : {"first", "second"}) {
    text += fmt::format("  {:<10}{}\n", side, j[side]["name"].get<std::string>());
  }
  text += "\n" + row("", "first", "second", "difference");
  text += time_row("iteration time", j["iteration_time_s"]);

  text += "\nWhere the time goes (mean over the tiles used)\n" + time_rows(j["breakdown_s"]);

  std::string rows;
  for (const auto& [cause, pairs] : j["communication_s"].items()) {
    for (const char* const what : {"active", "exposed"}) {
      const Json& pair = pairs[what];
      if (pair["first"] == 0 && pair["second"] == 0) continue;
      rows += time_row(cause + (what[0] == 'a' ? ", under way" : ", waited for"), pair);
    }
  }
  if (!rows.empty()) text += "\nCommunication (mean over the tiles used)\n" + rows;

  rows.clear();
  for (const auto& [cause, pairs] : j["latency_s"].items()) {
    for (const char* const what : {"p50", "p99", "max"}) {
      rows += time_row(fmt::format("{}, {}", cause, what), pairs[what]);
    }
  }
  if (!rows.empty()) text += "\nLatency of messages, loads and stores\n" + rows;

  if (j["stages"].size() > 1) {
    for (const Json& stage : j["stages"]) {
      text += fmt::format("\nStage {} (mean over its tiles)\n", stage["stage"].get<int>());
      text += time_row("busy", stage["busy_s"]) + time_rows(stage["breakdown_s"]);
    }
  }
  return text + "\n" + links_text(j["links"]);
}

}  // namespace tilewright::cli
