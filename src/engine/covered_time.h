#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace penstock::inline v0 {

/// The time that is covered by at least one of some intervals. They arrive in any order, because work ends on several
/// threads and devices. Memory is bounded: with more than `most` gaps the earlier half is summed, and later intervals
/// in that time do not count.
class covered_time {
 public:
  explicit covered_time(std::size_t most = std::size_t{1} << 14) : most_(most) {}

  /// Nanoseconds [begin, end).
  void add(std::uint64_t begin, std::uint64_t end) {
    begin = std::max(begin, closed_);
    if (begin >= end) return;
    auto next = spans_.upper_bound(begin);
    if (next != spans_.begin() && std::prev(next)->second >= begin) --next;  // the one that contains or touches `begin`
    while (next != spans_.end() && next->first <= end) {
      begin = std::min(begin, next->first);
      end = std::max(end, next->second);
      sum_ -= next->second - next->first;
      next = spans_.erase(next);
    }
    spans_.emplace_hint(next, begin, end);
    sum_ += end - begin;
    if (spans_.size() > most_) close_half();
  }
  std::uint64_t sum_ns() const noexcept { return sum_; }

 private:
  void close_half() {
    const auto last = std::next(spans_.begin(), static_cast<std::ptrdiff_t>(spans_.size() / 2));
    closed_ = std::prev(last)->second;
    spans_.erase(spans_.begin(), last);
  }

  std::size_t most_;
  std::map<std::uint64_t, std::uint64_t> spans_;  // disjoint: ends by begins
  std::uint64_t sum_ = 0, closed_ = 0;
};

}  // namespace penstock::inline v0
