#include <algorithm>
#include <cctype>
#include <cstddef>

#include <tilewright/base/error.h>

namespace tilewright {
namespace {

// Optimal string alignment: insert, delete, replace, and swap of neighbours cost 1 each.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before_last(b.size() + 1);
  std::vector<std::size_t> last(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::swap(before_last, last);
    std::swap(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
  }
  return row[b.size()];
}

// Case and the choice between '-' and '_' are habits, not misspellings.
std::string normalised(std::string_view word) {
  std::string result(word);
  for (char& c : result)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

}  // namespace

int exit_code(const std::exception& error) {
  if (dynamic_cast<const InputError*>(&error) != nullptr) return 2;
  if (dynamic_cast<const DeadlockError*>(&error) != nullptr) return 4;
  return 3;
}

std::string nearest_name(std::string_view word, const std::vector<std::string>& candidates) {
  // The distance is quadratic; nobody misspells a name this long, but a broken file may hold one.
  constexpr std::size_t kLongest = 256;
  if (word.size() > kLongest) return "";
  const std::string wanted = normalised(word);
  const std::size_t limit = std::max<std::size_t>(2, word.size() / 3);
  std::string best;
  std::size_t best_distance = limit + 1;
  std::size_t best_exact = 0;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > word.size() + limit || word.size() > candidate.size() + limit) continue;
    const std::size_t distance = edit_distance(wanted, normalised(candidate));
    // Replacing every letter is no misspelling, however short the word.
    if (distance > limit || distance >= std::max(word.size(), candidate.size())) continue;
    const std::size_t exact = edit_distance(word, candidate);
    if (distance < best_distance || (distance == best_distance && exact < best_exact)) {
      best = candidate;
      best_distance = distance;
      best_exact = exact;
    }
  }
  return best;
}

}  // namespace tilewright
