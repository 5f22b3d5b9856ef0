// `tilewright describe`: what the files mean, without simulating.
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/observe/version.h>
#include <tilewright/plan/schedule_file.h>

#include "commands.h"
#include "describe.h"
#include "files.h"
#include "options.h"
#include "outputs.h"

namespace tilewright::cli {
namespace po = boost::program_options;
namespace {

CommandOptions describe_options() {
  CommandOptions command{
      "describe",
      "tilewright describe: shows what a platform, a model, a plan, or all three mean: every "
      "value\n"
      "with its origin (file and line, --set, or default), sizes, parameters and FLOPs.",
      "  tilewright describe --model workloads/models/megatron-18b.yaml --json model.json",
      po::options_description("", 100)};
  add_input_options(command.options);
  command.options.add_options()(
      "json", po::value<std::string>()->value_name("FILE"),
      "also write it as JSON; - writes it to stdout in place of the text")(
      "operator", po::value<std::string>()->value_name("NAME"),
      "of all three files: how the kernels of this operator are blocked, what they move, and what "
      "bounds them; in place of the rest")(
      "schedule", po::value<std::string>()->value_name("FILE"),
      "also write the plan's schedule slot by slot, in the form that a plan can name as its own; "
      "- writes it to stdout in place of the text")(
      "roofline", po::value<std::string>()->value_name("FILE"),
      "also draw the operators of a job (all three files) against the peak and the bandwidths of a "
      "tile, as SVG; FILE.csv: as a table; - writes the drawing to stdout in place of the text");
  return command;
}

bool is_table(const std::string& file) {
  const std::string ending = ".csv";
  return file.size() > ending.size() &&
         file.compare(file.size() - ending.size(), ending.size(), ending) == 0;
}

}  // namespace

void Description::heading(const std::string& title) {
  text +=
      fmt::format("{}{}\n{}\n", text.empty() ? "" : "\n", title, std::string(title.size(), '-'));
}

void Description::line(const std::string& name, const std::string& value) {
  text += fmt::format("  {:<22} {}\n", name, value);
}

std::string grouped(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t first = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

void describe_settings(Description& out, const std::string& kind, const Document& document,
                       const std::vector<Document>& named) {
  out.text += "\n  Settings, and where each comes from\n";
  auto resolved = document.resolved();
  for (const Document& file : named) {
    for (const ResolvedValue& v : file.resolved()) resolved.push_back(v);
  }
  std::size_t path_width = 0, value_width = 0;
  for (const ResolvedValue& v : resolved) {
    path_width = std::max(path_width, v.path.size());
    value_width = std::max(value_width, std::min<std::size_t>(v.value.size(), 40));
  }
  Json list = Json::array();
  for (const ResolvedValue& v : resolved) {
    out.text +=
        fmt::format("    {:<{}}  {:<{}}  {}\n", v.path, path_width, v.value, value_width, v.origin);
    list.push_back(Json{{"path", v.path}, {"value", v.value}, {"origin", v.origin}});
  }
  out.json[kind]["settings"] = std::move(list);
}

void describe_command(const std::vector<std::string>& arguments) {
  const auto values = parse(describe_options(), arguments);
  if (!values) return;
  const std::string json = text_of(*values, "json");
  const std::string schedule = text_of(*values, "schedule");
  const std::string name = text_of(*values, "operator");
  const std::string roofline = text_of(*values, "roofline");
  const bool to_stdout = check_outputs(*values, "describe");
  const Inputs inputs = read_inputs(*values);
  if (!inputs.platform && !inputs.model && !inputs.plan) {
    throw InputError(
        "describe: give at least one of --platform, --model, --plan (see 'tilewright describe "
        "--help')");
  }
  if (!schedule.empty() && !inputs.plan) {
    throw InputError("describe: --schedule writes the schedule of a plan; give --plan too");
  }
  if (!schedule.empty()) {
    const std::string why = why_no_schedule_file(inputs.plan->config);
    if (!why.empty()) throw InputError("describe: --schedule: " + why);
  }
  const bool is_job = inputs.platform && inputs.model && inputs.plan;
  if (!roofline.empty() && !is_job) {
    throw InputError(
        "describe: --roofline draws the operators of a job; give --platform, --model and --plan");
  }
  if (!name.empty() && !is_job) {
    throw InputError(
        "describe: --operator needs a machine, a model and a plan; give --platform, --model and "
        "--plan");
  }
  Description out;
  out.json["tilewright"] = kVersion;
  if (!name.empty()) {
    describe_operator(out, inputs, name);
  } else {
    if (inputs.platform) describe_platform(out, *inputs.platform);
    if (inputs.model) describe_model(out, *inputs.model);
    if (inputs.plan) describe_plan(out, *inputs.plan);
    if (is_job) describe_job(out, inputs);
  }
  if (is_job) {
    if ((!json.empty() && name.empty()) || !roofline.empty()) {
      const Roofline operators = job_roofline(inputs);
      describe_operators(out, operators);
      if (!roofline.empty()) {
        write_file(roofline,
                   is_table(roofline) ? roofline_csv(operators) : roofline_svg(operators));
      }
    }
  }
  if (!json.empty()) {
    write_file(json, out.json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (!schedule.empty()) write_file(schedule, schedule_file(inputs.plan->config));
  if (!to_stdout) std::cout << out.text;
}

}  // namespace tilewright::cli
