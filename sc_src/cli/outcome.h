// What a simulation in another process tells of itself, and how two such differ.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <tilewright/hardware/statistics.h>
#include <tilewright/machine/machine.h>
#include <tilewright/observe/result.h>

namespace tilewright::cli {

/// A result and the load of its links, as text for ForkedWork.
std::string outcome_text(const MachineConfig& machine, const Result& result,
                         const RunStatistics& run);

/// One of the two.
struct Outcome {
  std::string name;               ///< what it is called in the report
  nlohmann::ordered_json result;  ///< as json_report() writes it
  nlohmann::ordered_json links;   ///< all: from, to, kind, bytes, busy (seconds)
};
/// Of what outcome_text() wrote.
Outcome outcome_of(const std::string& name, const std::string& text);

/// Both values of everything that is compared, with their relative difference (docs/compare.md).
nlohmann::ordered_json differences(const Outcome& first, const Outcome& second);

/// The same for people.
std::string differences_text(const nlohmann::ordered_json& differences);

}  // namespace tilewright::cli
