// Convolutional networks that name the class of an image: residual networks (arXiv 1512.03385) and
// those built alike. Their shape, and the operator graph built from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <tilewright/base/config.h>
#include <tilewright/workload/decoder.h>
#include <tilewright/workload/graph.h>

namespace tilewright {

enum class ConvBlock {
  basic,       ///< two convolutions of kernel × kernel
  bottleneck,  ///< 1 × 1 to fewer channels, kernel × kernel, 1 × 1 to all channels
};

/// The first convolution and the pooling behind it.
struct ConvStem {
  std::int64_t channels = 64, kernel = 7, stride = 2;
  std::int64_t pool = 3, pool_stride = 2;  ///< the largest of pool × pool pixels; 0: none
};

/// Residual blocks on images of one size.
struct ConvStage {
  std::int64_t blocks = 0;
  std::int64_t channels = 0;  ///< of each block's result
  std::int64_t inner = 0;     ///< of the kernel × kernel convolution of a bottleneck
  std::int64_t stride = 1;    ///< of the first block
  std::int64_t groups = 1;    ///< of the kernel × kernel convolution of a bottleneck; `inner` of
                              ///< them: depthwise
};

/// Every convolution is without bias, with a batch norm behind it, and padded by ⌊(kernel − 1)/2⌋
/// on each side. A block whose result differs in shape from its input has a 1 × 1 convolution in
/// its shortcut.
struct ConvnetConfig {
  std::string name;
  std::int64_t height = 224, width = 224, channels = 3;  ///< of an image
  std::int64_t classes = 0;                              ///< of the head
  ConvStem stem;
  ConvBlock block = ConvBlock::bottleneck;
  std::int64_t kernel = 3;
  bool stride_first = false;  ///< a bottleneck's stride is in its first convolution, not the second
  ActivationKind activation = ActivationKind::relu;
  std::vector<ConvStage> stages;
};

/// Throws InputError for a shape that is not a network: no stage, a width of zero, groups that do
/// not divide. Names the field.
void check_shape(const ConvnetConfig& config);

/// Reads our YAML (`model:` + `convnet:`), or a Hugging Face config.json of a
/// ResNetForImageClassification. Throws InputError. docs/workload.md lists the keys.
ConvnetConfig read_convnet(const Document& document);
/// Whether the document is for read_convnet().
bool is_convnet(const Document& document);

/// The operator graph: "stem", the residual blocks, "head". The first block of a stage, where it
/// changes the shape, is "stage1.first", the others "stage1", stored once. Throws InputError where
/// check_shape() does.
Graph build_graph(const ConvnetConfig& config);

}  // namespace tilewright
