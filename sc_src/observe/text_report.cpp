// The report for people: at most 100 columns, no colour.
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/observe/result.h>
#include <tilewright/observe/version.h>

namespace tilewright {
namespace {

constexpr std::size_t kColumns = 100;
constexpr double kBarColumns = 50;

using Out = std::back_insert_iterator<std::string>;

/// What a reader should think of when a category is large; completes "Most of it is ...".
const char* explanation(TileState s) {
  switch (s) {
    case TileState::matrix:
      return "matrix work";
    case TileState::vector:
      return "vector work (norms, softmax, activations, optimiser)";
    case TileState::recomputation:
      return "recomputed forward work";
    case TileState::sram_stall:
      return "engines held back by the SRAM's bandwidth";
    case TileState::dram_wait:
      return "waiting for DRAM loads and stores";
    case TileState::tensor_wait:
      return "waiting for tensor-parallel collectives";
    case TileState::data_wait:
      return "waiting for gradients of other ranks (all-reduce, tied weights)";
    case TileState::context_wait:
      return "waiting for keys and values of other context ranks";
    case TileState::expert_wait:
      return "waiting for the all-to-alls of expert parallelism";
    case TileState::resharding_wait:
      return "waiting for tensors that neighbouring operators split differently";
    case TileState::offload_wait:
      return "waiting for the second memory tier";
    case TileState::pipeline_wait:
      return "stage-to-stage messages on their way";
    case TileState::bubble:
      return "pipeline bubble (a neighbouring stage has not sent yet)";
    case TileState::idle:
      return "tiles without work";
  }
  return "";
}

/// What most plans have nothing of: left out where it is nothing.
constexpr std::array<Cause, 4> kRareCauses{Cause::context, Cause::expert, Cause::resharding,
                                           Cause::offload};

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

/// A bar for a share; whatever prints as 0.1 % or more shows a mark.
std::string bar(double share) {
  if (share < 0.0005) return "";
  const auto marks = static_cast<std::size_t>(std::lround(share * kBarColumns));
  return "  " + std::string(std::max<std::size_t>(marks, 1), '#');
}

/// 8,583,921 -> "8.584 M".
std::string engineering(double v) {
  static constexpr std::array<std::pair<double, const char*>, 4> kPrefixes{
      {{1e12, " T"}, {1e9, " G"}, {1e6, " M"}, {1e3, " k"}}};
  for (const auto& [scale, prefix] : kPrefixes) {
    if (v >= scale) return fmt::format("{:.4g}{}", v / scale, prefix);
  }
  return fmt::format("{:.4g}", v);
}

double ratio(Seconds part, Seconds whole) { return whole > Seconds(0) ? part / whole : 0; }

/// `text` broken at blanks into lines of at most kColumns, later lines indented.
std::string wrapped(const std::string& text, std::size_t first_indent, std::size_t indent) {
  std::string result, line(first_indent, ' ');
  bool empty = true;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = text.find(' ', at);
    if (end == std::string::npos) end = text.size();
    const std::string word = text.substr(at, end - at);
    at = end + 1;
    if (word.empty()) continue;
    if (!empty && line.size() + 1 + word.size() > kColumns) {
      result += line + '\n';
      line.assign(indent, ' ');
      empty = true;
    }
    if (!empty) line += ' ';
    line += word;
    empty = false;
  }
  return result + line + '\n';
}

void title(Out out, const Result& r) {
  // A replayed program has neither model nor plan, but a name.
  const std::string line = r.plan.empty()
                               ? fmt::format("{} on {}", r.model, r.machine)
                               : fmt::format("{} with plan {} on {}", r.model, r.plan, r.machine);
  fmt::format_to(out, "{}", wrapped(line, 0, 2));
  fmt::format_to(out, "Tilewright {}, {} fidelity", kVersion, r.fidelity);
  if (r.parameters > 0) {
    fmt::format_to(out, ", {} parameters", engineering(static_cast<double>(r.parameters)));
  }
  fmt::format_to(out, "\n\n");
}

void headline(Out out, const Result& r) {
  const double t = r.iteration_time.value();
  const auto rate = [t](double amount) { return t > 0 ? amount / t : 0; };
  fmt::format_to(out, "Iteration time    {:>12}", to_string(r.iteration_time));
  if (r.samples > 0) {
    fmt::format_to(out, "   for {} samples", r.samples);
    if (r.tokens > 0) fmt::format_to(out, ", {} tokens", engineering(r.tokens));
    fmt::format_to(out, "\nThroughput        {:>12.4g} samples/s", rate(r.samples));
    if (r.tokens > 0) fmt::format_to(out, ", {} tokens/s", engineering(rate(r.tokens)));
    fmt::format_to(out, "\n");
  } else {
    fmt::format_to(out, "\n");
  }
  fmt::format_to(out, "Model FLOPs       {:>12}   MFU {} of the used tiles' peak ({})\n",
                 to_string(r.flops_model), percent(r.mfu), r.flops_convention);
  fmt::format_to(out, "Hardware FLOPs    {:>12}   HFU {}, what is recomputed included\n",
                 to_string(r.flops_hardware), percent(r.hfu));
  const int idle = r.tiles_total - r.tiles_used - r.tiles_spare - r.tiles_dead;
  fmt::format_to(out, "Tiles             {:>12}   of {} used, {} spare, {} idle{}\n\n",
                 r.tiles_used, r.tiles_total, r.tiles_spare, idle,
                 r.tiles_dead > 0 ? fmt::format(", {} dead", r.tiles_dead) : "");
}

/// In words: what the iteration holds beyond matrix work.
std::string beyond_compute(const Result& r) {
  std::vector<std::pair<Seconds, TileState>> rest;
  Seconds total{0};
  for (int i = 0; i < kTileStates; ++i) {
    const auto s = static_cast<TileState>(i);
    if (s == TileState::matrix || s == TileState::recomputation) continue;
    const Seconds time = r.breakdown[static_cast<std::size_t>(i)];
    rest.emplace_back(time, s);
    total += time;
  }
  std::stable_sort(rest.begin(), rest.end(),
                   [](const auto& a, const auto& b) { return b.first < a.first; });
  if (!(total > Seconds(0))) return "The matrix engines are busy throughout.";
  std::string text =
      fmt::format("The matrix engines leave {} of the iteration ({}). Most of it is {} ({})",
                  percent(ratio(total, r.iteration_time)), to_string(total),
                  explanation(rest[0].second), to_string(rest[0].first));
  if (rest[1].first > Seconds(0)) {
    text += fmt::format(", then {} ({})", explanation(rest[1].second), to_string(rest[1].first));
  }
  return text + ".";
}

void breakdown(Out out, const Result& r) {
  fmt::format_to(out, "Where the time goes (mean over the tiles used)\n");
  for (int i = 0; i < kTileStates; ++i) {
    const auto s = static_cast<TileState>(i);
    const Seconds time = r.breakdown[static_cast<std::size_t>(i)];
    const bool rare = std::any_of(kRareCauses.begin(), kRareCauses.end(),
                                  [s](Cause c) { return s == wait_for(c); });
    if (rare && !(time > Seconds(0))) continue;
    const double share = ratio(time, r.iteration_time);
    const std::string name = to_string(s);
    fmt::format_to(out, "  {}{:>{}}{:>9}{}\n", name, to_string(time), 26 - name.size(),
                   percent(share), bar(share));
  }
  fmt::format_to(out, "{}\n", wrapped(beyond_compute(r), 2, 2));
}

void communication(Out out, const Result& r) {
  std::string rows;
  for (std::size_t i = 0; i < kCauses; ++i) {
    const Communication& c = r.communication[i];
    if (!(c.active > Seconds(0))) continue;
    rows += fmt::format("  {:<12}{:>14}{:>14}{:>14}{:>9}\n", to_string(static_cast<Cause>(i)),
                        to_string(c.active), to_string(c.exposed), to_string(c.hidden),
                        percent(ratio(c.hidden, c.active)));
  }
  if (rows.empty()) return;
  fmt::format_to(out, "Communication (mean over the tiles used)\n  {:<12}{:>14}{:>14}{:>14}\n{}\n",
                 "", "under way", "waited for", "hidden", rows);
}

void latencies(Out out, const Result& r) {
  std::string rows;
  const auto time = [](std::uint64_t t) { return to_string(to_seconds(t)); };
  for (std::size_t i = 0; i < r.latencies.size(); ++i) {
    const LatencyHistogram& h = r.latencies[i];
    if (h.count() == 0) continue;
    rows += fmt::format(
        "  {:<12}{:>10}{:>14}{:>14}{:>14}{:>14}{:>14}\n", to_string(static_cast<Cause>(i)),
        engineering(static_cast<double>(h.count())), to_string(Seconds(h.mean() * 1e-12)),
        time(h.percentile(0.5)), time(h.percentile(0.95)), time(h.percentile(0.99)), time(h.max()));
  }
  if (rows.empty()) return;
  fmt::format_to(out,
                 "Latency of messages, loads and stores, from their issue until all is there\n"
                 "  {:<12}{:>10}{:>14}{:>14}{:>14}{:>14}{:>14}\n{}\n",
                 "", "count", "mean", "p50", "p95", "p99", "max", rows);
}

void bounds(Out out, const Result& r) {
  struct Row {
    const char* name;
    Seconds time;
    const char* meaning;
    const char* limit;
  };
  std::vector<Row> rows{
      {"compute", r.bounds.compute, "matrix work of the busiest stage", "the matrix engines"},
      {"pipeline", r.bounds.pipeline, "the schedule with matrix work only, links free",
       "the pipeline schedule of the matrix engines"},
      {"dram", r.bounds.dram, "bytes of the busiest controller at its bandwidth", "DRAM bandwidth"},
      {"bisection", r.bounds.bisection, "bytes over the busiest cut of the network",
       "the bandwidth of the network"}};
  if (r.bounds.host > Seconds(0)) {
    rows.push_back({"host", r.bounds.host, "bytes of the busiest host controller at its bandwidth",
                    "the bandwidth of the host memory"});
  }
  fmt::format_to(out, "What limits: lower bounds, and the simulated time as a multiple of each\n");
  // Of equal bounds the first, simpler one is named.
  const Row* closest = &rows[0];
  for (const Row& row : rows) {
    if (row.time > closest->time) closest = &row;
  }
  for (const Row& row : rows) {
    const double times = row.time > Seconds(0) ? r.iteration_time / row.time : 0;
    const std::string multiple = times == 0    ? "-"
                                 : times < 1e5 ? fmt::format("{:.2f} x", times)
                                               : fmt::format("{:.0e} x", times);
    fmt::format_to(out, "  {:<10}{:>12}{:>12}{}  {}\n", row.name, to_string(row.time), multiple,
                   &row == closest ? " <-" : "   ", row.meaning);
  }
  std::string verdict = fmt::format("Closest: {}.", closest->limit);
  if (closest->time > Seconds(0) && r.iteration_time / closest->time > 2) {
    verdict +=
        " No bound explains even half of the time: latency, contention or the order of work "
        "does; see the table above.";
  }
  fmt::format_to(out, "{}\n", wrapped(verdict, 2, 2));
}

/// What a stage does or waits for because of its own operators: what its neighbours must wait for.
/// Gradient synchronisation comes after the pipeline and paces nothing.
constexpr std::array<TileState, 10> kOwnWork{TileState::matrix,          TileState::vector,
                                             TileState::recomputation,   TileState::sram_stall,
                                             TileState::dram_wait,       TileState::tensor_wait,
                                             TileState::context_wait,    TileState::expert_wait,
                                             TileState::resharding_wait, TileState::offload_wait};

/// In words, when one stage holds the others up: which, and by what. "" when the stages are even.
std::string pacing_stage(const Result& r) {
  if (r.stages.size() < 2) return "";
  const auto occupied = [](const StageResult& s) {
    Seconds sum{0};
    for (TileState state : kOwnWork) sum += s.time[static_cast<std::size_t>(state)];
    return sum;
  };
  const StageResult* slowest = &r.stages.front();
  Seconds total{0};
  for (const StageResult& s : r.stages) {
    total += occupied(s);
    if (occupied(s) > occupied(*slowest)) slowest = &s;
  }
  const double others = static_cast<double>(r.stages.size() - 1);
  const Seconds mean = (total - occupied(*slowest)) / others;
  if (!(occupied(*slowest) > mean * 1.1)) return "";
  // The category in which it differs most from the mean of the others.
  TileState reason = TileState::matrix;
  Seconds most{0};
  for (const TileState state : kOwnWork) {
    const auto i = static_cast<std::size_t>(state);
    Seconds sum{0};
    for (const StageResult& s : r.stages) sum += s.time[i];
    const Seconds own = slowest->time[i];
    const Seconds excess = own - (sum - own) / others;
    if (excess > most) {
      most = excess;
      reason = state;
    }
  }
  return fmt::format(
      "Stage {} paces the pipeline: its own operators take {} of the iteration, those of the other "
      "stages {} on average. Most of the difference ({}) is {}.",
      slowest->stage, percent(ratio(occupied(*slowest), r.iteration_time)),
      percent(ratio(mean, r.iteration_time)), to_string(most), explanation(reason));
}

std::string layer_range(std::int64_t first, std::int64_t count) {
  return count == 0   ? "-"
         : count == 1 ? fmt::format("{}", first)
                      : fmt::format("{}-{}", first, first + count - 1);
}

std::string layers_text(const StageResult& s) {
  std::string text = layer_range(s.first_layer, s.layers);
  if (s.chunks.size() > 1) {
    text.clear();
    for (const LayerRange& c : s.chunks) {
      text += (text.empty() ? "" : ",") + layer_range(c.first, c.count);
    }
  }
  if (s.embedding) text = "E " + text;
  if (s.head) text += " H";
  return text;
}

void stages(Out out, const Result& r) {
  if (r.stages.empty()) return;
  fmt::format_to(out,
                 "Stages (E embedding, H head; times are means over the stage's tiles, "
                 "memory is its fullest tile's)\n");
  fmt::format_to(out, "  {:>5} {:>10} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9}\n",
                 "stage", "layers", "tiles", "params", "busy", "waits", "sync", "bubble",
                 "SRAM peak", "DRAM peak", "in flight");
  for (const StageResult& s : r.stages) {
    Seconds waits{0};
    for (TileState w : {TileState::dram_wait, TileState::tensor_wait, TileState::context_wait,
                        TileState::expert_wait, TileState::resharding_wait, TileState::offload_wait,
                        TileState::pipeline_wait}) {
      waits += s.time[static_cast<std::size_t>(w)];
    }
    const Seconds sync = s.time[static_cast<std::size_t>(TileState::data_wait)];
    const Seconds bubble = s.time[static_cast<std::size_t>(TileState::bubble)];
    fmt::format_to(out, "  {:>5} {:>10} {:>6} {:>8} {:>7} {:>7} {:>7} {:>7} {:>10} {:>10} {:>9}\n",
                   s.stage, layers_text(s), s.tiles, engineering(static_cast<double>(s.parameters)),
                   percent(ratio(s.busy, r.iteration_time)),
                   percent(ratio(waits, r.iteration_time)), percent(ratio(sync, r.iteration_time)),
                   percent(ratio(bubble, r.iteration_time)), to_string(s.peak_sram),
                   to_string(s.peak_dram), s.micro_batches_in_flight);
  }
  const std::string pacing = pacing_stage(r);
  fmt::format_to(out, "{}\n", pacing.empty() ? "" : wrapped(pacing, 2, 2));
}

/// "engines at 0.8 of full speed, starts 100 us late".
std::string handicap(const Straggler& s) {
  std::string text;
  if (s.speed != 1) text = fmt::format("engines at {:.6g} of full speed", s.speed);
  if (s.delay > Seconds(0)) {
    text += fmt::format("{}starts {} late", text.empty() ? "" : ", ", to_string(s.delay));
  }
  return text;
}

void stragglers(Out out, const Result& r) {
  if (r.stragglers.empty()) return;
  constexpr std::size_t kMost = 8;
  fmt::format_to(out, "Stragglers\n");
  for (std::size_t i = 0; i < std::min(r.stragglers.size(), kMost); ++i) {
    const Straggler& s = r.stragglers[i];
    fmt::format_to(
        out, "{}",
        wrapped(fmt::format("{}, rank {} on tile {}: {}", s.group, s.rank, s.tile, handicap(s)), 2,
                4));
  }
  if (r.stragglers.size() > kMost) {
    fmt::format_to(out, "  and {} more\n", r.stragglers.size() - kMost);
  }
  if (r.time_without_stragglers) {
    const Seconds without = *r.time_without_stragglers;
    const Seconds cost = r.iteration_time - without;
    fmt::format_to(
        out, "{}",
        wrapped(fmt::format("They cost {} ({}): with all tiles at full speed and on "
                            "time the iteration takes {}.",
                            to_string(cost), percent(ratio(cost, without)), to_string(without)),
                2, 2));
  }
  fmt::format_to(out, "\n");
}

/// "static tiles" -> "static, tiles"; what a reader calls the categories.
std::string energy_name(const std::string& category) {
  for (const char* kind : {"links", "static"}) {
    const std::string beginning = std::string(kind) + ' ';
    if (category.compare(0, beginning.size(), beginning) == 0) {
      return std::string(kind) + ", " + category.substr(beginning.size());
    }
  }
  return category;
}

/// What the tiles of each stage take, by those categories that stages have; neighbours that take
/// the same as far as it is printed share a line.
void energy_by_stage(Out out, const EnergyResult& e) {
  if (e.stages.size() < 2) return;
  std::vector<std::pair<const char*, std::size_t>> columns{{"matrix", EnergyModel::kMatrix},
                                                           {"vector", EnergyModel::kVector},
                                                           {"SRAM", EnergyModel::kSram},
                                                           {"DRAM", EnergyModel::kDram}};
  if (e.joules[EnergyModel::kHost] > Joules(0)) columns.emplace_back("host", EnergyModel::kHost);
  columns.emplace_back("static", e.categories.size() - EnergyModel::kIdleParts);
  fmt::format_to(out, "  {:>5}", "stage");
  for (const auto& [heading, category] : columns) fmt::format_to(out, " {:>11}", heading);
  fmt::format_to(out, " {:>11}\n", "all");
  const auto figures = [&](const StageEnergy& s) {
    std::string text;
    for (const auto& [heading, category] : columns) {
      text += fmt::format(" {:>11}", to_string(s.joules[category]));
    }
    return text + fmt::format(" {:>11}", to_string(s.total()));
  };
  for (std::size_t i = 0; i < e.stages.size();) {
    const std::string text = figures(e.stages[i]);
    std::size_t last = i;
    while (last + 1 < e.stages.size() && figures(e.stages[last + 1]) == text) ++last;
    const int from = e.stages[i].stage, to = e.stages[last].stage;
    fmt::format_to(out, "  {:>5}{}\n",
                   from == to ? fmt::format("{}", from) : fmt::format("{}-{}", from, to), text);
    i = last + 1;
  }
  Joules rest(0);
  for (const Joules j : e.shared) rest += j;
  if (!(rest > Joules(0))) return;
  fmt::format_to(out, "{}",
                 wrapped(fmt::format("{} belong to no stage: links, controllers, switches, tiles "
                                     "without work.",
                                     to_string(rest)),
                         2, 2));
}

void energy(Out out, const Result& r) {
  if (!r.energy) return;
  const EnergyResult& e = *r.energy;
  std::string rates;
  if (r.iteration_time > Seconds(0)) {
    rates += fmt::format(", {} on average", to_string(e.total / r.iteration_time));
  }
  if (r.samples > 0) rates += fmt::format(", {} per sample", to_string(e.total / r.samples));
  if (r.tokens > 0) rates += fmt::format(", {} per token", to_string(e.total / r.tokens));
  fmt::format_to(out, "Energy: {}{}\n", to_string(e.total), rates);
  for (std::size_t c = 0; c < e.categories.size(); ++c) {
    if (!(e.joules[c] > Joules(0))) continue;
    const double share = e.joules[c] / e.total;
    const std::string name = energy_name(e.categories[c]);
    fmt::format_to(out, "  {:<22}{:>10}{:>9}", name, to_string(e.joules[c]), percent(share));
    fmt::format_to(out, "{}\n", bar(share));
  }
  energy_by_stage(out, e);
  fmt::format_to(out, "\n");
}

void resource(Out out, const char* name, const Utilisation& u) {
  fmt::format_to(out, "  {:<6} busy {:>7} on average, {:>7} at most{}\n", name, percent(u.mean),
                 percent(u.max), u.where.empty() ? "" : ": " + u.where);
}

void memory(Out out, const char* name, Bytes peak, Bytes capacity, const std::string& where) {
  if (!(capacity > Bytes(0))) return;
  const std::string of = capacity.is_unlimited() ? "unlimited"
                                                 : fmt::format("{} ({})", to_string(capacity),
                                                               percent(peak / capacity));
  fmt::format_to(out, "  {:<6} peak {} of {}{}\n", name, to_string(peak), of,
                 where.empty() ? "" : ": " + where);
}

/// Who loads the busiest link: "tensor 80.0 %, memory 20.0 %; most of it (2,0) to (7,0) tensor
/// ...".
void hottest_link(Out out, const HottestLink& link) {
  Bytes all{0};
  for (const Bytes b : link.by_cause) all += b;
  if (!(all > Bytes(0))) return;
  std::string text = fmt::format("{}->{} carries", link.from, link.to);
  const char* separator = " ";
  for (int c = 0; c < kCauses; ++c) {
    const Bytes b = link.by_cause[static_cast<std::size_t>(c)];
    if (!(b > Bytes(0))) continue;
    text += fmt::format("{}{} {}", separator, to_string(static_cast<Cause>(c)), percent(b / all));
    separator = ", ";
  }
  text += fmt::format(" for {} flow{}:", link.all_flows, link.all_flows == 1 ? "" : "s");
  separator = " ";
  for (const LinkFlow& f : link.flows) {
    text += fmt::format("{}{} to {} {}{} {}", separator, f.from, f.to, to_string(f.cause),
                        f.name.empty() ? "" : " (" + f.name + ")", to_string(f.bytes));
    separator = ", ";
  }
  if (link.flows.size() < link.all_flows) text += ", ...";
  fmt::format_to(out, "{}", wrapped(text, 4, 6));
}

void resources(Out out, const Result& r) {
  fmt::format_to(out, "Links and memory\n");
  resource(out, "links", r.links);
  if (r.hottest_link) hottest_link(out, *r.hottest_link);
  if (r.memory.dram_capacity > Bytes(0)) resource(out, "DRAM", r.dram);
  if (r.memory.host_capacity > Bytes(0)) resource(out, "host", r.host);
  memory(out, "SRAM", r.memory.sram, r.memory.sram_capacity, r.memory.sram_where);
  memory(out, "DRAM", r.memory.dram, r.memory.dram_capacity, r.memory.dram_where);
  memory(out, "host", r.memory.host, r.memory.host_capacity, r.memory.host_where);
  if (r.memory.waiting > Bytes(0)) {
    fmt::format_to(out, "  messages that waited for their receive: {} at most: {}\n",
                   to_string(r.memory.waiting), r.memory.waiting_where);
  }
  std::string traffic = "bytes injected:";
  for (int i = 0; i < kCauses; ++i) {
    const auto c = static_cast<Cause>(i);
    const Bytes bytes = r.traffic[static_cast<std::size_t>(i)];
    const bool rare = std::count(kRareCauses.begin(), kRareCauses.end(), c) > 0;
    if (rare && !(bytes > Bytes(0))) continue;
    traffic += fmt::format("{} {} {}", i == 0 ? "" : ",", to_string(c), to_string(bytes));
  }
  traffic +=
      fmt::format("; DRAM read {}, written {}", to_string(r.dram_read), to_string(r.dram_written));
  if (r.memory.host_capacity > Bytes(0)) {
    traffic += fmt::format("; host memory read {}, written {}", to_string(r.host_read),
                           to_string(r.host_written));
  }
  fmt::format_to(out, "{}", wrapped(traffic, 2, 4));
  fmt::format_to(out, "  simulated: {} events, {} messages, {} link traversals\n",
                 engineering(static_cast<double>(r.events)),
                 engineering(static_cast<double>(r.messages)),
                 engineering(static_cast<double>(r.message_hops)));
}

}  // namespace

std::string text_report(const Result& r) {
  std::string text;
  const Out out = std::back_inserter(text);
  title(out, r);
  headline(out, r);
  breakdown(out, r);
  communication(out, r);
  latencies(out, r);
  bounds(out, r);
  stages(out, r);
  stragglers(out, r);
  energy(out, r);
  resources(out, r);
  if (!r.notes.empty()) {
    fmt::format_to(out, "\nNotes\n");
    for (const std::string& note : r.notes) fmt::format_to(out, "{}", wrapped("- " + note, 2, 4));
  }
  return text;
}

}  // namespace tilewright
