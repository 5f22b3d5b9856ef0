// The roofline through the executable.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using tilewright::testing_support::Job;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::tilewright;

std::vector<std::string> describe(const Job& job, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{"describe"};
  for (const auto& part : {job.files(), more}) {
    arguments.insert(arguments.end(), part.begin(), part.end());
  }
  return arguments;
}

TEST(RooflineOfAJob, EveryOperatorIsUnderItsRoof) {
  const Job job;
  const Outcome o = tilewright(describe(job, {"--json", "-"}));
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json operators = json::parse(o.out)["job"]["operators"];
  EXPECT_GT(operators.size(), 20u);
  double flop = 0;
  for (const json& op : operators) {
    const double rate = op["operations_per_s"].get<double>();
    const bool matrix = op["engine"] == "matrix";
    EXPECT_LE(rate, (matrix ? 1e12 : 32e9) * (1 + 1e-9)) << op["name"];
    EXPECT_LE(rate, op["roof_per_s"].get<double>() * (1 + 1e-9)) << op["name"];
    EXPECT_LE(op["roof_per_s"].get<double>(), matrix ? 1e12 : 32e9) << op["name"];
    if (matrix) flop += op["operations"].get<double>() * op["calls"].get<double>();
  }
  // Two tensor ranks share the work of every operator.
  const json run = json::parse(job.run({"--json", "-"}).out);
  EXPECT_NEAR(2 * flop, run["flops"]["hardware"].get<double>(), 1e-9 * flop);
}

TEST(RooflineOfAJob, IsDrawnOrWrittenAsATable) {
  const Job job;
  const std::string svg = job.folder().path("roofline.svg"),
                    csv = job.folder().path("roofline.csv");
  ASSERT_EQ(tilewright(describe(job, {"--roofline", svg})).exit_code, 0);
  ASSERT_EQ(tilewright(describe(job, {"--roofline", csv})).exit_code, 0);
  EXPECT_THAT(read_text(svg), AllOf(testing::StartsWith("<svg "), testing::EndsWith("</svg>\n"),
                                    HasSubstr("small-gpt with plan small-plan on small"),
                                    HasSubstr("fp16 matrix peak 1 TFLOP/s")));
  EXPECT_THAT(read_text(csv), AllOf(testing::StartsWith("operator,phase,stages,engine,"),
                                    HasSubstr("\n\"mlp_up+activation\",forward,\"0-1\",matrix,")));
  const Outcome refused =
      tilewright({"describe", "--platform", "platforms/tx8-die.yaml", "--roofline", svg});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("give --platform, --model and --plan"));
}

}  // namespace
