#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/fair_share.h>

namespace tilewright {
namespace {

TEST(FairShare, OneFlowIsServedInOrderAtFullRate) {
  FairShare share(0.5);
  share.add(100, 7, 1000, 1);
  share.add(100, 7, 10, 2);
  FairShare::Done done;
  EXPECT_EQ(share.next(), 2100u);
  EXPECT_FALSE(share.pop(2099, done));
  ASSERT_TRUE(share.pop(2100, done));
  EXPECT_EQ(done.token, 1u);
  EXPECT_EQ(done.started, 100u);
  EXPECT_EQ(share.next(), 2120u);
  ASSERT_TRUE(share.pop(2120, done));
  EXPECT_EQ(done.token, 2u);
  EXPECT_EQ(done.started, 2100u);
  EXPECT_EQ(share.next(), ~Picoseconds{0});
  EXPECT_EQ(share.busy(), 2020u);
}

// Three flows of 300 bytes; the third joins when the others have had 100 each.
TEST(FairShare, JoiningFlowTakesItsPart) {
  FairShare share(1);
  share.add(0, 1, 300, 1);
  share.add(0, 2, 300, 2);
  FairShare::Done done;
  EXPECT_EQ(share.next(), 600u);
  share.add(200, 3, 300, 3);
  EXPECT_EQ(share.next(), 800u);  // 200 left each at a third of the rate
  EXPECT_FALSE(share.pop(600, done));
  ASSERT_TRUE(share.pop(800, done));
  ASSERT_TRUE(share.pop(800, done));
  EXPECT_FALSE(share.pop(800, done));
  EXPECT_EQ(share.next(), 900u);
  ASSERT_TRUE(share.pop(900, done));
  EXPECT_EQ(done.token, 3u);
  EXPECT_EQ(share.busy(), 900u);
}

// Random requests: the bandwidth is always used while there is work, so the busy time is the bytes
// over the rate, and no flow's requests leave out of order.
TEST(FairShare, IsWorkConserving) {
  std::mt19937 random(3);
  for (const double rate : {0.3, 1.0, 3.7, 1e9}) {
    FairShare share(rate);
    Picoseconds now = 0;
    double bytes = 0;
    std::map<std::uint32_t, std::uint32_t> last;
    std::vector<std::uint32_t> flow_of;
    std::size_t finished = 0;
    const auto drain_until = [&](Picoseconds limit) {
      FairShare::Done done;
      while (share.next() <= limit) {
        const Picoseconds at = share.next();
        ASSERT_GE(at, now);
        now = at;
        ASSERT_TRUE(share.pop(at, done)) << "at the announced time";
        const std::uint32_t flow = flow_of[done.token];
        ASSERT_TRUE(last.count(flow) == 0 || last[flow] < done.token);
        last[flow] = done.token;
        ++finished;
      }
      now = limit;
    };
    for (std::uint32_t token = 0; token < 3000; ++token) {
      const std::uint64_t n = 1 + random() % 100000;
      bytes += static_cast<double>(n);
      flow_of.push_back(random() % 10);
      share.add(now, flow_of.back(), n, token);
      drain_until(now + random() % 40000);
    }
    const Picoseconds far = now + static_cast<Picoseconds>(bytes / rate) + 1000000;
    drain_until(far);
    EXPECT_EQ(finished, flow_of.size());
    EXPECT_NEAR(static_cast<double>(share.busy()), bytes / rate, 3000);
  }
}

}  // namespace
}  // namespace tilewright
