#include "inputs.h"

#include <algorithm>
#include <utility>

#include <boost/algorithm/string/trim.hpp>

#include "files.h"
#include "options.h"
#include "outputs.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

/// {"platform", "noc.routing"} of "platform.noc.routing=yx"; the kind may be missing.
std::pair<std::string, std::string> key_of(const std::string& set) {
  const std::string key = boost::trim_copy(set.substr(0, set.find('=')));
  for (const std::string kind : {"platform", "model", "plan"}) {
    if (key.rfind(kind + ".", 0) == 0) return {kind, key.substr(kind.size() + 1)};
  }
  return {"", key};
}

}  // namespace

bool same_key(const std::string& a, const std::string& b) {
  const auto [a_kind, a_key] = key_of(a);
  const auto [b_kind, b_key] = key_of(b);
  return a_key == b_key && (a_kind == b_kind || a_kind.empty() || b_kind.empty());
}

void add_input_options(po::options_description& options) {
  auto add = options.add_options();
  add("platform", po::value<std::string>()->value_name("FILE"), "machine description (YAML)");
  add("model", po::value<std::string>()->value_name("FILE"),
      "model: our YAML, a Hugging Face config.json, or a folder that holds one");
  add("plan", po::value<std::string>()->value_name("FILE"), "parallelism plan (YAML)");
  add("set", po::value<std::vector<std::string>>()->composing()->value_name("KEY=VALUE"),
      "replace one value of a file, e.g. noc.link_bandwidth=512GB/s; prefix the key with "
      "platform., "
      "model. or plan. where two files have it; may be repeated");
  add("help", "this text");
}

Inputs read_inputs(const po::variables_map& values, const std::vector<std::string>& more) {
  std::vector<std::string> sets = list_of(values, "set");
  const auto replaced = [&more](const std::string& set) {
    return std::any_of(more.begin(), more.end(),
                       [&set](const std::string& other) { return same_key(set, other); });
  };
  sets.erase(std::remove_if(sets.begin(), sets.end(), replaced), sets.end());
  sets.insert(sets.end(), more.begin(), more.end());
  const Overrides overrides(sets);
  Inputs inputs;
  if (values.count("platform") > 0) {
    const Document document = Document::load(text_of(values, "platform"), "platform", overrides);
    inputs.platform = Inputs::Platform{document, read_machine(document)};
  }
  std::int64_t sequence = 0;
  if (values.count("plan") > 0) {
    const Document document = Document::load(text_of(values, "plan"), "plan", overrides);
    inputs.plan = Inputs::Plan{document, read_plan(document)};
    sequence = inputs.plan->config.sequence;
  }
  if (values.count("model") > 0) {
    const Document document =
        Document::load(model_file(text_of(values, "model")), "model", overrides);
    ModelConfig config = read_model(document, sequence);
    Graph graph = build_graph(config);
    inputs.model = Inputs::Model{document, std::move(config), std::move(graph)};
  }
  overrides.finish();
  if (inputs.platform) check_kept(values, "--platform", inputs.platform->document);
  if (inputs.model) check_kept(values, "--model", inputs.model->document);
  if (inputs.plan) check_kept(values, "--plan", inputs.plan->document);
  return inputs;
}

}  // namespace tilewright::cli
