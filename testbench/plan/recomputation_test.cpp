// What a plan's recomputation means for a stage and a layer, and how it is read.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Recomputation read(const std::string& value, int pipeline = 4) {
  const std::string text = "recomputation: " + value + "\n";
  return read_recomputation(Document::parse(text, "plan", {}, "p.yaml").root(), pipeline);
}

std::string error_of(const std::string& value) {
  try {
    read(value);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

Dropped roles(std::initializer_list<OpRole> list) {
  Dropped d;
  for (const OpRole role : list) d.roles.set(static_cast<std::size_t>(role));
  return d;
}

const Dropped kAll{true, {}}, kNothing{};
const Dropped kCore = roles({OpRole::scores, OpRole::softmax});

TEST(Recomputation, Names) {
  EXPECT_EQ(read("none"), Recomputation::none);
  EXPECT_EQ(read("full"), Recomputation::full);
  EXPECT_EQ(read("selective"), Recomputation::selective);
  EXPECT_EQ(read("{ kind: full }"), Recomputation::full);
  EXPECT_EQ(read("{ operators: [softmax, scores] }"), Recomputation::selective);
  for (const std::int64_t layer : {-1, 0, 7}) {
    EXPECT_EQ(Recomputation::none.of(0, layer), kNothing);
    EXPECT_EQ(Recomputation::full.of(3, layer), kAll);
    EXPECT_EQ(Recomputation::selective.of(1, layer), kCore);
  }
}

TEST(Recomputation, EveryKthLayerOfTheModel) {
  const Recomputation r = read("{ kind: full, every: 3 }");
  for (std::int64_t layer = 0; layer < 12; ++layer) {
    EXPECT_EQ(r.of(static_cast<int>(layer / 4), layer), layer % 3 == 2 ? kAll : kNothing) << layer;
  }
  EXPECT_EQ(r.of(0, -1), kAll);  // the embedding
}

TEST(Recomputation, SomeStages) {
  const Recomputation r = read("{ kind: full, stages: [0, 1] }");
  EXPECT_EQ(r.of(0, 0), kAll);
  EXPECT_EQ(r.of(1, 9), kAll);
  EXPECT_EQ(r.of(2, 20), kNothing);
  EXPECT_EQ(r.of(-1, 0), kNothing);
}

TEST(Recomputation, RulesAddUp) {
  const Recomputation r = read(
      "[{ kind: selective }, { operators: [mlp_norm], stages: [2] }, { kind: full, every: 2, "
      "stages: [0] }]");
  EXPECT_EQ(r.of(0, 0), kCore);
  EXPECT_EQ(r.of(0, 1), kAll);
  EXPECT_EQ(r.of(1, 1), kCore);
  EXPECT_EQ(r.of(2, 4), roles({OpRole::scores, OpRole::softmax, OpRole::mlp_norm}));
  EXPECT_EQ(to_string(r), "selective; mlp_norm, stages 2; full, one layer of 2, stages 0");
  EXPECT_EQ(to_string(Recomputation::none), "none");
  EXPECT_EQ(to_string(read("[{ kind: none }]")), "none");
}

TEST(Recomputation, Refusals) {
  const auto at = [](const std::string& key) { return HasSubstr("p.yaml:1: recomputation" + key); };
  EXPECT_THAT(error_of("half"), AllOf(at(""), HasSubstr("none, full, selective")));
  EXPECT_THAT(error_of("{ kind: half }"), at(".kind"));
  EXPECT_THAT(error_of("{ every: 2 }"), at(".kind"));
  EXPECT_THAT(error_of("{ kind: full, every: 0 }"), at(".every"));
  EXPECT_THAT(error_of("{ kind: full, stages: [4] }"),
              AllOf(at(".stages"), HasSubstr("no stage 4; allowed: 0 to 3")));
  EXPECT_THAT(error_of("{ kind: full, stages: [] }"), at(".stages"));
  EXPECT_THAT(
      error_of("{ operators: [atention] }"),
      AllOf(at(".operators"), HasSubstr("'atention' is no operator; allowed: embedding, ")));
  EXPECT_THAT(error_of("{ operators: [] }"), at(".operators"));
  EXPECT_THAT(error_of("{ operators: [softmax], kind: full }"), at(".kind"));
  EXPECT_THAT(error_of("[full]"), at("[0]"));
}

TEST(Recomputation, IsCheckedAgainstTheModel) {
  DecoderConfig c;
  c.name = "m";
  c.layers = 4;
  c.hidden = 64;
  c.heads = c.kv_heads = 4;
  c.head_dim = 16;
  c.ffn = 256;
  c.sequence = c.max_positions = 32;
  const Graph g = build_graph(c);
  MachineConfig m;
  m.name = "one";
  m.tiles_x = m.tiles_y = 1;
  m.matrix.peak["fp16"] = FlopRate(1e12);
  const auto error = [&](const std::string& value) -> std::string {
    PlanConfig p;
    p.name = "test";
    p.recomputation = read(value, 1);
    p.where_recomputation = "p.yaml:7: recomputation";
    try {
      check_plan(p, g, m);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(error("{ kind: full, every: 4 }"), "accepted");
  EXPECT_THAT(
      error("{ kind: full, every: 5 }"),
      HasSubstr("p.yaml:7: recomputation: one layer of 5 is to be recomputed, but model 'm' "
                "has 4"));
  EXPECT_THAT(error("{ operators: [router] }"), HasSubstr("model 'm' has no operator 'router'"));
}

}  // namespace
}  // namespace tilewright
