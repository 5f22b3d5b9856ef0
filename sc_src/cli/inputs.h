// The three files of a job, read together with the overrides they share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/program_options.hpp>

#include <tilewright/base/config.h>
#include <tilewright/machine/machine.h>
#include <tilewright/plan/plan.h>
#include <tilewright/workload/decoder.h>
#include <tilewright/workload/graph.h>

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
    DecoderConfig config;
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

/// Reads the files named by the options, and refuses overrides that none of them used. The plan's
/// sequence, if it has one, is the model's. `more` overrides come after those of --set. Throws
/// InputError.
Inputs read_inputs(const boost::program_options::variables_map& values,
                   const std::vector<std::string>& more = {});

}  // namespace tilewright::cli
