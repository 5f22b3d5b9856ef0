#include "convnet_shape.h"

#include <algorithm>

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "decoder_shape.h"

namespace tilewright {

namespace {

// Rows of windows × what is reduced: the largest matrix that a convolution stands for.
constexpr double kMostWindowElements = 1099511627776.0;  // 2^40
constexpr double kMostParameters = 9007199254740992.0;   // 2^53, the most that doubles count

std::optional<std::string> outside(std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return std::nullopt;
  return fmt::format("must lie in {} to {}, found {}", least, most, value);
}

std::optional<ConvnetFault> find_fault(const ConvnetConfig& c, std::int64_t number) {
  const ConvStage& s = c.stages[static_cast<std::size_t>(number)];
  const bool bottleneck = c.block == ConvBlock::bottleneck;
  if (const auto m = outside(s.blocks, 1, kMostLayers)) return ConvnetFault{"blocks", number, *m};
  if (const auto m = outside(s.channels, 1, kMostChannels)) {
    return ConvnetFault{"channels", number, *m};
  }
  if (const auto m = outside(s.stride, 1, kLargestKernel))
    return ConvnetFault{"stride", number, *m};
  if (!bottleneck) {
    if (s.groups == 1) return std::nullopt;
    return ConvnetFault{
        "groups", number,
        fmt::format("{} groups in a basic block; wanted: 1, or bottlenecks", s.groups)};
  }
  if (const auto m = outside(s.inner, 1, kMostChannels)) return ConvnetFault{"inner", number, *m};
  if (s.groups < 1 || s.inner % s.groups != 0) {
    return ConvnetFault{
        "groups", number,
        fmt::format("{} groups do not divide the {} inner channels", s.groups, s.inner)};
  }
  return std::nullopt;
}

/// Upper bounds of what the convolutions of the network count.
std::optional<ConvnetFault> find_excess(const ConvnetConfig& c) {
  double parameters = 0;
  auto height = static_cast<double>(c.height), width = static_cast<double>(c.width);
  std::int64_t channels = c.channels;
  const auto number = [](std::int64_t n) { return static_cast<double>(n); };
  const auto taps = [&](std::int64_t kernel) { return number(kernel * kernel); };
  const auto add = [&](std::int64_t kernel, std::int64_t in, std::int64_t out) {
    parameters += taps(kernel) * number(in) * number(out);
    return height * width * taps(kernel) * number(in);
  };
  double largest = add(c.stem.kernel, channels, c.stem.channels);
  channels = c.stem.channels;
  for (const ConvStage& s : c.stages) {
    const bool bottleneck = c.block == ConvBlock::bottleneck;
    const std::int64_t inner = bottleneck ? s.inner : s.channels;
    for (std::int64_t b = 0; b < s.blocks; ++b) {
      largest = std::max({largest, add(c.kernel, std::max(inner, channels), inner),
                          add(1, std::max(inner, channels), s.channels)});
      channels = s.channels;
    }
  }
  if (largest > kMostWindowElements) {
    return ConvnetFault{"image", -1,
                        fmt::format("the windows of a convolution have about {:.3g} elements, more "
                                    "than the 2^40 that are counted",
                                    largest)};
  }
  if (parameters > kMostParameters) {
    return ConvnetFault{"stages", -1,
                        fmt::format("the shape has about {:.3g} parameters, more than the 2^53 "
                                    "that can be counted exactly",
                                    parameters)};
  }
  return std::nullopt;
}

}  // namespace

Window::Side window_side(std::int64_t in, std::int64_t kernel, std::int64_t stride) {
  Window::Side side;
  side.in = in;
  side.kernel = kernel;
  side.stride = stride;
  side.padding = (kernel - 1) / 2;
  side.out = (in + 2 * side.padding - kernel) / stride + 1;
  return side;
}

std::optional<ConvnetFault> find_fault(const ConvnetConfig& c) {
  const struct {
    const char* field;
    std::int64_t value, least, most;
  } ranges[] = {
      {"image", c.height, 1, kLargestImage},      {"image", c.width, 1, kLargestImage},
      {"channels", c.channels, 1, kMostChannels}, {"classes", c.classes, 1, kWidest},
      {"kernel", c.kernel, 1, kLargestKernel},    {"stem", c.stem.channels, 1, kMostChannels},
      {"stem", c.stem.kernel, 1, kLargestKernel}, {"stem", c.stem.stride, 1, kLargestKernel},
      {"stem", c.stem.pool, 0, kLargestKernel},   {"stem", c.stem.pool_stride, 1, kLargestKernel},
  };
  for (const auto& r : ranges) {
    if (const auto message = outside(r.value, r.least, r.most)) {
      return ConvnetFault{r.field, -1, *message};
    }
  }
  if (c.kernel % 2 == 0) {
    return ConvnetFault{"kernel", -1,
                        "an even kernel changes the size of the image, which the shortcut keeps; "
                        "wanted: an odd one"};
  }
  // A window must find a pixel: with an odd kernel and its padding one does.
  for (const std::int64_t side : {c.height, c.width}) {
    if (side + 2 * ((c.stem.kernel - 1) / 2) < c.stem.kernel) {
      return ConvnetFault{"image", -1,
                          fmt::format("a side of {} is less than the stem's windows of {} need",
                                      side, c.stem.kernel)};
    }
  }
  if (c.stages.empty()) return ConvnetFault{"stages", -1, "there is none; wanted: at least one"};
  for (std::size_t i = 0; i < c.stages.size(); ++i) {
    if (auto fault = find_fault(c, static_cast<std::int64_t>(i))) return fault;
  }
  return find_excess(c);
}

void check_shape(const ConvnetConfig& config) {
  if (const auto fault = find_fault(config)) {
    const std::string where =
        fault->stage < 0 ? fault->field : fmt::format("stages[{}].{}", fault->stage, fault->field);
    throw InputError(fmt::format("model '{}': {}: {}", config.name, where, fault->message));
  }
}

}  // namespace tilewright
