#include <cmath>
#include <limits>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include <tilewright/plan/convolution_blocking.h>

namespace tilewright {
namespace {

constexpr double kFree = std::numeric_limits<double>::infinity();
/// DRAM is all that costs: 1 byte per second, engines and SRAM for free.
const StreamRates kDramBound{1, kFree, 0, {}, true};

constexpr ConvolutionPass kPasses[] = {ConvolutionPass::forward, ConvolutionPass::input_gradient,
                                       ConvolutionPass::weight_gradient};

Window::Side side(std::int64_t in, std::int64_t kernel, std::int64_t stride) {
  const std::int64_t padding = (kernel - 1) / 2;
  return {in, (in + 2 * padding - kernel) / stride + 1, kernel, stride, padding};
}

Convolution convolution(ConvolutionPass pass, std::int64_t samples, std::int64_t image,
                        std::int64_t in, std::int64_t out, std::int64_t kernel, std::int64_t stride,
                        std::int64_t groups = 1) {
  return {pass, {side(image, kernel, stride), side(image, kernel, stride)}, samples, groups, in,
          out};
}

ConvolutionBlocking blocked(const Convolution& c, std::int64_t sram) {
  return block_convolution(c, {}, sram, 0, kDramBound);
}

std::int64_t compulsory(const Convolution& c) {
  return 2 * (c.a_elements() + c.b_elements() + c.c_elements());
}

/// Pixels of A along a side that pixel `p` of the result (of dY, for the weight gradient) needs.
std::set<std::int64_t> needed(const Window::Side& s, ConvolutionPass pass, std::int64_t begin,
                              std::int64_t end) {
  std::set<std::int64_t> result;
  const bool turned = pass == ConvolutionPass::input_gradient;
  for (std::int64_t o = 0; o < s.out; ++o) {
    for (std::int64_t tap = 0; tap < s.kernel; ++tap) {
      const std::int64_t i = o * s.stride + tap - s.padding;
      if (i < 0 || i >= s.in) continue;
      const std::int64_t own = turned ? i : o;
      if (own >= begin && own < end) result.insert(turned ? o : i);
    }
  }
  return result;
}

TEST(ConvolutionBlocking, PixelsReadAreThoseOfTheWindows) {
  for (const ConvolutionPass pass : kPasses) {
    for (const std::int64_t in : {1, 5, 8, 13}) {
      for (const std::int64_t kernel : {1, 2, 3, 5}) {
        for (const std::int64_t stride : {1, 2, 3}) {
          if (in + 2 * ((kernel - 1) / 2) < kernel) continue;
          const Window::Side s = side(in, kernel, stride);
          const std::int64_t extent = pass == ConvolutionPass::input_gradient ? s.in : s.out;
          for (std::int64_t block = 1; block <= extent; ++block) {
            std::size_t sum = 0;
            for (std::int64_t at = 0; at < extent; at += block) {
              sum += needed(s, pass, at, std::min(extent, at + block)).size();
            }
            EXPECT_EQ(pixels_read(s, pass, block), static_cast<std::int64_t>(sum))
                << in << " kernel " << kernel << " stride " << stride << " block " << block;
          }
        }
      }
    }
  }
}

TEST(ConvolutionBlocking, EveryPassHasTheSameProducts) {
  for (const ConvolutionPass pass : kPasses) {
    const Convolution c = convolution(pass, 4, 56, 64, 128, 3, 2, 2);
    // 4 samples, 28 x 28 pixels, two groups of 64 to 128 channels, nine taps.
    EXPECT_EQ(c.gemm().flop(), 2.0 * 4 * 28 * 28 * 2 * 64 * 128 * 9);
  }
  const Convolution c = convolution(ConvolutionPass::forward, 4, 56, 64, 128, 3, 2, 2);
  EXPECT_EQ(c.a_elements(), 4 * 56 * 56 * 2 * 64);
  EXPECT_EQ(c.b_elements(), 2 * 64 * 128 * 9);
  EXPECT_EQ(c.c_elements(), 4 * 28 * 28 * 2 * 128);
  // A stride beyond the kernel reads every second row and column alone.
  EXPECT_EQ(convolution(ConvolutionPass::forward, 1, 56, 64, 128, 1, 2).a_elements(), 28 * 28 * 64);
}

TEST(ConvolutionBlocking, ReachesCompulsoryTrafficWhenOperandsFit) {
  std::mt19937 random(11);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
  };
  for (int i = 0; i < 300; ++i) {
    const std::int64_t kernel = draw(1, 7), groups = draw(0, 2) == 0 ? draw(2, 40) : 1;
    const Convolution c = convolution(kPasses[i % 3], draw(1, 8), draw(7, 60), draw(1, 80),
                                      draw(1, 80), kernel, draw(1, 3), groups);
    // Double buffers of everything, of all groups.
    const std::int64_t fit = 4 * (c.a_elements() + c.b_elements()) + 6 * c.c_elements();
    const ConvolutionBlocking b = blocked(c, 4 * fit);
    ASSERT_TRUE(b.blocks.feasible);
    EXPECT_EQ(b.blocks.dram_bytes(), compulsory(c)) << i;
  }
}

TEST(ConvolutionBlocking, WeightsThatFitLetTheImagePassOnce) {
  // 3 x 3 of 64 channels: 72 KiB of weights, and of 56 x 56 pixels five rows in and one out.
  const Convolution c = convolution(ConvolutionPass::forward, 16, 56, 64, 64, 3, 1);
  EXPECT_EQ(blocked(c, 256 << 10).blocks.dram_bytes(), compulsory(c));
  EXPECT_GT(blocked(c, 64 << 10).blocks.dram_bytes(), compulsory(c));
}

TEST(ConvolutionBlocking, DepthwiseGroupsGoInBundlesOfABurst) {
  const Convolution c = convolution(ConvolutionPass::forward, 1, 28, 1, 1, 3, 1, 144);
  // 32 channels of a pixel's sum, of three pixels of four rows of the image, and of one tap
  // of the weights twice. One group alone would need a 32nd of it.
  EXPECT_FALSE(blocked(c, 32 * (4 * 3 * 2 + 2 * 2 + 4) - 1).blocks.feasible);
  EXPECT_TRUE(blocked(c, 32 * (4 * 3 * 2 + 2 * 2 + 4)).blocks.feasible);
  EXPECT_EQ(blocked(c, 1 << 20).blocks.dram_bytes(), compulsory(c));
}

/// The least traffic over every block size; -1 when nothing fits. One group.
std::int64_t brute_force(const Convolution& c, std::int64_t sram) {
  const bool turned = c.pass == ConvolutionPass::input_gradient;
  const bool sums_pixels = c.pass == ConvolutionPass::weight_gradient;
  const Window::Side& s = c.window.height;
  const std::int64_t pixels = turned ? s.in : s.out;
  const std::int64_t a_channels = turned ? c.out_channels : c.in_channels;
  const std::int64_t n_channels = turned ? c.in_channels : c.out_channels;
  const std::int64_t taps = c.window.taps();
  const auto div = [](std::int64_t a, std::int64_t b) { return (a + b - 1) / b; };
  // By block: the most pixels that one reads, that are new to it, and that all read together.
  std::vector<std::int64_t> most(1), fresh(1), sum(1);
  for (std::int64_t block = 1; block <= pixels; ++block) {
    std::int64_t reach = 0, next = 0, all = 0;
    for (std::int64_t at = 0; at < pixels; ++at) {
      const auto own = needed(s, c.pass, at, std::min(pixels, at + block));
      reach = std::max(reach, static_cast<std::int64_t>(own.size()));
      std::int64_t n = 0;
      const auto before = needed(s, c.pass, std::max<std::int64_t>(0, at - block), at);
      for (const std::int64_t p : own) n += before.count(p) == 0 ? 1 : 0;
      if (at > 0) next = std::max(next, n);
      if (at % block == 0) all += static_cast<std::int64_t>(own.size());
    }
    most.push_back(reach);
    fresh.push_back(next);
    sum.push_back(all);
  }
  std::int64_t best = -1;
  for (std::int64_t samples = 1; samples <= c.samples; ++samples) {
    for (std::int64_t rows = 1; rows <= pixels; ++rows) {
      for (std::int64_t columns = 1; columns <= pixels; ++columns) {
        const bool whole = samples == c.samples && rows == pixels && columns == pixels;
        const std::int64_t pixel_blocks =
            div(c.samples, samples) * div(pixels, rows) * div(pixels, columns);
        for (std::int64_t a = 1; a <= a_channels; ++a) {
          if (!sums_pixels && a != std::min<std::int64_t>(32, a_channels) && a != a_channels) {
            continue;
          }
          for (std::int64_t n = 1; n <= n_channels; ++n) {
            const std::int64_t nc = div(n_channels, n);
            const std::int64_t mc = sums_pixels ? div(a_channels, a) : pixel_blocks;
            const std::int64_t kc = sums_pixels ? pixel_blocks : div(a_channels, a);
            const bool slides = sums_pixels || kc == 1;
            // What is held of either operand: a block of it, or what passes at a time.
            const auto image_rows = [&](std::int64_t held) { return held * most[columns] * a * 2; };
            std::int64_t held = most[rows];
            if (!whole || a < a_channels) {
              held += slides && rows < pixels ? std::min(held, fresh[rows]) : held;
            }
            const std::int64_t image_block = samples * image_rows(held);
            const std::int64_t image_row =
                image_rows(most[1] + (pixels > 1 ? std::min(most[1], fresh[1]) : most[1]));
            const bool b_whole = n == n_channels && (sums_pixels ? whole : kc == 1);
            const std::int64_t block_pixels = samples * rows * columns;
            const std::int64_t other_block =
                (b_whole ? 1 : 2) * (sums_pixels ? block_pixels : taps * a) * n * 2;
            const std::int64_t other_row =
                2 * (sums_pixels ? columns : std::min<std::int64_t>(a, 32)) * n * 2;
            const std::int64_t free = sram - (sums_pixels ? taps * a : block_pixels) * n * 4;

            const std::int64_t image =
                2 * c.samples * a_channels * sum[slides ? pixels : rows] * sum[columns];
            const std::int64_t other = 2 * c.b_elements();
            std::int64_t traffic = std::numeric_limits<std::int64_t>::max();
            const auto consider = [&](std::int64_t need, std::int64_t bytes) {
              if (need <= free) traffic = std::min(traffic, bytes);
            };
            const std::int64_t streaming =
                sums_pixels ? image_block + other_block
                            : std::min(image_block + other_row, image_row + other_block);
            consider(streaming, image * nc + other * mc);
            if (kc == 1) {
              consider(image_block + other_row, image + other * mc);
              consider((sums_pixels ? image_row : image_block) + other_block, image * nc + other);
              if (mc == 1) consider(image_block + other_block, image + other);
            }
            if (traffic == std::numeric_limits<std::int64_t>::max()) continue;
            if (best < 0 || traffic < best) best = traffic;
          }
        }
      }
    }
  }
  return best < 0 ? best : best + 2 * c.c_elements();
}

TEST(ConvolutionBlocking, StaysWithinATenthOfBruteForceOnSmallShapes) {
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random() % static_cast<unsigned>(most - least + 1));
  };
  int equal = 0, feasible = 0;
  double worst = 1;
  for (int i = 0; i < 240; ++i) {
    const std::int64_t kernel = 1 + 2 * draw(0, 2);
    const Convolution c = convolution(kPasses[i % 3], draw(1, 2), draw(5, 14), draw(2, 48),
                                      draw(2, 24), kernel, draw(1, 2));
    const std::int64_t sram = 1 << draw(11, 16);
    const std::int64_t best = brute_force(c, sram);
    const ConvolutionBlocking b = blocked(c, sram);
    ASSERT_EQ(b.blocks.feasible, best >= 0) << i;
    if (best < 0) continue;
    EXPECT_GE(b.blocks.dram_bytes(), compulsory(c)) << i;
    EXPECT_GE(b.blocks.dram_bytes(), best) << i;
    EXPECT_LE(static_cast<double>(b.blocks.dram_bytes()), 1.1 * static_cast<double>(best))
        << i << ": " << c.samples << " of " << c.window.height.in << "^2, " << c.in_channels
        << " to " << c.out_channels << ", kernel " << kernel << " stride " << c.window.height.stride
        << " in " << sram;
    worst = std::max(worst, static_cast<double>(b.blocks.dram_bytes()) / static_cast<double>(best));
    equal += b.blocks.dram_bytes() == best ? 1 : 0;
    ++feasible;
  }
  EXPECT_GE(feasible, 150);
  RecordProperty("worst_percent", static_cast<int>(std::lround(100 * worst)));
  RecordProperty("equal_percent", 100 * equal / feasible);
}

/// Bytes of the image and the weights that no order of the products gets below, to the leading
/// order (Chen, Han, Wang, Fan, Wang, ISCA 2020): with every pixel in R = kernel²/stride² windows,
/// an element of the result takes from S elements of SRAM at least 2·MACs/√(R·S) elements. An
/// element of the result takes the 4 bytes of its sum here, the others
/// 2, and all of the result is written.
double io_bound(const Convolution& c, double sram) {
  const double reuse = static_cast<double>(c.window.taps()) /
                       static_cast<double>(c.window.height.stride * c.window.width.stride);
  return 2 * 2 * (c.gemm().flop() / 2) / std::sqrt(reuse * sram / 4) +
         2 * static_cast<double>(c.c_elements());
}

TEST(ConvolutionBlocking, ApproachesTheIoLowerBound) {
  std::mt19937 random(5);
  double worst = 1, worst_large = 1;
  for (int i = 0; i < 300; ++i) {
    const double sram = (1 << 20) * std::pow(32.0, random() / 4294967296.0);
    // Channels and pixels by far beyond a block, so that the reuse within a block is what counts.
    const double block = std::sqrt(sram / 4);
    const auto large = [&](double least, double most) {
      return static_cast<std::int64_t>(block * (least + (most - least) * random() / 4294967296.0));
    };
    const std::int64_t stride = 1 + random() % 2;
    const Convolution c =
        convolution(ConvolutionPass::forward, 8, static_cast<std::int64_t>(512 + random() % 512),
                    large(4, 8), large(4, 8), 3, stride);
    const double ratio =
        static_cast<double>(blocked(c, static_cast<std::int64_t>(sram)).blocks.dram_bytes()) /
        io_bound(c, sram);
    EXPECT_GE(ratio, 1);
    // Buffers of a burst's channels, and what windows reach beyond a block's edge, weigh less the
    // larger the block.
    EXPECT_LE(ratio, sram > 8 << 20 ? 1.1 : 1.26) << i;
    worst = std::max(worst, ratio);
    if (sram > 8 << 20) worst_large = std::max(worst_large, ratio);
  }
  RecordProperty("worst_percent", static_cast<int>(std::lround(100 * worst)));
  RecordProperty("worst_above_8_MiB_percent", static_cast<int>(std::lround(100 * worst_large)));
}

double seconds(const Convolution& c, const GemmOperands& o, std::int64_t sram, double engine,
               const StreamRates& rates) {
  const Blocking b = block_convolution(c, o, sram, engine, rates).blocks;
  GemmOperands least = o;
  least.a_total = c.a_elements() * o.a_bytes;
  least.b_total = c.b_elements() * o.b_bytes;
  least.c_total = c.c_elements() * o.c_bytes;
  const std::int64_t operands = b.a_traffic + b.b_traffic, load = operands + b.c_read;
  const SramBytes beside = rates.sram.contention ? transfers(load, b.c_write) : SramBytes{};
  Stream stream{engine, load, b.c_write, b.sram + beside, pipelining(c.gemm(), least)};
  if (b.in_place) {
    stream.load = operands;
    stream.store = 0;
    stream.alone = b.c_read + b.c_write;
  }
  return streamed_seconds(stream, rates);
}

TEST(ConvolutionBlocking, MoreOfAnythingIsNeverSlower) {
  std::mt19937 random(3);
  const auto scale = [&](double low, double high) {
    return low * std::pow(high / low, random() / 4294967296.0);
  };
  const auto whole = [&](double low, double high) {
    return static_cast<std::int64_t>(scale(low, high));
  };
  for (int i = 0; i < 1000; ++i) {
    const Convolution c = convolution(kPasses[random() % 3], whole(1, 64), whole(7, 230),
                                      whole(1, 1000), whole(1, 1000), 1 + 2 * (random() % 3),
                                      1 + random() % 2, random() % 4 == 0 ? whole(2, 100) : 1);
    GemmOperands o;
    o.a_resident = random() % 4 == 0;
    o.b_resident = random() % 4 == 0;
    o.c_resident = random() % 4 == 0;
    o.accumulate = random() % 4 == 0;
    o.c_bytes = random() % 2 == 0 ? 2 : 4;
    const std::int64_t sram = whole(1e4, 3e7);
    const double engine = c.gemm().flop() / scale(1e11, 1e14);
    StreamRates rates{scale(1e9, 1e12), scale(1e9, 1e12), scale(1e-8, 1e-5), {}, true};
    rates.sram.read = Bandwidth(scale(1e10, 1e13));
    rates.sram.write = Bandwidth(scale(1e10, 1e13));
    rates.sram.contention = random() % 4 == 0;
    if (!block_convolution(c, o, sram, engine, rates).blocks.feasible) continue;
    const double before = seconds(c, o, sram, engine, rates), more = scale(1.001, 4);
    EXPECT_LE(
        seconds(c, o, static_cast<std::int64_t>(static_cast<double>(sram) * more), engine, rates),
        before)
        << i;
    EXPECT_LE(seconds(c, o, sram, engine / more, rates), before) << i;
    for (double StreamRates::*rate : {&StreamRates::dram, &StreamRates::way}) {
      StreamRates better = rates;
      better.*rate *= more;
      EXPECT_LE(seconds(c, o, sram, engine, better), before) << i;
    }
    for (Bandwidth SramConfig::*rate : {&SramConfig::read, &SramConfig::write}) {
      StreamRates better = rates;
      better.sram.*rate = better.sram.*rate * more;
      EXPECT_LE(seconds(c, o, sram, engine, better), before) << i;
    }
  }
}

}  // namespace
}  // namespace tilewright
