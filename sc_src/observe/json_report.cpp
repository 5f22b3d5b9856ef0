// The result as JSON. Keys and formulas: docs/result.md.
#include <array>
#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include <tilewright/observe/result.h>
#include <tilewright/observe/version.h>

namespace tilewright {
namespace {

using Json = nlohmann::ordered_json;

/// Bytes are whole: written as integers, which every reader keeps exact.
Json whole(Bytes b) {
  const double v = b.value();
  if (v >= 0 && v < 18446744073709551616.0) return static_cast<std::uint64_t>(v);
  return v;  // unlimited becomes null
}

Json states(const std::array<Seconds, kTileStates>& time) {
  Json j = Json::object();
  for (int s = 0; s < kTileStates; ++s) {
    j[to_string(static_cast<TileState>(s))] = time[static_cast<std::size_t>(s)].value();
  }
  return j;
}

Json stage_json(const StageResult& s) {
  Json j = Json{{"stage", s.stage},
                {"first_layer", s.first_layer},
                {"layers", s.layers},
                {"embedding", s.embedding},
                {"head", s.head},
                {"tiles", s.tiles},
                {"parameters", s.parameters},
                {"busy_s", s.busy.value()},
                {"peak_sram_bytes", whole(s.peak_sram)},
                {"peak_dram_bytes", whole(s.peak_dram)},
                {"peak_host_bytes", whole(s.peak_host)},
                {"micro_batches_in_flight", s.micro_batches_in_flight},
                {"breakdown_s", states(s.time)}};
  if (s.chunks.size() > 1) {
    for (const LayerRange& c : s.chunks) {
      j["chunks"].push_back({{"first_layer", c.first}, {"layers", c.count}});
    }
  }
  return j;
}

Json stragglers_json(const Result& r) {
  Json ranks = Json::array();
  for (const Straggler& s : r.stragglers) {
    ranks.push_back(Json{{"stage", s.stage},
                         {"group", s.group},
                         {"rank", s.rank},
                         {"tile", s.tile},
                         {"speed", s.speed},
                         {"delay_s", s.delay.value()}});
  }
  Json without, cost;
  if (r.time_without_stragglers) {
    without = r.time_without_stragglers->value();
    cost = r.iteration_time.value() - r.time_without_stragglers->value();
  }
  return Json{{"ranks", ranks}, {"iteration_time_without_s", without}, {"cost_s", cost}};
}

Json utilisation(const Utilisation& u) {
  return Json{{"mean", u.mean}, {"max", u.max}, {"busiest", u.where}};
}

Json hottest_json(const HottestLink& link) {
  Json causes = Json::object(), flows = Json::array();
  for (int c = 0; c < kCauses; ++c) {
    causes[to_string(static_cast<Cause>(c))] = whole(link.by_cause[static_cast<std::size_t>(c)]);
  }
  for (const LinkFlow& f : link.flows) {
    flows.push_back(Json{{"from", f.from},
                         {"to", f.to},
                         {"cause", to_string(f.cause)},
                         {"name", f.name},
                         {"bytes", whole(f.bytes)}});
  }
  return Json{{"from", link.from}, {"to", link.to},  {"busy", link.busy},
              {"bytes", causes},   {"flows", flows}, {"flows_in_all", link.all_flows}};
}

Json latencies_json(const Result& r) {
  Json j = Json::object();
  const auto seconds = [](std::uint64_t t) { return to_seconds(t).value(); };
  for (std::size_t i = 0; i < r.latencies.size(); ++i) {
    const LatencyHistogram& h = r.latencies[i];
    if (h.count() == 0) continue;
    j[to_string(static_cast<Cause>(i))] = Json{{"count", h.count()},
                                               {"mean", h.mean() * 1e-12},
                                               {"p50", seconds(h.percentile(0.5))},
                                               {"p95", seconds(h.percentile(0.95))},
                                               {"p99", seconds(h.percentile(0.99))},
                                               {"max", seconds(h.max())}};
  }
  return j;
}

Json categories_json(const EnergyResult& energy, const std::vector<Joules>& joules) {
  Json j = Json::object();
  for (std::size_t c = 0; c < joules.size(); ++c) j[energy.categories[c]] = joules[c].value();
  return j;
}

Json energy_json(const Result& r) {
  const EnergyResult& energy = *r.energy;
  const double total = energy.total.value();
  const auto per = [total](double amount) { return amount > 0 ? Json(total / amount) : Json(); };
  Json stages = Json::array();
  for (const StageEnergy& s : energy.stages) {
    stages.push_back(Json{{"stage", s.stage},
                          {"total_j", s.total().value()},
                          {"categories_j", categories_json(energy, s.joules)}});
  }
  return Json{{"total_j", total},
              {"average_w", per(r.iteration_time.value())},
              {"per_sample_j", per(r.samples)},
              {"per_token_j", per(r.tokens)},
              {"per_model_flop_j", per(r.flops_model.value())},
              {"categories_j", categories_json(energy, energy.joules)},
              {"stages", stages},
              {"shared_j", categories_json(energy, energy.shared)}};
}

double per_second(double amount, Seconds time) {
  return time > Seconds(0) ? amount / time.value() : 0;
}

}  // namespace

std::string json_report(const Result& r) {
  Json j;
  j["tilewright"] = kVersion;
  j["machine"] = r.machine;
  j["model"] = r.model;
  j["plan"] = r.plan;
  j["fidelity"] = r.fidelity;
  j["parameters"] = r.parameters;
  j["iteration_time_s"] = r.iteration_time.value();
  j["throughput"] = Json{{"samples_per_s", per_second(r.samples, r.iteration_time)},
                         {"tokens_per_s", per_second(r.tokens, r.iteration_time)},
                         {"samples_per_iteration", r.samples},
                         {"tokens_per_iteration", r.tokens}};
  j["flops"] = Json{{"model", r.flops_model.value()},
                    {"hardware", r.flops_hardware.value()},
                    {"mfu", r.mfu},
                    {"hfu", r.hfu},
                    {"convention", r.flops_convention}};
  j["bubble_fraction"] = r.bubble_fraction;
  j["breakdown_s"] = states(r.breakdown);
  j["communication_s"] = Json::object();
  for (std::size_t i = 0; i < kCauses; ++i) {
    const auto cause = static_cast<Cause>(i);
    if (cause == Cause::memory) continue;
    const Communication& c = r.communication[i];
    j["communication_s"][to_string(cause)] = Json{
        {"active", c.active.value()}, {"exposed", c.exposed.value()}, {"hidden", c.hidden.value()}};
  }
  if (!r.latencies.empty()) j["latency_s"] = latencies_json(r);
  j["bounds_s"] = Json{{"compute", r.bounds.compute.value()},
                       {"dram", r.bounds.dram.value()},
                       {"host", r.bounds.host.value()},
                       {"bisection", r.bounds.bisection.value()},
                       {"pipeline", r.bounds.pipeline.value()}};
  j["stages"] = Json::array();
  for (const StageResult& s : r.stages) j["stages"].push_back(stage_json(s));
  j["links"] = utilisation(r.links);
  if (r.hottest_link) j["links"]["hottest"] = hottest_json(*r.hottest_link);
  j["dram"] = utilisation(r.dram);
  j["dram"]["read_bytes"] = whole(r.dram_read);
  j["dram"]["written_bytes"] = whole(r.dram_written);
  j["host"] = utilisation(r.host);
  j["host"]["read_bytes"] = whole(r.host_read);
  j["host"]["written_bytes"] = whole(r.host_written);
  j["memory"] = Json{{"sram_peak_bytes", whole(r.memory.sram)},
                     {"sram_capacity_bytes", whole(r.memory.sram_capacity)},
                     {"sram_fullest", r.memory.sram_where},
                     {"dram_peak_bytes", whole(r.memory.dram)},
                     {"dram_capacity_bytes", whole(r.memory.dram_capacity)},
                     {"dram_fullest", r.memory.dram_where},
                     {"host_peak_bytes", whole(r.memory.host)},
                     {"host_capacity_bytes", whole(r.memory.host_capacity)},
                     {"host_fullest", r.memory.host_where},
                     {"messages_waiting_peak_bytes", whole(r.memory.waiting)},
                     {"messages_waiting_fullest", r.memory.waiting_where}};
  j["traffic_bytes"] = Json::object();
  for (int c = 0; c < kCauses; ++c) {
    j["traffic_bytes"][to_string(static_cast<Cause>(c))] =
        whole(r.traffic[static_cast<std::size_t>(c)]);
  }
  if (r.energy) j["energy"] = energy_json(r);
  j["tiles"] = Json{{"total", r.tiles_total},
                    {"used", r.tiles_used},
                    {"spare", r.tiles_spare},
                    {"dead", r.tiles_dead},
                    {"idle", r.tiles_total - r.tiles_used - r.tiles_spare - r.tiles_dead}};
  j["stragglers"] = stragglers_json(r);
  j["simulation"] =
      Json{{"events", r.events}, {"messages", r.messages}, {"message_hops", r.message_hops}};
  j["notes"] = r.notes;
  // Names come from files, whose bytes may not be UTF-8: replaced, not thrown at.
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tilewright
