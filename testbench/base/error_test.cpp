#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/base/error.h>

namespace tilewright {
namespace {

TEST(ExitCode, TellsUserErrorsFromFaultsOfOurs) {
  EXPECT_EQ(exit_code(InputError("x")), 2);
  EXPECT_EQ(exit_code(InternalError("x")), 3);
  EXPECT_EQ(exit_code(DeadlockError("x")), 4);
  EXPECT_EQ(exit_code(std::runtime_error("x")), 3);
  EXPECT_EQ(exit_code(std::bad_alloc()), 3);
}

TEST(NearestName, FindsMisspellings) {
  const std::vector<std::string> names{"bandwidth", "latency", "capacity"};
  EXPECT_EQ(nearest_name("bandwith", names), "bandwidth");   // one letter missing
  EXPECT_EQ(nearest_name("bandwidht", names), "bandwidth");  // two neighbours swapped
  EXPECT_EQ(nearest_name("latencyy", names), "latency");     // one too many
  EXPECT_EQ(nearest_name("kapazity", names), "capacity");    // two replaced
  EXPECT_EQ(nearest_name("bandwidth", names), "bandwidth");  // the name itself
  EXPECT_EQ(nearest_name("Band-Width", {"band_width"}), "band_width");
  EXPECT_EQ(nearest_name("MESH", {"ring", "mesh"}), "mesh");
}

TEST(NearestName, StaysSilentWhenNothingIsNear) {
  EXPECT_EQ(nearest_name("frequency", {"bandwidth", "latency"}), "");
  EXPECT_EQ(nearest_name("abcdef", {"abcxyz"}), "");  // 3 of 6, and the limit is 2
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_EQ(nearest_name("", {"a"}), "");
  EXPECT_EQ(nearest_name("ab", {"xy"}), "");  // nothing in common
}

TEST(NearestName, PrefersTheSmallestDistanceThenTheFirst) {
  EXPECT_EQ(nearest_name("tp", {"dp", "tpp", "tp"}), "tp");
  EXPECT_EQ(nearest_name("cp", {"dp", "tp"}), "dp");
  EXPECT_EQ(nearest_name("A", {"a", "A"}), "A");
}

TEST(NearestName, LimitGrowsWithTheWord) {
  // Twelve letters, four wrong: 4 <= 12 / 3.
  EXPECT_EQ(nearest_name("abcdefghXXXX", {"abcdefghijkl"}), "abcdefghijkl");
  EXPECT_EQ(nearest_name("abcdefgXXXXX", {"abcdefghijkl"}), "");
}

TEST(NearestName, SurvivesAVeryLongWord) {
  EXPECT_EQ(nearest_name(std::string(1000000, 'a'), {std::string(1000001, 'a')}), "");
}

}  // namespace
}  // namespace tilewright
