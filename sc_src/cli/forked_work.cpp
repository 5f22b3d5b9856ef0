#include "forked_work.h"

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

// The answer begins with the exit code that its process would have had.
char mark(int exit_code) { return static_cast<char>('0' + exit_code); }

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
  char buffer[4096];
  for (;;) {
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(n));
  }
}

}  // namespace

ForkedWork::ForkedWork(const std::function<std::string()>& work) {
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
  std::string answer;
  try {
    answer = mark(0) + work();
  } catch (const std::exception& e) {
    answer = mark(exit_code(e)) + std::string(e.what());
  }
  write_all(ends[1], answer);
  ::_exit(0);
}

ForkedWork::~ForkedWork() {
  if (answer_ >= 0) ::close(answer_);
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);  // still here only when nobody waits for the answer any more
  ::waitpid(child_, nullptr, 0);
}

std::string ForkedWork::wait() {
  const std::string answer = read_all(answer_);
  ::waitpid(child_, nullptr, 0);
  child_ = -1;
  if (answer.empty()) throw InternalError("a process of the simulation has died");
  const std::string text = answer.substr(1);
  if (answer[0] == mark(0)) return text;
  if (answer[0] == mark(2)) throw InputError(text);
  if (answer[0] == mark(4)) throw DeadlockError(text);
  throw InternalError(text);
}

}  // namespace tilewright::cli
