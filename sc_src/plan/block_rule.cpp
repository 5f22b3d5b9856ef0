#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tilewright/plan/block_rule.h>

namespace tilewright {
namespace {

constexpr std::int64_t kMostEvery = 10'000;  // layers of a model

}  // namespace

bool BlockRule::applies(int stage, std::int64_t layer) const {
  if (!stages.empty() && std::find(stages.begin(), stages.end(), stage) == stages.end()) {
    return false;
  }
  return layer < 0 || (layer + 1) % every == 0;
}

std::string to_string(const BlockRule& rule) {
  std::string text;
  if (rule.every > 1) text += fmt::format(", one layer of {}", rule.every);
  if (!rule.stages.empty()) text += fmt::format(", stages {}", fmt::join(rule.stages, ", "));
  return text;
}

BlockRule read_block_rule(const Section& section, int pipeline) {
  BlockRule rule;
  rule.every = section.integer("every", 1, kMostEvery, 1);
  for (const std::int64_t stage : section.integers("stages")) {
    if (stage < 0 || stage >= pipeline) {
      section.fail("stages",
                   fmt::format("there is no stage {}; allowed: 0 to {}", stage, pipeline - 1));
    }
    rule.stages.push_back(static_cast<int>(stage));
  }
  if (section.has("stages") && rule.stages.empty()) {
    section.fail("stages", "the list is empty; leave it out for all stages");
  }
  return rule;
}

}  // namespace tilewright
