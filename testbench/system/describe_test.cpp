// `tilewright describe`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"
#include "support/subprocess.h"

namespace {

using nlohmann::json;
using testing::ContainsRegex;
using testing::HasSubstr;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::TemporaryFolder;
using tilewright::testing_support::tilewright;

json described(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "describe");
  arguments.insert(arguments.end(), {"--json", "-"});
  const Outcome o = tilewright(arguments);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return json::parse(o.out);
}

std::string origin(const json& part, const std::string& path) {
  for (const auto& s : part["settings"]) {
    if (s["path"] == path) return s["origin"];
  }
  return "no such setting";
}

TEST(DescribeModel, ParametersArePublishedOnes) {
  EXPECT_EQ(described({"--model", "workloads/models/llama-2-7b"})["model"]["parameters"],
            6'738'415'616);
  EXPECT_EQ(
      described({"--model", "workloads/models/llama-3-8b/config.json"})["model"]["parameters"],
      8'030'261'248);
  EXPECT_EQ(described({"--model", "workloads/models/qwen3-8b"})["model"]["parameters"],
            8'190'735'360);
  EXPECT_EQ(described({"--model", "workloads/models/mistral-7b"})["model"]["parameters"],
            7'241'732'096);
  EXPECT_EQ(described({"--model", "workloads/models/gpt2"})["model"]["parameters"], 124'439'808);
}

TEST(DescribeModel, FlopsPerTokenOfADenseGpt) {
  // 72 L h^2 (1 + s/6h + V/12Lh) per token, a third of it forward.
  const json m = described({"--model", "workloads/models/megatron-18b.yaml"})["model"];
  const double L = 40, h = 6144, s = 2048, V = 51200;
  const double expected = 72 * L * h * h * (1 + s / (6 * h) + V / (12 * L * h));
  EXPECT_NEAR(m["flops_per_token"].get<double>(), expected, 1e-9 * expected);
  EXPECT_NEAR(m["forward_flops_per_token"].get<double>(), expected / 3, 1e-9 * expected);
  EXPECT_EQ(m["layers"], 40);
  EXPECT_EQ(m["blocks"][1]["count"], 40);
}

TEST(DescribeModel, BlocksAddUpToTheModel) {
  const json m = described({"--model", "workloads/models/qwen3-8b"})["model"];
  double forward = 0, backward = 0;
  for (const auto& b : m["blocks"]) {
    forward += b["count"].get<double>() * b["forward_flops"].get<double>();
    backward += b["count"].get<double>() * b["backward_flops"].get<double>();
  }
  const double tokens = m["sequence"].get<double>();
  EXPECT_NEAR(forward / tokens, m["forward_flops_per_token"].get<double>(), 1e-9 * forward);
  EXPECT_NEAR((forward + backward) / tokens, m["flops_per_token"].get<double>(), 1e-9 * forward);
}

TEST(DescribeModel, OverridesSayWhereTheyComeFrom) {
  const json m = described({"--model", "workloads/models/megatron-18b.yaml", "--set",
                            "decoder.layers=4", "--set", "model.decoder.sequence=512"})["model"];
  EXPECT_EQ(m["layers"], 4);
  EXPECT_EQ(m["sequence"], 512);
  EXPECT_EQ(origin(m, "decoder.layers"), "--set");
  EXPECT_EQ(origin(m, "decoder.hidden"), "workloads/models/megatron-18b.yaml:5");
  EXPECT_EQ(origin(m, "decoder.qk_norm"), "default");
}

TEST(DescribePlatform, TotalsOfTheWafer) {
  const json p = described({"--platform", "platforms/tx8-wafer.yaml"})["platform"];
  EXPECT_EQ(p["tiles"]["total"], 320);
  EXPECT_DOUBLE_EQ(p["peak_flops_per_s"]["fp16"].get<double>(), 5.12e15);
  EXPECT_EQ(p["sram"]["bytes"], 320LL * 3 * 1024 * 1024);
  EXPECT_EQ(p["dram"]["controllers"], 80);
  EXPECT_EQ(p["dram"]["bytes"], 80LL * 256 * 1024 * 1024 * 1024);
  // The middle rows lie on different dies: 20 links of 256 GB/s.
  EXPECT_DOUBLE_EQ(p["bisection_bytes_per_s"].get<double>(), 5.12e12);
}

TEST(DescribePlatform, TheHostMemoryIsShown) {
  const std::vector<std::string> host{
      "--platform", "platforms/tx8-die.yaml",  "--set", "host.bandwidth=64GB/s",
      "--set",      "host.capacity=1TiB",      "--set", "host.latency=1us",
      "--set",      "host.sites=[[0,0],[3,3]]"};
  const json p = described(host)["platform"];
  EXPECT_EQ(p["host"]["controllers"], 2);
  EXPECT_EQ(p["host"]["bytes"], std::int64_t{2} << 40);
  EXPECT_EQ(p["host"]["bytes_per_s"], 128e9);
  EXPECT_EQ(described({host[0], host[1]})["platform"]["host"]["controllers"], 0);
  std::vector<std::string> text = host;
  text.insert(text.begin(), "describe");
  EXPECT_THAT(
      tilewright(text).out,
      HasSubstr("2 controllers of 1.000 TiB at 64.00 GB/s, 2.000 TiB at 128.0 GB/s in all"));
}

TEST(DescribePlatform, TextNamesFileAndLineOfEachValue) {
  const Outcome o = tilewright({"describe", "--platform", "platforms/tx8-die.yaml"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("4 x 4 = 16"));
  EXPECT_THAT(o.out, HasSubstr("platforms/tx8-die.yaml:"));
  EXPECT_THAT(o.out, HasSubstr("noc.link_bandwidth"));
}

TEST(DescribePlan, RanksAndMicroBatches) {
  const json p = described({"--plan", "workloads/plans/megatron-18b-tx8.yaml"})["plan"];
  EXPECT_EQ(p["ranks"], 320);
  EXPECT_EQ(p["global_batch"], 1024);
  EXPECT_EQ(p["micro_batches"], 21);  // 20 of 51 and one of 4
  EXPECT_EQ(p["state_bytes_per_parameter"]["total"], 16);
}

TEST(DescribePlan, DrawsTheScheduleOverTime) {
  const Outcome o = tilewright({"describe", "--plan", "workloads/plans/gpt2-tx8-die.yaml", "--set",
                                "schedule=zb-h1", "--set", "batch.micro=8"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("    stage 0  F0 F1 F2 F3 .  .  .  B0 W0 B1 W1 B2 W2 B3 W3\n"));
}

TEST(DescribePlan, AScheduleItWritesRunsAsThePlansOwn) {
  using tilewright::testing_support::Job;
  using tilewright::testing_support::kPlan;
  Job job;
  job.plan(std::string(kPlan) + "schedule: zb-v\n");
  const Outcome generated = job.run({"--json", "-"});
  EXPECT_EQ(generated.exit_code, 0) << generated.err;
  const std::string file = job.folder().path("own.yaml");
  const Outcome o =
      tilewright({"describe", "--plan", job.folder().path("plan.yaml"), "--schedule", file});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(read_text(file), HasSubstr("layout: v"));
  // The path is relative to the plan file.
  job.plan(std::string(kPlan) + "schedule: {file: own.yaml}\n");
  const Outcome own = job.run({"--json", "-"});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_EQ(own.out, generated.out);
  job.folder().write("own.yaml", "schedule: x\nstages:\n  0: F0\n  1: F0\n");
  const Outcome wrong = job.run();
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("own.yaml:3: stages.0: F1 is missing"));
  EXPECT_THAT(wrong.err, ContainsRegex("named by .*plan.yaml:[0-9]+: schedule.file"));
}

TEST(DescribePlan, WritesNoScheduleThatThePlanCouldNotName) {
  using tilewright::testing_support::Job;
  using tilewright::testing_support::kPlan;
  // 7 samples over two replicas, one at a time: 4 and 3 micro-batches.
  const std::string unequal =
      "plan: p\nparallelism: {pipeline: 2, data: 2}\nbatch: {global: 7, micro: 1}\n";
  const std::string why =
      "the replicas have 3 to 4 micro-batches; wanted: equal numbers, for which "
      "one file can list the slots";
  Job job;
  job.plan(unequal);
  const std::string file = job.folder().path("own.yaml"), plan = job.folder().path("plan.yaml");
  const Outcome o = tilewright({"describe", "--plan", plan, "--schedule", file});
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("--schedule: " + why));
  EXPECT_FALSE(std::filesystem::exists(file));
  job.plan(unequal + "schedule: {file: own.yaml}\n");
  EXPECT_THAT(tilewright({"describe", "--plan", plan}).err, HasSubstr("schedule.file: " + why));
}

TEST(DescribePlan, ListsWhatAPlacementFileSays) {
  using tilewright::testing_support::Job;
  using tilewright::testing_support::kPlan;
  Job job;
  job.folder().write("tiles.yaml", "tiles: [[0, 0], [1, 0], [0, 1], [1, 1]]\n");
  const std::string keys = "plan: listed\nparallelism: {tensor: 4}\nbatch: {global: 4, micro: 1}\n";
  job.plan(keys + "placement: {file: tiles.yaml}\n");
  const Outcome o = tilewright({"describe", "--plan", job.folder().path("plan.yaml")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, ContainsRegex("placement.file +tiles.yaml"));
  EXPECT_THAT(o.out, ContainsRegex("tiles +\\[\\[0, 0\\], .*tiles.yaml:1"));
  job.plan(keys + "placement: {file: none.yaml}\n");
  const Outcome missing = tilewright({"describe", "--plan", job.folder().path("plan.yaml")});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, ContainsRegex("plan.yaml:4: placement.file: .*none.yaml"));
}

TEST(DescribeJob, AllThreeFilesTogether) {
  const json j = described({"--platform", "platforms/tx8-wafer.yaml", "--model",
                            "workloads/models/megatron-18b.yaml", "--plan",
                            "workloads/plans/megatron-18b-tx8.yaml"});
  EXPECT_EQ(j["job"]["tiles_used"], 320);
  EXPECT_EQ(j["job"]["tiles_idle"], 0);
}

TEST(DescribeOperator, SaysHowItIsBlockedAndWhatBoundsIt) {
  const std::vector<std::string> files{"--platform", "platforms/tx8-wafer.yaml",
                                       "--model",    "workloads/models/megatron-18b.yaml",
                                       "--plan",     "workloads/plans/megatron-18b-tx8.yaml"};
  auto arguments = files;
  arguments.insert(arguments.end(), {"--operator", "mlp_up"});
  const json j = described(arguments);
  // Forward, recomputed, and the two gradients: the same work four times. 51 samples of 2048
  // tokens; a sixteenth of 24,576 features.
  ASSERT_EQ(j["operator"].size(), 4u);
  const double flop = 2.0 * 51 * 2048 * 1536 * 6144;
  for (const json& k : j["operator"]) {
    EXPECT_EQ(k["flop"].get<double>(), flop) << k["kernel"];
    EXPECT_EQ(k["stages"].size(), 20u);
    const json& b = k["blocking"];
    EXPECT_GE(k["load_bytes"].get<double>(),
              b["a_bytes"].get<double>() + b["b_bytes"].get<double>());
    EXPECT_LE(b["sram_bytes"].get<double>(), 3 << 20);
    double most = 0;
    for (const auto& [what, seconds] : k["seconds"].items()) {
      if (what != "all") most = std::max(most, seconds.get<double>());
    }
    EXPECT_EQ(k["seconds"][k["bound_by"].get<std::string>()].get<double>(), most);
    EXPECT_GE(k["seconds"]["all"].get<double>(), most);
    EXPECT_NEAR(k["seconds"]["matrix"].get<double>(), flop / 16e12, 1e-12);
  }
  arguments.back() = "mlp_upp";
  arguments.insert(arguments.begin(), "describe");
  const Outcome wrong = tilewright(arguments);
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--operator mlp_upp: no kernel has this name"));
  EXPECT_THAT(wrong.err, HasSubstr("mlp_up, "));
}

TEST(DescribeJson, IsWrittenWholeAndBesideNothingElse) {
  const TemporaryFolder folder;
  const std::string file = folder.path("model.json");
  const Outcome o = tilewright({"describe", "--model", "workloads/models/gpt2", "--json", file});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, HasSubstr("Model gpt2"));
  EXPECT_EQ(json::parse(read_text(file))["model"]["name"], "gpt2");
  EXPECT_FALSE(std::filesystem::is_empty(folder.path("")));
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path(""))) {
    files += entry.is_regular_file();
  }
  EXPECT_EQ(files, 1);  // no temporary file left behind
}

TEST(DescribeJson, ALinkStaysALink) {
  const TemporaryFolder folder;
  const std::string target = folder.write("target.json", "{}");
  std::filesystem::create_symlink(target, folder.path("link.json"));
  const Outcome o = tilewright(
      {"describe", "--model", "workloads/models/gpt2", "--json", folder.path("link.json")});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_TRUE(std::filesystem::is_symlink(folder.path("link.json")));
  EXPECT_THAT(read_text(target), HasSubstr("gpt2"));
}

}  // namespace
