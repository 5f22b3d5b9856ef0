// The parts of `tilewright describe`: each adds to the text for people and to the JSON.
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <tilewright/observe/roofline.h>

#include "inputs.h"

namespace tilewright::cli {

using Json = nlohmann::ordered_json;

/// What describe prints.
struct Description {
  std::string text;
  Json json;

  /// Starts a part: a heading underlined.
  void heading(const std::string& title);
  /// "  name            value".
  void line(const std::string& name, const std::string& value);
};

/// Every value of a file as it is used, with where it comes from; also into json[kind]["settings"].
/// Those of further files that it names follow.
void describe_settings(Description& out, const std::string& kind, const Document& document,
                       const std::vector<Document>& named = {});

void describe_platform(Description& out, const Inputs::Platform& platform);
void describe_model(Description& out, const Inputs::Model& model);
void describe_plan(Description& out, const Inputs::Plan& plan);
/// The plan's schedule as a schedule file: for a user to start from.
std::string schedule_file(const PlanConfig& plan);
/// What only the three files together say: whether the plan fits, and where its ranks sit.
void describe_job(Description& out, const Inputs& inputs);
/// How an operator's kernels are blocked and what bounds them, in closed form. Throws InputError
/// when the job has no such operator.
void describe_operator(Description& out, const Inputs& inputs, const std::string& name);

/// The operators of the job of the three files, against the roofs of a tile.
Roofline job_roofline(const Inputs& inputs);
/// Its operators into json["job"].
void describe_operators(Description& out, const Roofline& roofline);

/// 51200 -> "51,200".
std::string grouped(std::int64_t value);

/// "0-3, 7" for ascending numbers.
std::string ranges(const std::vector<int>& numbers);

}  // namespace tilewright::cli
