// Runs a piece of a test in a process of its own: the SystemC kernel cannot restart, so a test of
// many simulations needs many processes.
#pragma once

#include <exception>
#include <functional>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

namespace tilewright::testing_support {

constexpr unsigned kForkedSeconds = 60;  // a simulation that takes longer hangs

/// What `body` returns, or "exception: ..." or "signal N" when it does not get that far.
inline std::string forked(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  const pid_t child = fork();
  if (child < 0) return "no process";
  if (child == 0) {
    alarm(kForkedSeconds);
    std::string report;
    try {
      report = body();
    } catch (const std::exception& e) {
      report = std::string("exception: ") + e.what();
    }
    std::size_t at = 0;
    for (ssize_t n;
         at < report.size() && (n = write(ends[1], report.data() + at, report.size() - at)) > 0;) {
      at += static_cast<std::size_t>(n);
    }
    _exit(at == report.size() ? 0 : 1);
  }
  close(ends[1]);
  std::string report;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) {
    report.append(buffer, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  return report;
}

}  // namespace tilewright::testing_support
