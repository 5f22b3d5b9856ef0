// Reads a plan; docs/plan.md documents every key.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/plan.h>

namespace tilewright {
namespace {

/// Above any machine (2^24 tiles) and any batch in use; products of three still fit 64 bits.
constexpr std::int64_t kMaxDegree = std::int64_t{1} << 20;
constexpr std::int64_t kMaxBatch = 1'000'000'000;
constexpr std::int64_t kMaxMicroBatches = 1'000'000;  // of a replica; each is a call per block
constexpr std::int64_t kMaxSequence = std::int64_t{1} << 31;

void read_parallelism(const Section& section, PlanConfig& plan) {
  const auto degree = [&](const char* key, int& value, std::string& where) {
    value = static_cast<int>(section.integer(key, 1, kMaxDegree, 1));
    where = section.where(key);
  };
  degree("pipeline", plan.pipeline, plan.where_pipeline);
  degree("tensor", plan.tensor, plan.where_tensor);
  degree("data", plan.data, plan.where_data);
  plan.sequence_parallel = section.flag("sequence_parallel", false);
  const std::int64_t ranks = std::int64_t{plan.pipeline} * plan.tensor * plan.data;
  if (ranks > kMaxTiles) {
    section.fail("", fmt::format("pipeline {} × tensor {} × data {} are {} ranks; at most {} tiles "
                                 "are possible",
                                 plan.pipeline, plan.tensor, plan.data, ranks, kMaxTiles));
  }
}

void read_batch(const Section& batch, PlanConfig& plan) {
  plan.global_batch = batch.integer("global", 1, kMaxBatch);
  plan.micro_batch = batch.integer("micro", 1, kMaxBatch);
  plan.where_batch = batch.where("global");
  if (plan.global_batch < plan.data) {
    batch.fail("global", fmt::format("the global batch of {} gives some of the {} data replicas no "
                                     "sample; wanted: at least {}",
                                     plan.global_batch, plan.data, plan.data));
  }
  if (plan.micro_batch > plan.replica_batch(0)) {
    batch.fail("micro",
               fmt::format("a micro-batch of {} is larger than a replica's batch of {} ({} samples "
                           "over {} replicas); wanted: 1 to {}",
                           plan.micro_batch, plan.replica_batch(0), plan.global_batch, plan.data,
                           plan.replica_batch(0)));
  }
  const std::int64_t count = (plan.replica_batch(0) + plan.micro_batch - 1) / plan.micro_batch;
  if (count > kMaxMicroBatches) {
    batch.fail("micro",
               fmt::format("a replica's batch of {} in micro-batches of {} makes {} of them; "
                           "at most {} are possible, so wanted: at least {}",
                           plan.replica_batch(0), plan.micro_batch, count, kMaxMicroBatches,
                           (plan.replica_batch(0) + kMaxMicroBatches - 1) / kMaxMicroBatches));
  }
}

/// What only training does, and what is left of it in inference.
void read_training(const Section& root, PlanConfig& plan) {
  plan.schedule = root.choice<ScheduleKind>(
      "schedule", {{"1f1b", ScheduleKind::one_f_one_b}, {"gpipe", ScheduleKind::gpipe}}, "1f1b");
  const bool inference = plan.mode == Mode::inference;
  plan.recomputation = root.choice<Recomputation>(
      "recomputation", {{"none", Recomputation::none}, {"full", Recomputation::full}}, "none");
  plan.optimizer = root.choice<OptimizerKind>(
      "optimizer",
      {{"adam", OptimizerKind::adam}, {"sgd", OptimizerKind::sgd}, {"none", OptimizerKind::none}},
      inference ? "none" : "adam");
  if (!inference) return;
  if (plan.recomputation != Recomputation::none) {
    root.fail("recomputation",
              "inference has no backward pass to recompute for; leave the key out or write none");
  }
  if (plan.optimizer != OptimizerKind::none) {
    root.fail("optimizer", "inference updates no weights; leave the key out or write none");
  }
}

using PlacementNames = std::vector<std::pair<std::string, PlacementKind>>;

void read_placement_map(const Section& map, PlanConfig& plan, const PlacementNames& names) {
  plan.placement = map.choice<PlacementKind>("kind", names, "block");
  plan.where_placement = map.where("");
  const bool width = map.has("width"), height = map.has("height");
  if (plan.placement == PlacementKind::serpentine) {
    if (width || height) {
      map.fail(width ? "width" : "height",
               "serpentine has no rectangles; width and height belong to "
               "kind: block");
    }
    return;
  }
  if (width) plan.block_width = static_cast<int>(map.integer("width", 1, kMaxDegree));
  if (height) plan.block_height = static_cast<int>(map.integer("height", 1, kMaxDegree));
  // One side says the other.
  if (width != height) {
    const int given = width ? plan.block_width : plan.block_height;
    if (plan.tensor % given == 0) {
      (width ? plan.block_height : plan.block_width) = plan.tensor / given;
    } else {
      map.fail(width ? "width" : "height",
               fmt::format("{} does not divide the tensor degree {}; wanted: width × height = {}",
                           given, plan.tensor, plan.tensor));
    }
  }
  if (width && height && std::int64_t{plan.block_width} * plan.block_height != plan.tensor) {
    map.fail(
        "width",
        fmt::format("a rectangle of {} × {} holds {} tiles, the tensor degree is {}; wanted: "
                    "width × height = {}",
                    plan.block_width, plan.block_height,
                    std::int64_t{plan.block_width} * plan.block_height, plan.tensor, plan.tensor));
  }
}

void read_placement(const Section& root, PlanConfig& plan) {
  const PlacementNames names{{"block", PlacementKind::block},
                             {"serpentine", PlacementKind::serpentine}};
  plan.where_placement = root.where("placement");
  // The value may be a name or a map; the reader tells them apart only by refusing one.
  std::optional<Section> map;
  try {
    map = root.section("placement");
  } catch (const InputError&) {
  }
  if (map && root.has("placement")) {
    read_placement_map(*map, plan, names);
  } else {
    plan.placement = root.choice<PlacementKind>("placement", names, "block");
  }
}

void read_stages(const Section& root, PlanConfig& plan) {
  plan.where_stages = root.where("stages");
  if (!root.has("stages")) return;
  plan.stage_layers = root.integers("stages");
  if (plan.stage_layers.size() != static_cast<std::size_t>(plan.pipeline)) {
    root.fail("stages", fmt::format("{} stages are listed, parallelism.pipeline is {}; wanted: one "
                                    "number of layers for each stage",
                                    plan.stage_layers.size(), plan.pipeline));
  }
  for (std::size_t i = 0; i < plan.stage_layers.size(); ++i) {
    if (plan.stage_layers[i] < 1) {
      root.fail("stages",
                fmt::format("stage {} has {} layers; wanted: at least 1", i, plan.stage_layers[i]));
    }
  }
}

}  // namespace

StateBytes PlanConfig::state_bytes() const {
  StateBytes bytes;
  const bool mixed = precision != DType::fp32;
  bytes.weight = bytes_of(precision);
  bytes.gradient = mode == Mode::training ? bytes.weight : 0;
  if (mode == Mode::training) {
    const int master = mixed ? 4 : 0;
    if (optimizer == OptimizerKind::adam) bytes.optimizer = master + 8;
    if (optimizer == OptimizerKind::sgd) bytes.optimizer = master;
  }
  return bytes;
}

std::int64_t PlanConfig::replica_batch(int replica) const {
  return global_batch / data + (replica < global_batch % data ? 1 : 0);
}

std::vector<std::int64_t> PlanConfig::micro_batches(int replica) const {
  const std::int64_t batch = replica_batch(replica);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(batch / micro_batch), micro_batch);
  if (batch % micro_batch != 0) sizes.push_back(batch % micro_batch);
  return sizes;
}

PlanConfig read_plan(const Document& document) {
  const Section root = document.root();
  PlanConfig plan;
  plan.name = root.text("plan");
  if (plan.name.empty()) root.fail("plan", "the name is empty; wanted: a name for reports");
  plan.mode = root.choice<Mode>(
      "mode", {{"training", Mode::training}, {"inference", Mode::inference}}, "training");
  read_parallelism(root.section("parallelism"), plan);
  read_batch(root.section("batch"), plan);
  if (root.has("sequence")) plan.sequence = root.integer("sequence", 1, kMaxSequence);
  plan.where_sequence = root.where("sequence");
  read_training(root, plan);
  plan.precision = root.choice<DType>(
      "precision", {{"fp16", DType::fp16}, {"bf16", DType::bf16}, {"fp32", DType::fp32}}, "fp16");
  plan.where_precision = root.where("precision");
  read_placement(root, plan);
  read_stages(root, plan);
  root.finish();
  return plan;
}

}  // namespace tilewright
