// Work in another process: the SystemC kernel runs one simulation per process.
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

namespace tilewright::cli {

class ForkedWork {
 public:
  /// Starts `work` in a process of its own. Call before anything of the simulation kernel exists,
  /// and before output is buffered.
  explicit ForkedWork(const std::function<std::string()>& work);
  ForkedWork(const ForkedWork&) = delete;
  ForkedWork& operator=(const ForkedWork&) = delete;
  ~ForkedWork();  ///< ends the process if it still works

  /// Waits for what `work` returns. Throws again what it throws: InputError, DeadlockError, or
  /// InternalError for anything else, also when the process has died.
  std::string wait();

 private:
  pid_t child_ = -1;
  int answer_ = -1;  // file descriptor
};

}  // namespace tilewright::cli
