// Convolutional networks: published sizes, shapes, what is kept, and what is refused.
#include <map>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/workload/model.h>

#include "shapes.h"

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Graph graph(const std::string& text) {
  return build_graph(read_model(Document::parse(text, "model", {}, "m.yaml")));
}

std::string error_of(const std::string& text) {
  try {
    graph(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

/// A Hugging Face config of a published ResNet.
std::string resnet(const std::string& type, const std::string& widths, const std::string& depths) {
  return R"({"architectures": ["ResNetForImageClassification"], "model_type": "resnet",
      "num_channels": 3, "embedding_size": 64, "hidden_act": "relu", "num_labels": 1000,
      "downsample_in_first_stage": false, "layer_type": ")" +
         type + R"(", "hidden_sizes": )" + widths + R"(, "depths": )" + depths + "}";
}

const char* const kNarrow = "[64, 128, 256, 512]";
const char* const kWide = "[256, 512, 1024, 2048]";

Graph resnet50() {
  return build_graph(
      read_model(Document::load(test::model_path("resnet-50/config.json"), "model")));
}

TEST(Convnet, PublishedParameters) {
  EXPECT_EQ(graph(resnet("basic", kNarrow, "[2, 2, 2, 2]")).parameters(), 11'689'512);
  EXPECT_EQ(graph(resnet("basic", kNarrow, "[3, 4, 6, 3]")).parameters(), 21'797'672);
  EXPECT_EQ(graph(resnet("bottleneck", kWide, "[3, 4, 6, 3]")).parameters(), 25'557'032);
  EXPECT_EQ(graph(resnet("bottleneck", kWide, "[3, 4, 23, 3]")).parameters(), 44'549'160);
  EXPECT_EQ(graph(resnet("bottleneck", kWide, "[3, 8, 36, 3]")).parameters(), 60'192'808);
  EXPECT_EQ(resnet50().parameters(), 25'557'032);
  EXPECT_EQ(resnet50().model, "resnet-50");
  EXPECT_EQ(resnet50().layers(), 16);
}

/// A bottleneck network in our own form; the inner widths are a half of the results'.
std::string yaml(int inner_divisor, int groups) {
  std::string text = "model: net\nconvnet:\n  classes: 1000\n  stages:\n";
  const int blocks[] = {3, 4, 6, 3};
  for (int i = 0; i < 4; ++i) {
    const int channels = 256 << i;
    text += "    - { blocks: " + std::to_string(blocks[i]) +
            ", channels: " + std::to_string(channels) +
            ", inner: " + std::to_string(channels / inner_divisor) +
            ", groups: " + std::to_string(groups) + " }\n";
  }
  return text;
}

TEST(Convnet, PublishedParametersOfOtherBottlenecks) {
  EXPECT_EQ(graph(yaml(4, 1)).parameters(), 25'557'032);   // ResNet-50
  EXPECT_EQ(graph(yaml(2, 32)).parameters(), 25'028'904);  // ResNeXt-50 32x4d
  EXPECT_EQ(graph(yaml(2, 1)).parameters(), 68'883'240);   // Wide ResNet-50-2
}

TEST(Convnet, ForwardFlopsOfResNet50AreTheSumOfItsConvolutions) {
  double macs = 112.0 * 112 * 49 * 3 * 64;
  double in = 64, pixels = 56 * 56;
  const int blocks[] = {3, 4, 6, 3};
  for (int s = 0; s < 4; ++s) {
    const double out = 256 << s, inner = out / 4;
    for (int b = 0; b < blocks[s]; ++b) {
      const double before = pixels;
      if (s > 0 && b == 0) pixels /= 4;  // the second convolution's stride
      macs += before * in * inner + pixels * 9 * inner * inner + pixels * inner * out;
      if (b == 0) macs += pixels * in * out;
      in = out;
    }
  }
  macs += 2048 * 1000;
  const Graph g = resnet50();
  EXPECT_EQ(macs, 4'089'184'256.0);
  EXPECT_EQ(g.forward_flop().value(), 2 * macs);
  // The image has no gradient.
  EXPECT_EQ(g.training_flop().value(), 3 * 2 * macs - 2 * 112.0 * 112 * 49 * 3 * 64);
}

TEST(Convnet, StrideInTheFirstConvolutionOfABottleneckTakesLess) {
  const std::string text = resnet("bottleneck", kWide, "[3, 4, 6, 3]");
  std::string first = text;
  first.insert(first.size() - 1, R"(, "downsample_in_bottleneck": true)");
  const Graph late = graph(text), early = graph(first);
  EXPECT_EQ(early.parameters(), late.parameters());
  // Three first and three second convolutions on a quarter of the pixels.
  double saved = 0;
  for (int s = 1; s < 4; ++s) {
    const double pixels = 56.0 * 56 / (1 << 2 * (s - 1)), inner = 64 << s, in = 128 << s;
    saved += 2 * pixels * in * inner * 3 / 4;
  }
  EXPECT_EQ(late.forward_flop().value() - early.forward_flop().value(), saved);
}

TEST(Convnet, EveryTensorIsWrittenBeforeItIsReadAndHasOneSize) {
  for (const Graph& g :
       {resnet50(), graph(resnet("basic", kNarrow, "[2, 2, 2, 2]")), graph(yaml(2, 32)),
        graph("model: odd\nconvnet:\n  image: [75, 31]\n  classes: 7\n  activation: silu\n"
              "  stem: { channels: 8, kernel: 4, stride: 3, pool: 0 }\n"
              "  stages: [ { blocks: 2, channels: 24, stride: 2, inner: 10, groups: 5 } ]\n")}) {
    double passed_on = 0;
    for (std::size_t i = 0; i < g.chain.size(); ++i) {
      std::set<std::string> written = {"x", "image", "targets"};
      std::map<std::string, double> size;
      const auto same_size = [&](const Operand& tensor, const Operator& op) {
        const double elements = tensor.elements(op.extents);
        EXPECT_DOUBLE_EQ(size.emplace(tensor.tensor, elements).first->second, elements)
            << g.model << " " << g.block(i).name << ": " << tensor.tensor << " in " << op.name;
      };
      for (const Operator& op : g.block(i).operators) {
        for (const Operand& in : op.inputs) {
          EXPECT_TRUE(written.count(in.tensor)) << op.name << " reads " << in.tensor;
          same_size(in, op);
        }
        for (const Operand& out : op.outputs) {
          EXPECT_TRUE(written.insert(out.tensor).second) << out.tensor << " is written twice";
          same_size(out, op);
        }
        for (const Operand& kept : op.saved) same_size(kept, op);
        EXPECT_EQ(op.kind == OpKind::convolution, op.window.has_value() && op.kind != OpKind::pool);
      }
      if (i > 0) {
        EXPECT_DOUBLE_EQ(size.at("x"), passed_on) << g.model << " " << i;
      }
      if (i + 1 < g.chain.size()) passed_on = size.at("y");
    }
  }
}

TEST(Convnet, EqualBlocksAreStoredOnce) {
  // Stem, a first block and a rest for each stage, head; ResNet-18's first stage changes nothing.
  EXPECT_EQ(resnet50().blocks.size(), 1 + 2 * 4 + 1u);
  EXPECT_EQ(graph(resnet("basic", kNarrow, "[2, 2, 2, 2]")).blocks.size(), 1 + 1 + 2 * 3 + 1u);
}

TEST(Convnet, WhatABottleneckKeeps) {
  const Graph g = resnet50();
  // Inputs of convolutions and of norms in two bytes, the signs of the result in one. Inner width
  // 64, 56 x 56 pixels.
  const auto& block = g.blocks[2];
  ASSERT_EQ(block.name, "stage1");
  EXPECT_EQ(block.saved_bytes(DType::fp16).value(), 56 * 56 * (2 * (256 + 4 * 64 + 256) + 1 * 256));
  // The image, the convolution's and the activation's results, and places of the largest.
  EXPECT_EQ(g.blocks[0].saved_bytes(DType::fp16).value(),
            224 * 224 * 3 * 2 + 2 * 112 * 112 * 64 * 2 + 56 * 56 * 64);
}

TEST(Convnet, DepthwiseConvolutionsCountTheirOwnChannelAlone) {
  const Graph g = graph(
      "model: d\nconvnet:\n  image: 32\n  classes: 10\n  stem: { pool: 0 }\n"
      "  stages: [ { blocks: 1, channels: 64, inner: 96, groups: 96 } ]\n");
  const Operator& op = g.blocks[1].find(OpRole::conv2);
  EXPECT_EQ(op.forward_flop().value(), 2.0 * 16 * 16 * 9 * 96);
  EXPECT_EQ(op.parameters, 9 * 96);
}

TEST(Convnet, Passes) {
  const Graph g = resnet50();
  const Operator& norm = g.blocks[1].find(OpRole::norm1);
  EXPECT_EQ(norm.forward_passes, 3);
  EXPECT_EQ(norm.backward_passes, 4);
  const Operator& largest = g.blocks[0].find(OpRole::stem_pool);
  // Nine comparisons; four pixels of the image for each of the result, and one addition.
  EXPECT_EQ(largest.forward_passes, 9);
  EXPECT_EQ(largest.backward_passes, 5);
  // The mean reads every pixel once.
  const Operator& mean = g.blocks.back().find(OpRole::global_pool);
  EXPECT_EQ(Operator::vector_elements(mean.extents), 49 * 2048);
  EXPECT_EQ(mean.forward_passes, 1);
}

TEST(Convnet, Refusals) {
  const auto with = [](const std::string& line) {
    return "model: m\nconvnet:\n  classes: 10\n  " + line + "\n";
  };
  EXPECT_THAT(error_of(with("stages: []")),
              AllOf(HasSubstr("m.yaml:4: convnet.stages"), HasSubstr("at least one")));
  EXPECT_THAT(error_of(with("stages: [ { blocks: 1, channels: 64, inner: 32, groups: 5 } ]")),
              AllOf(HasSubstr("convnet.stages[0].groups"),
                    HasSubstr("5 groups do not divide the 32 inner channels")));
  EXPECT_THAT(error_of(with("stages: [ { blocks: 1, channels: 64, iner: 32 } ]")),
              HasSubstr("iner"));
  EXPECT_THAT(error_of(with("image: [224, 224, 3]\n  stages: [ { blocks: 1, channels: 64 } ]")),
              HasSubstr("height and width"));
  EXPECT_THAT(error_of(with("image: 5000\n  stages: [ { blocks: 1, channels: 64 } ]")),
              HasSubstr("4096"));
  EXPECT_THAT(error_of(with("kernel: 4\n  stages: [ { blocks: 1, channels: 64 } ]")),
              AllOf(HasSubstr("m.yaml:4: convnet.kernel"), HasSubstr("an odd one")));
  EXPECT_THAT(error_of(with("image: [8, 1]\n  stem: { kernel: 2 }\n"
                            "  stages: [ { blocks: 1, channels: 64 } ]")),
              AllOf(HasSubstr("convnet.image"), HasSubstr("a side of 1 is less")));
  EXPECT_THAT(error_of(resnet("basic", kNarrow, "[2, 2, 2]")),
              AllOf(HasSubstr("depths"), HasSubstr("3 stages, but hidden_sizes has 4")));
  EXPECT_THAT(error_of(resnet("basic", kNarrow, "[2, 0, 2, 2]")), HasSubstr("depths"));
  EXPECT_THAT(error_of(R"({"architectures": ["VGGForImageClassification"]})"),
              AllOf(HasSubstr("not supported"), HasSubstr("ResNetForImageClassification")));
  EXPECT_THAT(error_of("model: m\n"), HasSubstr("'convnet'"));
  ConvnetConfig config;
  config.name = "c";
  EXPECT_THROW(build_graph(config), InputError);
}

}  // namespace
}  // namespace tilewright
