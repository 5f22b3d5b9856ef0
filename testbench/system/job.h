// Small jobs for whole-program tests: three files, written on the fly.
#pragma once

#include <string>
#include <vector>

#include "support/subprocess.h"

namespace tilewright::testing_support {

const char* const kMachine = R"(machine: small
mesh:
  dies: [2, 1]
  tiles_per_die: [2, 2]
tile:
  matrix: {fp16: 1 TFLOP/s}
  vector: {throughput: 32 Gelem/s}
  sram: {capacity: 1 MiB, bandwidth: 200 GB/s}
noc:
  link_bandwidth: 32 GB/s
  hop_latency: 1 ns
  die_link_bandwidth: 16 GB/s
  die_hop_latency: 5 ns
dram:
  bandwidth: 32 GB/s
  capacity: 4 GiB
  latency: 100 ns
  per_die: [[0, 0]]
)";

const char* const kModel = R"(model: small-gpt
decoder:
  layers: 4
  hidden: 256
  heads: 8
  vocab: 1024
  sequence: 128
)";

const char* const kPlan = R"(plan: small-plan
parallelism:
  pipeline: 2
  tensor: 2
batch:
  global: 8
  micro: 2
)";

/// A folder with the three files above, each replaceable before running.
class Job {
 public:
  Job() {
    platform(kMachine);
    model(kModel);
    plan(kPlan);
  }
  void platform(const std::string& text) { platform_ = folder_.write("platform.yaml", text); }
  void model(const std::string& text, const std::string& name = "model.yaml") {
    model_ = folder_.write(name, text);
  }
  void plan(const std::string& text) { plan_ = folder_.write("plan.yaml", text); }

  std::vector<std::string> files() const {
    return {"--platform", platform_, "--model", model_, "--plan", plan_};
  }
  Outcome run(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments{"run"};
    for (const auto& part : {files(), more}) {
      arguments.insert(arguments.end(), part.begin(), part.end());
    }
    return tilewright(arguments);
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  TemporaryFolder folder_;
  std::string platform_, model_, plan_;
};

/// `text` with the first `from` replaced by `to`; throws when there is none.
inline std::string with(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

}  // namespace tilewright::testing_support
