// `tilewright network`: the on-chip network alone, under synthetic traffic or a trace.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/traffic_networks.h>
#include <tilewright/observe/load_curve.h>

#include "commands.h"
#include "fidelity.h"
#include "files.h"
#include "options.h"
#include "outputs.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

CommandOptions network_options() {
  CommandOptions command{
      "network",
      "tilewright network: drives a mesh with synthetic traffic at one load after the other and\n"
      "prints latency and throughput. Loads are flits per cycle and tile, times are cycles.",
      "  tilewright network --mesh 8x8 --traffic transpose --packet 8 --load 0.02:0.16:0.02 \\\n"
      "                     --csv curve.csv",
      po::options_description("", 100)};
  auto add = command.options.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  const auto number = [](int value) {
    return po::value<std::int64_t>()->value_name("N")->default_value(value);
  };
  add("mesh", text("WxH")->default_value("8x8"), "routers in x and y");
  add("torus", po::bool_switch(),
      "links from the last router of every row and column to the first");
  add("traffic", text("NAME")->default_value("uniform"),
      "uniform, transpose, neighbour, tornado, bit-complement, bit-reverse, shuffle, hotspot");
  add("hotspot", po::value<std::vector<std::string>>()->composing()->value_name("X,Y"),
      "a tile that hotspot traffic goes to; may be repeated");
  add("hotspot-share", po::value<double>()->value_name("P")->default_value(1),
      "share of the packets that go to a hot spot; the rest goes uniformly");
  add("trace", text("FILE"),
      "packets from a file in place of --traffic: lines of cycle, source, destination, flits");
  add("load", text("LIST"),
      "0.1,0.2,0.35 or FROM:TO:STEP; default: ten steps up to the capacity of the busiest link");
  add("packet", number(8), "flits per packet");
  add("fidelity", text("NAME")->default_value("flit"),
      "flit (routers with virtual channels) or message (virtual cut-through)");
  add("routing", text("NAME")->default_value("xy"),
      "routing algorithm: xy, yx, west-first, odd-even, adaptive, o1turn");
  add("vcs", number(8), "virtual channels per input");
  add("buffer", number(8), "flits per virtual channel");
  add("routing-delay", number(0), "cycles; 0: computed one hop ahead");
  add("vc-delay", number(1), "cycles of the virtual-channel allocation");
  add("switch-delay", number(1), "cycles of the switch allocation");
  add("traversal-delay", number(1), "cycles through the crossbar");
  add("link-delay", number(1), "cycles on the wire between routers");
  add("credit-delay", number(1), "cycles a router takes to process a credit");
  add("speculative", po::bool_switch(), "allocate switch and virtual channel in one cycle");
  add("wait-for-tail-credit", po::bool_switch(),
      "give a channel to the next packet only when its buffer is empty");
  add("warmup", number(2000), "cycles before packets count");
  add("measure", number(10000), "cycles in which created packets count");
  add("drain", number(20000), "cycles to wait for them before the load is called saturated");
  add("seed", number(1), "of the random numbers");
  add("csv", text("FILE"), "also write the table as CSV; - writes it to stdout in its place");
  add("latencies", text("FILE"), "also write a histogram of the latencies at each load as CSV");
  add("curve", text("FILE"), "also draw latency against load as SVG");
  add("help", "this text");
  return command;
}

[[noreturn]] void refuse(const std::string& option, const std::string& value,
                         const std::string& allowed) {
  throw InputError(
      fmt::format("network: --{}: '{}' is not allowed; allowed: {}", option, value, allowed));
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  if (text.empty() || text.back() == separator) parts.emplace_back();
  return parts;
}

/// The whole of `text` as a number of type T.
template <class T>
std::optional<T> number_of(const std::string& text) {
  std::istringstream stream(text);
  T value{};
  if (!(stream >> value) || stream.peek() != std::istringstream::traits_type::eof()) return {};
  return value;
}

std::pair<int, int> pair_of(const std::string& option, const std::string& text, char separator,
                            const char* allowed) {
  const auto parts = split(text, separator);
  if (parts.size() == 2) {
    const auto a = number_of<int>(parts[0]), b = number_of<int>(parts[1]);
    if (a && b) return {*a, *b};
  }
  refuse(option, text, allowed);
}

std::int64_t integer(const po::variables_map& values, const char* option, std::int64_t min,
                     std::int64_t max) {
  const auto value = values[option].as<std::int64_t>();
  if (value < min || value > max) {
    refuse(option, std::to_string(value), fmt::format("{} to {}", min, max));
  }
  return value;
}

std::vector<double> loads_of(const std::string& text) {
  const char* const allowed =
      "numbers above 0, at most one packet per cycle, as A,B,C or FROM:TO:STEP";
  std::vector<double> loads;
  const auto range = split(text, ':');
  if (range.size() == 3) {
    const auto from = number_of<double>(range[0]), to = number_of<double>(range[1]),
               step = number_of<double>(range[2]);
    if (!from || !to || !step || !(*step > 0) || !(*to >= *from) || (*to - *from) / *step > 1000) {
      refuse("load", text, allowed);
    }
    const int steps = static_cast<int>(std::floor((*to - *from) / *step + 1e-9));
    for (int i = 0; i <= steps; ++i) loads.push_back(*from + i * *step);
  } else {
    for (const std::string& part : split(text, ',')) {
      const auto load = number_of<double>(part);
      if (!load) refuse("load", text, allowed);
      loads.push_back(*load);
    }
  }
  for (const double load : loads) {
    if (!(load > 0) || !(load <= 1e6)) refuse("load", text, allowed);
  }
  return loads;
}

std::vector<TraceRecord> read_trace(const std::string& path, std::uint32_t tiles) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    throw InputError(fmt::format("network: the trace '{}' is a directory", path));
  }
  std::ifstream file(path);
  if (!file) throw InputError(fmt::format("network: cannot read the trace '{}'", path));
  std::vector<TraceRecord> trace;
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const std::string content = line.substr(0, line.find('#'));
    if (content.find_first_not_of(" \t\r,") == std::string::npos) continue;
    std::string fields = content;
    for (char& c : fields) c = c == ',' ? ' ' : c;
    std::istringstream stream(fields);
    std::int64_t cycle = -1, source = -1, destination = -1, flits = -1;
    std::string rest;
    const bool read = static_cast<bool>(stream >> cycle >> source >> destination >> flits);
    if (!read || stream >> rest || cycle < 0 || cycle > 1'000'000'000'000 || source < 0 ||
        source >= tiles || destination < 0 || destination >= tiles || flits < 1 ||
        flits > 1'000'000) {
      throw InputError(fmt::format(
          "{}:{}: '{}' is not allowed; allowed: cycle, source and destination (0 to {}), flits (1 "
          "to 1000000)",
          path, number, content, tiles - 1));
    }
    if (!trace.empty() && static_cast<std::uint64_t>(cycle) < trace.back().cycle) {
      throw InputError(fmt::format("{}:{}: cycle {} comes after cycle {}; allowed: rising cycles",
                                   path, number, cycle, trace.back().cycle));
    }
    trace.push_back({static_cast<std::uint64_t>(cycle), static_cast<std::uint32_t>(source),
                     static_cast<std::uint32_t>(destination), static_cast<std::uint32_t>(flits)});
  }
  if (trace.empty()) throw InputError(fmt::format("network: the trace '{}' is empty", path));
  return trace;
}

FlitConfig config_of(const po::variables_map& values) {
  FlitConfig c;
  const auto mesh = pair_of("mesh", text_of(values, "mesh"), 'x', "WIDTHxHEIGHT, e.g. 8x8");
  c.width = mesh.first;
  c.height = mesh.second;
  if (c.width < 1 || c.height < 1 || c.width > 512 || c.height > 512) {
    refuse("mesh", text_of(values, "mesh"), "1x1 to 512x512");
  }
  c.torus = values["torus"].as<bool>();
  c.routing = text_of(values, "routing");
  c.routing_seed = static_cast<std::uint64_t>(integer(values, "seed", 0, INT64_MAX));
  const auto delay = [&values](const char* option, int min) {
    return static_cast<int>(integer(values, option, min, 100));
  };
  c.virtual_channels = static_cast<int>(integer(values, "vcs", 1, 32));
  c.buffer_flits = static_cast<int>(integer(values, "buffer", 1, 4096));
  c.routing_delay = delay("routing-delay", 0);
  c.vc_allocation_delay = delay("vc-delay", 1);
  c.switch_allocation_delay = delay("switch-delay", 1);
  c.switch_traversal_delay = delay("traversal-delay", 1);
  c.link_delay = delay("link-delay", 1);
  c.credit_delay = delay("credit-delay", 0);
  c.speculative = values["speculative"].as<bool>();
  c.wait_for_tail_credit = values["wait-for-tail-credit"].as<bool>();
  return c;
}

/// A trace ends, so what it accepts per cycle depends on its length: it saturates nothing.
std::string remark(const LoadResult& r, bool trace) {
  if (r.packets == 0 && r.unfinished == 0) return "  no packet was created in the measured cycles";
  if (r.unfinished > 0 || (!trace && r.accepted < 0.95 * r.created)) return "  saturated";
  return "";
}

std::string csv_of(const std::vector<LoadResult>& results) {
  std::string csv =
      "offered,created,accepted,latency_mean,latency_p50,latency_p95,latency_p99,latency_max,"
      "routers_mean,"
      "packets,unfinished,cycles\n";
  for (const LoadResult& r : results) {
    const std::string means =
        r.packets == 0 ? ",,,,,"
                       : fmt::format("{:.6g},{},{},{},{},{:.6g}", r.latency_mean, r.latency_p50,
                                     r.latency_p95, r.latency_p99, r.latency_max, r.routers_mean);
    csv += fmt::format("{:.6g},{:.6g},{:.6g},{},{},{},{}\n", r.offered, r.created, r.accepted,
                       means, r.packets, r.unfinished, r.cycles);
  }
  return csv;
}

std::string histograms_of(const std::vector<LoadResult>& results) {
  std::string csv = "offered,from_cycles,to_cycles,count\n";
  for (const LoadResult& r : results) {
    for (const LatencyHistogram::Bin& bin : r.latencies.bins()) {
      csv += fmt::format("{:.6g},{},{},{}\n", r.offered, bin.first, bin.last, bin.count);
    }
  }
  return csv;
}

std::string table_of(const std::vector<LoadResult>& results, bool trace) {
  std::string text =
      fmt::format("{:>9} {:>9} {:>9} {:>6} {:>6} {:>6} {:>6} {:>8} {:>9}\n", "offered", "accepted",
                  "latency", "p50", "p95", "p99", "max", "routers", "packets");
  for (const LoadResult& r : results) {
    const std::string means = r.packets == 0
                                  ? fmt::format("{0:>9} {0:>6} {0:>6} {0:>6} {0:>6} {0:>8}", "-")
                                  : fmt::format("{:>9.2f} {:>6} {:>6} {:>6} {:>6} {:>8.3f}",
                                                r.latency_mean, r.latency_p50, r.latency_p95,
                                                r.latency_p99, r.latency_max, r.routers_mean);
    text += fmt::format("{:>9.4f} {:>9.4f} {} {:>9}{}\n", r.offered, r.accepted, means, r.packets,
                        remark(r, trace));
  }
  return text;
}

/// The load at which the latency crosses `limit`, between two points of the table.
std::optional<double> crossing(const std::vector<LoadResult>& results, double limit) {
  for (std::size_t i = 1; i < results.size(); ++i) {
    const LoadResult &a = results[i - 1], &b = results[i];
    if (a.packets == 0 || b.packets == 0 || a.latency_mean > limit || b.latency_mean < limit ||
        b.offered <= a.offered) {
      continue;
    }
    const double share = (limit - a.latency_mean) / (b.latency_mean - a.latency_mean);
    return a.offered + share * (b.offered - a.offered);
  }
  return {};
}

}  // namespace

void network_command(const std::vector<std::string>& arguments) {
  const auto parsed = parse(network_options(), arguments);
  if (!parsed) return;
  const po::variables_map& values = *parsed;
  const std::string csv = text_of(values, "csv");
  const std::string histograms = text_of(values, "latencies");
  const std::string curve = text_of(values, "curve");
  const bool to_stdout = check_outputs(values, "network");

  const FlitConfig config = config_of(values);
  check(config);
  const auto tiles = static_cast<std::uint32_t>(config.width * config.height);
  LoadOptions options;
  options.packet_flits = static_cast<std::uint32_t>(integer(values, "packet", 1, 1'000'000));
  options.warmup = static_cast<std::uint64_t>(integer(values, "warmup", 0, 1'000'000'000));
  options.measure = static_cast<std::uint64_t>(integer(values, "measure", 1, 1'000'000'000));
  options.drain = static_cast<std::uint64_t>(integer(values, "drain", 0, 1'000'000'000));
  options.seed = config.routing_seed;

  std::vector<TraceRecord> trace;
  std::unique_ptr<TrafficPattern> pattern;
  TrafficLoad ideal;
  std::vector<double> loads;
  const std::string trace_file = text_of(values, "trace");
  if (!trace_file.empty()) {
    if (!values["traffic"].defaulted() || values.count("load") > 0) {
      throw InputError("network: --trace stands in place of --traffic and --load");
    }
    trace = read_trace(trace_file, tiles);
  } else {
    TrafficOptions traffic{config.width, config.height, {}, values["hotspot-share"].as<double>()};
    for (const std::string& spot : list_of(values, "hotspot")) {
      traffic.hotspots.push_back(pair_of("hotspot", spot, ',', "X,Y"));
    }
    pattern = make_traffic(text_of(values, "traffic"), traffic);
    ideal = analyse(*pattern, topology_of(config));
    if (values.count("load") > 0) {
      loads = loads_of(text_of(values, "load"));
    } else {
      const double capacity = ideal.busiest_link > 1 ? 1 / ideal.busiest_link : 1;
      for (int i = 1; i <= 10; ++i) loads.push_back(0.1 * i * capacity);
    }
    for (const double load : loads) {
      if (load > options.packet_flits) {
        refuse("load", fmt::format("{}", load),
               fmt::format("at most {}, one packet per cycle", options.packet_flits));
      }
    }
  }

  EventQueue queue("events");
  std::unique_ptr<TrafficNetwork> network;
  const std::string fidelity = text_of(values, "fidelity");
  if (fidelity_named(fidelity, "network") == Fidelity::flit) {
    network = std::make_unique<FlitTraffic>(config, queue, 0);
  } else {
    network = std::make_unique<MessageTraffic>(config, queue, 0);
  }
  TrafficDriver driver(queue, 1, *network, config.width, config.height, config.period,
                       static_cast<std::uint32_t>(config.flit_bytes));

  std::vector<LoadResult> results;
  std::string summary;
  if (!trace.empty()) {
    results.push_back(driver.run(trace, options.drain));
    summary = fmt::format("trace done after {} cycles\n", results[0].cycles);
  } else {
    for (const double load : loads) {
      options.offered = load;
      results.push_back(driver.run(*pattern, options));
    }
    LoadOptions full = options;
    full.offered = 1;
    full.measure = std::min<std::uint64_t>(options.measure, 2000);
    full.drain = 0;
    const double accepted = driver.run(*pattern, full).accepted;
    if (ideal.mean_routers > 0) {
      const double zero =
          ideal.mean_routers *
              static_cast<double>(zero_load_cycles(config, 2, 1) - zero_load_cycles(config, 1, 1)) +
          static_cast<double>(zero_load_cycles(config, 1, options.packet_flits)) -
          static_cast<double>(zero_load_cycles(config, 2, 1) - zero_load_cycles(config, 1, 1));
      const auto knee = crossing(results, 3 * zero);
      summary += fmt::format("zero load                  {:.2f} cycles over {:.3f} routers\n", zero,
                             ideal.mean_routers);
      summary += fmt::format("three times that           {}\n",
                             knee ? fmt::format("at a load of {:.4f}", *knee)
                                  : std::string("not reached between two of these loads"));
      summary +=
          fmt::format("capacity of busiest link   at a load of {:.4f}{}\n", 1 / ideal.busiest_link,
                      config.routing == "xy" ? "" : ", if all went by xy");
    }
    summary += fmt::format("accepted at a load of 1    {:.4f}\n", accepted);
  }
  if (!csv.empty()) write_file(csv, csv_of(results));
  if (!histograms.empty()) write_file(histograms, histograms_of(results));
  const std::string title = fmt::format(
      "{}x{} {}, {}, packets of {} flits", config.width, config.height, fidelity,
      trace.empty() ? text_of(values, "traffic") : trace_file,
      trace.empty() ? std::to_string(options.packet_flits) : std::string("any number of"));
  if (!curve.empty()) write_file(curve, load_curve(title, results));
  if (to_stdout) return;
  std::cout << title << "\n\n" << table_of(results, !trace.empty()) << '\n' << summary;
}

}  // namespace tilewright::cli
