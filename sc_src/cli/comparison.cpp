#include "comparison.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <tilewright/base/error.h>

namespace tilewright::cli {
namespace {

// The answer: the time's bytes, or the text of an error behind a mark that no time has.
constexpr char kTime = 'T', kError = 'E';

void write_all(int file, const std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = ::write(file, bytes.data() + done, bytes.size() - done);
    if (n < 0 && errno != EINTR) return;
    if (n > 0) done += static_cast<std::size_t>(n);
  }
}

std::string read_all(int file) {
  std::string bytes;
  char buffer[512];
  for (;;) {
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

WithoutStragglers::WithoutStragglers(
    const MachineConfig& machine,
    const std::function<Seconds(const MachineConfig&)>& iteration_time) {
  if (!machine.has_stragglers()) return;
  int ends[2];
  if (::pipe(ends) != 0) throw InternalError("cannot make a pipe: " + std::string(strerror(errno)));
  child_ = ::fork();
  if (child_ < 0) throw InternalError("cannot fork: " + std::string(strerror(errno)));
  if (child_ > 0) {
    ::close(ends[1]);
    answer_ = ends[0];
    return;
  }
  ::close(ends[0]);
  std::string answer(1, kTime);
  try {
    const double seconds = iteration_time(machine.without_stragglers()).value();
    answer.append(reinterpret_cast<const char*>(&seconds), sizeof seconds);
  } catch (const std::exception& e) {
    answer = kError + std::string(e.what());
  }
  write_all(ends[1], answer);
  ::_exit(0);
}

WithoutStragglers::~WithoutStragglers() {
  if (answer_ >= 0) ::close(answer_);
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);  // still here only when this process's own job has failed
  ::waitpid(child_, nullptr, 0);
}

std::optional<Seconds> WithoutStragglers::wait() {
  if (child_ <= 0) return {};
  const std::string answer = read_all(answer_);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
  double seconds = 0;
  if (answer.size() != 1 + sizeof seconds || answer[0] != kTime) {
    throw InternalError("the job without slow and late tiles did not run" +
                        (answer.empty() ? std::string() : ": " + answer.substr(1)));
  }
  std::memcpy(&seconds, answer.data() + 1, sizeof seconds);
  return Seconds(seconds);
}

}  // namespace tilewright::cli
