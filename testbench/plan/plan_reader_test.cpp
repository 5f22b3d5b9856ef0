// Plans: what is read, what is refused, and the checks against model and machine.
#include <numeric>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/placement.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/model.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char* const kPlan = R"(plan: small
parallelism: { pipeline: 4, tensor: 2, data: 2 }
batch: { global: 32, micro: 3 }
recomputation: full
)";

std::string source(const std::string& path) {
  return std::string(TILEWRIGHT_SOURCE_DIR) + "/" + path;
}

PlanConfig read(const std::string& text, const std::vector<std::string>& set = {}) {
  const Overrides overrides(set);
  const PlanConfig plan = read_plan(Document::parse(text, "plan", overrides, "p.yaml"));
  overrides.finish();
  return plan;
}

std::string error_of(const std::string& text, const std::vector<std::string>& set = {}) {
  try {
    read(text, set);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

Graph model(const std::string& path, std::int64_t sequence = 0) {
  return build_graph(
      read_model(Document::load(source("workloads/models/" + path), "model"), sequence));
}

MachineConfig platform(const std::string& name) {
  return read_machine(Document::load(source("platforms/" + name + ".yaml"), "platform"));
}

std::string check_error(const PlanConfig& plan, const Graph& graph, const MachineConfig& machine) {
  try {
    check_plan(plan, graph, machine);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

TEST(Plan, ReadsValuesAndDefaults) {
  const PlanConfig p = read(kPlan);
  EXPECT_EQ(p.name, "small");
  EXPECT_EQ(p.mode, Mode::training);
  EXPECT_EQ(p.ranks(), 16);
  EXPECT_EQ(p.schedule, ScheduleKind::one_f_one_b);
  EXPECT_EQ(p.recomputation, Recomputation::full);
  EXPECT_EQ(p.optimizer, OptimizerKind::adam);
  EXPECT_EQ(p.precision, DType::fp16);
  EXPECT_EQ(p.placement, PlacementKind::block);
  EXPECT_EQ(p.sequence, 0);
  EXPECT_THAT(p.stage_layers, IsEmpty());
  EXPECT_EQ(p.where_tensor, "p.yaml:2: parallelism.tensor");
  EXPECT_EQ(p.where_batch, "p.yaml:3: batch.global");
  const PlanConfig one = read("plan: one\nbatch: { global: 1, micro: 1 }\n");
  EXPECT_EQ(one.ranks(), 1);
}

TEST(Plan, CountsTheTrueBatch) {
  // 1024 samples in micro-batches of 51 are 1024, not 21 × 51.
  PlanConfig p = read("plan: x\nbatch: { global: 1024, micro: 51 }\n");
  auto sizes = p.micro_batches(0);
  EXPECT_EQ(sizes.size(), 21u);
  EXPECT_EQ(sizes.back(), 4);
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), 1024);
  // Replicas share the batch as evenly as possible.
  p = read("plan: x\nparallelism: { data: 3 }\nbatch: { global: 32, micro: 4 }\n");
  EXPECT_EQ(p.replica_batch(0), 11);
  EXPECT_EQ(p.replica_batch(1), 11);
  EXPECT_EQ(p.replica_batch(2), 10);
  EXPECT_THAT(p.micro_batches(0), ElementsAre(4, 4, 3));
  EXPECT_THAT(p.micro_batches(2), ElementsAre(4, 4, 2));
}

TEST(Plan, StateBytes) {
  const auto total = [](const std::string& keys) {
    const StateBytes b = read("plan: x\nbatch: { global: 1, micro: 1 }\n" + keys).state_bytes();
    return std::vector<int>{b.weight, b.gradient, b.optimizer, b.total()};
  };
  EXPECT_THAT(total(""), ElementsAre(2, 2, 12, 16));
  EXPECT_THAT(total("precision: bf16\noptimizer: sgd\n"), ElementsAre(2, 2, 4, 8));
  EXPECT_THAT(total("optimizer: none\n"), ElementsAre(2, 2, 0, 4));
  EXPECT_THAT(total("precision: fp32\n"), ElementsAre(4, 4, 8, 16));
  EXPECT_THAT(total("precision: fp32\noptimizer: sgd\n"), ElementsAre(4, 4, 0, 8));
  EXPECT_THAT(total("mode: inference\n"), ElementsAre(2, 0, 0, 2));
  EXPECT_THAT(total("mode: inference\nprecision: fp32\n"), ElementsAre(4, 0, 0, 4));
  EXPECT_THAT(total("mode: inference\nprecision: int8\n"), ElementsAre(1, 0, 0, 1));
}

TEST(Plan, PlacementIsANameOrAMap) {
  const std::string base(kPlan);
  EXPECT_EQ(read(base + "placement: serpentine\n").placement, PlacementKind::serpentine);
  PlanConfig p = read(base + "placement: { kind: block, width: 1, height: 2 }\n");
  EXPECT_EQ(p.block_width, 1);
  EXPECT_EQ(p.block_height, 2);
  p = read(base + "placement: { width: 2 }\n");
  EXPECT_EQ(p.block_height, 1);
  EXPECT_EQ(p.where_placement, "p.yaml:5: placement");
  EXPECT_EQ(read(base + "placement: { kind: serpentine }\n").placement, PlacementKind::serpentine);
  EXPECT_EQ(read(base + "placement: { width: 2 }\n", {"placement=serpentine"}).placement,
            PlacementKind::serpentine);
  EXPECT_THAT(error_of(base + "placement: { kind: block, width: 2, height: 2 }\n"),
              AllOf(HasSubstr("placement.width"), HasSubstr("holds 4 tiles"), HasSubstr("is 2")));
  EXPECT_THAT(error_of(base + "placement: { height: 3 }\n"), HasSubstr("3 does not divide"));
  EXPECT_THAT(error_of(base + "placement: { kind: serpentine, width: 2 }\n"),
              HasSubstr("serpentine has no rectangles"));
  EXPECT_THAT(error_of(base + "placement: { kinds: block }\n"), HasSubstr("'kinds'"));
  EXPECT_THAT(error_of(base + "placement: blok\n"),
              AllOf(HasSubstr("p.yaml:5: placement"), HasSubstr("serpentine")));
  EXPECT_NE(error_of(base + "placement: [block]\n"), "");
}

TEST(Plan, ScheduleIsANameOrAMap) {
  const std::string base(kPlan);
  EXPECT_EQ(read(base + "schedule: zb-h2\n").schedule, ScheduleKind::zb_h2);
  PlanConfig p = read(base + "schedule: interleaved\n");
  EXPECT_EQ(p.chunks(), 2);
  EXPECT_EQ(p.virtual_stages(), 8);
  p = read(base + "schedule: { kind: interleaved, chunks: 3 }\nstages: [" +
           "1,1,1,1,1,1,1,1,1,1,1,2]\n");
  EXPECT_EQ(p.chunks(), 3);
  EXPECT_EQ(p.where_schedule, "p.yaml:5: schedule");
  EXPECT_EQ(read(base + "schedule: { kind: zb-v }\n").chunks(), 2);
  EXPECT_EQ(
      read(base + "schedule: { kind: interleaved, chunks: 3 }\n", {"schedule=gpipe"}).chunks(), 1);
  const std::pair<const char*, const char*> refusals[] = {
      {"schedule: zb-h3\n", "zb-h1, zb-h2, zb-v"},
      {"schedule: { kind: zb-v, chunks: 2 }\n", "schedule.chunks: the number of chunks"},
      {"schedule: { kind: interleaved, chunks: 1 }\n", "schedule.chunks"},
      {"schedule: { chunks: 2 }\n", "schedule.kind: this key is missing"},
      {"schedule: { file: no.yaml, kind: gpipe }\n", "schedule.kind: a schedule file lists"},
      {"schedule: { kind: gpipe, chunk: 2 }\n", "'chunk'"},
      {"schedule: interleaved\nstages: [1, 1, 1, 1]\n", "4 stages of 2 chunks are 8"},
  };
  for (const auto& [keys, expected] : refusals) {
    EXPECT_THAT(error_of(base + keys), AllOf(HasSubstr("p.yaml:"), HasSubstr(expected))) << keys;
  }
  EXPECT_THAT(error_of(base + "schedule: { file: no.yaml }\n"),
              AllOf(HasSubstr("p.yaml:5: schedule.file: "), HasSubstr("'no.yaml'")));
}

TEST(Plan, InferenceStreamsWhateverTheSchedule) {
  const std::string base =
      "plan: x\nmode: inference\nparallelism: { pipeline: 2 }\nbatch: { global: 4, micro: 1 }\n";
  for (const char* kind : {"1f1b", "gpipe", "interleaved"}) {
    const Schedule s = read(base + "schedule: " + kind + "\n").replica_schedule(0);
    EXPECT_FALSE(s.backward) << kind;
  }
  EXPECT_THAT(error_of(base + "schedule: zb-h1\n"), HasSubstr("no backward pass to split"));
}

TEST(Plan, RefusalsNamePlaceKeyValueAndWhatIsAllowed) {
  struct {
    const char* from;
    const char* to;
    const char* expected;
  } const refusals[] = {
      {"plan: small", "plan: ''", "p.yaml:1: plan"},
      {"pipeline: 4", "pipeline: 0", "p.yaml:2: parallelism.pipeline"},
      {"tensor: 2", "tensor: -2", "parallelism.tensor"},
      {"tensor: 2", "tensr: 2", "did you mean 'tensor'"},
      {"data: 2", "data: 1.5", "parallelism.data"},
      {"pipeline: 4, tensor: 2", "pipeline: 100000, tensor: 100000", "at most 16777216 tiles"},
      {"global: 32", "global: 0", "p.yaml:3: batch.global"},
      {"global: 32", "global: 1", "2 data replicas"},
      {"micro: 3", "micro: 0", "p.yaml:3: batch.micro"},
      {"micro: 3", "micro: 17", "micro-batch of 17 is larger than a replica's batch of 16"},
      {", micro: 3", "", "batch.micro"},
      {"recomputation: full", "recomputation: half", "full"},
      {"recomputation: full", "optimizer: lamb", "adam, sgd, none"},
      {"recomputation: full", "schedule: zb-h9", "gpipe"},
      {"recomputation: full", "precision: fp4", "precision"},
      {"recomputation: full", "precision: fp8", "training allows fp16, bf16 and fp32"},
      {"recomputation: full", "sequence: 0", "sequence"},
      {"recomputation: full", "mode: serve", "inference"},
      {"recomputation: full", "stages: [1, 2]", "2 stages are listed, parallelism.pipeline is 4"},
      {"recomputation: full", "stages: [1, 2, 0, 1]", "stage 2 has 0 layers"},
      {"recomputation: full", "zero: 1", "unknown key 'zero'"},
      {"recomputation: full", "gradients: fp16", "as_weights, fp32"},
      {"recomputation: full", "recomputation: { kind: full, stages: [4] }",
       "p.yaml:4: recomputation.stages"},
  };
  for (const auto& r : refusals) {
    EXPECT_THAT(error_of(replaced(kPlan, r.from, r.to)), HasSubstr(r.expected)) << r.to;
  }
}

TEST(Plan, InferenceHasNeitherRecomputationNorOptimizer) {
  const std::string base = "plan: x\nmode: inference\nbatch: { global: 1, micro: 1 }\n";
  const PlanConfig p = read(base);
  EXPECT_EQ(p.optimizer, OptimizerKind::none);
  EXPECT_EQ(p.recomputation, Recomputation::none);
  EXPECT_EQ(error_of(base + "optimizer: none\nrecomputation: none\n"), "");
  EXPECT_THAT(error_of(base + "optimizer: adam\n"),
              AllOf(HasSubstr("p.yaml:4: optimizer"), HasSubstr("inference updates no weights")));
  EXPECT_THAT(error_of(base + "gradients: fp32\n"), HasSubstr("p.yaml:4: gradients"));
  EXPECT_THAT(error_of(base + "recomputation: full\n"),
              AllOf(HasSubstr("p.yaml:4: recomputation"), HasSubstr("no backward pass")));
}

TEST(Plan, KernelsMayBeFused) {
  for (const PlanConfig& p : {read(kPlan), read(kPlan, {"fusion=pointwise"})}) {
    EXPECT_TRUE(p.fuse_pointwise);
    EXPECT_FALSE(p.fuse_attention);
  }
  EXPECT_TRUE(read(kPlan, {"fusion=attention"}).fuse_pointwise);
  EXPECT_TRUE(read(kPlan, {"fusion=attention"}).fuse_attention);
  EXPECT_FALSE(read(kPlan, {"fusion=none"}).fuse_pointwise);
  EXPECT_FALSE(read(kPlan, {"fusion=none"}).fuse_attention);
  EXPECT_THAT(error_of(kPlan, {"fusion=all"}), HasSubstr("none, attention, norm"));
  EXPECT_THAT(error_of(kPlan, {"fusion=[]"}), HasSubstr("the list is empty"));
  const PlanConfig norm = read(kPlan, {"fusion=norm"});
  EXPECT_TRUE(norm.fuse_norm && norm.fuse_pointwise && !norm.fuse_attention);
  const PlanConfig both = read(kPlan, {"fusion=[attention, norm]"});
  EXPECT_TRUE(both.fuse_norm && both.fuse_pointwise && both.fuse_attention);
  EXPECT_THAT(
      error_of(kPlan, {"fusion=[norm, none]"}),
      AllOf(HasSubstr("fusion"), HasSubstr("'none'"), HasSubstr("pointwise, attention, norm")));
}

TEST(Plan, GradientsMayBeFp32) {
  EXPECT_EQ(read(kPlan).state_bytes().total(), 16);
  EXPECT_EQ(read(kPlan, {"gradients=fp32"}).state_bytes().total(), 18);
  EXPECT_EQ(read(kPlan, {"recomputation=selective"}).recomputation, Recomputation::selective);
}

TEST(Plan, OverridesApply) {
  const PlanConfig p = read(kPlan, {"parallelism.pipeline=2", "plan.batch.micro=1"});
  EXPECT_EQ(p.pipeline, 2);
  EXPECT_EQ(p.micro_batch, 1);
}

PlanConfig degrees(int pipeline, int tensor, int data = 1) {
  PlanConfig p;
  p.name = "test";
  p.pipeline = pipeline;
  p.tensor = tensor;
  p.data = data;
  p.global_batch = 64;
  return p;
}

TEST(CheckPlan, EveryPipelineDegreeUpToTheLayersWorks) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph qwen = model("qwen3-8b/config.json", 1024);
  ASSERT_EQ(qwen.layers(), 36);
  for (const int p : {1, 2, 4, 8, 9, 18, 36}) EXPECT_EQ(check_error(degrees(p, 1), qwen, m), "");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  for (const int p : {4, 5, 8, 32}) EXPECT_EQ(check_error(degrees(p, 1), llama, m), "");
  EXPECT_THAT(check_error(degrees(33, 1), llama, m),
              AllOf(HasSubstr("33 pipeline stages"), HasSubstr("allowed: 1 to 32")));
}

TEST(CheckPlan, EveryChunkNeedsALayer) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  PlanConfig p = degrees(8, 1);
  p.schedule = ScheduleKind::interleaved;
  p.interleaved_chunks = 4;
  EXPECT_EQ(check_error(p, llama, m), "");
  p.interleaved_chunks = 5;
  EXPECT_THAT(check_error(p, llama, m),
              AllOf(HasSubstr("8 stages of 5 chunks need at least 40 layers"),
                    HasSubstr("pipeline × chunks up to 32")));
}

TEST(CheckPlan, AnOwnScheduleIsForItsStagesAndMicroBatches) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  PlanConfig p = degrees(2, 1);
  p.schedule = ScheduleKind::file;
  p.own_schedule = std::make_shared<const Schedule>(make_schedule(ScheduleKind::gpipe, 2, 64));
  EXPECT_EQ(check_error(p, llama, m), "");
  p.micro_batch = 2;
  EXPECT_THAT(check_error(p, llama, m), HasSubstr("is for 64 micro-batches, replica 0 has 32"));
  p.micro_batch = 1;
  p.pipeline = 4;
  EXPECT_THAT(check_error(p, llama, m), HasSubstr("is for 2 stages, the pipeline degree is 4"));
}

TEST(CheckPlan, TheTensorDegreeMustDivideTheModel) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);  // 32 heads, ffn 11008 = 256 · 43
  PlanConfig p = degrees(1, 7);
  p.where_tensor = "plans/a.yaml:4: parallelism.tensor";
  EXPECT_THAT(check_error(p, llama, m),
              AllOf(HasSubstr("plans/a.yaml:4: parallelism.tensor"), HasSubstr("degree of 7"),
                    HasSubstr("32 attention heads"), HasSubstr("allowed: 1, 2, 4, 8, 16, 32")));
  const Graph llama3 = model("llama-3-8b/config.json", 1024);
  EXPECT_THAT(check_error(degrees(1, 16), llama3, m),
              AllOf(HasSubstr("8 key/value heads"), HasSubstr("allowed: 1, 2, 4, 8")));
  EXPECT_EQ(check_error(degrees(1, 8), llama3, m), "");
  // A sliding window changes what a query sees, not the number of key/value heads.
  const Graph mistral = model("mistral-7b/config.json", 8192);
  EXPECT_EQ(check_error(degrees(1, 8), mistral, m), "");
  EXPECT_THAT(check_error(degrees(1, 16), mistral, m), HasSubstr("8 key/value heads"));
  // 24 heads on 24 tiles, and a vocabulary of 50257 that divides nothing.
  const Graph small = model("megatron-1.7b.yaml");
  EXPECT_EQ(check_error(degrees(1, 24), small, m), "");
  EXPECT_EQ(check_error(degrees(1, 4), model("gpt2/config.json"), m), "");
}

TEST(CheckPlan, FusedAttentionIsCutAlikeAndNotByKey) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  PlanConfig p = degrees(1, 4);
  p.fuse_attention = true;
  p.where_fusion = "p.yaml:9: fusion";
  EXPECT_EQ(check_error(p, llama, m), "");
  p.cuts = {{OpRole::scores, "tensor", Dim::row, ""}};
  EXPECT_THAT(check_error(p, llama, m), AllOf(HasSubstr("p.yaml:9: fusion: over axis tensor"),
                                              HasSubstr("by batch, head or row")));
  for (const OpRole role : {OpRole::softmax, OpRole::context}) {
    p.cuts.push_back({role, "tensor", Dim::row, ""});
  }
  EXPECT_EQ(check_error(p, llama, m), "");
  p.cuts = {{OpRole::scores, "tensor", Dim::col, ""},
            {OpRole::softmax, "tensor", Dim::col, ""},
            {OpRole::context, "tensor", Dim::red, ""}};
  EXPECT_THAT(check_error(p, llama, m), HasSubstr("p.yaml:9: fusion"));
}

TEST(CheckPlan, RanksMustFitTheMachine) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  EXPECT_THAT(check_error(degrees(8, 16, 3), llama, m),
              AllOf(HasSubstr("384 ranks"), HasSubstr("320 usable tiles"),
                    HasSubstr("data at most 2"), HasSubstr("pipeline at most 6")));
  EXPECT_EQ(check_error(degrees(8, 16, 2), llama, m), "");
}

TEST(CheckPlan, StagesFormatBatchAndSequence) {
  const MachineConfig m = platform("tx8-wafer");
  const Graph llama = model("llama-2-7b/config.json", 1024);
  PlanConfig p = degrees(2, 1);
  p.stage_layers = {10, 22};
  EXPECT_EQ(check_error(p, llama, m), "");
  p.stage_layers = {10, 21};
  EXPECT_THAT(check_error(p, llama, m), AllOf(HasSubstr("[10, 21] hold 31"), HasSubstr("be 32")));
  p = degrees(1, 1);
  p.precision = DType::fp16;
  EXPECT_THAT(check_error(p, llama, platform("dojo-tile")),
              AllOf(HasSubstr("does not support fp16"), HasSubstr("supported: bf16, fp32, fp8")));
  p = degrees(1, 1, 65);
  EXPECT_THAT(check_error(p, llama, m), HasSubstr("at least 65"));
  p = degrees(1, 1);
  p.sequence = 2048;
  EXPECT_THAT(check_error(p, llama, m), AllOf(HasSubstr("2048"), HasSubstr("1024")));
}

TEST(Plans, TheExamplesFitTheirModelsAndMachines) {
  const char* const examples[][3] = {
      {"megatron-18b-tx8", "megatron-18b.yaml", "tx8-wafer"},
      {"gpt2-tx8-die", "gpt2/config.json", "tx8-die"},
      {"llama-2-7b-tx8", "llama-2-7b/config.json", "tx8-wafer"},
      {"llama-3-8b-inference-tx8", "llama-3-8b/config.json", "tx8-wafer"},
      {"mixtral-8x7b-tx8", "mixtral-8x7b/config.json", "tx8-wafer"},
      {"resnet-50-tx8-die", "resnet-50/config.json", "tx8-die"},
      {"resnet-50-inference-tx8-die", "resnet-50/config.json", "tx8-die"},
  };
  for (const auto& [name, model_file, machine] : examples) {
    const PlanConfig p =
        read_plan(Document::load(source("workloads/plans/" + std::string(name) + ".yaml"), "plan"));
    EXPECT_EQ(p.name, name);
    const MachineConfig m = platform(machine);
    EXPECT_EQ(check_error(p, model(model_file, p.sequence), m), "") << name;
    EXPECT_EQ(place(p, m).tiles.size(), static_cast<std::size_t>(p.ranks())) << name;
  }
}

TEST(PlanReader, CollectivesByKindAndAxis) {
  using Kind = CollectiveKind;
  using Algorithm = CollectiveAlgorithm;
  const std::string plan(kPlan);
  const CollectiveChoices usual = read(plan).collectives;
  EXPECT_EQ(usual.of("tensor", Kind::all_reduce).algorithm, Algorithm::ring);
  EXPECT_EQ(usual.of("tensor", Kind::all_to_all).algorithm, Algorithm::direct);
  const CollectiveChoices all = read(plan + "collectives: auto\n").collectives;
  EXPECT_EQ(all.of("data", Kind::all_gather).algorithm, std::nullopt);
  const CollectiveChoices some = read(plan +
                                      "collectives: { all_reduce: two-rings, data: { all_reduce: "
                                      "auto, all_gather: direct } }\n")
                                     .collectives;
  EXPECT_EQ(some.of("tensor", Kind::all_reduce).algorithm, Algorithm::two_rings);
  EXPECT_EQ(some.of("data", Kind::all_reduce).algorithm, std::nullopt);
  EXPECT_EQ(some.of("data", Kind::all_gather).algorithm, Algorithm::direct);
  EXPECT_EQ(some.of("data", Kind::reduce_scatter).algorithm, Algorithm::ring);
  EXPECT_EQ(some.of("data", Kind::all_reduce).where, "p.yaml:5: collectives.data.all_reduce");
  const std::pair<const char*, const char*> wrong[] = {
      {"collectives: ring\n", "'ring'"},
      {"collectives: { all_reduce: rings }\n", "did you mean 'ring'"},
      {"collectives: { all_to_all: tree }\n", "tree cannot run all_to_all"},
      {"collectives: { broadcast: tree }\n", "'broadcast'"},
      {"collectives: { depth: { all_reduce: ring } }\n", "'depth'"},
      {"collectives: { data: { reduce: ring } }\n", "'reduce'"}};
  for (const auto& [text, expected] : wrong) {
    EXPECT_THAT(error_of(plan + text), AllOf(HasSubstr("p.yaml:5: "), HasSubstr(expected))) << text;
  }
}

}  // namespace
}  // namespace tilewright
