#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tilewright/plan/offload.h>

namespace tilewright {

std::string to_string(const Offload& offload) {
  std::vector<std::string> parts;
  if (offload.activations) parts.push_back("activations" + to_string(*offload.activations));
  if (offload.optimizer) parts.push_back("optimizer");
  if (offload.weights) parts.push_back("weights");
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "; "));
}

Offload read_offload(const Section& plan, int pipeline) {
  Offload result;
  const Section section = plan.section("offload");
  const char* activations = "activations";
  if (section.is_map(activations)) {
    result.activations = read_block_rule(section.section(activations), pipeline);
  } else if (section.choice<bool>(activations, {{"none", false}, {"all", true}}, "none")) {
    result.activations = BlockRule{};
  }
  result.optimizer = section.flag("optimizer", false);
  result.weights = section.flag("weights", false);
  return result;
}

}  // namespace tilewright
