#include <fmt/format.h>
#include <fnmatch.h>
#include <penstock/shards.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>

#include "driver/shard_names.h"
#include "store/names_sink.h"

namespace penstock::inline v0 {
namespace {

constexpr std::string_view kWild = "*?[";
constexpr std::size_t kMissingNamed = 5;
/// Longer runs of digits are text, for instance hashes.
constexpr std::size_t kMaxDigits = 18;

/// A name as text and numbers in turn, so that names sort by the values of their numbers.
struct split_name {
  std::string name;
  std::vector<std::string> text;
  std::vector<std::uint64_t> numbers;
  std::vector<std::size_t> digits;  ///< of each number, including leading zeros
};

split_name split(std::string name) {
  split_name out;
  std::string text;
  for (std::size_t i = 0; i < name.size();) {
    std::size_t end = i;
    while (end < name.size() && name[end] >= '0' && name[end] <= '9') ++end;
    if (end == i) {
      text.push_back(name[i++]);
      continue;
    }
    if (end - i > kMaxDigits) {
      text.append(name, i, end - i);
    } else {
      out.text.push_back(std::move(text));
      text.clear();
      out.numbers.push_back(std::strtoull(name.substr(i, end - i).c_str(), nullptr, 10));
      out.digits.push_back(end - i);
    }
    i = end;
  }
  out.text.push_back(std::move(text));
  out.name = std::move(name);
  return out;
}

bool before(const split_name& a, const split_name& b) {
  for (std::size_t i = 0; i < std::min(a.text.size(), b.text.size()); ++i) {
    if (a.text[i] != b.text[i]) return a.text[i] < b.text[i];
    if (i < std::min(a.numbers.size(), b.numbers.size()) && a.numbers[i] != b.numbers[i])
      return a.numbers[i] < b.numbers[i];
  }
  if (a.text.size() != b.text.size()) return a.text.size() < b.text.size();
  return a.name < b.name;
}

class matching final : public names_sink {
 public:
  explicit matching(std::string pattern)
      : pattern_(std::move(pattern)),
        slashes_(static_cast<std::size_t>(std::count(pattern_.begin(), pattern_.end(), '/'))) {}
  bool key(std::string_view key, std::uint64_t) override {
    if (key.ends_with('/')) key.remove_suffix(1);
    std::string name(folder_of(key));
    if (!found.empty() && found.back() == name) return true;
    if (matches_shard_pattern(pattern_, name)) found.push_back(std::move(name));
    return true;
  }
  std::vector<std::string> found;

 private:
  // As many components as the pattern has: the folder of an object may be the shard, such as a Zarr array.
  std::string_view folder_of(std::string_view key) const {
    std::size_t at = 0;
    for (std::size_t i = 0; i <= slashes_; ++i) {
      at = key.find('/', i == 0 ? 0 : at + 1);
      if (at == std::string_view::npos) return key;
    }
    return key.substr(0, at);
  }

  std::string pattern_;
  std::size_t slashes_;
};

std::string listed(const std::vector<std::string>& names, std::size_t all) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), kMissingNamed); ++i)
    out += (i == 0 ? "'" : ", '") + names[i] + "'";
  if (all > kMissingNamed) out += fmt::format(" and {} more", all - kMissingNamed);
  return out;
}

// The name that a sequence has for another number than `like`'s.
std::string name_of(const split_name& like, std::size_t varies, std::uint64_t number) {
  std::string out;
  for (std::size_t i = 0; i < like.text.size(); ++i) {
    out += like.text[i];
    if (i < like.numbers.size()) out += fmt::format("{:0{}}", i == varies ? number : like.numbers[i], like.digits[i]);
  }
  return out;
}

// Names that differ in one number only form a sequence with equal steps: the largest step that reaches all of them. The
// other names on its way are missing, unless `pattern` would not match them.
result<> check_sequence(const std::vector<split_name>& names, const std::string& pattern, shard_gaps gaps) {
  if (names.size() < 2) return {};
  const split_name& first = names.front();
  std::size_t varies = first.numbers.size();
  for (const split_name& each : names) {
    if (each.text != first.text || each.numbers.size() != first.numbers.size()) return {};
    for (std::size_t i = 0; i < each.numbers.size(); ++i) {
      if (each.numbers[i] == first.numbers[i] || i == varies) continue;
      if (varies != first.numbers.size()) return {};
      varies = i;
    }
  }
  std::vector<std::string> twice;
  std::uint64_t step = 0;
  for (std::size_t i = 1; i < names.size(); ++i) {
    const bool same = varies == first.numbers.size() || names[i].numbers[varies] == names[i - 1].numbers[varies];
    if (same) {
      if (twice.empty() || twice.back() != names[i - 1].name) twice.push_back(names[i - 1].name);
      twice.push_back(names[i].name);
    } else {
      step = std::gcd(step, names[i].numbers[varies] - names[i - 1].numbers[varies]);
    }
  }
  if (!twice.empty()) return error(errc::invalid_argument, "files of one number: " + listed(twice, twice.size()));
  if (gaps == shard_gaps::allow) return {};

  // The beginning of a sequence that starts with 2, 3, ... is missing; a sequence of large numbers (dates) may start
  // anywhere.
  constexpr std::uint64_t kFewLost = 1000;
  std::uint64_t tries = 100000;  // names that the pattern may exclude on purpose
  std::vector<std::string> missing;
  std::uint64_t lost = 0;
  // The numbers begin, begin + step, ... below end.
  const auto lose = [&](std::uint64_t begin, std::uint64_t end) {
    for (std::uint64_t number = begin; number < end; number += step) {
      if (missing.size() == kMissingNamed) {
        lost += (end - number + step - 1) / step;
        return;
      }
      if (tries == 0) return;
      --tries;
      std::string name = name_of(first, varies, number);
      if (!matches_shard_pattern(pattern, name)) continue;
      ++lost;
      missing.push_back(std::move(name));
    }
  };
  const std::uint64_t start = first.numbers[varies];
  if (step == 1 && start > 1 && start < kFewLost) lose(0, start);
  for (std::size_t i = 1; i < names.size(); ++i) lose(names[i - 1].numbers[varies] + step, names[i].numbers[varies]);
  if (lost == 0) return {};
  return error(errc::invalid_argument,
               fmt::format("the sequence '{}' ... '{}' lacks {}; to open what is there, allow gaps or list the files",
                           first.name, names.back().name, listed(missing, lost)));
}

}  // namespace

bool matches_shard_pattern(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_PATHNAME | FNM_PERIOD) == 0;
}

result<std::vector<std::string>> order_shards(std::vector<std::string> found, const std::string& pattern,
                                              shard_gaps gaps) {
  std::vector<split_name> names;
  names.reserve(found.size());
  for (std::string& each : found) names.push_back(split(std::move(each)));
  // Names with leading zeros are in order already.
  if (!std::is_sorted(names.begin(), names.end(), before)) std::sort(names.begin(), names.end(), before);
  PENSTOCK_TRY(check_sequence(names, pattern, gaps));
  std::vector<std::string> out;
  out.reserve(names.size());
  for (split_name& each : names) out.push_back(std::move(each.name));
  return out;
}

result<std::vector<std::string>> find_shards(const store& from, std::string_view pattern, shard_gaps gaps) {
  const std::size_t wild = pattern.find_first_of(kWild);
  if (wild == std::string_view::npos) return std::vector<std::string>{std::string(pattern)};
  const std::size_t slash = pattern.rfind('/', wild);
  const std::string prefix(slash == std::string_view::npos ? std::string_view() : pattern.substr(0, slash + 1));
  // Folders are listed only as deep as the pattern: chunks of a Zarr array are not shards, the array is one.
  const bool deep = pattern.find('/', wild) != std::string_view::npos;
  matching sink{std::string(pattern)};
  PENSTOCK_TRY(from.list(prefix, deep ? listing::objects : listing::children, sink));
  std::sort(sink.found.begin(), sink.found.end());
  sink.found.erase(std::unique(sink.found.begin(), sink.found.end()), sink.found.end());
  if (sink.found.empty())
    return error(errc::not_found, fmt::format("nothing in '{}' matches '{}'", from.uri(), pattern));
  return order_shards(std::move(sink.found), std::string(pattern), gaps);
}

}  // namespace penstock::inline v0
