// Energy through the executable: what must hold for a whole job.
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using tilewright::testing_support::Job;
using tilewright::testing_support::kMachine;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;

const std::string kTables = std::string(TILEWRIGHT_SOURCE_DIR) + "/platforms/energy/";

/// The small machine at 7 nm with HBM2, 100 mW a tile and 1 W for the controller.
struct PoweredJob : Job {
  PoweredJob() {
    platform(kMachine + ("energy: { table: " + kTables + "7nm.yaml, dram: { table: " + kTables +
                         "hbm2.yaml }, static: { tile: 100 mW, dram: 1 W } }\n"));
  }
};

json energy(const Job& job, std::vector<std::string> more = {}) {
  more.insert(more.end(), {"--json", "-"});
  const Outcome o = job.run(more);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return o.exit_code == 0 ? json::parse(o.out)["energy"] : json();
}

double of(const json& energy, const std::string& category) {
  return energy["categories_j"][category].get<double>();
}

TEST(EnergyOfARun, CategoriesSumToTheTotalAndStagesToCategories) {
  const PoweredJob job;
  const Outcome o = job.run({"--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  // The order of the keys is that of the sum.
  const auto result = nlohmann::ordered_json::parse(o.out);
  const auto& e = result["energy"];
  double total = 0;
  for (const auto& [category, joules] : e["categories_j"].items()) {
    total += joules.get<double>();
    double parts = 0;
    for (const auto& stage : e["stages"]) parts += stage["categories_j"][category].get<double>();
    EXPECT_EQ(parts + e["shared_j"][category].get<double>(), joules.get<double>()) << category;
  }
  EXPECT_EQ(total, e["total_j"].get<double>());
  EXPECT_EQ(e["average_w"].get<double>(), total / result["iteration_time_s"].get<double>());
  EXPECT_EQ(e["per_sample_j"].get<double>(), total / 8);
  EXPECT_EQ(e["per_token_j"].get<double>(), total / (8 * 128));
}

TEST(EnergyOfARun, FollowsFromTheCountersOfTheResult) {
  const PoweredJob job;
  const Outcome o = job.run({"--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json r = json::parse(o.out);
  const json& e = r["energy"];
  const double flop = r["flops"]["hardware"].get<double>();
  EXPECT_NEAR(of(e, "matrix"), flop / 2 * 0.72e-12, 1e-9 * of(e, "matrix"));
  const double bytes =
      r["dram"]["read_bytes"].get<double>() + r["dram"]["written_bytes"].get<double>();
  EXPECT_NEAR(of(e, "dram"), bytes * 8 * 3.92e-12, 1e-9 * of(e, "dram"));
  const double time = r["iteration_time_s"].get<double>();
  EXPECT_DOUBLE_EQ(of(e, "static tiles"), 8 * 0.1 * time);
  EXPECT_DOUBLE_EQ(of(e, "static dram"), 2 * time);  // one on each die
  EXPECT_EQ(of(e, "host"), 0);
  EXPECT_GT(of(e, "links on-die"), 0);
}

// Work is work: the plan moves it about, but for what it repeats.
TEST(EnergyOfARun, OfTheMatrixWorkIsTheSameUnderEveryPlan) {
  const PoweredJob job;
  const double one = of(energy(job), "matrix");
  for (const std::vector<std::string>& set :
       {std::vector<std::string>{"--set", "parallelism.pipeline=4", "--set",
                                 "parallelism.tensor=1"},
        {"--set", "parallelism.pipeline=1", "--set", "parallelism.data=4"},
        {"--set", "batch.micro=1"}}) {
    EXPECT_NEAR(of(energy(job, set), "matrix"), one, 1e-9 * one) << set[1];
  }
  EXPECT_GT(of(energy(job, {"--set", "recomputation=full"}), "matrix"), 1.2 * one);
}

TEST(EnergyOfARun, IsPrintedOnlyWhenTheMachineHasIt) {
  const Outcome with_it = PoweredJob().run(), without = Job().run();
  EXPECT_THAT(with_it.out, AllOf(HasSubstr("\nEnergy: "), HasSubstr(" per token\n"),
                                 HasSubstr("  static, tiles ")));
  EXPECT_THAT(with_it.out, HasSubstr("assumed: energy of 7nm: "));
  EXPECT_THAT(without.out, Not(HasSubstr("nergy")));
  // And it changes nothing else.
  const auto head = [](const std::string& text) { return text.substr(0, text.find("\nEnergy: ")); };
  EXPECT_EQ(head(with_it.out), head(without.out).substr(0, head(with_it.out).size()));
}

/// Watts times time in a file of --power.
double energy_of(const std::string& csv) {
  std::istringstream lines(csv);
  std::string line;
  std::getline(lines, line);
  EXPECT_THAT(line, testing::StartsWith("from_s,to_s,matrix_w,vector_w,sram_w,dram_w,host_w,"));
  double joules = 0;
  while (std::getline(lines, line)) {
    const double from = std::stod(line), to = std::stod(line.substr(line.find(',') + 1));
    joules += (to - from) * std::stod(line.substr(line.rfind(',') + 1));
  }
  return joules;
}

TEST(EnergyOfARun, PowerOverTimeSumsToTheTotal) {
  const PoweredJob job;
  const std::string file = job.folder().path("power.csv");
  const json e = energy(job, {"--power", file});
  EXPECT_EQ(e, energy(job));
  const double joules = energy_of(read_text(file));
  EXPECT_NEAR(joules, e["total_j"].get<double>(), 1e-9 * joules);

  const Outcome refused = Job().run({"--power", file});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("machine 'small' has no energy section"));
}

// How closely the network is simulated changes times, not what is done.
TEST(EnergyOfARun, OfEventsIsTheSameFlitByFlit) {
  const PoweredJob job;
  const std::string file = job.folder().path("power.csv");
  const json message = energy(job);
  const json flit = energy(job, {"--fidelity", "flit", "--set", "batch.global=2", "--power", file});
  const json small = energy(job, {"--set", "batch.global=2"});
  for (const char* category :
       {"matrix", "vector", "sram", "dram", "links on-die", "links die-to-die"}) {
    EXPECT_DOUBLE_EQ(of(flit, category), of(small, category)) << category;
    EXPECT_LT(of(small, category), of(message, category)) << category;
  }
  const double joules = energy_of(read_text(file));
  EXPECT_NEAR(joules, flit["total_j"].get<double>(), 1e-9 * joules);
}

}  // namespace
