// `--vcd`: what it shows agrees with the report, changes nothing, and opens in GTKWave.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "job.h"
#include "support/vcd.h"

namespace {

using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;
using tilewright::test::VcdFile;
using tilewright::testing_support::Job;
using tilewright::testing_support::kMachine;
using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::run_program;
using tilewright::testing_support::TemporaryFolder;
using tilewright::testing_support::tilewright;
using tilewright::testing_support::with;

const std::vector<std::string> kEverything{"--vcd-scope", "*"};

Outcome run_with_waves(const Job& job, const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments{"--json", "-", "--vcd", job.folder().path("out.vcd")};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return job.run(arguments);
}

/// The waves of a job of 4 tiles in use of 4 x 2.
VcdFile waves_of(const Job& job, const std::vector<std::string>& more = {}) {
  const Outcome o = run_with_waves(job, more);
  EXPECT_EQ(o.exit_code, 0) << o.err;
  return VcdFile::parse(read_text(job.folder().path("out.vcd")));
}

std::vector<std::string> files_in(const TemporaryFolder& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path("."))) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

TEST(WavesCommand, TheResultHasTheSameBytesWithAndWithout) {
  const Job job;
  const Outcome with = run_with_waves(job, kEverything);
  EXPECT_EQ(with.exit_code, 0) << with.err;
  EXPECT_EQ(with.out, job.run({"--json", "-"}).out);
  EXPECT_THAT(files_in(job.folder()),
              ElementsAre("model.yaml", "out.gtkw", "out.vcd", "plan.yaml", "platform.yaml"));
}

TEST(WavesCommand, TheSameBytesEveryTime) {
  const Job job;
  run_with_waves(job, kEverything);
  const std::string vcd = read_text(job.folder().path("out.vcd"));
  const std::string groups = read_text(job.folder().path("out.gtkw"));
  run_with_waves(job, kEverything);
  EXPECT_EQ(read_text(job.folder().path("out.vcd")), vcd);
  EXPECT_EQ(read_text(job.folder().path("out.gtkw")), groups);
}

TEST(WavesCommand, TheWavesEqualTheReport) {
  const Job job;
  const std::vector<std::string> settings{"--vcd-scope", "*", "--set", "recomputation=full"};
  const json report = json::parse(run_with_waves(job, settings).out);
  const VcdFile vcd = VcdFile::parse(read_text(job.folder().path("out.vcd")));
  const double iteration = report["iteration_time_s"];
  EXPECT_EQ(vcd.end, static_cast<std::uint64_t>(std::llround(iteration * 1e12)));

  std::vector<std::string> used;  // by their names
  std::uint64_t fullest = 0;
  for (const auto& [name, signal] : vcd.signals) {
    if (name.rfind("tiles.", 0) != 0 || name.find(".state") == std::string::npos) continue;
    if (vcd.time(name, "idle") == vcd.end) continue;
    used.push_back(name.substr(0, name.rfind('.')));
    fullest = std::max(fullest, vcd.largest(used.back() + ".sram.peak"));
  }
  ASSERT_EQ(used.size(), report["tiles"]["used"].get<std::size_t>());
  EXPECT_EQ(fullest, report["memory"]["sram_peak_bytes"].get<std::uint64_t>());
  for (const auto& [state, seconds] : report["breakdown_s"].items()) {
    double sum = 0;
    for (const std::string& tile : used)
      sum += static_cast<double>(vcd.time(tile + ".state", state));
    EXPECT_NEAR(sum * 1e-12 / static_cast<double>(used.size()), seconds.get<double>(),
                1e-12 * iteration)
        << state;
  }
  double busy = 0;
  int links = 0;
  for (const auto& [name, signal] : vcd.signals) {
    if (name.rfind("links.", 0) != 0 || name.find(".busy") == std::string::npos) continue;
    busy += static_cast<double>(vcd.time(name, "1"));
    ++links;
  }
  // Each claim is rounded to picoseconds.
  const double hops = report["simulation"]["message_hops"];
  EXPECT_NEAR(busy * 1e-12 / links / iteration, report["links"]["mean"].get<double>(),
              hops * 1e-12 / links / iteration);
}

std::vector<std::string> slots(const VcdFile& vcd, const std::string& stage) {
  std::vector<std::string> result;
  for (const auto& [time, slot] : vcd.signal("stages." + stage + ".slot").changes) {
    if (slot != "-" && (result.empty() || result.back() != slot)) result.push_back(slot);
  }
  return result;
}

// 1F1B, four micro-batches on two stages.
TEST(WavesCommand, TheStagesRunTheSchedule) {
  const VcdFile vcd = waves_of(Job());
  EXPECT_THAT(slots(vcd, "stage_0"),
              ElementsAre("F0", "F1", "B0", "F2", "B1", "F3", "B2", "B3", "optimizer"));
  EXPECT_THAT(slots(vcd, "stage_1"),
              ElementsAre("F0", "B0", "F1", "B1", "F2", "B2", "F3", "B3", "optimizer"));
}

// 160 KiB from the start of a memory: four bank groups in turn take the bursts, in rows of 8 KiB,
// and then go on to their next bank. After four banks each comes the second row of the first. It
// takes 6.4 us, so no refresh comes in between.
TEST(WavesCommand, RowsOfABankedMemory) {
  const TemporaryFolder folder;
  const std::string platform =
      folder.write("platform.yaml",
                   with(kMachine, "  bandwidth: 32 GB/s\n  capacity: 4 GiB\n  latency: 100 ns\n",
                        "  model: banked\n"
                        "  memory: " TILEWRIGHT_SOURCE_DIR "/platforms/memories/ddr4-3200.yaml\n"));
  const std::string program = folder.write(
      "load.twp",
      "tilewright-program 1\nsegment s\nload x bytes=160KiB\ngroup g\ntiles 0\ncall s\n");
  const std::string file = folder.path("rows.vcd");
  const Outcome o = tilewright({"program", "--run", program, "--platform", platform, "--vcd", file,
                                "--vcd-scope", "controllers.dram0"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const VcdFile vcd = VcdFile::parse(read_text(file));
  std::map<std::string, std::string> opened;
  for (const auto& [name, signal] : vcd.signals) {
    if (name.find(".bank") == std::string::npos) continue;
    for (const auto& [time, row] : signal.changes) {
      if (row != "z") opened[name] += row + " ";
    }
  }
  EXPECT_EQ(opened.size(), 16u);
  for (int group = 0; group < 4; ++group) {
    for (int bank = 0; bank < 4; ++bank) {
      const std::string name = "controllers.dram0.channel0.bank" + std::to_string(4 * group + bank);
      EXPECT_EQ(opened[name], bank == 0 ? "0 1 " : "0 ") << name;
    }
  }
  EXPECT_EQ(vcd.history("controllers.dram0.queue"), "0 1, " + std::to_string(vcd.end) + " 0");
}

TEST(WavesCommand, AProgramHasWavesToo) {
  const TemporaryFolder folder;
  const std::string file = folder.path("ring.vcd");
  const Outcome o = tilewright({"program", "--run", "workloads/programs/ring-all-reduce.twp",
                                "--platform", "platforms/tx8-die.yaml", "--vcd", file,
                                "--vcd-scope", "tiles.t0_0", "--json", "-"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const VcdFile vcd = VcdFile::parse(read_text(file));
  // docs/program.md: two halves of 16.78 us together on the matrix engine, six messages.
  EXPECT_NEAR(static_cast<double>(vcd.time("tiles.t0_0.matrix.busy", "1")) * 1e-6, 16.78, 0.01);
  EXPECT_EQ(vcd.at("tiles.t0_0.net_recv.bytes", vcd.end), std::to_string(6 * 256 * 1024));
}

TEST(WavesCommand, ARunThatDeadlocksLeavesItsWaves) {
  const TemporaryFolder folder;
  const std::string program = folder.write("stuck.twp", R"(tilewright-program 1
channel a
shape s: matrix format=fp16 m=16 n=16 k=16
segment s
  compute x shape=s
  recv y channel=a peers=0 bytes=8 after=0 cause=tensor
  send x channel=a peers=0 bytes=8 after=1 cause=tensor
group left
  tiles 0
  peers 0: 1
  call s
group right
  tiles 1
  peers 0: 0
  call s
)");
  const std::string file = folder.path("stuck.vcd");
  const Outcome o = tilewright(
      {"program", "--run", program, "--platform", "platforms/tx8-die.yaml", "--vcd", file});
  EXPECT_EQ(o.exit_code, 4) << o.err;
  const VcdFile vcd = VcdFile::parse(read_text(file));
  EXPECT_EQ(vcd.at("tiles.t0_0.net_recv.channel", vcd.end), "a");
  EXPECT_EQ(vcd.at("tiles.t0_0.state", vcd.end), "tensor_wait");
}

void expect_refused(const std::vector<std::string>& options, const std::string& fragment) {
  const Job job;
  std::vector<std::string> arguments;
  for (const std::string& o : options) {
    arguments.push_back(o == "FILE" ? job.folder().path("out.vcd") : o);
  }
  const Outcome o = job.run(arguments);
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_THAT(o.out, IsEmpty());
  EXPECT_THAT(o.err, AllOf(StartsWith("tilewright: error: "), HasSubstr(fragment)));
  EXPECT_THAT(files_in(job.folder()), ElementsAre("model.yaml", "plan.yaml", "platform.yaml"));
}

TEST(WavesCommand, WrongInputIsRefused) {
  expect_refused({"--vcd", "FILE", "--vcd-scope", "tiles.t9_9"}, "nothing is named 'tiles.t9_9'");
  expect_refused({"--vcd", "FILE", "--vcd-scope", ""}, "nothing is named ''");
  expect_refused({"--vcd", "FILE", "--vcd-from", "2ms", "--vcd-to", "1ms"},
                 "--vcd-from 2ms is after --vcd-to 1ms");
  expect_refused({"--vcd", "FILE", "--vcd-from", "2"}, "--vcd-from: '2' has no unit");
  expect_refused({"--vcd", "FILE", "--vcd-to", "-1ms"}, "--vcd-to: '-1ms' is negative");
  expect_refused({"--vcd", "FILE", "--vcd-to", "1GB"}, "--vcd-to: '1GB' is an amount of data");
  expect_refused({"--vcd", "/no/such/folder/x.vcd"}, "there is no folder '/no/such/folder'");
  expect_refused({"--vcd", "/tmp"}, "it is a folder");
  expect_refused({"--vcd", "-"}, "--vcd needs a file");
  expect_refused({"--vcd", "out.gtkw"}, "its signal groups take this name");
  expect_refused({"--vcd-scope", "*"}, "--vcd-scope has no meaning without --vcd");
  expect_refused({"--vcd-to", "1ms"}, "--vcd-to has no meaning without --vcd");
}

TEST(WavesCommand, AWindowBehindTheEndIsRemarked) {
  const Job job;
  const Outcome o = run_with_waves(job, {"--vcd-from", "1000 s"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
  EXPECT_THAT(o.err, HasSubstr("before --vcd-from 1000 s"));
  const VcdFile vcd = VcdFile::parse(read_text(job.folder().path("out.vcd")));
  EXPECT_EQ(vcd.at("stages.stage_0.slot", vcd.begin), "-");
}

TEST(WavesCommand, AFullDeviceIsAnError) {
  const Job job;
  const Outcome o = job.run({"--vcd", "/dev/full", "--vcd-scope", "*"});
  EXPECT_EQ(o.exit_code, 2) << o.err;
  EXPECT_THAT(o.err, HasSubstr("cannot write the waves: No space left on device"));
}

/// GTKWave's converter, which reads as the viewer does; "" when it is not installed.
std::string vcd2fst() {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    folder += "/vcd2fst";
    if (access(folder.c_str(), X_OK) == 0) return folder;
  }
  return {};
}

TEST(WavesCommand, GtkwaveTakesAWindowOfTheMainJob) {
  const TemporaryFolder folder;
  const std::string file = folder.path("main.vcd");
  const Outcome o = tilewright({"run", "--platform", "platforms/tx8-wafer.yaml", "--model",
                                "workloads/models/megatron-18b.yaml", "--plan",
                                "workloads/plans/megatron-18b-tx8.yaml", "--vcd", file,
                                "--vcd-from", "100 s", "--vcd-to", "100.2 s", "--vcd-scope", "*"});
  ASSERT_EQ(o.exit_code, 0) << o.err;
  const VcdFile vcd = VcdFile::parse(read_text(file));
  EXPECT_EQ(vcd.begin, 100'000'000'000'000u);
  EXPECT_EQ(vcd.end, 100'200'000'000'000u);
  EXPECT_EQ(vcd.signals.count("tiles.t19_15.state"), 1u);
  EXPECT_EQ(vcd.signals.count("stages.stage_19.slot"), 1u);
  EXPECT_EQ(vcd.signals.count("controllers.dram63.queue"), 1u);
  EXPECT_GT(vcd.time("tiles.t0_0.matrix.busy", "1"), 0u);

  const std::string converter = vcd2fst();
  if (converter.empty()) GTEST_SKIP() << "vcd2fst (Debian package gtkwave) is not installed";
  const std::string fst = folder.path("main.fst");
  const Outcome converted = run_program(converter, {file, fst});
  EXPECT_EQ(converted.exit_code, 0);
  EXPECT_EQ(converted.out + converted.err, "");
  // Back again: the same signals.
  const Outcome back =
      run_program(std::filesystem::path(converter).parent_path() / "fst2vcd", {fst});
  EXPECT_EQ(back.exit_code, 0);
  std::size_t variables = 0, slots = 0;
  std::istringstream lines(back.out);
  for (std::string line; std::getline(lines, line);) {
    variables += line.rfind("$var ", 0) == 0;
    slots += line.rfind("$var string", 0) == 0 && line.find(" slot $end") != std::string::npos;
  }
  EXPECT_EQ(variables, vcd.signals.size());
  EXPECT_EQ(slots, 20u);
}

}  // namespace
