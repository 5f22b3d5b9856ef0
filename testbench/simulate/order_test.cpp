// The answer must depend neither on the order in which the machine is built nor on how the event
// queue keeps step with the kernel. One process runs one simulation, so a child runs the other one.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tilewright/machine/machine.h>
#include <tilewright/simulate/simulate.h>
#include <tilewright/workload/decoder.h>

namespace tilewright {
namespace {

std::string shipped_job(const SimulateOptions& options) {
  const std::string root = TILEWRIGHT_SOURCE_DIR;
  const MachineConfig machine =
      read_machine(Document::load(root + "/platforms/tx8-die.yaml", "platform"));
  const PlanConfig plan =
      read_plan(Document::load(root + "/workloads/plans/gpt2-tx8-die.yaml", "plan"));
  const DecoderConfig model = read_decoder(
      Document::load(root + "/workloads/models/gpt2/config.json", "model"), plan.sequence);
  return json_report(simulate(machine, build_graph(model), plan, options));
}

std::string in_a_child(const SimulateOptions& options) {
  int ends[2];
  if (pipe(ends) != 0) return "pipe failed";
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = shipped_job(options);
    std::size_t written = 0;
    while (written < text.size()) {
      const ssize_t n = write(ends[1], text.data() + written, text.size() - written);
      if (n <= 0) break;
      written += static_cast<std::size_t>(n);
    }
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return text;
}

TEST(Order, OfConstructionDoesNotMatter) {
  SimulateOptions reversed;
  reversed.reverse_construction = true;
  const std::string other = in_a_child(reversed);
  EXPECT_EQ(shipped_job({}), other);
}

TEST(Order, KeepingStepWithTheKernelDoesNotMatter) {
  SimulateOptions in_step;
  in_step.in_step = true;
  const std::string other = in_a_child(in_step);
  EXPECT_EQ(shipped_job({}), other);
}

TEST(Order, CheckersOnTheSocketsDoNotMatter) {
  SimulateOptions checked;
  checked.check_protocol = true;
  const std::string other = in_a_child(checked);
  EXPECT_EQ(shipped_job({}), other);
}

}  // namespace
}  // namespace tilewright
