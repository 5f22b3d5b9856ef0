#include <algorithm>
#include <set>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/advice.h>
#include <tilewright/plan/stage_plan.h>

#include "collective_members.h"
#include "key_value_copies.h"

namespace tilewright {
namespace {

std::int64_t share_of(std::int64_t bytes, std::size_t controllers) {
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(1, controllers));
  return (bytes + n - 1) / n;
}

std::string print(std::int64_t bytes) {
  return fmt::format("{} ({} bytes)", to_string(Bytes(static_cast<double>(bytes))), bytes);
}

Graph worked_on(const Graph& model, const PlanConfig& plan, const Splits& splits) {
  const auto copies = key_value_copies(plan, model, splits);
  return copies ? with_copies(model, *copies) : model;
}

}  // namespace

bool BlockCosts::feasible() const {
  for (const auto* list : {&forward, &recompute, &backward, &weight}) {
    for (const KernelCost& c : *list) {
      if (!c.feasible) return false;
    }
  }
  return true;
}

std::int64_t BlockCosts::footprint() const {
  std::int64_t largest = 0;
  for (const auto* list : {&forward, &recompute, &backward, &weight}) {
    for (const KernelCost& c : *list) largest = std::max(largest, c.footprint);
  }
  return largest;
}

std::vector<std::size_t> StagePlan::positions() const {
  std::vector<std::size_t> result;
  for (const ChunkPlan& chunk : chunks) {
    for (std::size_t i = chunk.range.first; i < chunk.range.last; ++i) result.push_back(i);
  }
  return result;
}

std::string StagePlan::layers_text() const {
  std::string text;
  for (const ChunkPlan& c : chunks) {
    text += text.empty() ? "" : ",";
    text += c.layers == 1 ? fmt::format("{}", c.first_layer)
                          : fmt::format("{}-{}", c.first_layer, c.first_layer + c.layers - 1);
  }
  return text;
}

std::int64_t StagePlan::bytes_in(Space space) const {
  std::int64_t sum = 0;
  for (const MemoryItem& item : memory) sum += item.space == space ? item.bytes : 0;
  return sum;
}

Kernel optimizer_kernel(const PlanConfig& plan, std::int64_t parameters) {
  // Passes over the parameters, counting the elementary vector instructions of the update:
  // Adam: two moments (2 + 3), bias correction and root (3), step and weight decay (3), casts (1).
  const int passes = plan.optimizer == OptimizerKind::adam  ? 12
                     : plan.optimizer == OptimizerKind::sgd ? 2
                                                            : 0;
  Kernel k;
  k.name = "optimizer";
  k.phase = Phase::optimizer;
  const StateBytes state = plan.state_bytes();
  k.vector_elements = static_cast<double>(passes) * static_cast<double>(parameters);
  const Access gradient{"gradient", TensorClass::gradient, parameters * state.gradient};
  const Access moments{"optimizer", TensorClass::optimizer, parameters * state.optimizer};
  const Access weight{"weight", TensorClass::weight, parameters * state.weight};
  k.reads = {gradient};
  // With an fp32 master copy the update starts from it and the working weights are only written.
  if (moments.bytes > 0) k.reads.push_back(moments);
  if (plan.precision == DType::fp32) k.reads.push_back(weight);
  if (moments.bytes > 0) k.writes.push_back(moments);
  k.writes.push_back(weight);
  return k;
}

StagePlanner::StagePlanner(const Graph& graph, const PlanConfig& plan, const MachineConfig& machine,
                           const Placement& placement)
    : model_(graph),
      plan_(plan),
      machine_(machine),
      placement_(placement),
      splits_(make_splits(plan, graph)),
      graph_(worked_on(graph, plan, splits_)),
      sharding_(graph_, splits_, plan.zero),
      boundary_(boundary_layouts(graph_, splits_)),
      members_(std::make_unique<CollectiveMembers>(splits_.axes(), placement, machine,
                                                   plan.collectives)),
      dram_{machine.dram, assign_controllers(machine, machine.dram)},
      host_{machine.host, assign_controllers(machine, machine.host)},
      rates_(tile_rates(machine, plan.precision, placement.tiles)) {
  std::int64_t layers = 0;
  for (std::size_t i = 0; i < graph.chain.size(); ++i) {
    layer_at_.push_back(graph.block(i).is_layer() ? layers++ : -1);
  }
  if (plan.multicast) sharers_ = count_sharers();
}

int StagePlanner::first_sharer(int stage, int replica, int rank) const {
  const GroupAxis& tensor = splits_.axes().front();
  const auto controllers = [&](int r) -> const std::vector<DramId>& {
    return dram_.controllers_of[placement_.tile(stage, replica, r)];
  };
  const int place = rank / tensor.stride % tensor.degree;
  for (int r = rank - place * tensor.stride; r < rank; r += tensor.stride) {
    if (controllers(r) == controllers(rank)) return r;
  }
  return rank;
}

int StagePlanner::count_sharers() const {
  std::set<int> sizes;
  for (int stage = 0; stage < plan_.pipeline; ++stage) {
    for (int replica = 0; replica < plan_.replicas(); ++replica) {
      std::map<int, int> sets;
      for (int r = 0; r < plan_.group_ranks(); ++r) ++sets[first_sharer(stage, replica, r)];
      for (const auto& [first, size] : sets) sizes.insert(size);
    }
  }
  if (sizes.size() == 1 && *sizes.begin() > 1) return *sizes.begin();
  throw InputError(fmt::format(
      "{}: the tensor ranks that use the same DRAM controllers keep data together, in sets of "
      "equal size, at least 2; placed as they are the sets have {} ranks; wanted: multicast: "
      "false, or another placement or dram.policy",
      plan_.where_multicast.empty() ? "multicast" : plan_.where_multicast,
      fmt::join(sizes, " and ")));
}

StagePlanner::~StagePlanner() = default;

double StagePlanner::slowest(int stage) const {
  double speed = 1;
  for (const TileId t : placement_.tile_group(stage, 0)) {
    speed = std::min(speed, machine_.speed(t));
  }
  return speed;
}

std::uint32_t StagePlanner::variant(int stage, std::size_t position) {
  const std::uint32_t block = graph_.chain[position];
  const Dropped dropped = plan_.recomputation.of(stage, layer_at_[position]);
  const auto known = std::find_if(variants_.begin(), variants_.end(), [&](const BlockVariant& v) {
    return v.block == block && v.dropped == dropped;
  });
  const auto number = static_cast<std::uint32_t>(known - variants_.begin());
  if (known == variants_.end()) variants_.push_back({block, dropped});
  return number;
}

KernelOptions StagePlanner::kernel_options(std::int64_t samples, const Dropped& dropped) const {
  KernelOptions o{splits_, boundary_};
  o.samples = samples;
  o.precision = plan_.precision;
  o.state = plan_.state_bytes();
  o.special_passes = machine_.vector.special_passes();
  o.training = plan_.mode == Mode::training;
  o.scattered = sharding_.scattered();
  o.gathered = sharding_.gathered();
  o.fetch_weights = plan_.offload.weights;
  o.tensor_chunks = plan_.overlap.tensor_chunks;
  o.dropped = dropped;
  o.fuse_attention = plan_.fuse_attention;
  o.fuse_norm = plan_.fuse_norm;
  o.fuse_pointwise = plan_.fuse_pointwise;
  o.sharers = sharers_;
  if (!plan_.where_multicast.empty()) o.where_multicast = plan_.where_multicast;
  o.ring_attention = plan_.overlap.ring_attention;
  o.split_backward = plan_.splits_backward();
  return o;
}

const BlockKernels& StagePlanner::kernels(std::uint32_t variant, std::int64_t samples) {
  const auto key = std::make_pair(variant, samples);
  auto it = kernels_.find(key);
  if (it == kernels_.end()) {
    const KernelOptions options = kernel_options(samples, variants_[variant].dropped);
    it = kernels_.emplace(key, make_kernels(block(variant), options)).first;
  }
  return it->second;
}

const BlockCosts& StagePlanner::costs(std::uint32_t variant, std::int64_t samples,
                                      const Residency& residency, std::int64_t sram_resident) {
  // Sharers are the same of every stage.
  const auto key = std::make_tuple(variant, samples, residency.in_sram, sram_resident);
  auto it = costs_.find(key);
  if (it != costs_.end()) return it->second;
  const BlockKernels& k = kernels(variant, samples);
  const auto free = static_cast<std::int64_t>(machine_.sram.capacity.value()) - sram_resident;
  const StateBytes state = plan_.state_bytes();
  const auto each = [&](const std::vector<Kernel>& list) {
    std::vector<KernelCost> result;
    for (const Kernel& kernel : list) {
      result.push_back(kernel_cost(kernel, residency, free, plan_.precision, state, rates_));
    }
    return result;
  };
  return costs_
      .emplace(key,
               BlockCosts{each(k.forward), each(k.recompute), each(k.backward), each(k.weight)})
      .first->second;
}

KernelCost StagePlanner::optimizer_cost(const StagePlan& stage) const {
  const auto free = static_cast<std::int64_t>(machine_.sram.capacity.value()) - stage.sram_resident;
  return kernel_cost(optimizer_kernel(plan_, sharding_.optimizer(stage.parameters_by_axes)),
                     stage.residency, free, plan_.precision, plan_.state_bytes(), rates_);
}

std::vector<StageRange> StagePlanner::cut() {
  const bool training = plan_.mode == Mode::training;
  const auto free = static_cast<std::int64_t>(machine_.sram.capacity.value());
  // Blocks are weighed by the closed form with nothing resident, which also sees the bytes that an
  // embedding or a loss moves without computing.
  std::map<std::uint32_t, double> seconds_of;
  Residency nothing_near;
  nothing_near.sharers = sharers_;
  const auto weigh = [&](std::uint32_t variant) {
    const BlockKernels& k = kernels(variant, plan_.group_micro_batch());
    double seconds = 0;
    for (const auto* list : {&k.forward, &k.recompute, &k.backward, &k.weight}) {
      if (!training && list != &k.forward) continue;
      for (const Kernel& kernel : *list) {
        const KernelCost c =
            kernel_cost(kernel, nothing_near, free, plan_.precision, plan_.state_bytes(), rates_);
        seconds += machine_.dram.sites.empty() || !c.feasible
                       ? kernel_seconds(kernel, KernelCost{}, rates_)
                       : kernel_seconds(kernel, c, rates_);
      }
    }
    return seconds;
  };
  std::vector<bool> is_layer;
  std::vector<double> cost;
  constexpr int kUndecided = -1;  // what a stage recomputes is known once it is cut
  for (std::size_t i = 0; i < graph_.chain.size(); ++i) {
    const std::uint32_t v = variant(kUndecided, i);
    const auto known = seconds_of.find(v);
    cost.push_back(known != seconds_of.end() ? known->second : seconds_of[v] = weigh(v));
    is_layer.push_back(graph_.block(i).is_layer());
  }
  return plan_.stage_layers.empty() ? balance_stages(cost, is_layer, plan_.virtual_stages())
                                    : explicit_stages(is_layer, plan_.stage_layers);
}

std::vector<StagePlan> StagePlanner::plan_stages() {
  const std::vector<StageRange> ranges = cut();
  std::vector<StagePlan> stages;
  for (int s = 0; s < plan_.pipeline; ++s) stages.push_back(plan_stage(s, ranges));
  check_capacity(dram_, Space::dram, stages);
  check_capacity(host_, Space::host, stages);
  return stages;
}

StagePlan StagePlanner::plan_stage(int stage, const std::vector<StageRange>& virtual_stages) {
  StagePlan s;
  s.stage = stage;
  for (int c = 0; c < plan_.chunks(); ++c) {
    ChunkPlan chunk;
    chunk.virtual_stage = schedule(0).virtual_stage(stage, c);
    chunk.range = virtual_stages[static_cast<std::size_t>(chunk.virtual_stage)];
    for (std::size_t i = 0; i < chunk.range.last; ++i) {
      if (!graph_.block(i).is_layer()) continue;
      ++(i < chunk.range.first ? chunk.first_layer : chunk.layers);
    }
    s.layers += chunk.layers;
    s.chunks.push_back(chunk);
  }

  const Splits whole({});
  std::set<std::string> tied;  // a table shared by embedding and head is held once per stage
  for (const std::size_t i : s.positions()) {
    const Block& block = graph_.block(i);
    const bool layer = block.is_layer();
    s.embedding |= block.operators.front().kind == OpKind::embedding;
    s.head |= block.operators.back().kind == OpKind::loss;
    for (std::size_t j = 0; j < block.operators.size(); ++j) {
      const Operator& op = block.operators[j];
      if (!layer && !op.weights.empty() && !tied.insert(op.weights.front().tensor).second) continue;
      s.parameters += whole.local_parameters(model_.block(i).operators[j]);
      for (const auto& [axes, n] : splits_.parameters_by_axes(op)) {
        s.local_parameters += n;
        s.parameters_by_axes[axes] += n;
      }
    }
  }
  if (plan_.mode == Mode::training) {
    for (const int replica : {0, plan_.replicas() - 1}) {
      s.in_flight = std::max(s.in_flight, peak_in_flight(schedule(replica), stage));
    }
  }
  list_memory(s);
  if (!choose_residency(s)) {
    const auto capacity = static_cast<std::int64_t>(machine_.sram.capacity.value());
    std::int64_t need = 0;
    for (const MemoryItem& item : s.memory) need += item.space == Space::host ? 0 : item.bytes;
    if (machine_.dram.sites.empty()) {
      refuse(s, Space::sram, "SRAM of every tile", need, capacity);
    }
    throw InputError(fmt::format(
        "tile.sram.capacity: {} do not hold the working buffers of stage {} (from tile ({},{})): "
        "the "
        "smallest blocks of a matrix operator, one row and one column {} deep with double buffers, "
        "need {} bytes; everything else would stay in DRAM{}",
        print(capacity), stage, machine_.x(placement_.tile(stage, 0, 0)),
        machine_.y(placement_.tile(stage, 0, 0)), smallest_depth(bytes_of(plan_.precision)),
        smallest_footprint(bytes_of(plan_.precision), rates_.sum_bytes),
        plan_.fuse_attention ? "; fusion: attention needs more, whole heads of keys and values as "
                               "deep with their gradients; fusion: pointwise does not"
        : graph_.of_images() ? "; a convolution needs as deep blocks of every pixel of its window "
                               "and of the rows that its next window adds"
                             : ""));
  }
  return s;
}

void StagePlanner::list_memory(StagePlan& s) {
  const StateBytes state = plan_.state_bytes();
  std::int64_t temporaries = 0;
  for (const std::size_t i : s.positions()) {
    const BlockKernels& k = kernels(variant(s.stage, i), plan_.group_micro_batch());
    const bool together = s.residency.keeps_together(TensorClass::temporary);
    temporaries = std::max(temporaries, together ? k.shared_temporaries : k.temporaries);
  }
  const KeptPeak most = kept(s);
  s.waiting = most.waiting;
  const auto kept_for = [&](Kept kind) { return most.near[static_cast<std::size_t>(kind)]; };
  const auto add = [&](std::string name, TensorClass cls, std::int64_t bytes,
                       bool transient = false, bool in_host = false) {
    const Space space = in_host ? Space::host : Space::dram;
    if (bytes > 0) s.memory.push_back({std::move(name), cls, bytes, space, transient});
  };
  const Offload& offload = plan_.offload;
  add("weights", TensorClass::weight, sharding_.weights(s.parameters_by_axes) * state.weight, false,
      offload.weights);
  add("gradients", TensorClass::gradient,
      sharding_.gradients(s.parameters_by_axes) * state.gradient);
  add("optimiser state", TensorClass::optimizer,
      sharding_.optimizer(s.parameters_by_axes) * state.optimizer, false, offload.optimizer);
  const std::string held = fmt::format("({} micro-batches{} in flight)", s.in_flight,
                                       s.chunks.size() > 1 ? " of a chunk" : "");
  add(most.host > 0 ? "stashed activations on their way to and from host memory"
                    : "stashed activations " + held,
      TensorClass::saved, kept_for(Kept::stash), true);
  add("stashed activations " + held, TensorClass::saved, most.host, true, true);
  add(plan_.splits_backward() ? "recomputed activations" : "recomputed activations (1 layer)",
      TensorClass::saved, kept_for(Kept::rebuilt), true);
  add("gradients until their weight gradients", TensorClass::saved, kept_for(Kept::gradient), true);
  add("activations between chunks", TensorClass::temporary, kept_for(Kept::parked), true);
  std::int64_t gathered = 0, scattered = 0;  // parameters of the largest block
  for (const std::size_t i : s.positions()) {
    const std::uint32_t v = variant(s.stage, i);
    gathered = std::max(gathered, total(fetched_parameters(v)));
    scattered = std::max(scattered, total(sharding_.cut(block_parameters(v))));
  }
  const BackgroundChoice choice = beside();
  const auto blocks = [](std::int64_t n) {
    return n == 1 ? "1 block" : fmt::format("{} blocks", n);
  };
  const std::int64_t ahead = choice.gathers ? gathered_blocks(choice.prefetch) : 1;
  add(fmt::format("{} weights ({})", sharding_.zero() >= 3 ? "gathered" : "fetched", blocks(ahead)),
      TensorClass::fetched, ahead * gathered * state.weight, true);
  if (sharding_.zero() >= 2) {
    const std::int64_t n = choice.sums ? kScatteredBlocks : 1;
    add(fmt::format("gradients to be scattered ({})", blocks(n)), TensorClass::gradient,
        n * scattered * state.gradient, true);
  }
  add("temporary activations", TensorClass::temporary, temporaries);
  // Stash and messages are most at different times: what they are together.
  const auto add_buffers = [&](const char* what, TensorClass cls, std::int64_t bytes) {
    if (bytes == 0) return;
    add(fmt::format("communication buffers ({})", what), cls, bytes);
    s.memory.back().communication = true;
  };
  add_buffers("messages between stages", TensorClass::saved,
              most.with_messages - saved_bytes(most.near));
  const SummandBytes sums = summands(s);
  add_buffers("sums of activations", TensorClass::temporary, sums.activations);
  add_buffers("sums of gradients", TensorClass::gradient, sums.gradients);
  std::stable_sort(s.memory.begin(), s.memory.end(),
                   [](const MemoryItem& a, const MemoryItem& b) { return a.bytes > b.bytes; });
}

std::optional<std::pair<double, double>> StagePlanner::evaluate(const StagePlan& s) {
  double seconds = 0, traffic = 0;
  const auto account = [&](const Kernel& k, const KernelCost& c, double times) {
    seconds += times * kernel_seconds(k, c, rates_);
    traffic += times * static_cast<double>(c.load - c.spared + c.store);
  };
  const auto micro_batches = static_cast<double>(plan_.micro_batches(0).size());
  for (const std::size_t i : s.positions()) {
    const std::uint32_t v = variant(s.stage, i);
    const BlockKernels& k = kernels(v, plan_.group_micro_batch());
    const BlockCosts& c = costs(v, plan_.group_micro_batch(), s.residency, s.sram_resident);
    if (!c.feasible()) return {};
    for (std::size_t j = 0; j < k.forward.size(); ++j) {
      account(k.forward[j], c.forward[j], micro_batches);
    }
    for (std::size_t j = 0; j < k.recompute.size(); ++j) {
      account(k.recompute[j], c.recompute[j], micro_batches);
    }
    for (std::size_t j = 0; j < k.backward.size(); ++j) {
      account(k.backward[j], c.backward[j], micro_batches);
    }
    for (std::size_t j = 0; j < k.weight.size(); ++j) {
      account(k.weight[j], c.weight[j], micro_batches);
    }
  }
  if (plan_.mode == Mode::training && plan_.optimizer != OptimizerKind::none) {
    const KernelCost c = optimizer_cost(s);
    if (!c.feasible) return {};
    account(optimizer_kernel(plan_, sharding_.optimizer(s.parameters_by_axes)), c, 1);
  }
  return std::make_pair(seconds, traffic);
}

bool StagePlanner::choose_residency(StagePlan& stage) {
  std::array<std::int64_t, kTensorClasses> bytes{};
  for (const MemoryItem& item : stage.memory) {
    if (item.space != Space::host) bytes[static_cast<int>(item.cls)] += item.bytes;
  }
  stage.residency.in_host[static_cast<int>(TensorClass::weight)] = plan_.offload.weights;
  stage.residency.in_host[static_cast<int>(TensorClass::optimizer)] = plan_.offload.optimizer;
  const auto capacity = machine_.sram.capacity.value();
  const bool has_dram = !machine_.dram.sites.empty();

  std::optional<std::pair<double, double>> best;
  StagePlan chosen = stage;
  for (unsigned mask = 0; mask < (1u << kTensorClasses); ++mask) {
    StagePlan trial = stage;
    bool duplicate = false;
    trial.residency.sharers = sharers_;
    for (int c = 0; c < kTensorClasses; ++c) {
      const bool in = (mask >> c & 1u) != 0;
      // A class with no bytes is "resident" in every set: one set each.
      if (bytes[c] == 0 && !in) duplicate = true;
      trial.residency.in_sram[c] = in && !trial.residency.in_host[c];
      if (in) trial.sram_resident += bytes[c];
      if (!in && bytes[c] > 0 && !has_dram) duplicate = true;
    }
    if (duplicate || static_cast<double>(trial.sram_resident) > capacity) continue;
    const auto cost = evaluate(trial);
    if (cost && (!best || *cost < *best)) {
      best = cost;
      chosen = trial;
    }
  }
  if (!best) return false;
  stage = chosen;
  if (sharers_ > 1) {  // what is in DRAM takes less when it is kept together
    stage.memory.clear();
    list_memory(stage);
  }
  for (MemoryItem& item : stage.memory) {
    if (item.space != Space::host) item.space = stage.residency.space(item.cls);
  }
  for (const std::size_t i : stage.positions()) {
    stage.sram_working =
        std::max(stage.sram_working, costs(variant(stage.stage, i), plan_.group_micro_batch(),
                                           stage.residency, stage.sram_resident)
                                         .footprint());
  }
  if (plan_.mode == Mode::training && plan_.optimizer != OptimizerKind::none) {
    stage.sram_working = std::max(stage.sram_working, optimizer_cost(stage).footprint);
  }
  return true;
}

void StagePlanner::check_capacity(const Tier& tier, Space space,
                                  const std::vector<StagePlan>& stages) {
  if (tier.memory.sites.empty()) return;
  std::vector<std::int64_t> load(tier.memory.sites.size(), 0);
  std::vector<int> heaviest(load.size(), -1);  // the stage that takes most of a controller
  std::vector<std::int64_t> heaviest_bytes(load.size(), 0);
  for (const StagePlan& s : stages) {
    const std::int64_t bytes = space == Space::host ? s.host_bytes() : s.dram_bytes();
    std::vector<std::int64_t> of_stage(load.size(), 0);
    for (int replica = 0; replica < plan_.replicas(); ++replica) {
      for (int r = 0; r < plan_.group_ranks(); ++r) {
        const auto& controllers = tier.controllers_of[placement_.tile(s.stage, replica, r)];
        for (const DramId d : controllers)
          of_stage[index(d)] += share_of(bytes, controllers.size());
      }
    }
    for (std::size_t d = 0; d < load.size(); ++d) {
      load[d] += of_stage[d];
      if (of_stage[d] > heaviest_bytes[d]) {
        heaviest_bytes[d] = of_stage[d];
        heaviest[d] = s.stage;
      }
    }
  }
  const auto worst =
      static_cast<std::size_t>(std::max_element(load.begin(), load.end()) - load.begin());
  if (static_cast<double>(load[worst]) <= tier.memory.capacity.value()) return;
  const auto& site = tier.memory.sites[worst];
  refuse(stages[static_cast<std::size_t>(heaviest[worst])], space,
         fmt::format("{} {} at tile ({},{})", space == Space::host ? "host memory" : "DRAM", worst,
                     site.first, site.second),
         load[worst], static_cast<std::int64_t>(tier.memory.capacity.value()));
}

void StagePlanner::refuse(const StagePlan& stage, Space space, const std::string& where,
                          std::int64_t need, std::int64_t capacity) {
  const TileId first = placement_.tile(stage.stage, 0, 0);
  std::string text = fmt::format(
      "{}: out of memory: stage {} (layers {}, from tile ({},{})) needs {} in the {}, which "
      "holds "
      "{}\n  largest consumers per tile:",
      plan_.where_batch.empty() ? "plan" : plan_.where_batch, stage.stage, stage.layers_text(),
      machine_.x(first), machine_.y(first), print(need), where, print(capacity));
  int listed = 0;
  std::int64_t buffers = 0;  // beside what is listed
  for (const MemoryItem& item : stage.memory) {
    if ((item.space == Space::host) != (space == Space::host)) continue;
    if (listed == 3) {
      buffers += item.communication ? item.bytes : 0;
      continue;
    }
    text += fmt::format("\n    {}: {}", item.name, print(item.bytes));
    ++listed;
  }
  if (buffers > 0) text += fmt::format("\n    further communication buffers: {}", print(buffers));
  if (space == Space::sram) {
    text += "\n  the machine has no DRAM, so everything must stay in SRAM";
  }
  if (advise_) text += "\n  " + advice();
  throw InputError(text);
}

std::string StagePlanner::advice() const {
  std::vector<std::string> ways;
  for (const Proposal& p : propose(model_, plan_, machine_)) {
    const bool more = p.change.plan.ranks() != plan_.ranks();
    ways.push_back(fmt::format("{} ({}{})", p.change.what, to_string(Seconds(p.seconds)),
                               more ? fmt::format(", {} tiles", p.change.plan.ranks()) : ""));
  }
  if (ways.empty()) {
    return "no other ZeRO stage, offload, fused attention, recomputation, schedule, smaller "
           "micro-batch, tensor or pipeline degree fits, nor any of them with full recomputation "
           "and micro-batches of 1";
  }
  return fmt::format("would fit, by the estimated time of an iteration: {}",
                     fmt::join(ways, "; or "));
}

}  // namespace tilewright
