// What the user is told about a configuration that is not well formed.
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

std::string parse_error(const std::string& text) {
  return message_of([&] { Document::parse(text, "platform", {}, "p.yaml"); });
}

std::string read_error(const std::string& text, const std::function<void(const Section&)>& read) {
  return message_of([&] { read(Document::parse(text, "platform", {}, "p.yaml").root()); });
}

TEST(ConfigErrors, UnknownKeyNamesTheNearest) {
  EXPECT_EQ(read_error("noc:\n  bandwith: 1 GB/s\n",
                       [](const Section& root) {
                         const Section noc = root.section("noc");
                         noc.bandwidth("bandwidth", Bandwidth(1e9));
                         noc.seconds("latency", Seconds(1e-9));
                         root.finish();
                       }),
            "p.yaml:2: noc.bandwith: unknown key 'bandwith'; did you mean 'bandwidth'? known keys: "
            "bandwidth, latency");
}

TEST(ConfigErrors, UnknownKeyWithoutANearOne) {
  EXPECT_EQ(read_error("a: 1\nzzz: 2\n",
                       [](const Section& root) {
                         root.integer("a", 0, 9);
                         root.finish();
                       }),
            "p.yaml:2: zzz: unknown key 'zzz'; known keys: a");
}

TEST(ConfigErrors, MissingKey) {
  EXPECT_EQ(
      read_error("x: 1\nnoc:\n  link_bandwith: 1 GB/s\n",
                 [](const Section& root) { root.section("noc").bandwidth("link_bandwidth"); }),
      "p.yaml:2: noc.link_bandwidth: this key is missing in the platform; wanted: a bandwidth "
      "such as '1024 GB/s'; is 'link_bandwith' (line 3) a misspelling of it?");
  EXPECT_EQ(
      read_error("x: 1\n", [](const Section& root) { root.section("noc").integer("k", 1, 8); }),
      "p.yaml:1: noc.k: this key is missing in the platform; wanted: an integer from 1 to 8");
}

TEST(ConfigErrors, QuantitiesNeedTheirUnit) {
  const auto bandwidth = [](const Section& root) { root.bandwidth("bw"); };
  EXPECT_THAT(read_error("\nbw: 1024", bandwidth),
              AllOf(StartsWith("p.yaml:2: bw: '1024' has no unit"), HasSubstr("GB/s")));
  EXPECT_THAT(read_error("bw: 3 MiB", bandwidth),
              StartsWith("p.yaml:1: bw: '3 MiB' is an amount of data; wanted: a bandwidth"));
  EXPECT_THAT(read_error("bw: 0 GB/s", bandwidth), HasSubstr("'0 GB/s' is zero"));
  EXPECT_THAT(read_error("bw: -1 GB/s", bandwidth), HasSubstr("is negative"));
  EXPECT_THAT(read_error("bw: .inf", bandwidth), HasSubstr("is written 'unlimited'"));
  EXPECT_THAT(read_error("bw: .nan", bandwidth), HasSubstr("is not a number"));
  EXPECT_THAT(read_error("b: 0 B", [](const Section& r) { r.bytes("b"); }), HasSubstr("is zero"));
  EXPECT_THAT(read_error("b: -3 MiB", [](const Section& r) { r.bytes("b"); }),
              HasSubstr("is negative"));
  EXPECT_THAT(read_error("f: 0 Hz", [](const Section& r) { r.frequency("f"); }),
              HasSubstr("is zero"));
  EXPECT_EQ(read_error("t: 0 ns", [](const Section& r) { r.seconds("t"); }), "no error");
}

TEST(ConfigErrors, Integers) {
  const auto read = [](const Section& root) { root.integer("n", 1, 64); };
  EXPECT_EQ(read_error("n: 65", read),
            "p.yaml:1: n: '65' is out of range; wanted: an integer from 1 to 64");
  EXPECT_THAT(read_error("n: 0", read), HasSubstr("out of range"));
  EXPECT_THAT(read_error("n: 1.5", read), HasSubstr("is not written as an integer"));
  EXPECT_THAT(read_error("n: 1e3", read), HasSubstr("is not written as an integer"));
  EXPECT_THAT(read_error("n: 3 MiB", read), HasSubstr("without a unit"));
  EXPECT_THAT(read_error("n: many", read), HasSubstr("'many' is not an integer"));
  EXPECT_THAT(read_error("n: 0x10", read), HasSubstr("is not an integer"));
  EXPECT_THAT(read_error("n: 010", read), HasSubstr("octal"));
  EXPECT_THAT(read_error("n: 9223372036854775808", read), HasSubstr("does not fit 64 bits"));
  EXPECT_THAT(read_error("n: .nan", read), HasSubstr("is not an integer"));
  EXPECT_THAT(read_error("n: 5",
                         [](const Section& r) {
                           r.integer("n", 6, std::numeric_limits<std::int64_t>::max());
                         }),
              EndsWith("wanted: an integer of at least 6"));
}

TEST(ConfigErrors, Numbers) {
  const auto read = [](const Section& root) { root.number("x", 0, 1); };
  EXPECT_EQ(read_error("x: 1.5", read),
            "p.yaml:1: x: '1.5' is out of range; wanted: a number from 0 to 1");
  for (const char* text : {"nan", ".nan", "inf", "-.inf", "fast", "''"})
    EXPECT_THAT(read_error(std::string("x: ") + text, read), HasSubstr("is not a number")) << text;
  EXPECT_THAT(read_error("x: 1e999", read), HasSubstr("out of range"));
  EXPECT_THAT(read_error("x: 85%", read), HasSubstr("without a unit"));
}

TEST(ConfigErrors, FlagsAndChoices) {
  EXPECT_EQ(read_error("f: yes", [](const Section& r) { r.flag("f"); }),
            "p.yaml:1: f: found 'yes'; wanted: true or false");
  const std::vector<std::pair<std::string, int>> names{{"mesh", 0}, {"torus", 1}};
  EXPECT_EQ(read_error("t: tours", [&](const Section& r) { r.choice("t", names); }),
            "p.yaml:1: t: unknown name 'tours'; did you mean 'torus'? wanted: one of mesh, torus");
  EXPECT_THROW(Document::parse("a: 1", "platform").root().choice("t", names, "cube"),
               InternalError);
}

TEST(ConfigErrors, WrongShapes) {
  const auto text = [](const Section& r) { r.text("k"); };
  EXPECT_EQ(read_error("k: {a: 1}", text), "p.yaml:1: k: found a map; wanted: a text");
  EXPECT_EQ(read_error("k: [1]", text), "p.yaml:1: k: found a list; wanted: a text");
  EXPECT_EQ(read_error("k:", text), "p.yaml:1: k: found nothing (null); wanted: a text");
  EXPECT_THAT(read_error("k: ~", [](const Section& r) { r.integer("k", 0, 1); }),
              HasSubstr("nothing"));
  EXPECT_THAT(read_error("k: [1 GB/s]", [](const Section& r) { r.bandwidth("k"); }),
              HasSubstr("found a list; wanted: a bandwidth"));
  EXPECT_EQ(read_error("k: 5", [](const Section& r) { r.section("k"); }),
            "p.yaml:1: k: a map of keys is wanted here, found '5'");
  EXPECT_THAT(read_error("k:", [](const Section& r) { r.section("k"); }), HasSubstr("nothing"));
  EXPECT_THAT(read_error("k: {a: 1}", [](const Section& r) { r.sections("k"); }),
              HasSubstr("a list of maps is wanted here, found a map"));
  EXPECT_EQ(read_error("k:\n  - {}\n  - 5", [](const Section& r) { r.sections("k"); }),
            "p.yaml:3: k[1]: a map of keys is wanted here, found '5'");
  EXPECT_THAT(read_error("k: 5", [](const Section& r) { r.integers("k"); }),
              HasSubstr("wanted: a list of integers such as [4, 4]"));
  EXPECT_EQ(read_error("k: [1,\n  x]", [](const Section& r) { r.integers("k"); }),
            "p.yaml:2: k[1]: 'x' is not an integer; wanted: an integer");
  EXPECT_THAT(read_error("k: [[1, 2], [3]]", [](const Section& r) { r.pairs("k"); }),
              StartsWith("p.yaml:1: k[1]: found a list of 1; wanted: a list of pairs"));
  EXPECT_THAT(read_error("k: [1, 2, 3]", [](const Section& r) { r.pairs("k"); }),
              StartsWith("p.yaml:1: k[0]: found '1'; wanted: a list of pairs"));
  EXPECT_THAT(read_error("k: [[1, a]]", [](const Section& r) { r.pairs("k"); }),
              StartsWith("p.yaml:1: k[0][1]: 'a' is not an integer"));
}

TEST(ConfigErrors, FailAndWhereNameThePlace) {
  const Document document = Document::parse("a: 1\nnoc:\n  vcs: 2\n", "platform", {}, "p.yaml");
  const Section noc = document.root().section("noc");
  EXPECT_EQ(noc.where("vcs"), "p.yaml:3: noc.vcs");
  EXPECT_EQ(noc.where("absent"), "p.yaml:2: noc.absent");
  EXPECT_EQ(message_of([&] { noc.fail("vcs", "too few"); }), "p.yaml:3: noc.vcs: too few");
  EXPECT_EQ(message_of([&] { document.root().fail("", "no work"); }), "p.yaml:1: no work");
}

TEST(ConfigErrors, DuplicateKeys) {
  EXPECT_EQ(parse_error("a: 1\nnoc:\n  x: 1\n  y: 2\n  x: 3\n"),
            "p.yaml:5: noc: key 'x' is given twice (first on line 3)");
  EXPECT_EQ(parse_error("a: 1\na: 1\n"), "p.yaml:2: key 'a' is given twice (first on line 1)");
  EXPECT_THAT(parse_error("l:\n - {}\n - {k: 1, k: 2}"), StartsWith("p.yaml:3: l[1]: key 'k'"));
}

TEST(ConfigErrors, FilesThatAreNoMaps) {
  EXPECT_EQ(parse_error(""), "p.yaml:1: the platform file is empty; wanted: lines of 'key: value'");
  EXPECT_THAT(parse_error("# only a comment\n"), HasSubstr("is empty"));
  EXPECT_THAT(parse_error("---\n"), HasSubstr("is empty"));
  EXPECT_THAT(parse_error("\n- 1\n- 2\n"),
              AllOf(StartsWith("p.yaml:2: "), HasSubstr("must be a map"), HasSubstr("a list")));
  EXPECT_THAT(parse_error("just words"), HasSubstr("found 'just words'"));
  EXPECT_THAT(parse_error("a: 1\n---\nb: 2\n"), AllOf(StartsWith("p.yaml:"), HasSubstr("second")));
}

TEST(ConfigErrors, KeysMustBeWords) {
  EXPECT_THAT(parse_error("[1, 2]: 3"), HasSubstr("a list or a map stands as a key"));
  EXPECT_THAT(parse_error("{a: 1}: 3"), HasSubstr("a list or a map stands as a key"));
  EXPECT_THAT(parse_error("~: 3"), HasSubstr("a key must be a word"));
  EXPECT_THAT(parse_error("'': 3"), HasSubstr("a key must be a word"));
}

TEST(ConfigErrors, Syntax) {
  EXPECT_THAT(parse_error("a: 1\nb: [1, 2\n"), AllOf(StartsWith("p.yaml:"), HasSubstr("YAML")));
  EXPECT_THAT(parse_error("a: 1\n  b: 2\n"), StartsWith("p.yaml:2: not valid YAML: "));
  EXPECT_THAT(parse_error("{\"a\": 1, \"b\": {\"c\": 2}"),
              StartsWith("p.yaml:1: not valid YAML: "));
  EXPECT_THAT(parse_error("a: \"open"), HasSubstr("not valid YAML"));
  EXPECT_THAT(parse_error("a: *nowhere"), HasSubstr("not valid YAML"));
  EXPECT_THAT(parse_error("a: &x [*x]"), HasSubstr("part of"));
}

TEST(ConfigErrors, NotText) {
  EXPECT_EQ(parse_error("a: 1\nb: \xff\xfe\n"), "p.yaml:2: not UTF-8 text (byte 0xff at offset 8)");
  EXPECT_THAT(parse_error(std::string("a: 1\0b", 6)), HasSubstr("not plain text"));
  EXPECT_THAT(parse_error("a: \xc0\x80"), HasSubstr("not UTF-8"));          // overlong
  EXPECT_THAT(parse_error("a: \xed\xa0\x80"), HasSubstr("not UTF-8"));      // surrogate
  EXPECT_THAT(parse_error("a: \xe2\x82"), HasSubstr("not UTF-8"));          // cut off
  EXPECT_THAT(parse_error("a: \xf4\x90\x80\x80"), HasSubstr("not UTF-8"));  // beyond Unicode
  EXPECT_EQ(parse_error("a: \u00b5 \u4e2d \U0001f600"), "no error");
}

TEST(ConfigErrors, DeepNesting) {
  EXPECT_THAT(parse_error("a: " + std::string(2000, '[') + std::string(2000, ']')),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(parse_error("a: " + std::string(100000, '[')), HasSubstr("bracket is not closed"));
  EXPECT_THAT(parse_error(std::string(100000, '{')), StartsWith("p.yaml:1: "));
  std::string dashes = "a:\n ";
  for (int i = 0; i < 2000; ++i) dashes += "- ";
  EXPECT_THAT(parse_error(dashes), HasSubstr("nested too deeply"));
  // Aliases add levels that the text does not show.
  std::string stacked = "k0: &a0 [1]\n";
  for (int i = 1; i < 5000; ++i)
    stacked += "k" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" +
               std::to_string(i - 1) + "]\n";
  EXPECT_THAT(parse_error(stacked), HasSubstr("nested too deeply"));
  // Forty doublings: a tree of 2^40 values that is stored once.
  std::string doubled = "k0: &a0 [1]\n";
  for (int i = 1; i < 40; ++i)
    doubled += "k" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" +
               std::to_string(i - 1) + ", *a" + std::to_string(i - 1) + "]\n";
  EXPECT_EQ(parse_error(doubled), "no error");
}

TEST(ConfigErrors, Files) {
  EXPECT_EQ(message_of([] { Document::load("/nonexistent/p.yaml", "plan"); }),
            "plan file '/nonexistent/p.yaml': cannot be opened: No such file or directory");
  EXPECT_EQ(message_of([] { Document::load("/", "model"); }), "model file '/': is a directory");
  EXPECT_THAT(message_of([] { Document::load("", "model"); }), HasSubstr("name is empty"));
  const auto path = std::filesystem::temp_directory_path() /
                    ("tilewright_empty_" + std::to_string(::getpid()) + ".yaml");
  std::ofstream(path).close();
  EXPECT_THAT(message_of([&] { Document::load(path.string(), "plan"); }),
              HasSubstr("the plan file is empty"));
  std::filesystem::remove(path);
}

TEST(ConfigErrors, LongAndUnprintableValuesAreShownShort) {
  const auto read = [](const Section& root) { root.integer("n", 0, 1); };
  EXPECT_LT(read_error("n: " + std::string(100000, 'x'), read).size(), 200u);
  EXPECT_THAT(read_error("n: \"a\\nb\\x01\"", read), HasSubstr("'a\\nb\\x01'"));
}

// Any bytes end in a document or an InputError. Fixed seed: the same texts on every run.
TEST(ConfigErrors, RandomTextNeverCrashes) {
  std::mt19937 random(20240607);
  const std::string alphabet = "ab:-[]{},#&*!|>'\"%@`?~ \n\n\t\\01.\xc3\xa9\xff";
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const std::size_t length = random() % 60;
    for (std::size_t i = 0; i < length; ++i) text += alphabet[random() % alphabet.size()];
    try {
      const Document document = Document::parse(text, "plan");
      for (const std::string& key : document.root().keys()) {
        EXPECT_NO_THROW(document.root().where(key));
        try {
          document.root().integers(key);
        } catch (const InputError&) {
        }
      }
    } catch (const InputError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace tilewright
