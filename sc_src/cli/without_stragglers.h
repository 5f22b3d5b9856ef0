// The same job on the same machine with all tiles at full speed and on time.
#pragma once

#include <functional>
#include <optional>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/machine.h>

#include "forked_work.h"

namespace tilewright::cli {

/// Simulates a second job beside this process's own, in a process of its own. Does nothing on a
/// machine without slow or late tiles.
class WithoutStragglers {
 public:
  /// Starts `iteration_time` on the machine without stragglers; see ForkedWork.
  WithoutStragglers(const MachineConfig& machine,
                    const std::function<Seconds(const MachineConfig&)>& iteration_time);

  /// Waits for the answer. Throws InternalError when the other process has none: this one has
  /// simulated the harder job.
  std::optional<Seconds> wait();

 private:
  std::optional<ForkedWork> other_;
};

}  // namespace tilewright::cli
