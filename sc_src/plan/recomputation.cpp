#include <algorithm>
#include <initializer_list>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <tilewright/plan/recomputation.h>

namespace tilewright {
namespace {

RoleSet roles(std::initializer_list<OpRole> list) {
  RoleSet set;
  for (const OpRole role : list) set.set(static_cast<std::size_t>(role));
  return set;
}

Dropped everything() { return {true, {}}; }
Dropped attention_core() { return {false, roles({OpRole::scores, OpRole::softmax})}; }

RoleSet read_operators(const Section& rule) {
  RoleSet set;
  std::vector<std::string> names;
  for (int r = 0; r < kOpRoles; ++r) names.push_back(to_string(static_cast<OpRole>(r)));
  for (const std::string& name : rule.texts("operators")) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      rule.fail("operators",
                fmt::format("'{}' is no operator; allowed: {}", name, fmt::join(names, ", ")));
    }
    set.set(static_cast<std::size_t>(found - names.begin()));
  }
  if (set.none()) rule.fail("operators", "the list is empty; wanted: operators, such as [softmax]");
  return set;
}

const std::vector<std::pair<std::string, Dropped>>& kinds() {
  static const std::vector<std::pair<std::string, Dropped>> names{
      {"none", {}}, {"full", everything()}, {"selective", attention_core()}};
  return names;
}

RecomputationRule read_rule(const Section& section, int pipeline) {
  RecomputationRule rule;
  if (section.has("operators")) {
    if (section.has("kind")) {
      section.fail("kind", "a kind and a list of operators; wanted: one of them");
    }
    rule.dropped.roles = read_operators(section);
  } else {
    rule.dropped = section.choice<Dropped>("kind", kinds());
  }
  rule.where = read_block_rule(section, pipeline);
  return rule;
}

std::string text_of(const Dropped& dropped) {
  if (dropped.all) return "full";
  if (dropped == attention_core()) return "selective";
  std::vector<std::string> names;
  for (int r = 0; r < kOpRoles; ++r) {
    if (dropped.roles.test(static_cast<std::size_t>(r))) {
      names.push_back(to_string(static_cast<OpRole>(r)));
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

const Recomputation Recomputation::none{};
const Recomputation Recomputation::full{{{everything(), {}}}};
const Recomputation Recomputation::selective{{{attention_core(), {}}}};

Dropped Recomputation::of(int stage, std::int64_t layer) const {
  Dropped result;
  for (const RecomputationRule& rule : rules) {
    if (!rule.where.applies(stage, layer)) continue;
    result.all |= rule.dropped.all;
    result.roles |= rule.dropped.roles;
  }
  // One form for one meaning, so that equal blocks are recognised.
  if (result.all) result.roles.reset();
  return result;
}

std::string to_string(const Recomputation& recomputation) {
  std::vector<std::string> texts;
  for (const RecomputationRule& rule : recomputation.rules) {
    texts.push_back(text_of(rule.dropped) + to_string(rule.where));
  }
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, "; "));
}

Recomputation read_recomputation(const Section& plan, int pipeline) {
  const char* key = "recomputation";
  Recomputation result;
  if (plan.is_map(key)) {
    result.rules.push_back(read_rule(plan.section(key), pipeline));
  } else if (plan.is_list(key)) {
    for (const Section& rule : plan.sections(key)) {
      result.rules.push_back(read_rule(rule, pipeline));
    }
  } else {
    result.rules.push_back({plan.choice<Dropped>(key, kinds(), "none"), {}});
  }
  const auto nothing = [](const RecomputationRule& r) { return r.dropped == Dropped{}; };
  result.rules.erase(std::remove_if(result.rules.begin(), result.rules.end(), nothing),
                     result.rules.end());
  return result;
}

}  // namespace tilewright
