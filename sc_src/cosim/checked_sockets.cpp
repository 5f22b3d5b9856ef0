#include <memory>
#include <string>
#include <vector>

#include <tilewright/base/error.h>
#include <tilewright/cosim/checked_sockets.h>
#include <tilewright/cosim/protocol_checker.h>

namespace tilewright {

MemoryBinder checked_sockets() {
  // The binder's copies share the checkers and keep them.
  auto checkers = std::make_shared<std::vector<std::unique_ptr<ProtocolChecker<>>>>();
  return [checkers](MemoryInitiator& initiator, MemoryTarget& target) {
    ProtocolCheckerConfig config;
    config.data_pointer = false;
    config.report = [](const ProtocolViolation& violation) { throw InternalError(violation.text); };
    const std::string name = "check" + std::to_string(checkers->size());
    checkers->push_back(std::make_unique<ProtocolChecker<>>(name.c_str(), config));
    bind_sockets(initiator, checkers->back()->in);
    bind_sockets(checkers->back()->out, target);
  };
}

}  // namespace tilewright
