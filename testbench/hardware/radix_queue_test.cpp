#include <queue>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <tilewright/hardware/radix_queue.h>

namespace tilewright {
namespace {

using Entry = RadixQueue::Entry;
struct After {
  bool operator()(const Entry& a, const Entry& b) const { return RadixQueue::before(b, a); }
};
using Reference = std::priority_queue<Entry, std::vector<Entry>, After>;

// Random pushes and pops. `spread` limits how far ahead times go; now and then the front is looked
// at and something earlier than it is pushed, as another process may do.
void compare(std::uint64_t seed, std::size_t pending, std::uint64_t spread, std::uint64_t grain) {
  std::mt19937_64 random(seed);
  RadixQueue queue;
  Reference reference;
  std::uint64_t now = 0, key = 0;
  const auto push = [&](std::uint64_t time) {
    const Entry e{(random() << 24) | (key++ & 0xffffff), time};
    queue.push(e);
    reference.push(e);
  };
  for (int step = 0; step < 20000; ++step) {
    const bool grow = reference.size() < pending || random() % 4 == 0;
    if (grow || reference.empty()) {
      push(now + random() % spread / grain * grain);
      continue;
    }
    if (random() % 8 == 0) {
      const std::uint64_t front = queue.front()->time;
      push(now + (front - now) / 2);
      push(now);
    }
    const Entry expected = reference.top();
    reference.pop();
    const Entry got = queue.pop();
    ASSERT_EQ(got.time, expected.time) << "step " << step;
    ASSERT_EQ(got.key, expected.key) << "step " << step;
    now = got.time;
    ASSERT_EQ(queue.size(), reference.size());
  }
  while (!reference.empty()) {
    ASSERT_EQ(queue.pop().key, reference.top().key);
    reference.pop();
  }
  EXPECT_TRUE(queue.empty());
}

TEST(RadixQueue, AgreesWithAPriorityQueue) {
  std::uint64_t seed = 1;
  for (const std::size_t pending : {1, 10, 300, 5000}) {
    for (const std::uint64_t spread :
         {std::uint64_t{1}, std::uint64_t{100}, std::uint64_t{100000}, std::uint64_t{1} << 40}) {
      for (const std::uint64_t grain : {1, 64}) compare(seed++, pending, spread, grain);
    }
  }
}

TEST(RadixQueue, ManyEntriesOfOneTime) {
  RadixQueue queue;
  for (std::uint64_t k = 1000; k > 0; --k) queue.push({k, 0});
  queue.push({5, 7});
  for (std::uint64_t k = 1; k <= 1000; ++k) {
    EXPECT_EQ(queue.pop().key, k);
    if (k % 3 == 0) queue.push({k, 0});
    if (k % 3 == 0) {
      EXPECT_EQ(queue.pop().key, k);
    }
  }
  EXPECT_EQ(queue.pop().time, 7u);
  EXPECT_TRUE(queue.empty());
}

TEST(RadixQueue, LargeTimes) {
  RadixQueue queue;
  const std::uint64_t last = ~std::uint64_t{0};
  queue.push({1, last});
  queue.push({2, last - 1});
  queue.push({3, std::uint64_t{1} << 63});
  queue.push({4, 0});
  EXPECT_EQ(queue.pop().key, 4u);
  EXPECT_EQ(queue.pop().key, 3u);
  queue.push({5, last});
  EXPECT_EQ(queue.pop().key, 2u);
  EXPECT_EQ(queue.pop().key, 1u);
  EXPECT_EQ(queue.pop().key, 5u);
}

}  // namespace
}  // namespace tilewright
