// The ways a run can fail, each with the exit code the executables return for it.
#pragma once

#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright {

/// Something the user wrote is wrong or cannot be carried out (bad key, bad value, a plan that does
/// not fit the machine). Exit code 2. The message says what, where, and what is allowed.
class InputError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Tilewright contradicts itself: a fault of ours. Exit code 3.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The simulated machine stopped with work outstanding; the message says who waits for whom.
/// Exit code 4.
class DeadlockError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// 2 for InputError, 4 for DeadlockError, 3 for everything else.
int exit_code(const std::exception& error);

/// The candidate with the smallest edit distance to `word`, or "" when none is close enough to be
/// a likely misspelling (distance at most 1/3 of the word, at least 2).
std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tilewright
