// Messages: hand-computed times.
#include <gtest/gtest.h>
#include <support/script.h>

namespace tilewright::test {
namespace {

TileId tile(std::uint32_t t) { return static_cast<TileId>(t); }

TEST(Network, OneHop) {
  Script s = one_message(tile(0), tile(1), 1000, 1000);
  const RunStatistics& r = s.run(mesh(2, 1));
  EXPECT_EQ(r.end, 2000u + 1000u);  // latency + bytes
  EXPECT_EQ(r.message_hops, 1u);
  EXPECT_EQ(r.messages, 1u);
}

TEST(Network, TwoHopsRoundACorner) {
  Script s = one_message(tile(0), tile(3), 1000, 1000);
  const RunStatistics& r = s.run(mesh(2, 2));
  EXPECT_EQ(r.end, 2u * 2000 + 1000);  // cut-through: the bytes count once
  EXPECT_EQ(r.message_hops, 2u);
  // x first: by tile 1
  for (const LinkStatistics& l : r.links) {
    const bool used =
        (l.from == tile(0) && l.to == tile(1)) || (l.from == tile(1) && l.to == tile(3));
    EXPECT_EQ(l.bytes, used ? 1000u : 0u);
    EXPECT_EQ(l.busy, used ? 1000u : 0u);
  }
}

TEST(Network, SixHops) {
  Script s = one_message(tile(15), tile(0), 5000, 5000);
  const RunStatistics& r = s.run(mesh(4, 4));
  EXPECT_EQ(r.end, 6u * 2000 + 5000);
  EXPECT_EQ(r.message_hops, 6u);
}

TEST(Network, DieBoundaryInX) {
  MachineConfig m = mesh(2, 1);
  m.dies_x = 2;
  Script s = one_message(tile(0), tile(3), 1000, 1000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 2u * 2000 + 10000 + 4000);  // the slowest link sets the pace, once
  unsigned die = 0;
  for (const LinkStatistics& l : r.links) die += l.kind == LinkKind::die;
  EXPECT_EQ(die, 2u);
}

TEST(Network, DieBoundaryInY) {
  MachineConfig m = mesh(1, 2);
  m.dies_y = 2;
  Script s = one_message(tile(3), tile(0), 1000, 1000);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 2u * 2000 + 10000 + 4000);
  for (const LinkStatistics& l : r.links) {
    const bool crosses =
        (index(l.from) == 1 && index(l.to) == 2) || (index(l.from) == 2 && index(l.to) == 1);
    EXPECT_EQ(l.kind, crosses ? LinkKind::die : LinkKind::tile);
  }
}

// Tiles 0 and 1 send to tile 2 at once: 1 has its link first, 0's message waits for it there.
TEST(Network, TwoMessagesShareALink) {
  Script s;
  const std::uint16_t a = s.channel("a"), b = s.channel("b");
  const auto send_a = s.segment("send a", [&](Code& c) { c.send(a, 0, {10000}); });
  const auto send_b = s.segment("send b", [&](Code& c) { c.send(b, 0, {10000}); });
  const auto receive = s.segment("receive", [&](Code& c) {
    c.recv(b, 1, {10000});
    c.recv(a, 0, {10000});
  });
  s.group("A", {tile(0)}, send_a).peers = {{tile(2)}};
  s.group("B", {tile(1)}, send_b).peers = {{tile(2)}};
  s.group("C", {tile(2)}, receive).peers = {{tile(0)}, {tile(1)}};
  const RunStatistics& r = s.run(mesh(3, 1));
  // b: 0..10000 on the link. a's head is at tile 1 at 2000 and waits until 10000.
  EXPECT_EQ(r.end, 10000u + 10000u + 2000u);
}

// On 3x3, messages from tile 3 (east, then south) and tile 1 (south twice) reach tile 4 at the same
// time and both go on to tile 7: one after the other.
TEST(Network, EqualArrivalsShareALink) {
  Script s;
  const std::uint16_t a = s.channel("a"), b = s.channel("b");
  const auto send_a = s.segment("send a", [&](Code& c) { c.send(a, 0, {6000}); });
  const auto send_b = s.segment("send b", [&](Code& c) { c.send(b, 0, {6000}); });
  const auto receive = s.segment("receive", [&](Code& c) {
    c.recv(a, 0, {6000});
    c.recv(b, 1, {6000});
  });
  s.group("A", {tile(3)}, send_a).peers = {{tile(7)}};
  s.group("B", {tile(1)}, send_b).peers = {{tile(7)}};
  s.group("C", {tile(7)}, receive).peers = {{tile(3)}, {tile(1)}};
  const RunStatistics& r = s.run(mesh(3, 3));
  EXPECT_EQ(r.end, 2000u + 2 * 6000u + 2000u);
}

TEST(Network, FractionsOfAPicosecondAddUp) {
  MachineConfig m = mesh(2, 1);
  m.noc.link.bandwidth = Bandwidth(3e12);
  Script s;
  const std::uint16_t w = s.channel("wire");
  const auto send = s.segment("send", [&](Code& c) {
    for (int i = 0; i < 300; ++i) c.send(w, 0, {100});
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    for (int i = 0; i < 300; ++i) c.recv(w, 0, {100});
  });
  s.group("A", {tile(0)}, send).peers = {{tile(1)}};
  s.group("B", {tile(1)}, receive).peers = {{tile(0)}};
  EXPECT_EQ(s.run(m).end, 2000u + 10000u);  // 33.33 ps each
}

TEST(Network, UnlimitedLinksWithoutLatency) {
  MachineConfig m = mesh(4, 4);
  m.noc.link = {Bandwidth::unlimited(), Seconds(0)};
  Script s;
  const std::uint16_t w = s.channel("ring");
  std::vector<TileId> tiles;
  for (std::uint32_t t = 0; t < 16; ++t) tiles.push_back(tile(t));
  const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, 16, 160001); });
  s.group("G", tiles, ring, 3).peers = ring_peers(tiles);
  const RunStatistics& r = s.run(m);
  EXPECT_EQ(r.end, 0u);
  EXPECT_EQ(r.messages, 3u * 16 * 30);
}

// A message of other size overtakes nothing, even when links take no time.
TEST(Network, OrderIsKeptAtEqualTimes) {
  MachineConfig m = mesh(3, 1);
  m.noc.link = {Bandwidth::unlimited(), Seconds(1e-9)};
  Script s;
  const std::uint16_t w = s.channel("wire");
  const auto send = s.segment("send", [&](Code& c) {
    for (std::uint64_t i = 1; i <= 40; ++i) c.send(w, 0, {i});
  });
  const auto receive = s.segment("receive", [&](Code& c) {
    for (std::uint64_t i = 1; i <= 40; ++i) c.recv(w, 0, {i});
  });
  s.group("A", {tile(0)}, send, 3).peers = {{tile(2)}};
  s.group("B", {tile(2)}, receive, 3).peers = {{tile(0)}};
  EXPECT_EQ(s.run(m).end, 2000u);
}

class Ring : public testing::TestWithParam<std::uint32_t> {};

// 2(p-1)(α + n/(pβ)) on an idle ring of neighbours.
TEST_P(Ring, AllReduceMatchesTheClosedForm) {
  const std::uint32_t p = GetParam();
  const int width = p == 2 ? 2 : static_cast<int>(p) / 2;
  const int height = p == 2 ? 1 : 2;  // along the first row and back along the second
  std::vector<TileId> tiles;
  for (int x = 0; x < width; ++x) tiles.push_back(tile(static_cast<std::uint32_t>(x)));
  if (height == 2) {
    for (int x = width - 1; x >= 0; --x)
      tiles.push_back(tile(static_cast<std::uint32_t>(width + x)));
  }
  Script s;
  const std::uint16_t w = s.channel("ring");
  const std::uint64_t n = 16000;
  const auto ring = s.segment("ring", [&](Code& c) { ring_all_reduce(c, w, p, n); });
  s.group("G", tiles, ring).peers = ring_peers(tiles);
  const RunStatistics& r = s.run(mesh(width, height));
  EXPECT_EQ(r.end, 2 * (p - 1) * (2000 + n / p));
  for (const TileId t : tiles) {
    EXPECT_EQ(r.tiles[t].bytes_sent, 2 * (p - 1) * n / p);
    EXPECT_EQ(r.tiles[t].bytes_received, r.tiles[t].bytes_sent);
    EXPECT_EQ(state(r, t, TileState::tensor_wait), r.end);
  }
  EXPECT_EQ(r.bytes_by_cause[static_cast<std::size_t>(Cause::tensor)], 2 * (p - 1) * n);
}
INSTANTIATE_TEST_SUITE_P(Sizes, Ring, testing::Values(2, 4, 16));

}  // namespace
}  // namespace tilewright::test
