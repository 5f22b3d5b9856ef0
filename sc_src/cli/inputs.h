// The three files of a job, read together with the overrides they share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/graph.h>
#include <tilewright/workload/model.h>

namespace tilewright::cli {

/// Adds --platform, --model, --plan, --set and --help to a command.
void add_input_options(boost::program_options::options_description& options);

struct Inputs {
  struct Platform {
    Document document;
    MachineConfig machine;
  };
  struct Model {
    Document document;
    ModelConfig config;
    Graph graph;
  };
  struct Plan {
    Document document;
    PlanConfig config;
  };
  std::optional<Platform> platform;
  std::optional<Model> model;
  std::optional<Plan> plan;
};

/// Whether two KEY=VALUE give the same key, with or without the kind of the file before it.
bool same_key(const std::string& a, const std::string& b);

/// Reads the files named by the options, and refuses overrides that none of them used. The plan's
/// sequence, if it has one, is the model's. `more` overrides take precedence over those of
/// --set. Throws InputError, too when an output of the command would replace one of the files.
Inputs read_inputs(const boost::program_options::variables_map& values,
                   const std::vector<std::string>& more = {});

}  // namespace tilewright::cli
