#include "base/nearest_word.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

namespace penstock::inline v0 {
namespace {

constexpr std::size_t kLongest = 64;  // most letters of words that are compared

std::string lowered(std::string_view word) {
  std::string out(word);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// The word in small letters, without the dashes of an option: '-r' has one letter.
std::string letters(std::string_view word) {
  return lowered(word.substr(std::min(word.find_first_not_of('-'), word.size())));
}

/// Letters to add, remove, change or exchange with their neighbour to turn one word into the other.
/// Source: the restricted Damerau-Levenshtein distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, above(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, above[j] + 1, row[j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = above;
    above = row;
  }
  return above[b.size()];
}

}  // namespace

std::string nearest_word(std::string_view typed, std::span<const std::string> among) {
  std::string best;
  if (typed.empty() || typed.size() > kLongest) return best;
  const std::string wanted = letters(typed);
  std::size_t least = std::max<std::size_t>(1, wanted.size() / 3) + 1;
  for (const std::string& each : among) {
    if (each.size() > kLongest || each == typed) continue;
    const std::string offered = letters(each);
    const std::size_t found = distance(wanted, offered);
    if (found < least && found < std::max(wanted.size(), offered.size())) {
      least = found;
      best = each;
    }
  }
  return best;
}

std::string suggestion(std::string_view typed, std::span<const std::string> among) {
  const std::string found = nearest_word(typed, among);
  return found.empty() ? found : fmt::format("; did you mean '{}'?", found);
}

error with_suggestion(error failure, std::string_view typed, std::span<const std::string> among) {
  if (const std::string found = nearest_word(typed, among); !found.empty())
    failure.note(fmt::format("did you mean '{}'?", found));
  return failure;
}

}  // namespace penstock::inline v0
