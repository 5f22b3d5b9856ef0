#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/config.h>
#include <tilewright/base/error.h>

namespace tilewright {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

TEST(Overrides, TakePrecedenceOverTheFile) {
  const Overrides overrides({"noc.bw=512GB/s", "tiles = 7"});
  const Document document =
      Document::parse("tiles: 5\nnoc:\n  bw: 1 GB/s\n", "platform", overrides);
  EXPECT_EQ(document.root().integer("tiles", 1, 9), 7);
  const Section noc = document.root().section("noc");
  EXPECT_EQ(noc.bandwidth("bw"), Bandwidth(512e9));
  EXPECT_NO_THROW(document.root().finish());
  EXPECT_NO_THROW(overrides.finish());
  ASSERT_EQ(document.resolved().size(), 2u);
  EXPECT_EQ(document.resolved()[1].path, "noc.bw");
  EXPECT_EQ(document.resolved()[1].value, "512GB/s");
  EXPECT_EQ(document.resolved()[1].origin, "--set");
  EXPECT_EQ(noc.where("bw"), "--set noc.bw=512GB/s: noc.bw");
}

TEST(Overrides, AddKeysAndSectionsThatTheFileLacks) {
  const Overrides overrides({"noc.router.vcs=4", "noc.bw=1 GB/s", "platform.mem.size=1 GiB"});
  const Document document = Document::parse("a: 1", "platform", overrides);
  const Section root = document.root();
  EXPECT_TRUE(root.has("noc"));
  EXPECT_TRUE(root.has("mem"));
  EXPECT_FALSE(root.has("no"));
  EXPECT_TRUE(root.section("noc").has("router"));
  EXPECT_EQ(root.section("noc").section("router").integer("vcs", 1, 8), 4);
  EXPECT_EQ(root.section("noc").bandwidth("bw"), Bandwidth(1e9));
  EXPECT_EQ(root.section("mem").bytes("size"), Bytes(1073741824));
  EXPECT_NO_THROW(overrides.finish());
}

TEST(Overrides, ListsAndMaps) {
  const Overrides overrides({"shape=[4, 4]", "failed=[[0, 1], [2, 3]]", "noc={vcs: 2, bw: 1 GB/s}",
                             "noc.vcs=3", "links=[{to: 5}]"});
  const Document document = Document::parse("shape: [1]\nnoc: {other: 1}", "platform", overrides);
  const Section root = document.root();
  EXPECT_THAT(root.integers("shape"), ElementsAre(4, 4));
  EXPECT_THAT(root.pairs("failed"), ElementsAre(Pair(0, 1), Pair(2, 3)));
  EXPECT_EQ(root.section("noc").bandwidth("bw"), Bandwidth(1e9));
  EXPECT_EQ(root.section("noc").integer("vcs", 1, 8), 3);  // the more precise one
  EXPECT_EQ(root.sections("links").at(0).integer("to", 0, 9), 5);
  EXPECT_NO_THROW(root.finish());  // the map replaces the one in the file: no "other"
  EXPECT_NO_THROW(overrides.finish());
  EXPECT_EQ(document.resolved()[0].value, "[4, 4]");
  EXPECT_EQ(document.resolved()[2].origin, "--set");
}

TEST(Overrides, ReachElementsOfLists) {
  const Overrides overrides({"links[1].to=9"});
  const Document document = Document::parse("links: [{to: 1}, {to: 2}]", "platform", overrides);
  EXPECT_EQ(document.root().sections("links").at(0).integer("to", 0, 9), 1);
  EXPECT_EQ(document.root().sections("links").at(1).integer("to", 0, 9), 9);
  EXPECT_NO_THROW(overrides.finish());
}

TEST(Overrides, KeysIncludeThoseOnlyOverridesName) {
  const Overrides overrides({"stages.b.x=1", "stages.a.1.y=2", "plan.stages.c=3", "stages.b.z=4"});
  const Document document = Document::parse("stages: {a.1: {}}", "plan", overrides);
  EXPECT_THAT(document.root().section("stages").keys(), ElementsAre("a.1", "b", "c"));
  EXPECT_THAT(document.root().keys(), ElementsAre("stages"));
}

TEST(Overrides, ErrorsNameTheSetInPlaceOfTheFile) {
  const Overrides overrides({"noc.bw=3 MiB", "n=99", "e=", "m={x: 1}", "l=[1, x]"});
  const Section root = Document::parse("a: 1", "platform", overrides).root();
  EXPECT_THAT(message_of([&] { root.section("noc").bandwidth("bw"); }),
              StartsWith("--set noc.bw=3 MiB: noc.bw: '3 MiB' is an amount of data; wanted: a "
                         "bandwidth"));
  EXPECT_EQ(message_of([&] { root.integer("n", 1, 8); }),
            "--set n=99: n: '99' is out of range; wanted: an integer from 1 to 8");
  EXPECT_EQ(message_of([&] { root.text("e"); }),
            "--set e=: e: found nothing (null); wanted: a text");
  EXPECT_EQ(message_of([&] { root.section("m").finish(); }),
            "--set m={x: 1}: m.x: unknown key 'x'; no key is allowed here");
  EXPECT_EQ(message_of([&] { root.integers("l"); }),
            "--set l=[1, x]: l[1]: 'x' is not an integer; wanted: an integer");
  EXPECT_EQ(message_of([&] { root.fail("n", "too many"); }), "--set n=99: n: too many");
}

TEST(Overrides, MalformedItems) {
  EXPECT_EQ(message_of([] { Overrides({"tiles"}); }),
            "--set tiles: wanted: key=value, such as noc.link_bandwidth=512GB/s");
  EXPECT_THAT(message_of([] { Overrides({"=5"}); }), HasSubstr("no key before '='"));
  EXPECT_EQ(message_of([] {
              Overrides({"a=1", "a=2"});
            }),
            "--set a=2: key 'a' is also given by --set a=1; give it once");
  EXPECT_THAT(message_of([] { Overrides({"a=[1, "}); }),
              StartsWith("--set a=[1, : not valid YAML: "));
  EXPECT_THAT(message_of([] { Overrides({"a={x: 1, x: 2}"}); }), HasSubstr("given twice"));
  EXPECT_EQ(message_of([] { Overrides({"a=b=c"}); }), "no error");
}

TEST(Overrides, UnknownKeyNamesTheNearestPathOfAnyDocument) {
  const Overrides overrides({"noc.link_bandwith=1 GB/s"});
  const Document platform = Document::parse("a: 1", "platform", overrides);
  platform.root().integer("a", 0, 9);
  const Section noc = platform.root().section("noc");
  noc.bandwidth("link_bandwidth", Bandwidth(1e9));
  noc.seconds("hop_latency", Seconds(1e-9));
  Document::parse("b: 1", "model", overrides).root().integer("b", 0, 9);
  EXPECT_EQ(message_of([&] { overrides.finish(); }),
            "--set noc.link_bandwith=1 GB/s: unknown key 'noc.link_bandwith'; did you mean "
            "'noc.link_bandwidth'? known keys: noc.link_bandwidth, noc.hop_latency");
}

TEST(Overrides, UnknownKeyInTheWrongPlace) {
  const Overrides overrides({"link_bandwidth=1 GB/s"});
  const Document platform = Document::parse("a: 1", "platform", overrides);
  platform.root().section("noc").bandwidth("link_bandwidth", Bandwidth(1e9));
  EXPECT_THAT(message_of([&] { overrides.finish(); }),
              HasSubstr("did you mean 'noc.link_bandwidth'?"));
}

TEST(Overrides, UnknownKeyInADocumentThatIgnoresUnknownKeys) {
  const Overrides overrides({"model.hiden_size=1"});
  const Document model = Document::parse("hidden_size: 5", "model", overrides);
  model.root().integer("hidden_size", 1, 9);
  model.root().ignore_unknown();
  EXPECT_NO_THROW(model.root().finish());
  EXPECT_THAT(message_of([&] { overrides.finish(); }),
              HasSubstr("did you mean 'model.hidden_size'?"));
}

TEST(Overrides, AKeyOfTwoDocumentsNeedsAPrefix) {
  const Overrides overrides({"name=x"});
  for (const char* kind : {"platform", "model"})
    Document::parse("name: y", kind, overrides).root().text("name");
  EXPECT_EQ(message_of([&] { overrides.finish(); }),
            "--set name=x: key 'name' exists in the model and in the platform; say which one: "
            "model.name or platform.name");
}

TEST(Overrides, APrefixSelectsTheDocument) {
  const Overrides overrides({"platform.name=x"});
  EXPECT_EQ(Document::parse("name: y", "platform", overrides).root().text("name"), "x");
  EXPECT_EQ(Document::parse("name: y", "model", overrides).root().text("name"), "y");
  EXPECT_NO_THROW(overrides.finish());
}

TEST(Overrides, TwoDocumentsOfOneKindShareAnOverride) {
  const Overrides overrides({"plan.pp=4"});
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(Document::parse("pp: 1", "plan", overrides).root().integer("pp", 1, 9), 4);
  EXPECT_NO_THROW(overrides.finish());
}

TEST(Overrides, ThePrefixedOneWins) {
  const Overrides both({"platform.n=1", "n=2"});
  EXPECT_EQ(Document::parse("n: 3", "platform", both).root().integer("n", 0, 9), 1);
  EXPECT_EQ(message_of([&] { both.finish(); }),
            "--set n=2: has no effect: --set platform.n=1 is more specific");
  Document::parse("n: 3", "model", both).root().integer("n", 0, 9);
  EXPECT_NO_THROW(both.finish());  // now each has a document of its own
}

TEST(Overrides, AKeyThatWasOnlyAskedAboutHasNoEffect) {
  const Overrides overrides({"n=2"});
  EXPECT_TRUE(Document::parse("a: 1", "plan", overrides).root().has("n"));
  EXPECT_THAT(message_of([&] { overrides.finish(); }), HasSubstr("has no effect"));
}

TEST(Overrides, NoneIsFine) {
  EXPECT_NO_THROW(Overrides().finish());
  EXPECT_NO_THROW(Overrides(std::vector<std::string>{}).finish());
}

TEST(Overrides, WithoutAnyDocument) {
  EXPECT_EQ(message_of([] { Overrides({"a=1"}).finish(); }),
            "--set a=1: unknown key 'a'; no file of this run has keys");
}

}  // namespace
}  // namespace tilewright
