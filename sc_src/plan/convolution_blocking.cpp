#include <algorithm>
#include <vector>

#include <tilewright/base/integer.h>
#include <tilewright/plan/convolution_blocking.h>

#include "block_grid.h"
#include "block_ranking.h"

namespace tilewright {
namespace {

bool is_gradient_of_input(ConvolutionPass pass) { return pass == ConvolutionPass::input_gradient; }

/// Pixels that are cut into blocks along one side, and those of A that they reach.
std::int64_t cut_pixels(const Window::Side& s, ConvolutionPass pass) {
  return is_gradient_of_input(pass) ? s.in : s.out;
}
std::int64_t image_pixels(const Window::Side& s, ConvolutionPass pass) {
  return is_gradient_of_input(pass) ? s.out : s.in;
}

/// Of A, what pixels [begin, end) read.
std::int64_t reached(const Window::Side& s, ConvolutionPass pass, std::int64_t begin,
                     std::int64_t end) {
  if (is_gradient_of_input(pass)) {
    // Windows o with o·stride − padding ≤ pixel ≤ o·stride − padding + kernel − 1.
    const std::int64_t first = std::max<std::int64_t>(0, begin + s.padding - s.kernel + 1);
    const std::int64_t last = std::min(s.out - 1, (end - 1 + s.padding) / s.stride);
    return std::max<std::int64_t>(0, last - ceil_div(first, s.stride) + 1);
  }
  const auto inside = [&](std::int64_t from, std::int64_t to) {
    return std::max<std::int64_t>(
        0, std::min(to - s.padding, s.in) - std::max<std::int64_t>(0, from - s.padding));
  };
  if (s.kernel >= s.stride) return inside(begin * s.stride, (end - 1) * s.stride + s.kernel);
  std::int64_t sum = 0;
  for (std::int64_t o = begin; o < end; ++o) sum += inside(o * s.stride, o * s.stride + s.kernel);
  return sum;
}

/// Of A, the most that a block of so many pixels reads, wherever it lies.
std::int64_t most_reached(const Window::Side& s, ConvolutionPass pass, std::int64_t block) {
  const std::int64_t reach = is_gradient_of_input(pass) ? (block + s.kernel - 2) / s.stride + 1
                             : s.kernel >= s.stride     ? (block - 1) * s.stride + s.kernel
                                                        : block * s.kernel;
  return std::min(reach, image_pixels(s, pass));
}

/// Of A, what the next block down a strip reads that this one did not.
std::int64_t most_fresh(const Window::Side& s, ConvolutionPass pass, std::int64_t block) {
  const std::int64_t fresh =
      is_gradient_of_input(pass) ? ceil_div(block, s.stride) : block * s.stride;
  return std::min(fresh, most_reached(s, pass, block));
}

/// What is held of the operands at a time.
struct Blocks {
  PixelBlock pixels;
  std::int64_t a = 1;     // channels of A: summed, or the result's in a weight gradient
  std::int64_t n = 1;     // channels of the result that B gives
  bool in_place = false;  // results in the place of their sums
};

/// With the bytes that move however it is blocked, where the kernel does not say.
GemmOperands moved_at_least(const Convolution& c, GemmOperands o) {
  if (!o.a_total) o.a_total = c.a_elements() * o.a_bytes;
  if (!o.b_total) o.b_total = c.b_elements() * o.b_bytes;
  if (!o.c_total) o.c_total = c.c_elements() * o.c_bytes;
  return o;
}

/// Evaluates one choice of blocks and keeps it when it is better.
class Search {
 public:
  Search(const Convolution& c, const GemmOperands& o, std::int64_t sram, double engine_seconds,
         const StreamRates& rates)
      : c_(c),
        o_(o),
        gemm_(c.gemm()),
        sram_(sram),
        ranking_(o, pipelining(c.gemm(), moved_at_least(c, o)), engine_seconds, rates),
        rows_(cut_pixels(c.window.height, c.pass)),
        columns_(cut_pixels(c.window.width, c.pass)),
        a_(is_gradient_of_input(c.pass) ? c.out_channels : c.in_channels),
        n_(is_gradient_of_input(c.pass) ? c.in_channels : c.out_channels) {
    // Channels of several groups lie side by side.
    const std::int64_t burst = smallest_depth(std::max(o.a_bytes, o.b_bytes));
    shallow_ = std::min(a_, burst);
    bundle_ = std::min(c.groups, ceil_div(burst, std::min(a_, n_)));
    const GemmOperands least = moved_at_least(c, o);
    b_total_ = o.b_resident ? 0 : *least.b_total;
    c_total_ = o.c_resident ? 0 : *least.c_total;
  }

  ConvolutionBlocking run() {
    for (const bool in_place : {false, true}) try_all(in_place);
    return best_;
  }

 private:
  void try_all(bool in_place) {
    const PixelBlock all{c_.samples, rows_, columns_};
    consider(LoopOrder::all_resident, {all, a_, n_, in_place});
    for (const std::int64_t n : block_sizes(n_)) {
      for (const std::int64_t width : strips()) {
        if (sums_pixels()) {
          consider_most_channels(LoopOrder::output_stationary, {{1, 1, width}, 1, n, in_place});
        } else {
          consider_tallest(LoopOrder::output_stationary, {{1, 1, width}, shallow_, n, in_place});
          consider_tallest(LoopOrder::a_panel, {{1, 1, width}, a_, n, in_place});
          consider_tallest(LoopOrder::b_panel, {{1, 1, width}, a_, n, in_place});
        }
      }
      if (!sums_pixels()) continue;
      consider_most_channels(LoopOrder::a_panel, {all, 1, n, in_place});
      consider_most_channels(LoopOrder::b_panel, {all, 1, n, in_place});
    }
  }

  /// A weight gradient, whose summed dimension are the pixels.
  bool sums_pixels() const { return c_.pass == ConvolutionPass::weight_gradient; }

  /// Widths of the strips that columns are cut into: in 1, 2, 3, 4, 6, 8, 12, ... of them.
  std::vector<std::int64_t> strips() const {
    std::vector<std::int64_t> widths;
    for (std::int64_t count = 1; widths.empty() || widths.back() > 1;) {
      const std::int64_t width = ceil_div(columns_, std::min(count, columns_));
      if (widths.empty() || width < widths.back()) widths.push_back(width);
      const bool power = (count & (count - 1)) == 0;
      count = count == 1 ? 2 : power ? count + count / 2 : (count + count / 3);
    }
    return widths;
  }

  /// As many rows, and when those are whole as many samples, as fit.
  void consider_tallest(LoopOrder order, Blocks b) {
    const auto fits = [&](std::int64_t samples, std::int64_t rows) {
      Blocks trial = b;
      trial.pixels.samples = samples;
      trial.pixels.rows = rows;
      return footprint(order, trial) <= sram_;
    };
    b.pixels.rows = largest(rows_, [&](std::int64_t rows) { return fits(1, rows); });
    if (b.pixels.rows == rows_) {
      b.pixels.samples = largest(c_.samples, [&](std::int64_t n) { return fits(n, rows_); });
    }
    if (b.pixels.rows > 0) consider(order, b);
  }

  void consider_most_channels(LoopOrder order, Blocks b) {
    b.a = largest(a_, [&](std::int64_t channels) {
      Blocks trial = b;
      trial.a = channels;
      return footprint(order, trial) <= sram_;
    });
    if (b.a > 0) consider(order, b);
  }

  /// The largest of 1 ... most that fits, by bisection, for what is needed grows with it; or 0.
  template <class Fits>
  static std::int64_t largest(std::int64_t most, Fits fits) {
    if (fits(most)) return most;
    std::int64_t low = 0, high = most;
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (fits(middle) ? low : high) = middle;
    }
    return low;
  }

  void consider(LoopOrder order, Blocks b) {
    // Even blocks: the same count with less SRAM.
    const auto even = [](std::int64_t& block, std::int64_t extent) {
      const std::int64_t count = ceil_div(extent, block);
      block = ceil_div(extent, count);
      return count;
    };
    const std::int64_t pixel_blocks = even(b.pixels.samples, c_.samples) *
                                      even(b.pixels.rows, rows_) * even(b.pixels.columns, columns_);
    const std::int64_t a_blocks = even(b.a, a_), nc = even(b.n, n_);
    const std::int64_t mc = sums_pixels() ? a_blocks : pixel_blocks;
    const std::int64_t kc = sums_pixels() ? pixel_blocks : a_blocks;
    const std::int64_t need = footprint(order, b);
    if (need > sram_ || (b.in_place && o_.c_resident)) return;
    std::int64_t a_times = nc, b_times = mc;
    if (order == LoopOrder::all_resident) a_times = b_times = 1;
    if (order == LoopOrder::a_panel) a_times = 1;
    if (order == LoopOrder::b_panel) b_times = 1;
    // An image block that spans the whole image stays for all weights.
    if (order == LoopOrder::b_panel && !sums_pixels() && mc == 1) a_times = 1;

    Blocking r;
    r.feasible = true;
    r.order = order;
    r.block_m = sums_pixels() ? b.a : b.pixels.samples * b.pixels.rows * b.pixels.columns;
    r.block_n = b.n;
    r.block_k = sums_pixels() ? b.pixels.samples * b.pixels.rows * b.pixels.columns : b.a;
    r.a_buffers = o_.a_resident ? 0 : a_changes(b) ? 2 : 1;
    r.b_buffers = o_.b_resident ? 0 : b_changes(b) ? 2 : 1;
    r.blocks = ceil_div(c_.groups, bundle_) * mc * nc * kc;
    r.a_traffic = o_.a_resident ? 0 : image_read(order, b) * a_times;
    r.b_traffic = b_total_ * b_times;
    if (!o_.c_resident) {
      r.c_read = o_.accumulate ? c_.c_elements() * o_.c_bytes : 0;
      r.c_write = c_total_;
    }
    const std::int64_t window_bytes = gemm_.batch * gemm_.m * gemm_.k * o_.a_bytes;
    r.sram =
        o_.engine_sram.value_or(SramBytes{window_bytes * nc + c_.b_elements() * o_.b_bytes * mc +
                                              (o_.accumulate ? c_.c_elements() * o_.sum_bytes : 0),
                                          c_.c_elements() * o_.c_bytes});
    r.footprint = need;
    r.in_place = b.in_place;
    if (ranking_.improves(r)) best_ = {r, b.pixels};
  }

  /// Whether rows that two blocks share stay in SRAM from one to the next.
  bool slides(LoopOrder order, const Blocks& b) const {
    return sums_pixels() || order == LoopOrder::all_resident || b.a == a_;
  }

  /// Bytes of A that one pass over the image reads.
  std::int64_t image_read(LoopOrder order, const Blocks& b) const {
    const Window::Side &height = c_.window.height, &width = c_.window.width;
    const std::int64_t down =
        pixels_read(height, c_.pass, slides(order, b) ? rows_ : b.pixels.rows);
    return c_.samples * c_.groups * a_ * down * pixels_read(width, c_.pass, b.pixels.columns) *
           o_.a_bytes;
  }

  bool whole_image(const Blocks& b) const {
    return b.pixels.samples == c_.samples && b.pixels.rows == rows_ && b.pixels.columns == columns_;
  }
  // An operand that is there as a whole needs no second buffer.
  bool a_changes(const Blocks& b) const {
    return !whole_image(b) || b.a < a_ || bundle_ < c_.groups;
  }
  bool b_changes(const Blocks& b) const {
    const bool whole = sums_pixels() ? whole_image(b) : b.a == a_;
    return !whole || b.n < n_ || bundle_ < c_.groups;
  }

  /// SRAM bytes of the sums and of what is held of the operands.
  std::int64_t footprint(LoopOrder order, const Blocks& b) const {
    const std::int64_t pixels = b.pixels.samples * b.pixels.rows * b.pixels.columns;
    const std::int64_t results = (sums_pixels() ? c_.window.taps() * b.a : pixels) * b.n;
    return bundle_ * (results * result_bytes(o_, b.in_place) + held(order, b));
  }

  /// Blocks that stay are double-buffered where they change; what streams past them is held no
  /// longer than it takes.
  std::int64_t held(LoopOrder order, const Blocks& b) const {
    switch (order) {
      case LoopOrder::output_stationary:
        if (sums_pixels()) return image_block(order, b) + other_block(b);
        // Either the weights pass tap by tap over an image block, or its rows under the weights.
        return std::min(image_block(order, b) + thin_other(b), thin_image(b) + other_block(b));
      case LoopOrder::a_panel:
        return image_block(order, b) + thin_other(b);
      case LoopOrder::b_panel:
        return (sums_pixels() ? thin_image(b) : image_block(order, b)) + other_block(b);
      default:
        return image_block(order, b) + other_block(b);
    }
  }

  /// A block of A, and what comes for the next one: down a strip no more than is new.
  std::int64_t image_block(LoopOrder order, const Blocks& b) const {
    const std::int64_t reach = most_reached(c_.window.height, c_.pass, b.pixels.rows);
    const bool new_strip = !slides(order, b) || b.pixels.rows == rows_;
    const std::int64_t next = !a_changes(b) ? 0
                              : new_strip   ? reach
                                            : most_fresh(c_.window.height, c_.pass, b.pixels.rows);
    return image_rows(reach + next, b) * b.pixels.samples;
  }

  /// The rows of A that one row of pixels needs, and what comes for the next.
  std::int64_t thin_image(const Blocks& b) const {
    const Window::Side& height = c_.window.height;
    return image_rows(most_reached(height, c_.pass, 1) + most_fresh(height, c_.pass, 1), b);
  }

  std::int64_t image_rows(std::int64_t rows, const Blocks& b) const {
    if (o_.a_resident) return 0;
    return rows * most_reached(c_.window.width, c_.pass, b.pixels.columns) * b.a * o_.a_bytes;
  }

  std::int64_t other_block(const Blocks& b) const {
    if (o_.b_resident) return 0;
    const std::int64_t depth = sums_pixels() ? b.pixels.samples * b.pixels.rows * b.pixels.columns
                                             : c_.window.taps() * b.a;
    return (b_changes(b) ? 2 : 1) * depth * b.n * o_.b_bytes;
  }

  /// The weights of one tap, or a row of pixels, and the next.
  std::int64_t thin_other(const Blocks& b) const {
    if (o_.b_resident) return 0;
    const std::int64_t depth = sums_pixels() ? b.pixels.columns : std::min(b.a, shallow_);
    return 2 * depth * b.n * o_.b_bytes;
  }

  Convolution c_;
  GemmOperands o_;
  Gemm gemm_;
  std::int64_t sram_;
  BlockRanking ranking_;
  std::int64_t rows_, columns_;  // that are cut into blocks
  std::int64_t a_, n_;           // channels of a group: of A, and of the result that B gives
  std::int64_t shallow_ = 1;     // channels of A at least, a burst
  std::int64_t bundle_ = 1;      // groups that go together
  std::int64_t b_total_ = 0, c_total_ = 0;  // bytes that DRAM moves at least
  ConvolutionBlocking best_;
};

}  // namespace

std::int64_t pixels_read(const Window::Side& side, ConvolutionPass pass, std::int64_t block) {
  const std::int64_t extent = cut_pixels(side, pass);
  std::int64_t sum = 0;
  for (std::int64_t at = 0; at < extent; at += block) {
    sum += reached(side, pass, at, std::min(extent, at + block));
  }
  return sum;
}

Gemm Convolution::gemm() const {
  const std::int64_t pixels = samples * window.out_pixels(), taps = window.taps();
  Gemm g;
  g.batch = groups;
  switch (pass) {
    case ConvolutionPass::forward:
      g.m = pixels;
      g.n = out_channels;
      g.k = in_channels * taps;
      break;
    case ConvolutionPass::input_gradient:
      g.m = pixels;
      g.n = in_channels;
      g.k = out_channels * taps;
      break;
    case ConvolutionPass::weight_gradient:
      g.m = in_channels * taps;
      g.n = out_channels;
      g.k = pixels;
      break;
  }
  return g;
}

std::int64_t Convolution::a_elements() const {
  const std::int64_t rows = pixels_read(window.height, pass, cut_pixels(window.height, pass));
  const std::int64_t columns = pixels_read(window.width, pass, cut_pixels(window.width, pass));
  const bool of_result = pass == ConvolutionPass::input_gradient;
  return samples * groups * (of_result ? out_channels : in_channels) * rows * columns;
}

std::int64_t Convolution::b_elements() const {
  if (pass == ConvolutionPass::weight_gradient) {
    return samples * groups * out_channels * window.out_pixels();
  }
  return groups * in_channels * out_channels * window.taps();
}

std::int64_t Convolution::c_elements() const {
  switch (pass) {
    case ConvolutionPass::forward:
      return samples * groups * out_channels * window.out_pixels();
    case ConvolutionPass::input_gradient:
      return samples * groups * in_channels * window.in_pixels();
    case ConvolutionPass::weight_gradient:
      return groups * in_channels * out_channels * window.taps();
  }
  return 0;
}

ConvolutionBlocking block_convolution(const Convolution& convolution, const GemmOperands& operands,
                                      std::int64_t sram_free, double engine_seconds,
                                      const StreamRates& rates) {
  return Search(convolution, operands, sram_free, engine_seconds, rates).run();
}

}  // namespace tilewright
