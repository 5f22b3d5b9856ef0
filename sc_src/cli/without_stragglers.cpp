#include "without_stragglers.h"

#include <cstring>
#include <exception>
#include <string>

#include <tilewright/base/error.h>

namespace tilewright::cli {

WithoutStragglers::WithoutStragglers(
    const MachineConfig& machine,
    const std::function<Seconds(const MachineConfig&)>& iteration_time) {
  if (!machine.has_stragglers()) return;
  other_.emplace([&] {
    const double seconds = iteration_time(machine.without_stragglers()).value();
    return std::string(reinterpret_cast<const char*>(&seconds), sizeof seconds);
  });
}

std::optional<Seconds> WithoutStragglers::wait() {
  if (!other_) return {};
  double seconds = 0;
  try {
    const std::string answer = other_->wait();
    std::memcpy(&seconds, answer.data(), sizeof seconds);
  } catch (const std::exception& e) {
    throw InternalError(std::string("the job without slow and late tiles did not run: ") +
                        e.what());
  }
  return Seconds(seconds);
}

}  // namespace tilewright::cli
