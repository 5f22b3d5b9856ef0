// The flit-level network against BookSim2 (testbench/reference/README.md), curve by curve.
//
// Each point is measured over the same number of cycles as the reference's. Its packets are a
// sample: in a short run at low load their mean distance differs from ours by some percent, so
// latencies are compared at the reference's mean distance.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>
#include <support/flit_mesh.h>

namespace tilewright::test {
namespace {

using Row = std::map<std::string, std::string>;

std::vector<Row> read(const std::string& name) {
  std::ifstream file(std::string(TILEWRIGHT_SOURCE_DIR) + "/testbench/reference/" + name);
  std::vector<std::string> header;
  std::vector<Row> rows;
  for (std::string line; std::getline(file, line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    std::vector<std::string> fields;
    std::istringstream stream(line);
    for (std::string field; std::getline(stream, field, ',');) fields.push_back(field);
    if (header.empty()) {
      header = fields;
      continue;
    }
    fields.resize(header.size());
    Row row;
    for (std::size_t i = 0; i < header.size(); ++i) row[header[i]] = fields[i];
    rows.push_back(row);
  }
  return rows;
}

double number(const Row& row, const std::string& key) {
  const std::string& text = row.at(key);
  return text.empty() ? 0 : std::stod(text);
}

struct Curve {
  const char* k;
  const char* traffic;
  const char* flits;
  const char* vcs;
  const char* speculative;
};
void PrintTo(const Curve& c, std::ostream* out) {
  *out << c.k << ' ' << c.traffic << ' ' << c.flits << " flits " << c.vcs << " VCs";
}

class FlitReference : public testing::TestWithParam<Curve> {
 protected:
  static bool belongs(const Row& row) {
    const Curve& c = GetParam();
    return row.at("k") == c.k && row.at("traffic") == c.traffic &&
           row.at("packet_size_flits") == c.flits && row.at("num_vcs") == c.vcs &&
           row.at("speculative_sa") == c.speculative;
  }
};

/// Where a curve of (load, latency) crosses `limit`; 0 when it does not.
double crossing(const std::vector<std::pair<double, double>>& curve, double limit) {
  for (std::size_t i = 1; i < curve.size(); ++i) {
    const auto [x0, y0] = curve[i - 1];
    const auto [x1, y1] = curve[i];
    if (y0 <= limit && y1 >= limit) return x0 + (limit - y0) / (y1 - y0) * (x1 - x0);
  }
  return 0;
}

TEST_P(FlitReference, Agrees) {
  Row summary;
  for (const Row& row : read("noc_booksim_summary.csv")) {
    if (belongs(row)) summary = row;
  }
  ASSERT_FALSE(summary.empty());
  const double zero = number(summary, "zero_load_latency_cycles");
  const double full = number(summary, "accepted_at_offered_1");
  const double knee = number(summary, "rate_at_3x_zero_load_latency");
  const double saturation = knee > 0 ? knee : full;

  std::unique_ptr<FlitBench> bench;
  double hop = 0;
  std::vector<std::pair<double, double>> ours, theirs;
  LoadOptions last;
  std::string traffic;
  int rows = 0;
  for (const Row& row : read("noc_booksim.csv")) {
    if (!belongs(row)) continue;
    ++rows;
    if (!bench) {
      FlitConfig c = flit_mesh(std::stoi(row.at("k")), std::stoi(row.at("k")));
      c.virtual_channels = std::stoi(row.at("num_vcs"));
      c.buffer_flits = std::stoi(row.at("vc_buf_size_flits"));
      c.speculative = row.at("speculative_sa") == "1";
      c.wait_for_tail_credit = row.at("wait_for_tail_credit") == "1";
      c.routing_delay = std::stoi(row.at("routing_delay"));
      c.vc_allocation_delay = std::stoi(row.at("vc_alloc_delay"));
      c.switch_allocation_delay = std::stoi(row.at("sw_alloc_delay"));
      c.switch_traversal_delay =
          std::stoi(row.at("st_prepare_delay")) + std::stoi(row.at("st_final_delay"));
      c.credit_delay = std::stoi(row.at("credit_delay"));
      c.link_delay = std::stoi(row.at("channel_latency"));
      hop = static_cast<double>(zero_load_cycles(c, 2, 1) - zero_load_cycles(c, 1, 1));
      bench.reset(&flit_bench(c));
    }
    LoadOptions o;
    o.offered = number(row, "offered_flits_per_cycle_per_node");
    o.packet_flits = static_cast<std::uint32_t>(std::stoi(row.at("packet_size_flits")));
    const auto period = static_cast<std::uint64_t>(number(row, "sample_period"));
    const auto warm = static_cast<std::uint64_t>(number(row, "warmup_periods"));
    const auto most = static_cast<std::uint64_t>(number(row, "max_samples"));
    const auto spent = static_cast<std::uint64_t>(number(row, "sim_cycles"));
    const bool latency = row.at("sim_type") == "latency";
    o.warmup = warm * period;
    // Samples until the reference's mean had settled; for throughput, all that were allowed.
    const std::uint64_t samples = latency && spent > 0 ? std::min(most, spent / period) : most;
    o.measure = (std::max(samples, warm + 1) - warm) * period;
    o.drain = latency ? 20000 : 0;
    const double reference = number(row, "avg_packet_latency_cycles");
    if (latency && reference == 0) continue;  // the reference gave up
    traffic = row.at("traffic");
    const LoadResult r = bench->run(traffic, o);
    SCOPED_TRACE("load " + row.at("offered_flits_per_cycle_per_node"));

    if (!latency) {
      EXPECT_NEAR(r.accepted, full, 0.05 * full);
      RecordProperty("full", std::to_string(r.accepted / full - 1));
      continue;
    }
    const double corrected =
        r.latency_mean + hop * (number(row, "avg_routers_traversed") - r.routers_mean);
    ours.emplace_back(o.offered, corrected);
    last = o;
    theirs.emplace_back(o.offered, reference);
    if (o.offered == number(summary, "zero_load_rate")) {
      EXPECT_NEAR(corrected, reference, 0.02 * reference);
    } else if (o.offered <= 0.8 * saturation) {
      EXPECT_NEAR(corrected, reference, 0.10 * reference);
      EXPECT_EQ(r.unfinished, 0u);
    }
    RecordProperty("load" + row.at("offered_flits_per_cycle_per_node"),
                   std::to_string(corrected / reference - 1));
  }
  EXPECT_GE(rows, 6);
  const double reference_knee = crossing(theirs, 3 * zero);
  if (reference_knee > 0) {
    if (ours.back().second < 3 * zero) {  // the reference's last load is just short of our knee
      last.offered *= 1.05;
      ours.emplace_back(last.offered, bench->run(traffic, last).latency_mean);
    }
    EXPECT_NEAR(crossing(ours, 3 * zero), reference_knee, 0.05 * reference_knee);
    EXPECT_NEAR(reference_knee, knee, 0.001);
    RecordProperty("knee", std::to_string(crossing(ours, 3 * zero) / reference_knee - 1));
  }
  static_cast<void>(bench.release());
}

INSTANTIATE_TEST_SUITE_P(
    Curves, FlitReference,
    testing::Values(Curve{"4", "uniform", "1", "8", "0"}, Curve{"4", "uniform", "8", "8", "0"},
                    Curve{"8", "neighbor", "1", "8", "0"}, Curve{"8", "neighbor", "8", "8", "0"},
                    Curve{"8", "transpose", "1", "8", "0"}, Curve{"8", "transpose", "8", "8", "0"},
                    Curve{"8", "uniform", "1", "8", "0"}, Curve{"8", "uniform", "8", "8", "0"},
                    Curve{"8", "uniform", "8", "1", "0"}, Curve{"8", "uniform", "8", "2", "0"},
                    Curve{"8", "uniform", "8", "4", "0"}, Curve{"8", "uniform", "8", "8", "1"}));

}  // namespace
}  // namespace tilewright::test
