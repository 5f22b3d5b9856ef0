// What the executable says about itself and about a command line it cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/subprocess.h"

namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::tilewright;

/// Wrong input: exit code 2, one line on stderr, nothing on stdout.
void expect_refused(const Outcome& o, const std::vector<std::string>& fragments) {
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, StartsWith("tilewright: error: "));
  for (const std::string& f : fragments) EXPECT_THAT(o.err, HasSubstr(f));
}

TEST(CommandLine, VersionAndHelp) {
  EXPECT_THAT(tilewright({"--version"}).out, StartsWith("tilewright "));
  for (const auto& arguments : std::vector<std::vector<std::string>>{{"--help"},
                                                                     {"-h"},
                                                                     {"help"},
                                                                     {"run", "--help"},
                                                                     {"help", "run"},
                                                                     {"describe", "--help"}}) {
    const Outcome o = tilewright(arguments);
    EXPECT_EQ(o.exit_code, 0);
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_THAT(o.out, HasSubstr("Example:"));
    EXPECT_THAT(o.out, HasSubstr("--platform"));
  }
}

TEST(CommandLine, CommandsThatDoNotExist) {
  expect_refused(tilewright({}), {"no command given"});
  expect_refused(tilewright({"rum"}), {"unknown command 'rum'", "did you mean 'run'?"});
  expect_refused(tilewright({"descrbe"}), {"did you mean 'describe'?"});
  expect_refused(tilewright({"--verion"}), {"unknown option '--verion'", "'--version'"});
  expect_refused(tilewright({"xyzzy"}), {"unknown command 'xyzzy'", "tilewright --help"});
}

TEST(CommandLine, OptionsThatDoNotExist) {
  expect_refused(tilewright({"run", "--platfrom", "x"}),
                 {"unknown option '--platfrom'", "did you mean '--platform'?"});
  expect_refused(tilewright({"run", "--plat", "x"}), {"did you mean '--platform'?"});
  expect_refused(tilewright({"describe", "--fidelity", "message"}),
                 {"unknown option '--fidelity'"});
  expect_refused(tilewright({"run", "stray"}), {"'stray' is not an option"});
}

TEST(CommandLine, OptionsWithoutAUse) {
  expect_refused(tilewright({"run", "--platform"}), {"'--platform'", "missing"});
  expect_refused(tilewright({"run", "--platform", "a", "--platform", "b"}), {"more than once"});
  expect_refused(tilewright({"run"}), {"missing --platform, --model, --plan"});
  expect_refused(tilewright({"run", "--model", "m"}), {"missing --platform, --plan"});
  expect_refused(tilewright({"describe"}), {"at least one of --platform, --model, --plan"});
  expect_refused(
      tilewright({"run", "--platform", "p", "--model", "m", "--plan", "q", "--fidelity", "mesage"}),
      {"unknown fidelity 'mesage'", "did you mean 'message'?"});
  expect_refused(tilewright({"describe", "--model", "workloads/models/gpt2", "--set", "layers"}),
                 {"layers"});
}

TEST(CommandLine, TheKernelsBannerNeverAppears) {
  const Outcome o = tilewright({"describe", "--platform", "platforms/tx8-die.yaml"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.out, Not(HasSubstr("Accellera")));
  EXPECT_THAT(o.err, IsEmpty());
}

TEST(CommandLine, OutputsThatCannotBeWritten) {
  const std::string model = "workloads/models/gpt2";
  expect_refused(tilewright({"describe", "--model", model, "--json", "/no/such/folder/x.json"}),
                 {"cannot write '/no/such/folder/x.json'", "no folder '/no/such/folder'"});
  expect_refused(tilewright({"describe", "--model", model, "--json", "/tmp"}),
                 {"cannot write '/tmp'", "folder"});
}

}  // namespace
