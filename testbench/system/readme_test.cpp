// The examples of the README work as printed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/subprocess.h"

namespace {

using tilewright::testing_support::Outcome;
using tilewright::testing_support::read_text;
using tilewright::testing_support::run_program;
using tilewright::testing_support::TemporaryFolder;
using tilewright::testing_support::tilewright;

/// The YAML blocks of a page, in order.
std::vector<std::string> yaml_blocks(const std::string& page) {
  const std::string open = "```yaml\n", close = "```\n";
  std::vector<std::string> blocks;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    const std::size_t end = page.find(close, at);
    blocks.push_back(page.substr(at, end - at));
    at = end;
  }
  return blocks;
}

TEST(Readme, ItsThreeFilesAreAJob) {
  const auto blocks = yaml_blocks(read_text(TILEWRIGHT_SOURCE_DIR "/README.md"));
  ASSERT_EQ(blocks.size(), 3u);
  const TemporaryFolder folder;
  const Outcome o = tilewright({"run", "--platform", folder.write("small.yaml", blocks[0]),
                                "--model", folder.write("small-gpt.yaml", blocks[1]), "--plan",
                                folder.write("four-stages.yaml", blocks[2]), "--set",
                                "noc.link_bandwidth=512GB/s", "--set", "batch.micro=1"});
  EXPECT_EQ(o.exit_code, 0) << o.err;
}

/// The lines of a page's shell blocks, continued ones joined.
std::vector<std::string> commands(const std::string& page) {
  const std::string open = "```sh\n", close = "```\n";
  std::vector<std::string> result;
  for (std::size_t at = page.find(open); at != std::string::npos; at = page.find(open, at)) {
    at += open.size();
    const std::size_t end = page.find(close, at);
    std::istringstream lines(page.substr(at, end - at));
    bool continued = false;
    for (std::string line; std::getline(lines, line);) {
      if (!continued) result.emplace_back();
      continued = !line.empty() && line.back() == '\\';
      if (continued) line.pop_back();
      result.back() += line;
    }
    at = end;
  }
  return result;
}

TEST(Readme, TheWavesOfTracesAreWritten) {
  const TemporaryFolder folder;
  int written = 0;
  for (std::string command : commands(read_text(TILEWRIGHT_SOURCE_DIR "/traces/README.md"))) {
    const std::string binary = "build/tilewright", output = "traces/";
    ASSERT_EQ(command.find(binary), 0u) << command;
    command.replace(0, binary.size(), TILEWRIGHT_BINARY);
    command.replace(command.find(output), output.size(), folder.path(""));
    const Outcome o = run_program("/bin/sh", {"-c", command});
    EXPECT_EQ(o.exit_code, 0) << o.err;
    ++written;
  }
  EXPECT_EQ(written, 2);
  for (const char* file : {"pipeline.vcd", "pipeline.gtkw", "tile.vcd", "tile.gtkw"}) {
    EXPECT_TRUE(std::filesystem::exists(folder.path(file))) << file;
  }
}

TEST(Readme, ThePagesItNamesExist) {
  const std::string page = read_text(TILEWRIGHT_SOURCE_DIR "/README.md");
  int links = 0;
  for (std::size_t at = page.find("]("); at != std::string::npos; at = page.find("](", at + 1)) {
    std::string target = page.substr(at + 2, page.find(')', at) - at - 2);
    target = target.substr(0, target.find('#'));
    if (target.find("://") != std::string::npos) continue;
    EXPECT_TRUE(std::filesystem::exists(std::string(TILEWRIGHT_SOURCE_DIR "/") + target)) << target;
    ++links;
  }
  EXPECT_GT(links, 3);
}

}  // namespace
