// Reads a plan; docs/plan.md documents every key.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/partition.h>
#include <tilewright/plan/plan.h>
#include <tilewright/plan/schedule_file.h>

namespace tilewright {
namespace {

/// Above any machine (2^24 tiles) and any batch in use; products of three still fit 64 bits.
constexpr std::int64_t kMaxDegree = std::int64_t{1} << 20;
constexpr std::int64_t kMaxBatch = 1'000'000'000;
constexpr std::int64_t kMaxMicroBatches = 1'000'000;  // of a replica; each is a call per block
constexpr std::int64_t kMaxSumChunks = 256;
constexpr std::int64_t kMaxPrefetch = 1024;  // blocks
constexpr std::int64_t kMaxSequence = std::int64_t{1} << 31;

void read_tensor_shape(const Section& section, PlanConfig& plan) {
  const std::vector<std::int64_t> shape = section.integers("tensor_shape");
  if (shape.empty()) return;
  std::int64_t product = 1;
  for (const std::int64_t n : shape) {
    if (n < 1 || n > kMaxDegree || (product *= n) > kMaxDegree) {
      section.fail("tensor_shape",
                   fmt::format("a degree of {}; wanted: degrees of at least 1 whose "
                               "product is at most {}",
                               n, kMaxDegree));
    }
    plan.tensor_shape.push_back(static_cast<int>(n));
  }
  if (shape.size() > 3) {
    section.fail("tensor_shape",
                 fmt::format("{} axes are listed; wanted: one to three degrees, such as [4, 4]",
                             shape.size()));
  }
  if (section.has("tensor") && plan.tensor != product) {
    section.fail("tensor_shape",
                 fmt::format("[{}] has {} ranks, parallelism.tensor is {}; wanted: degrees whose "
                             "product is the tensor degree",
                             fmt::join(shape, ", "), product, plan.tensor));
  }
  plan.tensor = static_cast<int>(product);
}

void read_parallelism(const Section& section, PlanConfig& plan) {
  const auto degree = [&](const char* key, int& value, std::string& where) {
    value = static_cast<int>(section.integer(key, 1, kMaxDegree, 1));
    where = section.where(key);
  };
  degree("pipeline", plan.pipeline, plan.where_pipeline);
  degree("tensor", plan.tensor, plan.where_tensor);
  degree("data", plan.data, plan.where_data);
  degree("context", plan.context, plan.where_context);
  degree("expert", plan.expert, plan.where_expert);
  read_tensor_shape(section, plan);
  if (plan.data % plan.expert != 0) {
    section.fail("expert",
                 fmt::format("{} does not divide the data degree {}: of the data-parallel "
                             "ranks so many hold different experts",
                             plan.expert, plan.data));
  }
  if (section.has("sequence_parallel")) {
    plan.sequence_parallel = section.flag("sequence_parallel");
  }
  plan.scatter_gather = section.flag("scatter_gather", false);
  if (section.has("zero")) plan.zero = static_cast<int>(section.integer("zero", 0, 3));
  plan.where_zero = section.where("zero");
  // Each factor is below 2^20: three at a time fit 64 bits.
  const std::int64_t group = std::int64_t{plan.tensor} * plan.context * plan.data;
  if (group > kMaxTiles || group * plan.pipeline > kMaxTiles) {
    section.fail("",
                 fmt::format("{}: at most {} tiles are possible", plan.degrees_text(), kMaxTiles));
  }
}

/// What `partition` may name: plans by the names of the systems that made them known.
struct NamedPartition {
  PartitionPreset preset = PartitionPreset::megatron;
  bool sequence_parallel = false;
  int zero = 0;
  std::int64_t bucket = 0;
};

constexpr std::int64_t kDeepSpeedBucket = 500'000'000;  // bytes: reduce_bucket_size, its default

std::vector<std::pair<std::string, NamedPartition>> named_partitions() {
  using P = PartitionPreset;
  return {{"megatron", {P::megatron, false, 0, 0}},
          {"megatron-sp", {P::megatron, true, 0, 0}},
          {"deepspeed-zero1", {P::megatron, false, 1, kDeepSpeedBucket}},
          {"deepspeed-zero2", {P::megatron, false, 2, kDeepSpeedBucket}},
          {"deepspeed-zero3", {P::megatron, false, 3, kDeepSpeedBucket}},
          {"fsdp", {P::megatron, false, 3, 1}},
          {"accpar", {P::accpar, false, 0, 0}},
          {"weight-streaming", {P::streaming, false, 3, 1}}};
}

void read_cuts(const Section& operators, PlanConfig& plan) {
  std::vector<std::string> axes;
  for (const GroupAxis& a : make_axes(plan)) {
    if (!a.outer) axes.push_back(a.name);
  }
  std::vector<std::pair<std::string, OpRole>> roles;
  for (int r = 0; r < kOpRoles; ++r) {
    roles.emplace_back(to_string(static_cast<OpRole>(r)), static_cast<OpRole>(r));
  }
  std::vector<std::pair<std::string, std::optional<Dim>>> dims{{"none", {}}};
  for (int d = 0; d < kDims; ++d) {
    dims.emplace_back(to_string(static_cast<Dim>(d)), static_cast<Dim>(d));
  }
  for (const auto& [name, role] : roles) {
    if (!operators.has(name)) continue;
    const Section op = operators.section(name);
    for (const std::string& axis : axes) {
      if (!op.has(axis)) continue;
      plan.cuts.push_back({role, axis, op.choice<std::optional<Dim>>(axis, dims), op.where(axis)});
    }
  }
}

void read_partition(const Section& root, PlanConfig& plan) {
  const auto names = named_partitions();
  NamedPartition named;
  if (root.is_map("partition")) {
    const Section map = root.section("partition");
    named = map.choice<NamedPartition>("preset", names, "megatron");
    read_cuts(map.section("operators"), plan);
  } else {
    named = root.choice<NamedPartition>("partition", names, "megatron");
  }
  plan.where_partition = root.where("partition");
  plan.uneven =
      root.choice<Uneven>("uneven", {{"refuse", Uneven::refuse}, {"pad", Uneven::pad}}, "refuse");
  plan.partition = named.preset;
  // What the user writes beside the name wins.
  const Section parallelism = root.section("parallelism");
  if (!parallelism.has("sequence_parallel")) plan.sequence_parallel = named.sequence_parallel;
  if (!parallelism.has("zero")) plan.zero = named.zero;
  const Section overlap = root.section("overlap");
  plan.overlap.bucket = named.bucket;
  if (overlap.has("bucket")) {
    plan.overlap.bucket = overlap.text("bucket") == "none"
                              ? 0
                              : static_cast<std::int64_t>(overlap.bytes("bucket").value());
  }
  plan.overlap.prefetch =
      static_cast<int>(overlap.integer("prefetch", 0, kMaxPrefetch, plan.overlap.prefetch));
  plan.overlap.ring_attention = overlap.flag("ring_attention", false);
  plan.overlap.tensor_chunks =
      static_cast<int>(overlap.integer("tensor_chunks", 1, kMaxSumChunks, 1));
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
  if (plan.expert > 1 && plan.global_batch % plan.data != 0) {
    batch.fail("global", fmt::format("the global batch of {} does not divide over {} data-parallel "
                                     "ranks; ranks that exchange tokens with each other's experts "
                                     "need equal batches",
                                     plan.global_batch, plan.data));
  }
  const std::int64_t largest = plan.replica_batch(0) / plan.expert;
  if (plan.micro_batch > largest) {
    batch.fail("micro",
               fmt::format("a micro-batch of {} is larger than a replica's batch of {} ({} samples "
                           "over {} replicas); wanted: 1 to {}",
                           plan.micro_batch, largest, plan.global_batch, plan.data, largest));
  }
  const std::int64_t count = (largest + plan.micro_batch - 1) / plan.micro_batch;
  if (count > kMaxMicroBatches) {
    batch.fail("micro",
               fmt::format("a replica's batch of {} in micro-batches of {} makes {} of them; "
                           "at most {} are possible, so wanted: at least {}",
                           largest, plan.micro_batch, count, kMaxMicroBatches,
                           (largest + kMaxMicroBatches - 1) / kMaxMicroBatches));
  }
}

/// Reads the file that a section names under `file`, beside the plan, with `read`. Errors name the
/// plan's line.
template <class Read>
auto read_named(const Section& section, const std::string& plan_path, const std::string& kind,
                PlanConfig& plan, Read read) {
  const std::filesystem::path file = section.text("file");
  const std::filesystem::path beside = std::filesystem::path(plan_path).parent_path();
  try {
    plan.files.push_back(
        Document::load((file.is_absolute() ? file : beside / file).string(), kind));
  } catch (const InputError& e) {
    section.fail("file", e.what());
  }
  try {
    return read(plan.files.back());
  } catch (const InputError& e) {
    throw InputError(fmt::format("{}\n  named by {}", e.what(), section.where("file")));
  }
}

constexpr std::int64_t kMaxChunks = 1024;

/// A file that lists every slot of every stage, beside the plan.
void read_own_schedule(const Section& map, const std::string& plan_path, PlanConfig& plan) {
  for (const char* key : {"kind", "chunks"}) {
    if (map.has(key)) map.fail(key, "a schedule file lists every slot; nothing else is chosen");
  }
  const std::string why = why_no_schedule_file(plan);
  if (!why.empty()) map.fail("file", why);
  plan.schedule = ScheduleKind::file;
  plan.own_schedule = std::make_shared<const Schedule>(
      read_named(map, plan_path, "schedule", plan, [&](const Document& listed) {
        return read_schedule(listed, plan.pipeline,
                             static_cast<std::uint32_t>(plan.micro_batch_count(0)),
                             plan.mode == Mode::training);
      }));
}

void read_plan_schedule(const Section& root, const std::string& plan_path, PlanConfig& plan) {
  std::vector<std::pair<std::string, ScheduleKind>> names;
  for (const ScheduleKind kind :
       {ScheduleKind::one_f_one_b, ScheduleKind::gpipe, ScheduleKind::interleaved,
        ScheduleKind::zb_h1, ScheduleKind::zb_h2, ScheduleKind::zb_v}) {
    names.emplace_back(to_string(kind), kind);
  }
  plan.where_schedule = root.where("schedule");
  if (root.is_map("schedule")) {
    const Section map = root.section("schedule");
    if (map.has("file")) {
      read_own_schedule(map, plan_path, plan);
      return;
    }
    plan.schedule = map.choice<ScheduleKind>("kind", names);
    if (map.has("chunks")) {
      if (plan.schedule != ScheduleKind::interleaved) {
        map.fail("chunks", "the number of chunks per stage is a choice of kind: interleaved alone");
      }
      plan.interleaved_chunks = static_cast<int>(map.integer("chunks", 2, kMaxChunks));
    }
  } else {
    plan.schedule = root.choice<ScheduleKind>("schedule", names, "1f1b");
  }
  if (plan.mode == Mode::inference && plan.splits_backward()) {
    root.fail("schedule",
              "inference has no backward pass to split; wanted: 1f1b, gpipe or "
              "interleaved, which all stream the micro-batches through");
  }
}

/// Algorithms by kind of collective, for all axes, and for single axes what differs there.
void read_collectives(const Section& root, PlanConfig& plan) {
  if (!root.has("collectives")) return;
  using Algorithm = std::optional<CollectiveAlgorithm>;
  std::vector<std::pair<std::string, Algorithm>> names{{"auto", {}}};
  for (std::size_t a = 0; a < kCollectiveAlgorithms; ++a) {
    const auto algorithm = static_cast<CollectiveAlgorithm>(a);
    names.emplace_back(to_string(algorithm), algorithm);
  }
  if (!root.is_map("collectives")) {
    const auto choice = root.choice<Algorithm>("collectives", {{"auto", {}}}, "auto");
    for (std::size_t k = 0; k < kCollectiveKinds; ++k) {
      plan.collectives.set("", static_cast<CollectiveKind>(k), {choice, root.where("collectives")});
    }
    return;
  }
  const auto read = [&](const Section& map, const std::string& axis) {
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_gather, CollectiveKind::all_to_all}) {
      const std::string key = to_string(kind);
      if (!map.has(key)) continue;
      const auto choice = map.choice<Algorithm>(key, names, "auto");
      if (choice) {
        const std::string reason = runs_not(kind, *choice);
        if (!reason.empty()) map.fail(key, reason);
      }
      plan.collectives.set(axis, kind, {choice, map.where(key)});
    }
  };
  const Section map = root.section("collectives");
  read(map, "");
  for (const GroupAxis& axis : make_axes(plan)) {
    if (map.has(axis.name)) read(map.section(axis.name), axis.name);
  }
}

/// One name, or a list of those that can be together.
void read_fusion(const Section& root, PlanConfig& plan) {
  plan.where_fusion = root.where("fusion");
  if (!root.is_list("fusion")) {
    enum class Fusion { none, pointwise, attention, norm };
    const auto fusion = root.choice<Fusion>("fusion",
                                            {{"pointwise", Fusion::pointwise},
                                             {"none", Fusion::none},
                                             {"attention", Fusion::attention},
                                             {"norm", Fusion::norm}},
                                            "pointwise");
    plan.fuse_pointwise = fusion != Fusion::none;
    plan.fuse_attention = fusion == Fusion::attention;
    plan.fuse_norm = fusion == Fusion::norm;
    return;
  }
  const std::vector<std::string> names = root.texts("fusion");
  if (names.empty()) root.fail("fusion", "the list is empty; wanted: a fusion, or none");
  for (const std::string& name : names) {
    if (name == "attention") {
      plan.fuse_attention = true;
    } else if (name == "norm") {
      plan.fuse_norm = true;
    } else if (name != "pointwise") {
      root.fail("fusion", fmt::format("'{}' is not one of several fusions; wanted: a list of "
                                      "pointwise, attention, norm",
                                      name));
    }
  }
}

/// What only training does, and what is left of it in inference.
void read_training(const Section& root, PlanConfig& plan) {
  const bool inference = plan.mode == Mode::inference;
  plan.recomputation = read_recomputation(root, plan.pipeline);
  plan.where_recomputation = root.where("recomputation");
  read_fusion(root, plan);
  plan.fp32_gradients =
      root.choice<bool>("gradients", {{"as_weights", false}, {"fp32", true}}, "as_weights");
  plan.optimizer = root.choice<OptimizerKind>(
      "optimizer",
      {{"adam", OptimizerKind::adam}, {"sgd", OptimizerKind::sgd}, {"none", OptimizerKind::none}},
      inference ? "none" : "adam");
  plan.offload = read_offload(root, plan.pipeline);
  plan.where_offload = root.where("offload");
  if (!inference) return;
  if (plan.recomputation != Recomputation::none) {
    root.fail("recomputation",
              "inference has no backward pass to recompute for; leave the key out or write none");
  }
  if (plan.fp32_gradients) {
    root.fail("gradients", "inference has no gradients; leave the key out");
  }
  if (plan.optimizer != OptimizerKind::none) {
    root.fail("optimizer", "inference updates no weights; leave the key out or write none");
  }
}

using PlacementNames = std::vector<std::pair<std::string, PlacementKind>>;

void read_order(const Section& map, PlanConfig& plan) {
  for (const std::string& name : map.texts("order")) {
    const auto axis = std::find_if(kRankOrder.begin(), kRankOrder.end(),
                                   [&](PlacedAxis a) { return name == to_string(a); });
    if (axis == kRankOrder.end()) {
      map.fail("order", fmt::format("'{}' is no axis; allowed: tensor, context, expert, data, "
                                    "pipeline",
                                    name));
    }
    if (std::find(plan.placement_order.begin(), plan.placement_order.end(), *axis) !=
        plan.placement_order.end()) {
      map.fail("order", fmt::format("'{}' is listed twice", name));
    }
    plan.placement_order.push_back(*axis);
  }
}

/// A file that lists the tile of every rank, beside the plan.
void read_listed_tiles(const Section& root, PlanConfig& plan) {
  for (const auto& [x, y] : root.pairs("tiles")) {
    if (x < 0 || y < 0 || x > kMaxTiles || y > kMaxTiles) {
      root.fail("tiles", fmt::format("[{}, {}] is no tile", x, y));
    }
    plan.listed_tiles.emplace_back(static_cast<int>(x), static_cast<int>(y));
  }
  if (plan.listed_tiles.size() != static_cast<std::size_t>(plan.ranks())) {
    root.fail("tiles", fmt::format("{} tiles are listed, the plan has {} ranks ({}); wanted: one "
                                   "[x, y] for each, tensor ranks innermost, then context, expert, "
                                   "data, pipeline",
                                   plan.listed_tiles.size(), plan.ranks(), plan.degrees_text()));
  }
  root.finish();
}

void read_rectangle(const Section& map, PlanConfig& plan) {
  const bool width = map.has("width"), height = map.has("height");
  if (plan.placement != PlacementKind::block) {
    if (width || height) {
      map.fail(width ? "width" : "height",
               "serpentine has no rectangles; width and height belong to "
               "kind: block");
    }
    return;
  }
  const PlacedAxis inner = plan.axis_order().front();
  const int unit = plan.degree(inner);
  if (width) plan.block_width = static_cast<int>(map.integer("width", 1, kMaxDegree));
  if (height) plan.block_height = static_cast<int>(map.integer("height", 1, kMaxDegree));
  // One side says the other.
  if (width != height) {
    const int given = width ? plan.block_width : plan.block_height;
    if (unit % given == 0) {
      (width ? plan.block_height : plan.block_width) = unit / given;
    } else {
      map.fail(width ? "width" : "height",
               fmt::format("{} does not divide the {} degree {}; wanted: width × height = {}",
                           given, to_string(inner), unit, unit));
    }
  }
  if (width && height && std::int64_t{plan.block_width} * plan.block_height != unit) {
    map.fail("width", fmt::format("a rectangle of {} × {} holds {} tiles, the {} degree is {}; "
                                  "wanted: width × height = {}",
                                  plan.block_width, plan.block_height,
                                  std::int64_t{plan.block_width} * plan.block_height,
                                  to_string(inner), unit, unit));
  }
}

void read_placement(const Section& root, const std::string& plan_path, PlanConfig& plan) {
  const PlacementNames names{{"block", PlacementKind::block},
                             {"serpentine", PlacementKind::serpentine}};
  plan.where_placement = root.where("placement");
  if (!root.is_map("placement")) {
    plan.placement = root.choice<PlacementKind>("placement", names, "block");
    return;
  }
  const Section map = root.section("placement");
  plan.where_placement = map.where("");
  if (map.has("file")) {
    plan.placement = PlacementKind::file;
    for (const char* key : {"kind", "order", "width", "height"}) {
      if (map.has(key)) map.fail(key, "a placement file lists every tile; nothing else is chosen");
    }
    read_named(map, plan_path, "placement", plan,
               [&](const Document& listed) { read_listed_tiles(listed.root(), plan); });
    return;
  }
  plan.placement = map.choice<PlacementKind>("kind", names, "block");
  read_order(map, plan);
  read_rectangle(map, plan);
}

void read_stages(const Section& root, PlanConfig& plan) {
  plan.where_stages = root.where("stages");
  if (!root.has("stages")) return;
  plan.stage_layers = root.integers("stages");
  if (plan.stage_layers.size() != static_cast<std::size_t>(plan.virtual_stages())) {
    root.fail("stages",
              plan.chunks() == 1
                  ? fmt::format("{} stages are listed, parallelism.pipeline is {}; wanted: one "
                                "number of layers for each stage",
                                plan.stage_layers.size(), plan.pipeline)
                  : fmt::format("{} stages are listed, {} stages of {} chunks are {}; wanted: one "
                                "number of layers for each chunk, in the order of the layers",
                                plan.stage_layers.size(), plan.pipeline, plan.chunks(),
                                plan.virtual_stages()));
  }
  for (std::size_t i = 0; i < plan.stage_layers.size(); ++i) {
    if (plan.stage_layers[i] < 1) {
      root.fail("stages",
                fmt::format("stage {} has {} layers; wanted: at least 1", i, plan.stage_layers[i]));
    }
  }
}

}  // namespace

PlanConfig read_plan(const Document& document) {
  const Section root = document.root();
  PlanConfig plan;
  plan.name = root.text("plan");
  if (plan.name.empty()) root.fail("plan", "the name is empty; wanted: a name for reports");
  plan.mode = root.choice<Mode>(
      "mode", {{"training", Mode::training}, {"inference", Mode::inference}}, "training");
  read_parallelism(root.section("parallelism"), plan);
  read_partition(root, plan);
  read_collectives(root, plan);
  plan.multicast = root.flag("multicast", false);
  plan.where_multicast = root.where("multicast");
  read_batch(root.section("batch"), plan);
  if (root.has("sequence")) plan.sequence = root.integer("sequence", 1, kMaxSequence);
  plan.where_sequence = root.where("sequence");
  read_plan_schedule(root, document.path(), plan);
  read_training(root, plan);
  plan.precision = root.choice<DType>("precision",
                                      {{"fp16", DType::fp16},
                                       {"bf16", DType::bf16},
                                       {"fp32", DType::fp32},
                                       {"fp8", DType::fp8},
                                       {"int8", DType::int8}},
                                      "fp16");
  if (plan.mode == Mode::training && bytes_of(plan.precision) == 1) {
    root.fail("precision",
              fmt::format("'{}' is for mode: inference; training allows fp16, bf16 and "
                          "fp32",
                          to_string(plan.precision)));
  }
  plan.where_precision = root.where("precision");
  read_placement(root, document.path(), plan);
  read_stages(root, plan);
  root.finish();
  return plan;
}

}  // namespace tilewright
