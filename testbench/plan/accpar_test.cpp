// AccPar's recursion against all assignments tried one by one.
#include "../../sc_src/plan/accpar.h"

#include <random>

#include <gtest/gtest.h>

namespace tilewright {
namespace {

constexpr AccParType kTypes[] = {AccParType::batch, AccParType::input, AccParType::output};

double total(const std::vector<AccParLayer>& chain, const std::vector<AccParType>& types, int ranks,
             bool ring) {
  double sum = 0;
  for (std::size_t l = 0; l < chain.size(); ++l) {
    sum += accpar_within(chain[l], types[l], ranks);
    if (l > 0) sum += accpar_between(chain[l].input, types[l - 1], types[l], ranks);
  }
  if (ring) sum += accpar_between(chain[0].input, types.back(), types[0], ranks);
  return sum;
}

TEST(AccPar, CostsByHand) {
  // 4 ranks: a ring all-reduce moves 2·3/4 of what is summed.
  const AccParLayer layer{1000, 200, 600, true};
  EXPECT_DOUBLE_EQ(accpar_within(layer, AccParType::batch, 4), 1500);
  EXPECT_DOUBLE_EQ(accpar_within(layer, AccParType::input, 4), 900);
  EXPECT_DOUBLE_EQ(accpar_within(layer, AccParType::output, 4), 300);
  // The table of the paper, in units of the activation: I→I, III→II and II→III cost nothing.
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::batch, AccParType::batch, 4), 0);
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::output, AccParType::input, 4), 0);
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::input, AccParType::output, 4), 0);
  // I→II: from samples to features and back, each a quarter less a sixteenth.
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::batch, AccParType::input, 4), 2 * 150);
  // I→III: gathered forward, cut for nothing backward; III→III likewise.
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::batch, AccParType::output, 4), 600);
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::output, AccParType::output, 4), 600);
  // II→I and II→II: cut for nothing forward, gathered backward.
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::input, AccParType::batch, 4), 600);
  EXPECT_DOUBLE_EQ(accpar_between(800, AccParType::input, AccParType::input, 4), 600);
}

TEST(AccPar, TheRecursionFindsTheLeastOfAllAssignments) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<AccParLayer> chain(1 + random() % 5);
    for (AccParLayer& l : chain) {
      l = {static_cast<double>(random() % 1000), static_cast<double>(random() % 1000),
           static_cast<double>(random() % 1000), random() % 4 != 0};
    }
    const int ranks = 2 + static_cast<int>(random() % 7);
    for (const bool ring : {false, true}) {
      double least = 1e300;
      std::vector<AccParType> types(chain.size());
      std::size_t assignments = 1;
      for (std::size_t l = 0; l < chain.size(); ++l) assignments *= 3;
      for (std::size_t a = 0; a < assignments; ++a) {
        std::size_t rest = a;
        for (AccParType& t : types) {
          t = kTypes[rest % 3];
          rest /= 3;
        }
        least = std::min(least, total(chain, types, ranks, ring));
      }
      EXPECT_DOUBLE_EQ(total(chain, accpar_types(chain, ranks, ring), ranks, ring), least);
    }
  }
}

TEST(AccPar, LargeActivationsCutByFeatureInPairsAndSmallOnesByBatch) {
  // A transformer's pairs are Megatron's when weights are cheap to hold apart, and data parallelism
  // when activations are the larger part.
  const std::vector<AccParLayer> wide{{1e9, 100, 400, true}, {1e9, 400, 100, true}};
  EXPECT_EQ(accpar_types(wide, 8, true),
            (std::vector<AccParType>{AccParType::output, AccParType::input}));
  const std::vector<AccParLayer> deep{{10, 1e6, 4e6, true}, {10, 4e6, 1e6, true}};
  EXPECT_EQ(accpar_types(deep, 8, true),
            (std::vector<AccParType>{AccParType::batch, AccParType::batch}));
}

}  // namespace
}  // namespace tilewright
