// What a well-formed configuration reads as.
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

enum class Topology { kMesh, kTorus };
const std::vector<std::pair<std::string, Topology>> kTopologies{{"mesh", Topology::kMesh},
                                                                {"torus", Topology::kTorus}};

std::vector<std::string> lines_of(const Document& document) {
  std::vector<std::string> lines;
  for (const ResolvedValue& v : document.resolved())
    lines.push_back(v.path + " = " + v.value + " <- " + v.origin);
  return lines;
}

TEST(Config, ReadsEveryKindOfValue) {
  const Document document = Document::parse(R"(
name: wafer one
tiles: 1_000
efficiency: 0.85
ecc: true
topology: torus
sram: 3 MiB
noc:
  link_bandwidth: 1024 GB/s
  hop_latency: 1 ns
peak: 16 TFLOP/s
clock: 1 GHz
shape: [4, 4]
failed: [[0, 1], [2, 3]]
)",
                                            "platform");
  const Section root = document.root();
  EXPECT_EQ(root.text("name"), "wafer one");
  EXPECT_EQ(root.integer("tiles", 1, 51200), 1000);
  EXPECT_EQ(root.number("efficiency", 0, 1), 0.85);
  EXPECT_TRUE(root.flag("ecc"));
  EXPECT_EQ(root.choice("topology", kTopologies), Topology::kTorus);
  EXPECT_EQ(root.bytes("sram"), Bytes(3145728));
  const Section noc = root.section("noc");
  EXPECT_EQ(noc.bandwidth("link_bandwidth"), Bandwidth(1024e9));
  EXPECT_EQ(noc.seconds("hop_latency"), Seconds(1e-9));
  EXPECT_EQ(root.flop_rate("peak"), FlopRate(16e12));
  EXPECT_EQ(root.frequency("clock"), Frequency(1e9));
  EXPECT_THAT(root.integers("shape"), ElementsAre(4, 4));
  EXPECT_THAT(root.pairs("failed"), ElementsAre(Pair(0, 1), Pair(2, 3)));
  EXPECT_NO_THROW(root.finish());
  EXPECT_THAT(lines_of(document),
              ElementsAre("name = wafer one <- <text>:2", "tiles = 1_000 <- <text>:3",
                          "efficiency = 0.85 <- <text>:4", "ecc = true <- <text>:5",
                          "topology = torus <- <text>:6", "sram = 3 MiB <- <text>:7",
                          "noc.link_bandwidth = 1024 GB/s <- <text>:9",
                          "noc.hop_latency = 1 ns <- <text>:10", "peak = 16 TFLOP/s <- <text>:11",
                          "clock = 1 GHz <- <text>:12", "shape = [4, 4] <- <text>:13",
                          "failed = [[0, 1], [2, 3]] <- <text>:14"));
}

TEST(Config, FallbacksAreRecordedInTheNotationOfTheKey) {
  const Document document = Document::parse("a: 1", "platform");
  const Section root = document.root();
  EXPECT_EQ(root.text("name", "none"), "none");
  EXPECT_EQ(root.text("note", ""), "");
  EXPECT_EQ(root.text("odd", "a: b"), "a: b");
  EXPECT_FALSE(root.flag("ecc", false));
  EXPECT_EQ(root.integer("tiles", 1, 10, 7), 7);
  EXPECT_EQ(root.number("efficiency", 0, 1, 0.5), 0.5);
  EXPECT_EQ(root.bytes("dram", Bytes(274877906944.0)), Bytes(274877906944.0));
  EXPECT_EQ(root.seconds("latency", Seconds(1e-9)), Seconds(1e-9));
  EXPECT_TRUE(root.bandwidth("link", Bandwidth::unlimited()).is_unlimited());
  EXPECT_EQ(root.flop_rate("peak", FlopRate(16e12)), FlopRate(16e12));
  EXPECT_EQ(root.frequency("clock", Frequency(1.5e9)), Frequency(1.5e9));
  EXPECT_EQ(root.choice("topology", kTopologies, "mesh"), Topology::kMesh);
  EXPECT_THAT(root.integers("shape"), IsEmpty());
  EXPECT_THAT(root.pairs("failed"), IsEmpty());
  EXPECT_THAT(root.sections("links"), IsEmpty());
  EXPECT_EQ(root.section("noc").integer("vcs", 1, 8, 2), 2);
  EXPECT_THAT(
      lines_of(document),
      ElementsAre("name = none <- default", "note = \"\" <- default", "odd = \"a: b\" <- default",
                  "ecc = false <- default", "tiles = 7 <- default", "efficiency = 0.5 <- default",
                  "dram = 256 GiB <- default", "latency = 1 ns <- default",
                  "link = unlimited <- default", "peak = 16 TFLOP/s <- default",
                  "clock = 1.5 GHz <- default", "topology = mesh <- default",
                  "shape = [] <- default", "failed = [] <- default", "noc.vcs = 2 <- default"));
}

TEST(Config, EachValueIsRecordedOnce) {
  const Document document = Document::parse("a: 1\nb: 2", "plan");
  document.root().integer("b", 0, 9);
  document.root().integer("a", 0, 9);
  document.root().integer("b", 0, 9);
  EXPECT_THAT(lines_of(document), ElementsAre("b = 2 <- <text>:2", "a = 1 <- <text>:1"));
}

TEST(Config, ListsOfMapsAreNamedByIndex) {
  const Document document =
      Document::parse("links:\n  - {to: 1, width: 2}\n  - to: 3\n    width: 4\n", "platform");
  const auto links = document.root().sections("links");
  ASSERT_EQ(links.size(), 2u);
  EXPECT_EQ(links[0].integer("to", 0, 9), 1);
  EXPECT_EQ(links[1].integer("width", 0, 9), 4);
  EXPECT_EQ(links[1].where("width"), "<text>:4: links[1].width");
  EXPECT_EQ(links[0].where(""), "<text>:2: links[0]");
}

TEST(Config, KeysComeInFileOrder) {
  const Document document = Document::parse("z: 1\na: 2\nm: 3", "model");
  EXPECT_THAT(document.root().keys(), ElementsAre("z", "a", "m"));
}

TEST(Config, ALonePairIsAListOfOnePair) {
  const Document document = Document::parse("failed: [4, 5]\nshape: [1_000, -2]", "platform");
  EXPECT_THAT(document.root().pairs("failed"), ElementsAre(Pair(4, 5)));
  EXPECT_THAT(document.root().integers("shape"), ElementsAre(1000, -2));
}

TEST(Config, AValueMayBeANameAMapOrAList) {
  const Document document = Document::parse("a: name\nb: { c: 1 }\nd: [1, 2]", "plan");
  const Section root = document.root();
  EXPECT_TRUE(root.is_map("b"));
  EXPECT_TRUE(root.is_list("d"));
  for (const char* key : {"a", "d", "absent"}) EXPECT_FALSE(root.is_map(key)) << key;
  for (const char* key : {"a", "b", "absent"}) EXPECT_FALSE(root.is_list(key)) << key;
}

TEST(Config, ReadsJson) {
  const Document document = Document::parse(
      "{\n\t\"hidden_size\":4096,\n\t\"rope_scaling\":null,\n\t\"eps\": 1e-05,\n"
      "\t\"arch\": [\"X\\u00e9\\/Y\"], \"tie\": false}\n",
      "model");
  const Section root = document.root();
  EXPECT_EQ(root.integer("hidden_size", 1, 1 << 20), 4096);
  EXPECT_EQ(root.number("eps", 0, 1), 1e-5);
  EXPECT_FALSE(root.flag("tie"));
  EXPECT_TRUE(root.has("rope_scaling"));
  EXPECT_TRUE(root.is_null("rope_scaling"));
  EXPECT_FALSE(root.is_null("hidden_size"));
  EXPECT_FALSE(root.is_null("absent"));
  EXPECT_THROW(root.finish(), InputError);  // nobody asked for "arch"
  root.ignore_unknown();
  EXPECT_NO_THROW(root.finish());
}

TEST(Config, IntegersReachBothEndsOf64Bits) {
  const Document document =
      Document::parse("a: 9223372036854775807\nb: -9223372036854775808", "model");
  constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
  constexpr auto kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(document.root().integer("a", kMin, kMax), kMax);
  EXPECT_EQ(document.root().integer("b", kMin, kMax), kMin);
}

TEST(Config, QuotedTextIsText) {
  const Document document = Document::parse("a: 'null'\nb: \"x: y\"\nc: ''", "model");
  EXPECT_EQ(document.root().text("a"), "null");
  EXPECT_EQ(document.root().text("b"), "x: y");
  EXPECT_EQ(document.root().text("c"), "");
  // As recorded, each reads back as the same text.
  EXPECT_THAT(lines_of(document), ElementsAre("a = \"null\" <- <text>:1",
                                              "b = \"x: y\" <- <text>:2", "c = \"\" <- <text>:3"));
}

TEST(Config, AliasesCopyValues) {
  const Document document = Document::parse("base: &b {bw: 1 GB/s}\nother: *b\n", "platform");
  EXPECT_EQ(document.root().section("other").bandwidth("bw"), Bandwidth(1e9));
  EXPECT_EQ(document.root().section("base").bandwidth("bw"), Bandwidth(1e9));
  EXPECT_NO_THROW(document.root().finish());
}

TEST(Config, WindowsLineEndsAndByteOrderMark) {
  const Document document = Document::parse(
      "\xef\xbb\xbf"
      "a: 1 GB/s\r\nb: 2 ns\r\n",
      "platform");
  EXPECT_EQ(document.root().bandwidth("a"), Bandwidth(1e9));
  EXPECT_EQ(document.root().seconds("b"), Seconds(2e-9));
  EXPECT_EQ(document.root().where("b"), "<text>:2: b");
}

TEST(Config, SectionsOutliveTheDocument) {
  Section noc;
  {
    const Document document = Document::parse("noc: {vcs: 4}", "platform");
    noc = document.root().section("noc");
  }
  EXPECT_EQ(noc.integer("vcs", 1, 8), 4);
}

TEST(Config, LoadsAFile) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("tilewright_config_" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path) << "# comment\na: 5\n";
  const Document document = Document::load(path.string(), "plan");
  EXPECT_EQ(document.root().integer("a", 0, 9), 5);
  EXPECT_EQ(document.path(), path.string());
  EXPECT_EQ(document.resolved().at(0).origin, path.string() + ":2");
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tilewright
