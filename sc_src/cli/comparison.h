// The same job on the same machine with all tiles at full speed and on time.
#pragma once

#include <functional>
#include <optional>

#include <sys/types.h>

#include <tilewright/base/quantity.h>
#include <tilewright/machine/machine.h>

namespace tilewright::cli {

/// Simulates a second job beside this process's own, in a process of its own, since the SystemC
/// kernel runs one simulation per process. Does nothing on a machine without slow or late tiles.
class WithoutStragglers {
 public:
  /// Starts `iteration_time` on the machine without stragglers. Call before anything of the
  /// simulation kernel exists, and before output is buffered.
  WithoutStragglers(const MachineConfig& machine,
                    const std::function<Seconds(const MachineConfig&)>& iteration_time);
  WithoutStragglers(const WithoutStragglers&) = delete;
  WithoutStragglers& operator=(const WithoutStragglers&) = delete;
  ~WithoutStragglers();

  /// Waits for the answer. Throws InternalError when the other process has none: this one has
  /// simulated the harder job.
  std::optional<Seconds> wait();

 private:
  pid_t child_ = -1;
  int answer_ = -1;  // file descriptor
};

}  // namespace tilewright::cli
