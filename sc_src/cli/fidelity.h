// The names of the fidelities on the command line.
#pragma once

#include <string>

#include <tilewright/hardware/fidelity.h>

namespace tilewright::cli {

/// "message" or "flit". Throws InputError naming the command and the nearest of those.
Fidelity fidelity_named(const std::string& name, const std::string& command);

}  // namespace tilewright::cli
