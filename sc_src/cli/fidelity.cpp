#include "fidelity.h"

#include <fmt/format.h>

#include <tilewright/base/error.h>

#include "options.h"

namespace tilewright::cli {

Fidelity fidelity_named(const std::string& name, const std::string& command) {
  for (const Fidelity f : {Fidelity::message, Fidelity::flit}) {
    if (name == to_string(f)) return f;
  }
  throw InputError(fmt::format("{}: unknown fidelity '{}'; known: message, flit{}", command, name,
                               did_you_mean(name, {"message", "flit"})));
}

}  // namespace tilewright::cli
