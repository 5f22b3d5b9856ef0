// How a plan that cannot be carried out is refused.
#pragma once

#include <string>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/plan/plan.h>

namespace tilewright {

/// `where` is empty in a plan that was not read from a file.
[[noreturn]] inline void fail(const PlanConfig& plan, const std::string& where,
                              const std::string& key, const std::string& message) {
  throw InputError(fmt::format(
      "{}: {}", where.empty() ? fmt::format("plan '{}': {}", plan.name, key) : where, message));
}

}  // namespace tilewright
