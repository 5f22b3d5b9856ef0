// Builds the operator graph of a convolutional network.
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <tilewright/workload/convnet.h>

#include "convnet_shape.h"
#include "operands.h"

namespace tilewright {

namespace {

// One loop nest per group.
constexpr DimSet kGroupedIn(Dim::batch, Dim::head, Dim::row, Dim::red);
constexpr DimSet kGroupedOut(Dim::batch, Dim::head, Dim::row, Dim::col);
constexpr DimSet kGroupedWeight(Dim::head, Dim::col, Dim::red);
constexpr DimSet kPerColumn(Dim::batch, Dim::col);

/// An activation as it passes from operator to operator.
struct Image {
  std::string name;
  std::int64_t height = 0, width = 0, channels = 0;
  std::int64_t pixels() const { return height * width; }
  bool same_shape(const Image& o) const {
    return height == o.height && width == o.width && channels == o.channels;
  }
};

/// A convolution's own figures.
struct Filter {
  std::int64_t channels = 0, kernel = 1, stride = 1, groups = 1;
};

/// Adds operators to a block, one behind the other.
class Builder {
 public:
  Builder(const ConvnetConfig& config, std::string name)
      : c_(config), block_{std::move(name), {}} {}

  Image convolution(OpRole role, const Image& in, const Filter& filter,
                    Storage storage = Storage::compute) {
    const Window window{window_side(in.height, filter.kernel, filter.stride),
                        window_side(in.width, filter.kernel, filter.stride)};
    const bool grouped = filter.groups > 1;
    Operator op = make_operator(OpKind::convolution, role, window.out_pixels(),
                                filter.channels / filter.groups, {});
    op.window = window;
    op.extents[Dim::head] = filter.groups;
    op.extents[Dim::red] = in.channels / filter.groups * window.taps();
    op.inputs = {share(in.name, grouped ? kGroupedIn : kReduced, window.in_pixels(),
                       window.out_pixels() * window.taps(), storage)};
    op.saved = op.inputs;  // for the weight gradient
    add_weight(op, op.name + ".weight", grouped ? kGroupedWeight : kWeight);
    return finish(std::move(op), grouped ? kGroupedOut : kFeatures, window, filter.channels);
  }

  Image norm(OpRole role, const Image& in) {
    Operator op =
        make_operator(OpKind::batch_norm, role, in.pixels(), in.channels, kBatchNormPasses);
    op.inputs = {tensor(in.name, kFeatures)};
    op.saved = op.inputs;
    add_weight(op, op.name + ".weight", kColumn);
    add_weight(op, op.name + ".bias", kColumn);
    return finish(std::move(op), in);
  }

  Image activation(OpRole role, const Image& in) {
    Operator op = activation_operator(role, in);
    // The sign of its result is all that the gradient of a ReLU needs, and the result is kept as
    // the next convolution's input.
    op.outputs = {tensor(op.name + ".out", kFeatures)};
    op.saved = c_.activation == ActivationKind::relu ? op.outputs : op.inputs;
    return append(std::move(op), in);
  }

  /// The activation whose result leaves the block: it belongs to the next one, so that a ReLU keeps
  /// the signs, a byte each.
  Image last_activation(OpRole role, const Image& in) {
    Operator op = activation_operator(role, in);
    op.outputs = {tensor("y", kFeatures)};
    if (c_.activation == ActivationKind::relu) {
      add_for_backward(op, op.name + ".signs", kFeatures, Storage::choice);
    } else {
      op.saved = op.inputs;
    }
    return append(std::move(op), in);
  }

  /// What was made last comes first, so that its kernel takes the sum along.
  Image sum(OpRole role, const Image& branch, const Image& trunk) {
    Operator op =
        make_operator(OpKind::elementwise, role, branch.pixels(), branch.channels, kAddPasses);
    op.inputs = {tensor(branch.name, kFeatures), tensor(trunk.name, kFeatures)};
    op.summands = 2;
    return finish(std::move(op), branch);
  }

  /// The largest of each window, whose place in it is kept, a byte each.
  Image largest(OpRole role, const Image& in, std::int64_t kernel, std::int64_t stride) {
    const Window window{window_side(in.height, kernel, stride),
                        window_side(in.width, kernel, stride)};
    const std::int64_t fresh = (window.in_pixels() + window.out_pixels() - 1) / window.out_pixels();
    Operator op = make_operator(
        OpKind::pool, role, window.out_pixels(), in.channels,
        largest_pool_passes(static_cast<int>(window.taps()), static_cast<int>(fresh)));
    op.window = window;
    op.inputs = {share(in.name, kFeatures, window.in_pixels(), window.out_pixels())};
    op.outputs = {tensor("y", kFeatures)};
    add_for_backward(op, op.name + ".places", kFeatures, Storage::choice);
    return append(std::move(op), {"y", window.height.out, window.width.out, in.channels});
  }

  /// The mean of all pixels.
  Image mean(OpRole role, const Image& in) {
    Operator op = make_operator(OpKind::pool, role, in.pixels(), in.channels, kMeanPoolPasses);
    op.inputs = {tensor(in.name, kFeatures)};
    op.outputs = {tensor(op.name + ".out", kPerColumn)};
    return append(std::move(op), {op.name + ".out", 1, 1, in.channels});
  }

  void classes(const Image& in) {
    Operator op = make_operator(OpKind::gemm, OpRole::head, 1, c_.classes, kBiasPasses);
    op.extents[Dim::red] = in.channels;
    op.inputs = {tensor(in.name, kReduced)};
    op.saved = op.inputs;
    add_weight(op, op.name + ".weight", kWeight);
    add_weight(op, op.name + ".bias", kColumn);
    op.outputs = {tensor("logits", kFeatures)};
    block_.operators.push_back(std::move(op));
    block_.operators.push_back(loss_operator(1, c_.classes));
  }

  Block take() { return std::move(block_); }

 private:
  Operator activation_operator(OpRole role, const Image& in) const {
    Operator op = make_operator(OpKind::elementwise, role, in.pixels(), in.channels,
                                activation_passes(c_.activation, false));
    op.inputs = {tensor(in.name, kFeatures)};
    return op;
  }

  Image append(Operator op, Image result) {
    result.name = op.outputs.front().tensor;
    block_.operators.push_back(std::move(op));
    return result;
  }
  Image finish(Operator op, const Image& shape) {
    op.outputs = {tensor(op.name + ".out", kFeatures)};
    return append(std::move(op), shape);
  }
  Image finish(Operator op, DimSet dims, const Window& window, std::int64_t channels) {
    op.outputs = {tensor(op.name + ".out", dims)};
    return append(std::move(op), {"", window.height.out, window.width.out, channels});
  }

  const ConvnetConfig& c_;
  Block block_;
};

/// Adds the stem; returns what leaves it.
Image build_stem(Builder& b, const ConvnetConfig& c) {
  const Image image{"image", c.height, c.width, c.channels};
  const Image made = b.convolution(OpRole::stem, image,
                                   {c.stem.channels, c.stem.kernel, c.stem.stride}, Storage::pixel);
  const Image normed = b.norm(OpRole::stem_norm, made);
  if (c.stem.pool == 0) return b.last_activation(OpRole::stem_act, normed);
  return b.largest(OpRole::stem_pool, b.activation(OpRole::stem_act, normed), c.stem.pool,
                   c.stem.pool_stride);
}

Image build_block(Builder& b, const ConvnetConfig& c, const ConvStage& stage, Image in,
                  std::int64_t stride) {
  in.name = "x";
  Image branch;
  if (c.block == ConvBlock::basic) {
    branch = b.convolution(OpRole::conv1, in, {stage.channels, c.kernel, stride});
    branch = b.activation(OpRole::act1, b.norm(OpRole::norm1, branch));
    branch = b.convolution(OpRole::conv2, branch, {stage.channels, c.kernel});
    branch = b.norm(OpRole::norm2, branch);
  } else {
    branch = b.convolution(OpRole::conv1, in, {stage.inner, 1, c.stride_first ? stride : 1});
    branch = b.activation(OpRole::act1, b.norm(OpRole::norm1, branch));
    branch = b.convolution(OpRole::conv2, branch,
                           {stage.inner, c.kernel, c.stride_first ? 1 : stride, stage.groups});
    branch = b.activation(OpRole::act2, b.norm(OpRole::norm2, branch));
    branch = b.convolution(OpRole::conv3, branch, {stage.channels});
    branch = b.norm(OpRole::norm3, branch);
  }
  Image trunk = in;
  if (!in.same_shape(branch) || stride != 1) {
    trunk = b.convolution(OpRole::shortcut, in, {stage.channels, 1, stride});
    trunk = b.norm(OpRole::shortcut_norm, trunk);
    std::swap(branch, trunk);
  }
  return b.last_activation(OpRole::residual_act, b.sum(OpRole::residual, branch, trunk));
}

}  // namespace

Graph build_graph(const ConvnetConfig& config) {
  check_shape(config);
  Graph graph;
  graph.model = config.name;
  const auto store = [&graph](Block block) {
    graph.blocks.push_back(std::move(block));
    return static_cast<std::uint32_t>(graph.blocks.size() - 1);
  };
  Builder stem(config, "stem");
  Image at = build_stem(stem, config);
  graph.chain.push_back(store(stem.take()));
  for (std::size_t s = 0; s < config.stages.size(); ++s) {
    const ConvStage& stage = config.stages[s];
    const bool changes = stage.stride != 1 || at.channels != stage.channels;
    std::optional<std::uint32_t> others;
    for (std::int64_t i = 0; i < stage.blocks; ++i) {
      if (others) {
        graph.chain.push_back(*others);
        continue;
      }
      const bool first = i == 0 && changes;
      Builder block(config, fmt::format("stage{}{}", s + 1, first ? ".first" : ""));
      at = build_block(block, config, stage, at, first ? stage.stride : 1);
      graph.chain.push_back(store(block.take()));
      if (!first) others = graph.chain.back();
    }
  }
  Builder head(config, "head");
  at.name = "x";
  head.classes(head.mean(OpRole::global_pool, at));
  graph.chain.push_back(store(head.take()));
  return graph;
}

}  // namespace tilewright
