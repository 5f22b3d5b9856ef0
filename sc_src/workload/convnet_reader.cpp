// Reads a convolutional network from our YAML, or from the config.json of a Hugging Face ResNet.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/workload/convnet.h>

#include "convnet_shape.h"
#include "hugging_face.h"
#include "hugging_face_values.h"

namespace tilewright {

namespace {

constexpr std::int64_t kImage = 224;
// Between the channels of a bottleneck's result and those of its kernel × kernel convolution.
constexpr std::int64_t kReduction = 4;

/// One number for a square image, or height and width.
void read_image(const Section& s, const char* key, ConvnetConfig& c) {
  c.height = c.width = kImage;
  if (!s.has(key)) return;
  if (!s.is_list(key)) {
    c.height = c.width = s.integer(key, 1, kLargestImage);
    return;
  }
  const std::vector<std::int64_t> sides = s.integers(key);
  if (sides.size() != 2) s.fail(key, "wanted: one number, or height and width: [224, 224]");
  c.height = sides[0];
  c.width = sides[1];
}

ConvStem read_stem(const Section& s) {
  ConvStem stem;
  stem.channels = s.integer("channels", 1, kMostChannels, stem.channels);
  stem.kernel = s.integer("kernel", 1, kLargestKernel, stem.kernel);
  stem.stride = s.integer("stride", 1, kLargestKernel, stem.stride);
  stem.pool = s.integer("pool", 0, kLargestKernel, stem.pool);
  stem.pool_stride = s.integer("pool_stride", 1, kLargestKernel, stem.pool_stride);
  return stem;
}

ConvStage read_stage(const Section& s, bool first, ConvBlock block) {
  ConvStage stage;
  stage.blocks = s.integer("blocks", 1, kMostLayers);
  stage.channels = s.integer("channels", 1, kMostChannels);
  stage.stride = s.integer("stride", 1, kLargestKernel, first ? 1 : 2);
  if (block == ConvBlock::basic) return stage;
  stage.inner =
      s.integer("inner", 1, kMostChannels, std::max<std::int64_t>(1, stage.channels / kReduction));
  stage.groups = s.integer("groups", 1, kMostChannels, 1);
  return stage;
}

ConvnetConfig read_yaml(const Section& root) {
  ConvnetConfig c;
  c.name = root.text("model");
  const Section s = root.section("convnet");
  read_image(s, "image", c);
  c.channels = s.integer("channels", 1, kMostChannels, c.channels);
  c.classes = s.integer("classes", 1, kWidest);
  if (s.has("stem")) c.stem = read_stem(s.section("stem"));
  c.block = s.choice<ConvBlock>(
      "block", {{"basic", ConvBlock::basic}, {"bottleneck", ConvBlock::bottleneck}}, "bottleneck");
  c.kernel = s.integer("kernel", 1, kLargestKernel, c.kernel);
  c.stride_first = s.flag("stride_first", c.stride_first);
  c.activation = s.choice<ActivationKind>("activation",
                                          {{"relu", ActivationKind::relu},
                                           {"gelu", ActivationKind::gelu},
                                           {"silu", ActivationKind::silu}},
                                          "relu");
  for (const Section& stage : s.sections("stages")) {
    c.stages.push_back(read_stage(stage, c.stages.empty(), c.block));
  }
  root.finish();
  return c;
}

/// Numbered labels, or their number alone.
std::int64_t read_classes(const Section& root) {
  if (given(root, "num_labels")) return width(root, "num_labels");
  constexpr std::int64_t kUnlabelled = 2;  // the library's own default
  if (!given(root, "id2label")) return kUnlabelled;
  return std::max<std::int64_t>(1,
                                static_cast<std::int64_t>(root.section("id2label").keys().size()));
}

ConvnetConfig read_resnet(const Section& root, const std::string& path) {
  ConvnetConfig c;
  c.name = model_name(path, kResNetArchitecture);
  read_image(root, "image_size", c);
  c.channels = width_or(root, "num_channels", 3);
  c.classes = read_classes(root);
  c.stem.channels = width_or(root, "embedding_size", 64);
  c.block = root.choice<ConvBlock>(
      "layer_type", {{"basic", ConvBlock::basic}, {"bottleneck", ConvBlock::bottleneck}},
      "bottleneck");
  c.stride_first = flag_or(root, "downsample_in_bottleneck", false);
  c.activation = activation(root, "hidden_act", "relu");
  const bool first = flag_or(root, "downsample_in_first_stage", false);
  const std::vector<std::int64_t> widths = root.integers("hidden_sizes"),
                                  depths = root.integers("depths");
  if (widths.empty()) root.fail("hidden_sizes", "wanted: the channels of every stage");
  if (depths.size() != widths.size()) {
    root.fail("depths",
              fmt::format("{} stages, but hidden_sizes has {}", depths.size(), widths.size()));
  }
  for (std::size_t i = 0; i < widths.size(); ++i) {
    ConvStage stage;
    stage.blocks = depths[i];
    stage.channels = widths[i];
    stage.inner = widths[i] / kReduction;
    stage.stride = i == 0 && !first ? 1 : 2;
    c.stages.push_back(stage);
  }
  root.ignore_unknown();
  return c;
}

/// The key of a Hugging Face file that holds a field.
std::string key_of(const ConvnetFault& fault) {
  if (fault.field == "image") return "image_size";
  if (fault.field == "channels") return fault.stage < 0 ? "num_channels" : "hidden_sizes";
  if (fault.field == "stem") return "embedding_size";
  if (fault.field == "blocks") return "depths";
  if (fault.field == "classes") return "num_labels";
  return "hidden_sizes";
}

}  // namespace

bool is_convnet(const Document& document) {
  const Section root = document.root();
  if (root.has("convnet")) return true;
  if (root.has("decoder") || !is_hugging_face(root)) return false;
  const auto name = first_architecture(root);
  if (name) return *name == kResNetArchitecture;
  return given(root, "model_type") && root.text("model_type") == kResNetModelType;
}

ConvnetConfig read_convnet(const Document& document) {
  const Section root = document.root();
  const bool own = root.has("convnet");
  ConvnetConfig config = own ? read_yaml(root) : read_resnet(root, document.path());
  const auto fault = find_fault(config);
  if (!fault) return config;
  if (!own) root.fail(key_of(*fault), fault->message);
  const Section s = root.section("convnet");
  if (fault->stage < 0) s.fail(fault->field, fault->message);
  s.sections("stages")[static_cast<std::size_t>(fault->stage)].fail(fault->field, fault->message);
}

}  // namespace tilewright
