// Convolutional networks through the command line.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "support/subprocess.h"

namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::tilewright;

std::vector<std::string> job(const std::string& command, const std::vector<std::string>& more) {
  std::vector<std::string> arguments{command,
                                     "--platform",
                                     "platforms/tx8-die.yaml",
                                     "--model",
                                     "workloads/models/resnet-50",
                                     "--plan",
                                     "workloads/plans/resnet-50-tx8-die.yaml"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST(ConvnetCommand, ReportsSamplesAndNoTokens) {
  const Outcome text = tilewright(job("run", {}));
  ASSERT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("for 256 samples\n"));
  EXPECT_THAT(text.out, HasSubstr("25.56 M parameters"));
  EXPECT_THAT(text.out, Not(HasSubstr("token")));
  const Outcome o = tilewright(job("run", {"--json", "-"}));
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json r = json::parse(o.out);
  EXPECT_EQ(r["parameters"], 25'557'032);
  EXPECT_EQ(r["throughput"]["tokens_per_iteration"], 0);
  // 256 images, three forward passes less the stem's, of which there are two.
  EXPECT_EQ(r["flops"]["model"], 256 * 2 * (3 * 4'089'184'256.0 - 118'013'952.0));
}

TEST(ConvnetCommand, DescribesHowAConvolutionIsBlocked) {
  const Outcome o = tilewright(job("describe", {"--operator", "conv2", "--json", "-"}));
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const json kernels = json::parse(o.out)["operator"];
  const json& first = kernels[0];
  EXPECT_EQ(first["kernel"], "conv2+norm2.statistics");
  EXPECT_EQ(first["convolution"]["pass"], "forward");
  EXPECT_EQ(first["gemm"]["m"], 16 * 56 * 56);
  EXPECT_EQ(first["gemm"]["k"], 64 * 9);
  // 3 MiB hold the weights and the rows that pass: everything is read once.
  EXPECT_EQ(first["blocking"]["a_bytes"], 16 * 56 * 56 * 64 * 2);
  EXPECT_EQ(first["blocking"]["b_bytes"], 9 * 64 * 64 * 2);
}

TEST(ConvnetCommand, TokensAreRefused) {
  const Outcome o = tilewright(job("run", {"--set", "plan.sequence=1024"}));
  EXPECT_EQ(o.exit_code, 2);
  EXPECT_THAT(o.err, HasSubstr("'resnet-50' is of images"));
}

}  // namespace
