// The programs that lower() writes survive the way through text.
#include <string>

#include <gtest/gtest.h>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/lower.h>
#include <tilewright/program/text.h>
#include <tilewright/workload/decoder.h>

#include "support/program_equal.h"

namespace tilewright {
namespace {

void expect_round_trip(const std::string& platform, const std::string& model,
                       const std::string& plan) {
  const std::string root = std::string(TILEWRIGHT_SOURCE_DIR) + "/";
  const MachineConfig machine =
      read_machine(Document::load(root + "platforms/" + platform, "platform"));
  const PlanConfig p = read_plan(Document::load(root + "workloads/plans/" + plan, "plan"));
  const Graph graph = build_graph(
      read_decoder(Document::load(root + "workloads/models/" + model, "model"), p.sequence));
  const Program program = lower(graph, p, machine).program;
  const std::string text = program_text(program);
  const Program again = parse_program(text);
  EXPECT_EQ(test::difference(program, again), "");
  EXPECT_EQ(program_text(again), text);
}

TEST(LoweredProgramText, MainJob) {
  expect_round_trip("tx8-wafer.yaml", "megatron-18b.yaml", "megatron-18b-tx8.yaml");
}
TEST(LoweredProgramText, Gpt2OnOneDie) {
  expect_round_trip("tx8-die.yaml", "gpt2/config.json", "gpt2-tx8-die.yaml");
}
TEST(LoweredProgramText, Inference) {
  expect_round_trip("tx8-wafer.yaml", "llama-3-8b/config.json", "llama-3-8b-inference-tx8.yaml");
}

}  // namespace
}  // namespace tilewright
