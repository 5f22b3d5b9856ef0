// Cutting a chain into stages.
#include <algorithm>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/stages.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// embedding, `layers` layers, head.
struct Chain {
  std::vector<double> cost;
  std::vector<bool> is_layer;
};

Chain chain(int layers, double layer, double embedding, double head) {
  Chain c;
  c.cost.assign(static_cast<std::size_t>(layers) + 2, layer);
  c.cost.front() = embedding;
  c.cost.back() = head;
  c.is_layer.assign(c.cost.size(), true);
  c.is_layer.front() = c.is_layer.back() = false;
  return c;
}

std::vector<int> layers_of(const std::vector<StageRange>& ranges,
                           const std::vector<bool>& is_layer) {
  std::vector<int> n;
  for (const StageRange& r : ranges) {
    n.push_back(
        static_cast<int>(std::count(is_layer.begin() + static_cast<std::ptrdiff_t>(r.first),
                                    is_layer.begin() + static_cast<std::ptrdiff_t>(r.last), true)));
  }
  return n;
}

void expect_covers(const std::vector<StageRange>& ranges, std::size_t blocks) {
  std::size_t at = 0;
  for (const StageRange& r : ranges) {
    EXPECT_EQ(r.first, at);
    EXPECT_LT(r.first, r.last);
    at = r.last;
  }
  EXPECT_EQ(at, blocks);
}

TEST(Stages, EqualLayersLeaveTheRemainderToTheLaterStages) {
  for (const double layer : {1.0, 0.1, 1.0 / 3}) {  // sums of 0.1 differ in the last digit
    const auto cut = [&](int layers, int stages) {
      const Chain c = chain(layers, layer, 0, 0);
      const auto ranges = balance_stages(c.cost, c.is_layer, stages);
      expect_covers(ranges, c.cost.size());
      return layers_of(ranges, c.is_layer);
    };
    EXPECT_THAT(cut(32, 5), ElementsAre(6, 6, 6, 7, 7));
    EXPECT_THAT(cut(36, 8), ElementsAre(4, 4, 4, 4, 5, 5, 5, 5));
    EXPECT_THAT(cut(32, 8), ElementsAre(4, 4, 4, 4, 4, 4, 4, 4));
    EXPECT_EQ(cut(32, 20),
              (std::vector<int>{1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2}));
    EXPECT_EQ(cut(7, 7), std::vector<int>(7, 1));
    EXPECT_EQ(cut(7, 1), std::vector<int>{7});
    for (const int p : {2, 4, 8, 9, 18}) {
      const auto n = cut(36, p);
      EXPECT_LE(*std::max_element(n.begin(), n.end()) - *std::min_element(n.begin(), n.end()), 1);
    }
  }
}

TEST(Stages, AHeavyHeadOrEmbeddingGetsFewerLayers) {
  const Chain head = chain(10, 1, 0, 4);
  EXPECT_THAT(layers_of(balance_stages(head.cost, head.is_layer, 2), head.is_layer),
              ElementsAre(7, 3));
  const Chain embedding = chain(10, 1, 4, 0);
  EXPECT_THAT(layers_of(balance_stages(embedding.cost, embedding.is_layer, 2), embedding.is_layer),
              ElementsAre(3, 7));
  // A head heavier than all else still shares its stage with one layer.
  const Chain huge = chain(4, 1, 0, 100);
  EXPECT_THAT(layers_of(balance_stages(huge.cost, huge.is_layer, 2), huge.is_layer),
              ElementsAre(3, 1));
  EXPECT_THAT(layers_of(balance_stages(huge.cost, huge.is_layer, 3), huge.is_layer),
              ElementsAre(1, 2, 1));
}

TEST(Stages, MoreStagesThanLayersAreRefused) {
  const Chain c = chain(3, 1, 1, 1);
  try {
    balance_stages(c.cost, c.is_layer, 4);
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("4 pipeline stages"), HasSubstr("allowed: 1 to 3")));
  }
  EXPECT_THROW(balance_stages(c.cost, c.is_layer, 0), InputError);
}

/// All cuts of the blocks from `at` on into `stages`, the best by (largest, sum of squares).
void brute(const Chain& c, std::size_t at, int stages, double largest, double squares,
           std::pair<double, double>& best) {
  const std::size_t n = c.cost.size();
  if (stages == 0) {
    if (at == n) best = std::min(best, {largest, squares});
    return;
  }
  double sum = 0;
  bool layer = false;
  for (std::size_t b = at; b < n; ++b) {
    sum += c.cost[b];
    layer = layer || c.is_layer[b];
    if (layer) brute(c, b + 1, stages - 1, std::max(largest, sum), squares + sum * sum, best);
  }
}

TEST(Stages, MatchesBruteForceOnRandomChains) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const int layers = 1 + static_cast<int>(random() % 9);
    Chain c = chain(layers, 0, 0, 0);
    for (double& cost : c.cost) cost = static_cast<double>(random() % 20);  // whole: sums are exact
    if (random() % 4 == 0)
      c.is_layer[c.is_layer.size() / 2] = layers == 1;  // a block between layers
    const auto n = static_cast<int>(std::count(c.is_layer.begin(), c.is_layer.end(), true));
    const int stages = 1 + static_cast<int>(random() % static_cast<unsigned>(n));
    const auto ranges = balance_stages(c.cost, c.is_layer, stages);
    expect_covers(ranges, c.cost.size());
    EXPECT_EQ(ranges.size(), static_cast<std::size_t>(stages));
    std::pair<double, double> got{0, 0};
    for (const StageRange& r : ranges) {
      double sum = 0;
      for (std::size_t b = r.first; b < r.last; ++b) sum += c.cost[b];
      got.first = std::max(got.first, sum);
      got.second += sum * sum;
    }
    for (const int held : layers_of(ranges, c.is_layer)) EXPECT_GE(held, 1);
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::pair<double, double> best{kNever, kNever};
    brute(c, 0, stages, 0, 0, best);
    EXPECT_EQ(got, best) << "round " << round;
  }
}

TEST(Stages, ExplicitCountsAreHonoured) {
  const Chain c = chain(32, 1, 1, 1);
  const auto ranges = explicit_stages(c.is_layer, {10, 22});
  expect_covers(ranges, 34);
  EXPECT_EQ(ranges[0].last, 11u);  // the embedding and ten layers
  EXPECT_THAT(layers_of(ranges, c.is_layer), ElementsAre(10, 22));
  for (const auto& wrong : {std::vector<std::int64_t>{10, 21}, {33}, {32, 0}, {40, -8}}) {
    EXPECT_THROW(explicit_stages(c.is_layer, wrong), InputError);
  }
}

}  // namespace
}  // namespace tilewright
