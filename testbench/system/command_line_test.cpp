// What the executable says about itself and about a command line it cannot use.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "job.h"
#include "support/subprocess.h"

namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using tilewright::testing_support::Job;
using tilewright::testing_support::kPlan;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
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

/// The command lines of all that write files; of files that nothing has written yet.
struct Commands {
  Job job;
  std::string die = "platforms/tx8-die.yaml", twp = "workloads/programs/ring-all-reduce.twp";

  std::vector<std::string> operator()(const std::string& name, std::vector<std::string> more) {
    std::vector<std::string> line{name};
    if (name == "program") {
      line.insert(line.end(), {"--run", twp, "--platform", die});
    } else if (name == "collective") {
      line.insert(line.end(), {"--platform", die, "--kind", "all_reduce", "--bytes", "1kB"});
    } else if (name != "network") {
      const std::vector<std::string> files = job.files();
      line.insert(line.end(), files.begin(), files.end());
    }
    line.insert(line.end(), more.begin(), more.end());
    return line;
  }
};

TEST(CommandLine, OneOutputAtMostGoesToStdout) {
  Commands commands;
  const auto refused = [&](const std::string& command, const std::string& a, const std::string& b) {
    expect_refused(tilewright(commands(command, {"--" + a, "-", "--" + b, "-"})),
                   {"cannot both go to stdout", "--" + a, "--" + b});
  };
  for (const char* side : {"link-load", "heat-map", "latencies", "power", "profile"}) {
    refused("run", "json", side);
  }
  refused("run", "heat-map", "latencies");
  refused("program", "json", "link-load");
  refused("collective", "link-load", "latencies");
  refused("describe", "json", "schedule");
  refused("network", "csv", "latencies");
}

TEST(CommandLine, AnOutputOnStdoutTakesTheReportsPlace) {
  Commands commands;
  for (const char* command : {"run", "program", "collective"}) {
    const Outcome o = tilewright(commands(command, {"--link-load", "-"}));
    EXPECT_EQ(o.exit_code, 0) << o.err;
    EXPECT_THAT(o.out, StartsWith("from,")) << command;
    const std::string file = commands.job.folder().path("load.csv");
    EXPECT_EQ(tilewright(commands(command, {"--link-load", file})).exit_code, 0);
    EXPECT_EQ(o.out, read_text(file)) << command;
  }
}

TEST(CommandLine, OutputsGoToFilesOfTheirOwn) {
  Commands commands;
  const std::string a = commands.job.folder().path("a"), dot = commands.job.folder().path("./a");
  const auto refused = [&](const std::string& command, const std::string& first,
                           const std::string& second) {
    expect_refused(tilewright(commands(command, {"--" + first, a, "--" + second, dot})),
                   {"both write '", "--" + first, "--" + second, "a file for each"});
    EXPECT_FALSE(std::filesystem::exists(a));
  };
  refused("run", "link-load", "latencies");
  refused("run", "json", "vcd");
  refused("program", "json", "power");
  refused("collective", "heat-map", "latencies");
  refused("describe", "json", "roofline");
  refused("network", "csv", "latencies");
  expect_refused(tilewright(commands("run", {"--vcd", a + ".vcd", "--json", a + ".gtkw"})),
                 {"--json", "the signal groups of --vcd"});
  // Links lead to one file; a device takes any number of outputs.
  std::filesystem::create_symlink("a", commands.job.folder().path("link"));
  std::ofstream(a) << "old";
  expect_refused(
      tilewright(commands("run", {"--json", a, "--profile", commands.job.folder().path("link")})),
      {"both write"});
  EXPECT_EQ(read_text(a), "old");
  EXPECT_EQ(
      tilewright(commands("run", {"--json", "/dev/null", "--profile", "/dev/null"})).exit_code, 0);
}

TEST(CommandLine, InputsAreNotReplaced) {
  Commands commands;
  const auto& folder = commands.job.folder();
  const auto kept = [&](const std::vector<std::string>& line, const std::string& file,
                        const std::string& what) {
    const std::string before = read_text(file);
    ASSERT_NE(before, "");
    expect_refused(tilewright(line), {"would replace '", "read as " + what});
    EXPECT_EQ(read_text(file), before);
  };
  for (const char* input : {"platform", "model", "plan"}) {
    const std::string file = folder.path(std::string(input) + ".yaml");
    for (const char* command : {"run", "compare", "describe"}) {
      kept(commands(command, {"--json", file}), file, std::string("--") + input);
    }
    std::vector<std::string> dump = commands("run", {"--dump", file});
    dump.front() = "program";
    kept(dump, file, std::string("--") + input);
  }
  commands.twp = folder.write("own.twp", read_text(TILEWRIGHT_SOURCE_DIR "/" + commands.twp));
  kept(commands("program", {"--latencies", commands.twp}), commands.twp, "--run");
  const std::string trace = folder.write("t.trace", "0 0 1 8\n");
  kept({"network", "--mesh", "2x2", "--trace", trace, "--csv", trace}, trace, "--trace");
  // A file that another one names.
  const std::string own = folder.path("own.yaml");
  EXPECT_EQ(tilewright(commands("describe", {"--schedule", own})).exit_code, 0);
  commands.job.plan(std::string(kPlan) + "schedule: {file: own.yaml}\n");
  kept(commands("describe", {"--schedule", own}), own, "schedule.file of --plan");
}

}  // namespace
